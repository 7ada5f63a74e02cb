"""The head of the tree: when the host was read, and what the collector complains of."""

from __future__ import annotations

from gdrcheck.show import facts_tree
from tests import facts as build

RAN_AT_S = 1.7e9


def head(*complaints: str) -> list[str]:
    collector = {"version": 1, "ran_at_s": RAN_AT_S, "complaints": complaints}
    return facts_tree.as_lines(build.facts(collector=collector), RAN_AT_S + 7200)[1:]


def test_age_of_what_only_root_can_read_is_told() -> None:
    assert head()[0] == "the host collector ran 2023-11-14 22:13:20 UTC (2 h ago)"
    assert head()[1] == ""


def test_complaints_that_are_alike_are_one() -> None:
    config = [f"config/0000:{bus:02x}:00.0: No such file or directory" for bus in range(62)]
    assert head("units: none", *config)[1:4] == [
        "  it complains: units: none",
        "  it complains: config/<slot>: No such file or directory (62 times)",
        "",
    ]
