"""What the recorder keeps and lets through."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gdrcheck.gpu.errors import CudaError
from gdrcheck.memory.recorder import Recorder, Stopped
from gdrcheck.verbs.errors import VerbsError


@contextmanager
def stubborn(name: str) -> Iterator[str]:
    """A resource that cannot be undone."""
    yield name
    raise VerbsError(f"{name} stays", step=name, error_number=16)


def test_a_failure_to_undo_is_a_refusal_of_its_own() -> None:
    recorder = Recorder()
    with pytest.raises(Stopped), recorder.held(stubborn("mr"), "register", "deregister"):
        pass
    assert recorder.refusal is not None
    assert (recorder.refusal.stage, recorder.refusal.errno) == ("deregister", 16)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ZeroDivisionError("a mistake of ours")])
def test_what_is_no_refusal_goes_through_even_when_undoing_fails(error: BaseException) -> None:
    recorder = Recorder()
    with (
        pytest.raises(type(error)) as told,
        contextlib.suppress(Stopped),
        recorder.held(stubborn("mr"), "register", "deregister"),
    ):
        raise error
    assert told.value is error
    assert recorder.refusal is not None


def test_everything_that_was_refused_is_told_the_cause_first() -> None:
    recorder = Recorder()
    cause = CudaError(
        "cuLaunchKernel", function="cuLaunchKernel", name="CUDA_ERROR_X", number=9, explanation="?"
    )
    cause.add_note("and cuMemFree as well")
    with (
        pytest.raises(Stopped),
        recorder.held(stubborn("fd"), "export", "export"),
        recorder.held(stubborn("mr"), "register", "deregister", "interior", 7),
        recorder.stage("move", length_bytes=5),
    ):
        raise cause
    refusal = recorder.refusal
    assert refusal is not None
    assert (refusal.stage, refusal.cuda, refusal.errno) == ("move", "CUDA_ERROR_X", None)
    assert refusal.length_bytes == 5
    text = refusal.text
    assert text.index("cuMemFree") < text.index("mr stays") < text.index("fd stays")
    # Status and vendor error belong to the cause only.
    assert recorder.failure is None
