"""A FAKE rdma_cm child: speaks the lines of gdrcheck.verbs.cm_protocol and moves no byte.

``fake_cm_worker.py WRONG``: what to do wrong, and at which command (``go hangs``, ``go dies``,
``go garbage``, ``go error``, ``prepare error``, ``go wrong``, ``go late``); "" for nothing.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

WRONG = sys.argv[1]
COUNTER = sys.argv[2] if len(sys.argv) > 2 else None


def main() -> None:
    prepared: dict[str, Any] = {}
    if COUNTER:
        with open(COUNTER, "a") as file:
            file.write("started\n")
    for line in sys.stdin:
        asked = json.loads(line)
        request = asked["request"]
        command = request["command"]
        print(f"{command} as {request.get('role', prepared.get('role'))}", file=sys.stderr)
        sys.stderr.flush()
        misbehave(command)
        answer: dict[str, Any] = {"id": asked["id"], "ok": True}
        if f"{command} error" == WRONG:
            error = {"step": "rdma_resolve_addr", "errno": 110, "text": "ETIMEDOUT"}
            answer = {"id": asked["id"], "ok": False, "error": error}
        elif command == "prepare":
            prepared = request
            answer["result"] = {"port": 20_001 if request["role"] == "sink" else None}
        else:
            answer["result"] = report(prepared)
        print(json.dumps(answer), flush=True)


def misbehave(command: str) -> None:
    if f"{command} hangs" == WRONG:
        time.sleep(60)
    if f"{command} dies" == WRONG:
        os.kill(os.getpid(), signal.SIGSEGV)
    if f"{command} garbage" == WRONG:
        print("hello", flush=True)


def report(prepared: dict[str, Any]) -> dict[str, Any]:
    sink = prepared["role"] == "sink"
    messages = []
    for method in prepared["methods"]:
        message: dict[str, Any] = {"method": method, "address": 4096, "first": [0, 2, 4, 6, 8]}
        if sink:
            message["immediate"] = 0x1234
        messages.append(message)
    wrong = WRONG == "go wrong"
    if wrong and sink:
        mismatch = {"first_bad_offset": 9, "bad_bytes": 1, "excerpt_offset": 8}
        mismatch |= {"expected_hex": "00", "got_hex": "ff", "looks_like": "other"}
        messages[-1] |= {"by_gpu": mismatch, "by_cpu": mismatch}
    return {
        "role": prepared["role"],
        "memory": prepared["memory"],
        "messages": messages,
        "completed": not wrong,
    }


if __name__ == "__main__":
    main()
