"""Waiting for completions: whatever order they come in, nothing is lost and the cause is named."""

from __future__ import annotations

import pytest

from gdrcheck.verbs.link import Completion
from gdrcheck.verbs.protocol import DEADLINE
from gdrcheck.verbs.waiting import Broken, Waiter
from tests.verbs.simulated import SimulatedLink

STRANGER = 1 << 32


def waiter(*completions: tuple[int, str], completion_s: float = 20) -> Waiter:
    link = SimulatedLink()
    link.completions.extend(Completion(number, status, 7, 0) for number, status in completions)
    made = Waiter(link, completion_s=completion_s)
    # Numbers 1 and 2.
    made.receive(None, "first")
    made.receive(None, "second")
    return made


def test_a_completion_that_comes_before_it_is_awaited_is_kept() -> None:
    made = waiter((2, "SUCCESS"), (STRANGER, "SUCCESS"), (1, "SUCCESS"))
    assert made.wait(1).work_id == 1
    assert made.wait(2).work_id == 2
    assert made.came_early(STRANGER)
    assert not made.came_early(STRANGER)


def test_an_error_of_another_operation_ends_the_wait_and_is_named() -> None:
    with pytest.raises(Broken, match="receive second: completed with REM_ACCESS_ERR") as told:
        waiter((2, "REM_ACCESS_ERR")).wait(1)
    assert (told.value.status, told.value.vendor_error) == ("REM_ACCESS_ERR", 7)


def test_the_cause_is_told_and_not_what_was_flushed_by_it() -> None:
    with pytest.raises(Broken, match="receive second: completed with RETRY_EXC_ERR"):
        waiter((1, "WR_FLUSH_ERR"), (2, "RETRY_EXC_ERR")).wait(1)


def test_the_cause_may_come_a_little_later_than_what_it_flushed() -> None:
    link = SimulatedLink()
    link.completions.append(Completion(1, "WR_FLUSH_ERR", 0, 0))
    made = Waiter(link, completion_s=20)
    made.receive(None, "first")
    polls = []

    def late(_posted: object) -> None:
        polls.append(1)
        if len(polls) == 3:
            link.completions.append(Completion(2, "LOC_PROT_ERR", 0, 0))

    for _ in range(3):
        link.arrived.append(late)
        link.post_receive(9, None)
    made.receive(None, "second")
    with pytest.raises(Broken, match="receive second: completed with LOC_PROT_ERR"):
        made.wait(1)


def test_a_completion_that_another_loop_polled_is_taken() -> None:
    made = waiter()
    made.take(Completion(1, "SUCCESS", 0, 5))
    assert made.wait(1).immediate == 5
    with pytest.raises(Broken, match="receive second: completed with REM_OP_ERR"):
        made.take(Completion(2, "REM_OP_ERR", 0, 0))


def test_a_flush_without_a_cause_is_told_as_it_is() -> None:
    with pytest.raises(Broken, match="receive first: completed with WR_FLUSH_ERR"):
        waiter((1, "WR_FLUSH_ERR")).wait(1)


def test_silence_names_what_was_awaited() -> None:
    with pytest.raises(Broken, match=r"receive second: not completed within 0.01 s") as told:
        waiter((1, "SUCCESS"), completion_s=0.01).wait(2)
    assert told.value.status == DEADLINE
