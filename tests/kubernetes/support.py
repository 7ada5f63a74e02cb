"""Settings of pods at loopback addresses, for tests in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gdrcheck.kubernetes.settings import Settings
from gdrcheck.run import Deadlines
from tests.kubernetes.pods import free_port
from tests.node.support import profile

SECRET = bytes(range(32))


def settings_of(index: int, pods: int, port: int, **changes: Any) -> Settings:
    """The settings of a pod, on node1 for index 0, in a Job at ``port`` and the next one."""
    values: dict[str, Any] = {
        "index": index,
        "pods": pods,
        "job": "gdrcheck",
        "node": f"node{index + 1}",
        "address": f"127.0.0.{10 + index}",
        "leader_host": "127.0.0.10",
        "port": port,
        "job_port": port + 1,
        "profile_name": "soft",
        "profile": profile(),
        "rounds": 4,
        "time_scale": 0.05,
        "deadlines": Deadlines(),
        "arrival_s": 30,
        "image_id": "",
        "secret": SECRET,
        "secret_file": Path("secret"),
        "results": Path("results"),
    }
    return Settings(**values | changes)


def job_of(pods: int, **changes: Any) -> list[Settings]:
    """The settings of all pods of a Job."""
    port = free_port()
    return [settings_of(index, pods, port, **changes) for index in range(pods)]
