"""``python -m gdrcheck.verbs.survey [DEVICE…]``: what libibverbs makes of each device, as JSON.

A process of its own, because opening a device may hang in its driver. What it is about to do goes
to standard error, so that the parent can say where it hung. It prints a list of ``VerbsDevice``, or
an ``Unreadable`` when libibverbs cannot be asked at all. It loads nothing but pyverbs, and so not
``compat`` either: on a slow machine that is most of its time.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from typing import Any

SYSFS = "/sys/class/infiniband"


def main(names: list[str]) -> None:
    """Prints the answer about ``names``, or about every device that sysfs shows."""
    # A provider that prints something must not spoil the answer.
    with os.fdopen(os.dup(1), "w") as answer:
        os.dup2(2, 1)
        json.dump(survey(names or _present()), answer)


def survey(names: list[str]) -> list[dict[str, Any]] | dict[str, str]:
    """One answer for each device; the error of one does not keep the others from being asked."""
    try:
        import pyverbs.device
    except ModuleNotFoundError as error:
        installed = error.name != "pyverbs"
        return {"unreadable": f"pyverbs: {error}" if installed else "pyverbs is not installed"}
    except ImportError as error:
        return {"unreadable": f"pyverbs: {error}"}
    return [_device(pyverbs.device, name) for name in names]


def _present() -> list[str]:
    try:
        return sorted(os.listdir(SYSFS))
    except OSError:
        return []


def _device(library: Any, name: str) -> dict[str, Any]:
    from pyverbs.pyverbs_error import PyverbsError

    ports: list[dict[str, int]] = []
    step = f"open {name}"
    try:
        _about_to(step)
        with library.Context(name=name) as context:
            step = f"query {name}"
            for number in range(1, int(context.query_device().phys_port_cnt) + 1):
                step = f"query port {number} of {name}"
                _about_to(step)
                ports.append(_port(number, context.query_port(number)))
    except PyverbsError as error:
        error_number = _error_number(error)
        return _answer(name, ports, f"{step}: {_words(error, error_number)}", error_number)
    return _answer(name, ports, None, None)


def _port(number: int, attributes: Any) -> dict[str, int]:
    # enum ibv_mtu of libibverbs/verbs.h: 1 is 256 bytes, 5 is 4096.
    return {
        "number": number,
        "active_mtu_bytes": 128 << int(attributes.active_mtu),
        "max_mtu_bytes": 128 << int(attributes.max_mtu),
    }


def _answer(
    name: str, ports: list[dict[str, int]], error: str | None, number: int | None
) -> dict[str, Any]:
    return {"name": name, "error": error, "error_number": number, "ports": ports}


def _error_number(error: Exception) -> int | None:
    # pyverbs uses -1 for "no errno", and hands some errnos on as negative numbers.
    code = int(getattr(error, "error_code", -1))
    return None if code in (-1, 0) else abs(code)


def _words(error: Exception, number: int | None) -> str:
    if number is None:
        return str(error)
    return f"{errno.errorcode.get(number, f'errno {number}')} ({os.strerror(number)})"


def _about_to(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
