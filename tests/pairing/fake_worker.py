"""A FAKE endpoint child: speaks the lines of gdrcheck.verbs.protocol, touches no device, moves no
byte. For tests of its parents only.

``fake_worker.py DIRECTORY``: a file ``DIRECTORY/<device>-<command>`` holds what to do wrong at the
next such command (hang, crash, exit, garbage, flood, error, "step <name>", mtu, mismatch, short,
completion_error); it is used up by that, unless its name ends in ``-always``.
``DIRECTORY/<device>-log`` lists all commands.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

MISBEHAVIOUR = Path(sys.argv[1])

INFO = {
    "qpn": 17, "psn": 1, "gid": "::ffff:10.0.0.1", "lid": 0, "link_layer": "ethernet",
    "mtu": 1024, "payload_address": 4096, "payload_rkey": 1, "payload_bytes": 2097152,
}  # fmt: skip
OPENED = {
    "gid_index": 1, "gid": "::ffff:10.0.0.1", "gid_type": "RoCE v2", "netdev": "eth1", "lid": 0,
    "link_layer": "ethernet", "active_mtu": 1024, "guid": "0:1:2:3",
}  # fmt: skip


class Fake:
    def __init__(self):
        self.device = "?"
        self.armed = None
        self.has_qp = False
        self.used_up = False

    def misbehaviour(self, command):
        always = MISBEHAVIOUR / f"{self.device}-{command}-always"
        if always.exists():
            return always.read_text()
        once = MISBEHAVIOUR / f"{self.device}-{command}"
        try:
            text = once.read_text()
            once.unlink()
            return text
        except FileNotFoundError:
            return ""

    def answer(self, request):
        command = request["command"]
        if command == "open":
            self.device = request["device"]
        if command == "arm":
            self.armed = request
        with (MISBEHAVIOUR / f"{self.device}-log").open("a") as log:
            log.write(f"{json.dumps(request)}\n")
        print(f"{command} on {self.device}", file=sys.stderr, flush=True)
        wrong = self.misbehaviour(command)
        if wrong == "hang":
            time.sleep(3600)
        if wrong == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if wrong == "exit":
            sys.exit(3)
        if wrong == "garbage":
            return None, "this is no JSON"
        if wrong == "flood":
            return None, "x" * (2 << 20)
        if wrong == "error":
            return self.error(command, errno=22, text=f"{command}: Invalid argument")
        if wrong.startswith("step "):
            return self.error(wrong.removeprefix("step "), errno=110, text=f"{command}: no")
        return getattr(self, command)(wrong)

    def error(self, step, errno, text):
        return False, {
            "step": step, "errno": errno, "status": None, "vendor_error": None, "text": text,
        }  # fmt: skip

    def open(self, _wrong):
        return True, OPENED

    def create_qp(self, _wrong):
        if self.has_qp:
            return self.error("create_qp", None, "there is a queue pair already")
        self.has_qp, self.used_up = True, False
        return True, INFO

    def connect(self, wrong):
        return True, {"path_mtu": 512 if wrong == "mtu" else 1024}

    def arm(self, _wrong):
        if not self.has_qp or self.used_up:
            return self.error("arm", None, "the queue pair is used up")
        return True, {}

    def go(self, wrong):
        plan, self.armed = self.armed, None
        sizes = [
            {"size_bytes": size, "iterations_verified": plan["iterations"]}
            for size in plan["sizes_bytes"]
        ]
        result = {
            "sizes": sizes, "completed": True, "mismatch": None, "mismatch_size_bytes": None,
            "mismatch_iteration": None, "guard_broken": None, "completion_error": None,
            "stopped_by_peer": False, "duration_s": 0.1,
        }  # fmt: skip
        if wrong == "short":
            sizes.pop()
        if wrong == "mismatch":
            result["completed"] = False
            result["mismatch"] = {
                "first_bad_offset": 7, "bad_bytes": 1, "excerpt_offset": 0, "expected_hex": "00",
                "got_hex": "ff", "looks_like": "other",
            }  # fmt: skip
        if wrong == "completion_error":
            result["completed"] = False
            result["completion_error"] = {
                "status": "RETRY_EXC_ERR", "vendor_error": 129, "operation": "send", "iteration": 0,
                "size_bytes": 1, "text": "transport retry counter exceeded",
            }  # fmt: skip
        self.used_up = not result["completed"]
        return True, result

    def close_qp(self, _wrong):
        self.has_qp = False
        return True, {}


fake = Fake()
for line in sys.stdin:
    asked = json.loads(line)
    ok, content = fake.answer(asked["request"])
    if ok is None:
        print(content, flush=True)
    else:
        key = "result" if ok else "error"
        print(json.dumps({"id": asked["id"], "ok": ok, key: content}), flush=True)
