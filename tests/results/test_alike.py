"""Parts that nodes have alike are kept once, and nothing of any node changes by that."""

from __future__ import annotations

from gdrcheck.facts import Facts, GpuHealth, Nvml, PciTree
from gdrcheck.results.alike import Alike
from tests.results import many


def parts(facts: Facts) -> tuple[object, ...]:
    assert isinstance(facts.pci, PciTree)
    assert isinstance(facts.nvml, Nvml)
    health = facts.nvml.gpus[3].health
    assert isinstance(health, GpuHealth)
    assert isinstance(health.nvlinks, tuple)
    return (*facts.pci.functions, *health.nvlinks)


def test_equal_parts_are_one_and_the_facts_are_equal() -> None:
    alike = Alike()
    raw = many.node().model_dump_json()
    one, other = (alike.of(Facts.model_validate_json(raw)) for _ in range(2))
    assert one == other == Facts.model_validate_json(raw)
    assert [id(part) for part in parts(one)] == [id(part) for part in parts(other)]


def test_a_part_that_differs_stays_as_it_is() -> None:
    alike = Alike()
    usual, odd = many.node(), many.other_read_request(many.node())
    assert usual != odd
    assert alike.of(usual) == usual
    assert alike.of(odd) == odd


def test_facts_without_such_parts_stay_as_they_are() -> None:
    facts = many.node().model_copy(update={"pci": None, "nvml": None})
    assert Alike().of(facts) == facts
