"""A FAKE endpoint child: speaks the lines of gdrcheck.verbs.protocol, touches no device, moves no
byte. For tests of its parents only.

``fake_worker.py DIRECTORY``: a file ``DIRECTORY/<device>-<command>`` holds what to do wrong at the
next such command (hang, slow, crash, exit, garbage, flood, error, "step <name>", "meet <own file>
<other file>", and what the methods below know); it is used up by that, unless its name ends in
``-always``. Text in brackets before it, ``[gpu] crash``, makes it wait for a request that holds
that text (``go``: the exchange that was armed). ``DIRECTORY/<device>-log`` lists all commands.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

MISBEHAVIOUR = Path(sys.argv[1])
SLOW_S = 1.0
FAR_BYTES = 2 << 30

OPENED = {
    "gid_index": 1, "gid": "::ffff:10.0.0.1", "gid_type": "RoCE v2", "netdev": "eth1", "lid": 0,
    "link_layer": "ethernet", "active_mtu": 1024, "guid": "0:1:2:3",
}  # fmt: skip
MISMATCH = {
    "first_bad_offset": 7, "bad_bytes": 1, "excerpt_offset": 0, "expected_hex": "00",
    "got_hex": "ff", "looks_like": "other",
}  # fmt: skip
HOST = [{"memory": "host", "method": "host", "relaxed": relaxed} for relaxed in (False, True)]


class Fake:
    def __init__(self):
        self.device = "?"
        self.armed = None
        self.opened = None
        self.gpu = None
        self.has_qp = False
        self.used_up = False

    def misbehaviour(self, command, request):
        subject = json.dumps(self.armed if command == "go" else request)
        for name in (f"{self.device}-{command}-always", f"{self.device}-{command}"):
            file = MISBEHAVIOUR / name
            try:
                text = file.read_text()
            except FileNotFoundError:
                continue
            if text.startswith("["):
                wanted, _, text = text[1:].partition("] ")
                if wanted not in subject:
                    continue
            if not name.endswith("-always"):
                file.unlink()
            return text
        return ""

    def answer(self, request):
        command = request["command"]
        if command == "open":
            self.device = request["device"]
            self.opened = request
        if command == "arm":
            self.armed = request
        wrong = self.misbehaviour(command, request)
        with (MISBEHAVIOUR / f"{self.device}-log").open("a") as log:
            log.write(f"{json.dumps(request)}\n")
        print(f"{command} on {self.device}", file=sys.stderr, flush=True)
        if wrong == "hang":
            time.sleep(3600)
        if wrong == "slow":
            time.sleep(SLOW_S)
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
        if wrong.startswith("meet "):
            self.meet(*wrong.split()[1:])
            wrong = ""
        if wrong.startswith("step "):
            return self.error(wrong.removeprefix("step "), errno=110, text=f"{command}: no")
        return getattr(self, command)(request, wrong)

    def meet(self, ours, theirs):
        """Say that this one is here, and go on only when the other one is."""
        (MISBEHAVIOUR / ours).touch()
        while not (MISBEHAVIOUR / theirs).exists():
            time.sleep(0.01)

    def error(self, step, errno, text):
        return False, {
            "step": step, "errno": errno, "status": None, "vendor_error": None, "text": text,
        }  # fmt: skip

    def open(self, _request, _wrong):
        return True, OPENED

    def open_gpu(self, request, wrong):
        self.gpu = request
        far = request["far"] and wrong != "not far"
        return True, {
            "name": "Fake GPU", "uuid": "GPU-1", "slot": request["gpu"]["slot"], "emulated": True,
            "flush": "none", "payload_bytes": request["buffer_bytes"] + (FAR_BYTES if far else 0),
            "far_refused": "" if far == request["far"] else "BAR1 has 256 MiB",
            "regions": [{"key": key, "address": 0, "mapping": ""} for key in self.gpu_keys()],
        }  # fmt: skip

    def gpu_keys(self):
        return [
            {"memory": "gpu", "method": method, "relaxed": relaxed}
            for method in (self.gpu["methods"] if self.gpu else ())
            for relaxed in (False, True)
        ]

    def port_state(self, _request, wrong):
        return True, {"state": wrong or "ACTIVE"}

    def create_qp(self, request, wrong):
        if self.has_qp:
            return self.error("create_qp", None, "there are queue pairs already")
        self.has_qp, self.used_up = True, False
        length = self.opened["buffer_bytes"]
        far = FAR_BYTES if self.gpu and self.gpu["far"] else 0
        keys = HOST + ([] if wrong == "no gpu region" else self.gpu_keys())
        return True, {
            "queue_pairs": [{"qpn": 17 + i, "psn": 1} for i in range(request["queue_pairs"])],
            "regions": [
                {
                    "key": key, "address": 4096, "rkey": 1,
                    "length_bytes": 100 if wrong == "short region"
                    else length + (far if key["memory"] == "gpu" else 0),
                }
                for key in keys
            ],
            "gid": OPENED["gid"], "gid_index": 1, "gid_type": "RoCE v2", "lid": 0,
            "link_layer": "ethernet", "mtu": 1024,
        }  # fmt: skip

    def connect(self, _request, wrong):
        return True, {"path_mtu": 512 if wrong == "mtu" else 1024}

    def unconnected(self, command):
        if not self.has_qp or self.used_up:
            return self.error(command, None, "the queue pairs are used up")
        return None

    def arm(self, _request, _wrong):
        return self.unconnected("arm") or (True, {})

    def go(self, _request, wrong):
        plan, self.armed = self.armed, None
        verified = plan["iterations"] * len(plan["variants"])
        sizes = [
            {"size_bytes": size, "iterations_verified": verified} for size in plan["sizes_bytes"]
        ]
        result = {"sizes": sizes, "completed": True, "duration_s": 0.1}
        if wrong == "short":
            sizes.pop()
        elif wrong == "mismatch":
            result |= {"completed": False, "mismatch": MISMATCH, "mismatch_size_bytes": 1,
                       "mismatch_iteration": 0}  # fmt: skip
        elif wrong == "stopped":
            result |= {"completed": False, "stopped_by_peer": True}
        elif wrong == "port down":
            result |= {"completed": False, "port_state": "DOWN",
                       "completion_error": self.completion("RETRY_EXC_ERR")}  # fmt: skip
        elif wrong.isupper():
            result |= {"completed": False, "completion_error": self.completion(wrong)}
        self.used_up = not result["completed"]
        return True, result

    def completion(self, status):
        return {
            "status": status, "vendor_error": 129, "operation": "send", "iteration": 0,
            "size_bytes": 1, "text": f"{status} in words",
        }  # fmt: skip

    def timed(self, request, wrong):
        if refused := self.unconnected("timed"):
            return refused
        measures = request["role"] == "source" or request["both_ways"]
        result = {
            "kind": request["kind"], "size_bytes": request["size_bytes"],
            "iterations": request["iterations"], "completed": True,
            "gbps": 100.0 if measures and request["kind"] == "bandwidth" else None,
            "median_us": 2.0 if measures and request["kind"] == "latency" else None,
        }  # fmt: skip
        if wrong == "mismatch":
            result |= {"completed": False, "mismatch": MISMATCH}
        self.used_up = not result["completed"]
        return True, result

    def staged(self, _request, wrong):
        if refused := self.unconnected("staged"):
            return refused
        self.used_up = wrong == "mismatch"
        return True, {"completed": not self.used_up}

    def close_qp(self, _request, _wrong):
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
