"""CUDA of one process: started once, one context for each GPU, given back the last one first."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gdrcheck import steps
from gdrcheck.gpu.errors import CudaError
from gdrcheck.gpu.session import Session
from tests.gpu_layer.emulation import SLOTS, Emulation, release_contexts


@pytest.fixture
def told() -> Iterator[list[str]]:
    texts: list[str] = []
    steps.set_sink(texts.append)
    yield texts
    steps.set_sink(None)


@pytest.fixture
def session(emulation: Emulation) -> Iterator[Session]:
    one = Session()
    yield one
    emulation.set()
    one.close()
    release_contexts()


def test_nothing_is_started_before_it_is_asked_for(told: list[str], session: Session) -> None:
    assert session.close() == {}
    assert told == []


def test_cuda_starts_and_each_gpu_opens_once(told: list[str], session: Session) -> None:
    first, second = session.survey().gpus
    assert session.open(second) is session.open(second)
    assert session.open(first) is not session.open(second)
    assert session.driver().emulated
    assert told.count("cuInit") == 1
    retained = [text for text in told if text.startswith("cuDevicePrimaryCtxRetain")]
    assert retained == [f"cuDevicePrimaryCtxRetain on {slot}" for slot in reversed(SLOTS)]


def test_contexts_are_given_back_the_last_one_first(told: list[str], session: Session) -> None:
    for device in session.survey().gpus:
        session.open(device)
    assert session.close() == {}
    assert [text for text in told if "Release" in text] == [
        f"cuDevicePrimaryCtxRelease on {slot}" for slot in reversed(SLOTS)
    ]
    assert session.close() == {}


def test_what_does_not_start_is_not_started_again(
    emulation: Emulation, told: list[str], session: Session
) -> None:
    emulation.set(faults=["fail cuInit = 802"])
    with pytest.raises(CudaError, match="SYSTEM_NOT_READY") as first:
        session.driver()
    emulation.set()
    with pytest.raises(CudaError) as second:
        session.survey()
    assert second.value is first.value
    assert told.count("cuInit") == 1


def test_a_gpu_that_does_not_open_leaves_the_other_one(
    emulation: Emulation, session: Session
) -> None:
    emulation.set(faults_of={0: ["fail cuDevicePrimaryCtxRetain = 46"]})
    first, second = session.survey().gpus
    for _ in range(2):
        with pytest.raises(CudaError, match="DEVICE_UNAVAILABLE"):
            session.open(first)
    assert session.open(second).memory_info()[1] > 0


def test_a_gpu_that_is_gone_does_not_keep_the_others_from_being_given_back(
    emulation: Emulation, told: list[str], session: Session
) -> None:
    for device in session.survey().gpus:
        session.open(device)
    emulation.set(faults_of={1: ["gone = 1"]})
    errors = session.close()
    assert list(errors) == [SLOTS[1]]
    assert told[-1] == f"cuDevicePrimaryCtxRelease on {SLOTS[0]}"
