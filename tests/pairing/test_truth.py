"""What the cells of a rail prove together: one finding for one cause, at the right end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdrcheck import gates
from gdrcheck.pairing import truth
from gdrcheck.pairing.table import Cell, CellKey, RailTable
from gdrcheck.pairing.truth import Ruling
from gdrcheck.transfer import DIRECTIONS, OPERATIONS, Direction
from tests.pairing.tables import (
    ALL_KEYS,
    LINK_LOCAL,
    RAIL,
    ROUTABLE,
    WRONG,
    A,
    B,
    assert_sound,
    corrupt,
    down,
    failures,
    found,
    keys_of,
    lost,
    refused,
    right,
    silent,
    table,
)


def test_no_answers_anywhere_is_one_finding_and_no_gpu() -> None:
    cells = table({key: silent(key) for key in ALL_KEYS})
    rulings = truth.judge(cells)
    assert found(rulings) == [("PAIR-RETRY-EXCEEDED", "a/mlx5_0 (with b)")]
    assert_sound(cells, rulings)


def test_gids_are_not_blamed_where_something_passed() -> None:
    ends: dict[str, Any] = {"source_endpoint": LINK_LOCAL, "sink_endpoint": ROUTABLE}
    one, other = keys_of("host-host", ["SEND", "WRITE"], "out")
    said = silent(one).result
    assert said is not None
    broken = Cell(result=replace(said, **ends))
    assert found(truth.judge(table({one: broken}, (one,)))) == [
        ("PAIR-GID-MISMATCH", "a/mlx5_0 (with b)")
    ]
    assert found(truth.judge(table({one: broken}, (one, other)))) == [
        ("PAIR-RETRY-EXCEEDED", "a/mlx5_0 (with b)")
    ]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_read_alone_refused_of_host_memory_names_the_end_that_is_read(direction: Direction) -> None:
    source = RAIL.source(direction)
    key = CellKey("host-host", "READ", direction)
    rulings = truth.judge(table({key: refused(key, source.node)}))
    ((code, place),) = found(rulings)
    assert (code, place.split()[0]) == ("PAIR-READ-REFUSED", source.port.text())


def test_an_end_that_lies_about_its_key_is_named_by_all_who_use_it() -> None:
    keys = [
        CellKey("host-host", "WRITE", "out"),
        CellKey("host-host", "WRITE_WITH_IMM", "out"),
        CellKey("host-host", "READ", "in"),
    ]
    rulings = truth.judge(table({key: refused(key, "b") for key in keys}))
    ((code, place),) = found(rulings)
    assert (code, place) == ("PAIR-COMPLETION", "b/mlx5_1 (with a)")
    finding = rulings[keys[0]].finding
    assert finding is not None
    assert "REM_ACCESS_ERR" in finding.observed
    assert [bool(rulings[key].blocked_by) for key in keys] == [False, True, True]


ALIEN = WRONG.model_copy(update={"bad_bytes": 64, "first_bad_offset": 0})


@pytest.mark.parametrize(
    ("direction", "code"), [("in", "PAIR-END-DEVIATES"), ("out", "PAIR-DATA-CORRUPT")]
)
def test_a_responder_whose_every_message_is_wrong_all_over_is_named(
    direction: Direction, code: str
) -> None:
    keys = [key for key in ALL_KEYS if key.direction == direction]
    cells = table({key: corrupt(key, mismatch=ALIEN) for key in keys})
    rulings = truth.judge(cells)
    assert found(rulings) == [(code, "b/mlx5_1 (with a)")]
    assert_sound(cells, rulings)


@pytest.mark.parametrize("looks_like", ["poison", "previous iteration", "zeros"])
def test_messages_that_never_arrived_are_no_lie(looks_like: str) -> None:
    lost_data = ALIEN.model_copy(update={"looks_like": looks_like})
    keys = keys_of("host-host", OPERATIONS, "in")
    rulings = truth.judge(table({key: corrupt(key, mismatch=lost_data) for key in keys}))
    assert found(rulings) == [("PAIR-DATA-CORRUPT", "a/mlx5_0 (with b)")]


@pytest.mark.parametrize("node", ["a", "b"])
def test_a_port_that_went_down_concerns_only_the_cells_that_met_it(node: str) -> None:
    met = [CellKey("host-host", "WRITE", "in"), CellKey("gpu-host", "READ", "out")]
    rulings = truth.judge(table({key: down(key, node) for key in met}))
    place = RAIL.end(node).port.text()
    assert found(rulings) == [("PORT-NOT-ACTIVE", place)]
    assert rulings[met[1]].blocked_by == f"PORT-NOT-ACTIVE at {place}"
    assert sum(ruling.passed for ruling in rulings.values()) == len(ALL_KEYS) - 2
    assert truth.host_failure(table({met[0]: down(met[0], node)})) is None
    assert truth.suspects(table({key: down(key, node) for key in met})) == ()


# --- statuses and roles -------------------------------------------------------------------------


def test_a_status_that_names_the_end_with_host_memory_blames_no_gpu() -> None:
    keys = keys_of("gpu-host", OPERATIONS, "out")
    for more in ([], keys_of("gpu-gpu", OPERATIONS, "out")):
        rulings = truth.judge(table({key: refused(key, "b") for key in [*keys, *more]}))
        assert found(rulings) == [("PAIR-COMPLETION", "b/mlx5_1 (with a)")]


def test_atomics_alone_are_a_finding_of_their_own() -> None:
    keys = tuple(CellKey("host-gpu", one, "out") for one in (*OPERATIONS, "FETCH_ADD", "CMP_SWAP"))
    atomics = {key: refused(key, "b") for key in keys[-2:]}
    base = tuple(CellKey("host-host", key.operation, "out") for key in keys)
    rulings = truth.judge(table(atomics, base + keys))
    assert found(rulings) == [("PAIR-ATOMIC-REFUSED", B)]


def test_without_a_proof_of_host_memory_no_gpu_is_blamed() -> None:
    keys = tuple(key for key in ALL_KEYS if key.mode != "host-host")
    cells = table(failures("out", OPERATIONS, []), keys)
    rulings = truth.judge(cells)
    assert {code for code, _ in found(rulings)} == {"PAIR-COMPLETION"}
    assert_sound(cells, rulings)


def test_without_a_proof_of_host_memory_wrong_data_tells_no_role() -> None:
    keys = tuple(key for key in ALL_KEYS if key.mode != "host-host")
    wrong = keys_of("gpu-host", OPERATIONS, "out")
    finding = truth.judge(table({key: corrupt(key) for key in wrong}, keys))[wrong[0]].finding
    assert finding is not None
    assert finding.code == "PAIR-DATA-CORRUPT"
    assert finding.evidence["role"].startswith("not told")


def test_the_finding_of_a_role_tells_what_failed_and_what_passed() -> None:
    rulings = truth.judge(table(failures("out", ["SEND", "WRITE"], [])))
    finding = rulings[CellKey("gpu-host", "SEND", "out")].finding
    assert finding is not None
    assert finding.evidence["failed, a -> b"] == "gpu-host: SEND, WRITE; gpu-gpu: SEND, WRITE"
    assert "gpu-host: SEND_WITH_IMM, WRITE_WITH_IMM, READ" in finding.evidence["passed, a -> b"]
    assert finding.evidence["vendor error"] == "0x51"
    assert finding.evidence["registered by"] == "dmabuf"
    assert finding.evidence["seen by the sink, b"] == "stopped by the other end"


# --- not measured -------------------------------------------------------------------------------


def test_a_part_of_a_table_is_judged_as_it_is() -> None:
    for key in ALL_KEYS:
        one = table({}, (key,))
        assert truth.judge(one) == {key: Ruling()}
        assert found(truth.judge(table({key: corrupt(key)}, (key,))))
    assert truth.judge(RailTable(RAIL, {})) == {}
    assert truth.suspects(RailTable(RAIL, {})) == ()


def test_a_blocker_that_became_another_finding_is_named_as_it_is_now() -> None:
    keys = keys_of("gpu-host", OPERATIONS, "out")
    cells = {key: refused(key, "a") for key in keys[:2]}
    cells |= {key: Cell(blocked_by="PAIR-COMPLETION at a/gpu0/mlx5_0 (with b)") for key in keys[2:]}
    cells |= {key: refused(key, "a") for key in keys_of("gpu-gpu", ["SEND"], "out")}
    rulings = truth.judge(table(cells))
    assert {rulings[key].blocked_by for key in keys[1:]} == {f"PAIR-GPU-READ at {A}"}


@pytest.mark.parametrize("reason", ["PORT-NOT-ACTIVE at b/mlx5_1", "gpu_opens[a/gpu0]"])
def test_another_blocker_stays_as_it_was_said(reason: str) -> None:
    key = ALL_KEYS[-1]
    assert truth.judge(table({key: Cell(blocked_by=reason)}))[key].blocked_by == reason


CELLS = st.sampled_from(["right", "refused a", "refused b", "silent", "shaky", "corrupt", "lost",
                         "blocked", "down"])  # fmt: skip


def made(key: CellKey, kind: str) -> Cell:
    return {
        "right": lambda: right(key),
        "refused a": lambda: refused(key, "a"),
        "refused b": lambda: refused(key, "b"),
        "silent": lambda: silent(key),
        "shaky": lambda: silent(key, again="right"),
        "corrupt": lambda: corrupt(key),
        "lost": lambda: lost(key),
        "blocked": lambda: Cell(blocked_by="gpu_opens[a/gpu0]"),
        "down": lambda: down(key, "b"),
    }[kind]()


@settings(deadline=None, max_examples=150)
@given(st.lists(CELLS, min_size=len(ALL_KEYS), max_size=len(ALL_KEYS)))
def test_whatever_was_seen_every_cell_has_one_ruling_and_no_failure_passes(
    kinds: list[str],
) -> None:
    cells = {key: made(key, kind) for key, kind in zip(ALL_KEYS, kinds, strict=True)}
    rulings = truth.judge(RailTable(RAIL, cells))
    assert list(rulings) == list(ALL_KEYS)
    names = {gates.named(one.finding) for one in rulings.values() if one.finding is not None}
    for key, kind in zip(ALL_KEYS, kinds, strict=True):
        one = rulings[key]
        assert sum(part is not None for part in (one.finding, one.blocked_by, one.error)) <= 1
        assert one.passed == (kind == "right")
        assert (one.error is not None) == (kind == "lost")
        if kind == "shaky":
            assert one.finding is not None
        if kind == "blocked":
            assert one.blocked_by == "gpu_opens[a/gpu0]"
        elif one.blocked_by is not None:
            assert one.blocked_by in names
    wrong = {key.direction for key, kind in zip(ALL_KEYS, kinds, strict=True) if kind == "corrupt"}
    told = [one.finding for one in rulings.values() if one.finding is not None]
    assert bool(wrong) == any(finding.code == "PAIR-DATA-CORRUPT" for finding in told)
