"""Steps are announced before they are done, so that a hang in one can be named."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gdrcheck import steps


@pytest.fixture
def announced() -> Iterator[list[str]]:
    said: list[str] = []
    steps.set_sink(said.append)
    yield said
    steps.set_sink(None)


def test_a_step_is_announced_before_its_block_runs(announced: list[str]) -> None:
    with steps.step("outer"):
        assert announced == ["outer"]
        with steps.step("inner"):
            assert announced == ["outer", "inner"]


def fail_inside() -> None:
    with steps.only("a hundred times"):
        with steps.step("one of them"):
            pass
        raise ZeroDivisionError


def test_only_one_step_stands_for_all_inside_also_when_they_fail(announced: list[str]) -> None:
    with pytest.raises(ZeroDivisionError):
        fail_inside()
    with steps.step("the next"):
        pass
    assert announced == ["a hundred times", "the next"]


def test_without_a_sink_nothing_happens() -> None:
    steps.set_sink(None)
    with steps.only("nothing"), steps.step("nothing"):
        pass
