"""cuda-python's driver API, the same for its lines 12 and 13. Nothing else imports it.

Functions of the driver are fetched by the binding when it is first used; one that the driver does
not have raises only when it is called.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gdrcheck import steps
from gdrcheck.gpu.errors import NOT_SUPPORTED, CudaError, LibraryMissing, explanation

try:
    from cuda.bindings import driver as _driver
except ImportError as problem:
    raise ImportError(
        f"cuda-python cannot be imported ({problem}): install cuda-bindings 12.9 or newer for this "
        "Python"
    ) from problem

driver: Any = _driver

__all__ = ["call", "driver", "quiet", "undone"]

_UNKNOWN_STATUS = re.compile(r"(\d+) is not a valid CUresult")
# What line 13.3 says in a plain RuntimeError, where others have a class for it.
_NO_FUNCTION = re.compile(r'Function "\w+" not found')
_NOT_SUPPORTED_NUMBER = 801


def call(what: str, function: Callable[..., Any], *arguments: Any) -> tuple[Any, ...]:
    """Announce ``what``, call the driver, and return its results without the status.

    ``what`` begins with the function's name: ``cuMemAlloc of 1 GiB on 0000:24:00.0``. CudaError
    when the status is not success, when this driver has no such function, and without a driver.
    """
    with steps.step(what):
        return quiet(what, function, *arguments)


def quiet(what: str, function: Callable[..., Any], *arguments: Any) -> tuple[Any, ...]:
    """``call`` without the announcement, for what neither waits for the GPU nor for the kernel."""
    name = str(function.__name__)
    try:
        status, *results = function(*arguments)
    except ValueError as problem:
        unknown = _UNKNOWN_STATUS.match(str(problem))
        if unknown is None:
            raise
        number = int(unknown[1])
        raise CudaError(
            what,
            function=name,
            name=f"CUDA error {number}",
            number=number,
            explanation="a status that this version of cuda-python does not know",
        ) from problem
    except RuntimeError as problem:
        raise _without_function(what, name, problem) from problem
    if int(status):
        raise CudaError(
            what,
            function=name,
            name=str(status.name),
            number=int(status),
            explanation=explanation(str(status.name)) or _own_words(status),
        )
    return tuple(results)


@contextmanager
def undone(what: str, function: Callable[..., Any], *arguments: Any) -> Iterator[None]:
    """Call ``function`` at the end of the block, also when that failed.

    What the block raised matters more than a failure to undo, which it then carries as a note.
    """
    try:
        yield
    except BaseException as failure:
        try:
            call(what, function, *arguments)
        except CudaError as second:
            failure.add_note(str(second))
        raise
    call(what, function, *arguments)


def _without_function(what: str, name: str, problem: RuntimeError) -> CudaError:
    if type(problem).__name__ == "FunctionNotFoundError" or _NO_FUNCTION.match(str(problem)):
        return CudaError(
            what,
            function=name,
            name=NOT_SUPPORTED,
            number=_NOT_SUPPORTED_NUMBER,
            explanation=f"this NVIDIA driver has no {name}: it is older than that function",
        )
    return LibraryMissing(what, function=name, reason=str(problem))


def _own_words(status: Any) -> str:
    problem, words = driver.cuGetErrorString(status)
    return words.decode("utf-8", "replace") if not int(problem) and words else "no explanation"
