"""The few words of QEMU's machine protocol that the lab speaks."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from lab.errors import LabError

_DEADLINE_S = 20.0


def execute(qmp_socket: Path, command: str, **arguments: object) -> Any:
    """Send one command to the machine at `qmp_socket` and return its answer; raises LabError if it
    refuses.
    """
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_DEADLINE_S)
            connection.connect(str(qmp_socket))
            with connection.makefile("rw", encoding="utf-8") as stream:
                stream.readline()
                _request(stream, "qmp_capabilities", {})
                return _request(stream, command, arguments)
    except (OSError, ValueError) as error:
        raise LabError(f"QMP {command} at {qmp_socket}: {error}") from error


def _request(stream: Any, command: str, arguments: dict[str, object]) -> Any:
    stream.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
    stream.flush()
    while True:
        line = stream.readline()
        if not line:
            raise LabError(f"QMP {command}: the machine closed the connection")
        answer = json.loads(line)
        if "error" in answer:
            raise LabError(f"QMP {command}: {answer['error'].get('desc', answer['error'])}")
        if "return" in answer:
            return answer["return"]
