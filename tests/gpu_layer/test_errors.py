"""Errors of the CUDA driver: what a reader of the message learns, and what code can ask."""

from __future__ import annotations

import pytest

from gdrcheck import steps
from gdrcheck.gpu.compat import call, driver, undone
from gdrcheck.gpu.errors import (
    CudaError,
    DriverTooOld,
    LibraryMissing,
    explanation,
)
from gdrcheck.outcome import ProbeError

NUMBERS = (2, 3, 34, 46, 100, 101, 201, 214, 222, 700, 719, 800, 801, 802, 803, 804, 999)


class FunctionNotFoundError(RuntimeError):
    """As the binding raises it: known by its name, since its module differs between lines."""


def answering(status: int, *results: object) -> object:
    def cuTested() -> tuple[object, ...]:
        return (driver.CUresult(status), *results)

    return cuTested


def raising(problem: Exception) -> object:
    def cuTested() -> tuple[object, ...]:
        raise problem

    return cuTested


def failure_of(function: object) -> CudaError:
    with pytest.raises(CudaError) as caught:
        call("cuTested of 1 GiB on 0000:24:00.0", function)
    return caught.value


def test_results_come_without_the_status() -> None:
    assert call("cuTested", answering(0)) == ()
    assert call("cuTested", answering(0, 7, b"x")) == (7, b"x")


def test_an_error_names_call_size_gpu_status_and_meaning() -> None:
    error = failure_of(answering(2))
    assert str(error).startswith(
        "cuTested of 1 GiB on 0000:24:00.0: CUDA_ERROR_OUT_OF_MEMORY (2): out of GPU memory"
    )
    assert (error.function, error.name, error.number) == ("cuTested", "CUDA_ERROR_OUT_OF_MEMORY", 2)
    assert error.step == "cuTested of 1 GiB on 0000:24:00.0"
    assert isinstance(error, ProbeError)


@pytest.mark.parametrize("number", NUMBERS)
def test_the_statuses_that_matter_are_explained(number: int) -> None:
    assert explanation(driver.CUresult(number).name)


def test_the_explanations_are_of_statuses_that_exist() -> None:
    # Of the driver's statuses; INSUFFICIENT_DRIVER is the runtime's name, said by DriverTooOld.
    assert explanation("CUDA_ERROR_INVALID_VALUE") is None
    assert explanation("CUDA_ERROR_INSUFFICIENT_DRIVER")


def test_a_status_that_the_binding_does_not_know_keeps_its_number() -> None:
    error = failure_of(raising(ValueError("12345 is not a valid CUresult")))
    assert (error.name, error.number) == ("CUDA error 12345", 12345)
    assert "CUDA error 12345: " in str(error)


def test_a_wrong_argument_is_no_error_of_the_driver() -> None:
    with pytest.raises(ValueError, match="negative"):
        call("cuTested", raising(ValueError("negative length")))


def test_a_function_that_the_driver_lacks_is_named() -> None:
    error = failure_of(raising(FunctionNotFoundError("function cuTested is not found")))
    assert (error.name, error.number) == ("CUDA_ERROR_NOT_SUPPORTED", 801)
    assert "has no cuTested" in str(error)


def test_a_missing_library_says_what_to_look_at() -> None:
    error = failure_of(raising(RuntimeError('"cuda" can only be found via system search')))
    assert isinstance(error, LibraryMissing)
    assert "libcuda.so.1" in str(error)
    assert "no NVIDIA driver on the host" in str(error)


def test_an_old_driver_names_both_versions_and_a_remedy() -> None:
    error = DriverTooOld((11, 8), (12, 0))
    assert (error.found, error.needed) == ((11, 8), (12, 0))
    assert error.name == "CUDA_ERROR_INSUFFICIENT_DRIVER"
    assert "11.8" in str(error)
    assert "12.0 or newer: upgrade the driver" in str(error)


def test_a_call_is_announced_before_it_runs() -> None:
    told: list[str] = []

    def cuTested() -> tuple[object, ...]:
        assert told == ["cuTested on 0000:24:00.0"]
        return (driver.CUresult(0),)

    steps.set_sink(told.append)
    try:
        call("cuTested on 0000:24:00.0", cuTested)
    finally:
        steps.set_sink(None)
    assert told


def test_a_failure_to_undo_is_an_error_of_its_own_after_success() -> None:
    with pytest.raises(CudaError, match="undo: CUDA_ERROR_UNKNOWN"), undone("undo", answering(999)):
        pass


def test_a_failure_to_undo_does_not_hide_what_went_wrong_first() -> None:
    with (
        pytest.raises(ZeroDivisionError) as caught,
        undone("undo", answering(999)),
    ):
        raise ZeroDivisionError
    assert any("undo: CUDA_ERROR_UNKNOWN (999)" in note for note in caught.value.__notes__)
