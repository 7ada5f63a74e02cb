"""The truth table, exhaustively: every set of failures names its ends and roles, once each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain, combinations, product
from typing import Any

import pytest

from gdrcheck import gates
from gdrcheck.pairing import truth
from gdrcheck.pairing.table import Cell, CellKey
from gdrcheck.transfer import DIRECTIONS, OPERATIONS, Direction, Operation
from tests.pairing.tables import (
    ALL_KEYS,
    PLACES,
    RAIL,
    A,
    B,
    Operations,
    assert_sound,
    failures,
    found,
    keys_of,
    refused,
    silent,
    table,
)

THREE: tuple[Operation, ...] = ("SEND", "WRITE", "READ")


def subsets(operations: Iterable[Operation]) -> list[frozenset[Operation]]:
    known = tuple(operations)
    sizes = range(len(known) + 1)
    return [frozenset(one) for one in chain(*(combinations(known, size) for size in sizes))]


def expected_findings(
    direction: Direction, reads: Operations, writes: Operations
) -> list[tuple[str, str]]:
    source, sink = RAIL.source(direction).node, RAIL.sink(direction).node
    wanted = []
    if reads:
        code = "PAIR-READ-REFUSED" if set(reads) == {"READ"} else "PAIR-GPU-READ"
        wanted.append((code, PLACES[source]))
    if writes:
        wanted.append(("PAIR-GPU-WRITE", PLACES[sink]))
    return wanted


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_every_set_of_refused_operations_of_both_roles_names_its_ends(direction: Direction) -> None:
    """All 2^10 sets of (role, operation), of the source's end and of the sink's."""
    for reads, writes in product(subsets(OPERATIONS), repeat=2):
        cells = table(failures(direction, reads, writes))
        rulings = truth.judge(cells)
        wanted = expected_findings(direction, reads, writes)
        assert Counter(found(rulings)) == Counter(wanted), (reads, writes)
        assert_sound(cells, rulings)


def test_every_set_of_both_ends_both_roles_and_each_kind_of_operation_names_its_ends() -> None:
    """All 2^12 sets of (end, role, operation), with one operation of a kind: what fails one way
    changes nothing of what is found the other way."""
    keys = tuple(key for key in ALL_KEYS if key.operation in THREE)
    halves: dict[tuple[Direction, Any, Any], tuple[dict[CellKey, Cell], list[tuple[str, str]]]] = {
        (direction, reads, writes): (
            failures(direction, reads, writes),
            expected_findings(direction, reads, writes),
        )
        for direction in DIRECTIONS
        for reads, writes in product(subsets(THREE), repeat=2)
    }
    for (out, one), (back, other) in product(
        [(key, half) for key, half in halves.items() if key[0] == "out"],
        [(key, half) for key, half in halves.items() if key[0] == "in"],
    ):
        cells = table({**one[0], **other[0]}, keys)
        rulings = truth.judge(cells)
        assert Counter(found(rulings)) == Counter(one[1] + other[1]), (out, back)
        assert_sound(cells, rulings)


def test_every_observation_of_one_way_without_a_hint_of_an_end() -> None:
    """All 2^9 sets of failing (mode, operation) when statuses name nobody, also such that no fault
    of one end explains: then none is named."""
    keys = tuple(key for key in ALL_KEYS if key.operation in THREE and key.direction == "out")
    for reads, writes, both in product(subsets(THREE), repeat=3):
        cells = table(
            {
                key: silent(key)
                for mode, operations in (
                    ("gpu-host", reads),
                    ("host-gpu", writes),
                    ("gpu-gpu", both),
                )
                for key in keys_of(mode, operations, "out")  # type: ignore[arg-type]
            },
            keys,
        )
        rulings = truth.judge(cells)
        assert Counter(found(rulings)) == Counter(_observed(reads, writes, both)), (
            reads, writes, both,
        )  # fmt: skip
        assert_sound(cells, rulings)


def _observed(reads: Operations, writes: Operations, both: Operations) -> list[tuple[str, str]]:
    """The table in other words: a role is at fault if what fails with that end's GPU alone fails
    between both GPUs too; between both it is the fault of that role, else of both together."""
    wanted: list[tuple[str, str]] = []
    explained: set[str] = set()
    apart: str | None = None
    if set(reads) & set(both):
        alone = set(reads) == {"READ"}
        wanted.append(("PAIR-READ-REFUSED" if alone else "PAIR-GPU-READ", A))
        explained |= {"READ"} if alone else set(THREE)
    elif reads:
        apart = A
    if set(writes) & set(both):
        wanted.append(("PAIR-GPU-WRITE", B))
        explained |= set(THREE)
    elif writes:
        apart = "a/mlx5_0 (with b)"
    if set(both) - explained:
        wanted.append(("PAIR-GPU-BOTH-ENDS", A))
    if apart is not None:
        wanted.append(("PAIR-RETRY-EXCEEDED", apart))
    return wanted


@pytest.mark.parametrize(
    "operations", subsets(OPERATIONS)[1:], ids=lambda operations: " ".join(sorted(operations))
)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_any_failure_of_host_memory_blocks_all_of_gpu_memory_that_did_not_pass(
    operations: frozenset[Operation], direction: Direction
) -> None:
    node = RAIL.sink(direction).node
    base = {key: refused(key, node) for key in keys_of("host-host", operations, direction)}
    gpus = failures("out", OPERATIONS, ["SEND"]) | failures("in", ["READ"], [])
    cells = table({**base, **gpus})
    rulings = truth.judge(cells)
    assert_sound(cells, rulings)
    assert not [code for code, _ in found(rulings) if code.startswith("PAIR-GPU")]
    assert all(rulings[key].blocked_by for key in gpus)
    failure = truth.host_failure(cells)
    assert failure is not None
    assert {rulings[key].blocked_by for key in gpus} == {gates.named(failure)}
