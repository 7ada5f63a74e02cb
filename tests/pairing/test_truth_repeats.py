"""What is measured twice, and wrong data, which once is enough for."""

from __future__ import annotations

from typing import Any

import pytest

from gdrcheck.pairing import truth
from gdrcheck.pairing.table import Cell, CellKey
from gdrcheck.transfer import DIRECTIONS, OPERATIONS, Direction, Mode
from tests.pairing.tables import (
    ALL_KEYS,
    PLACES,
    RAIL,
    B,
    assert_sound,
    corrupt,
    down,
    exchange,
    failures,
    found,
    keys_of,
    lost,
    report,
    right,
    silent,
    table,
)


def test_a_failure_that_is_right_alone_is_unstable_and_names_nobody() -> None:
    for key in ALL_KEYS:
        rulings = truth.judge(table({key: silent(key, again="right")}))
        finding = rulings[key].finding
        assert finding is not None
        assert finding.code == "PAIR-UNSTABLE"
        assert "PAIR-RETRY-EXCEEDED" in finding.evidence["first"]
        assert finding.evidence["then"] == "right"
        assert sum(not ruling.passed for ruling in rulings.values()) == 1


def test_unstable_exchanges_of_host_memory_do_not_block_but_excuse_gpus_that_got_no_answer() -> (
    None
):
    shaky, quiet = CellKey("host-host", "READ", "out"), CellKey("gpu-host", "READ", "out")
    firm = CellKey("host-gpu", "SEND", "out")
    cells = table(
        {
            shaky: silent(shaky, again="right"),
            quiet: silent(quiet),
            **failures("out", [], OPERATIONS),
        }
    )
    rulings = truth.judge(cells)
    assert truth.host_failure(cells) is None
    assert rulings[quiet].blocked_by == "PAIR-UNSTABLE at a/mlx5_0 (with b)"
    finding = rulings[firm].finding
    assert finding is not None
    assert finding.code == "PAIR-GPU-WRITE"


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_gpus_that_got_no_answer_ask_for_a_control_of_host_memory(direction: Direction) -> None:
    cells = {
        key: Cell(result=silent(key).result)
        for mode in ("gpu-host", "host-gpu", "gpu-gpu")
        for key in keys_of(mode, OPERATIONS, direction)
    }
    control = CellKey("host-host", "SEND", direction)
    wanted = truth.suspects(table(cells))
    assert set(wanted) == {*cells, control}
    broken = Cell(result=right(control).result, repeat=Cell(result=silent(control).result))
    repeated = {key: Cell(cell.result, repeat=Cell(cell.result)) for key, cell in cells.items()}
    everything = table({**repeated, control: broken})
    rulings = truth.judge(everything)
    assert found(rulings) == [("PAIR-UNSTABLE", f"{RAIL.source(direction).port.text()} (with "
                               f"{RAIL.sink(direction).node})")]  # fmt: skip
    assert all(rulings[key].blocked_by for key in cells)
    assert truth.suspects(everything) == ()


def test_a_control_that_met_a_port_that_is_down_tells_of_it() -> None:
    control = CellKey("host-host", "SEND", "out")
    cells = {key: silent(key) for key in keys_of("gpu-host", OPERATIONS, "out")}
    cells[control] = Cell(result=right(control).result, repeat=down(control, "b"))
    rulings = truth.judge(table(cells))
    assert found(rulings) == [("PORT-NOT-ACTIVE", "b/mlx5_1")]
    assert {ruling.blocked_by for ruling in rulings.values() if not ruling.passed} == {
        None,
        "PORT-NOT-ACTIVE at b/mlx5_1",
    }


def test_a_control_that_could_not_be_measured_takes_nothing_from_what_passed() -> None:
    control = CellKey("host-host", "SEND", "out")
    cell = Cell(result=right(control).result, repeat=lost(control))
    assert truth.judge(table({control: cell}))[control].passed


def test_what_fails_without_a_repetition_fails() -> None:
    key = CellKey("host-host", "SEND", "out")
    rulings = truth.judge(table({key: silent(key, again="none")}))
    assert found(rulings) == [("PAIR-RETRY-EXCEEDED", "a/mlx5_0 (with b)")]


def test_what_was_not_repeated_is_in_doubt_when_its_like_were_right_alone() -> None:
    one, other = keys_of("gpu-host", ["SEND", "WRITE"], "out")
    rulings = truth.judge(
        table({one: silent(one, again="right"), other: silent(other, again="none")})
    )
    assert {code for code, _ in found(rulings)} == {"PAIR-UNSTABLE"}
    assert rulings[other].finding is not None


@pytest.mark.parametrize("again", ["error", "none"])
def test_a_repetition_that_cannot_be_measured_leaves_the_finding(again: str) -> None:
    key = CellKey("host-host", "SEND", "out")
    finding = truth.judge(table({key: silent(key, again=again)}))[key].finding
    assert finding is not None
    assert finding.code == "PAIR-RETRY-EXCEEDED"
    if again == "error":
        assert "not measured" in finding.evidence["repetition"]


# --- wrong data ---------------------------------------------------------------------------------

LAST_BYTE = {"first wrong offset": "63", "looks like": "other", "iteration": "1"}


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("mode", ["gpu-host", "host-gpu"])
def test_wrong_data_of_one_gpu_names_end_role_offset_and_kind(
    mode: Mode, direction: Direction
) -> None:
    modes: tuple[Mode, ...] = (mode, "gpu-gpu")
    keys = [key for one in modes for key in keys_of(one, OPERATIONS, direction)]
    cells = table({key: corrupt(key) for key in keys})
    rulings = truth.judge(cells)
    end = RAIL.source(direction) if mode == "gpu-host" else RAIL.sink(direction)
    assert found(rulings) == [("PAIR-DATA-CORRUPT", PLACES[end.node])]
    assert_sound(cells, rulings)
    finding = rulings[keys[0]].finding
    assert finding is not None
    assert LAST_BYTE.items() <= finding.evidence.items()
    role = "source" if mode == "gpu-host" else "sink"
    assert finding.evidence["role"].startswith(f"GPU as {role}")


def test_wrong_data_between_both_gpus_alone_names_no_role() -> None:
    (key,) = keys_of("gpu-gpu", ["SEND"], "out")
    finding = truth.judge(table({key: corrupt(key)}))[key].finding
    assert finding is not None
    assert finding.code == "PAIR-DATA-CORRUPT"
    assert finding.evidence["role"].startswith("both ends together")


@pytest.mark.parametrize(
    ("changes", "code", "place"),
    [
        ({"verdicts_differ": "GPU: right, CPU: 1 byte wrong"}, "PAIR-VERDICTS-DIFFER", B),
        ({"guard_broken": "guard behind", "mismatch": None}, "PAIR-GUARD-BROKEN", B),
    ],
)
def test_what_is_certain_of_itself_names_the_sink(
    changes: dict[str, Any], code: str, place: str
) -> None:
    (key,) = keys_of("gpu-gpu", ["SEND"], "out")
    assert found(truth.judge(table({key: corrupt(key, **changes)}))) == [(code, place)]


@pytest.mark.parametrize("mode", ["host-host", "gpu-host", "gpu-gpu"])
def test_a_source_whose_memory_changed_is_named_itself(mode: Mode) -> None:
    keys = keys_of(mode, OPERATIONS, "in")
    changed = report(keys[0], left=1, stopped_by_peer=True, source_changed="1 byte at offset 63")
    cells = {}
    for key in keys:
        wrong = corrupt(key).result
        assert wrong is not None
        assert wrong.sink_report.report is not None
        cells[key] = Cell(result=exchange(key, changed, wrong.sink_report.report))
    rulings = truth.judge(table(cells))
    place = "b/mlx5_1 (with a)" if mode == "host-host" else B
    assert found(rulings) == [("PAIR-SOURCE-CHANGED", place)]
    finding = rulings[keys[0]].finding
    assert finding is not None
    assert LAST_BYTE.items() <= finding.evidence.items()


def test_wrong_data_once_is_wrong_data_and_never_unstable() -> None:
    for key in ALL_KEYS:
        cell = Cell(result=corrupt(key).result, repeat=right(key))
        finding = truth.judge(table({key: cell}))[key].finding
        assert finding is not None
        assert finding.code == "PAIR-DATA-CORRUPT"
        assert finding.evidence["repetition"] == "right"


def test_wrong_data_in_the_repetition_is_not_hidden_by_the_first_finding() -> None:
    for key in ALL_KEYS:
        for first, code in (
            (silent(key), "PAIR-RETRY-EXCEEDED"),
            (down(key, "b"), "PORT-NOT-ACTIVE"),
        ):
            cell = Cell(result=first.result, repeat=corrupt(key))
            finding = truth.judge(table({key: cell}))[key].finding
            assert finding is not None
            assert finding.code == "PAIR-DATA-CORRUPT"
            assert code in finding.evidence["first finding"]


def test_wrong_data_of_gpus_is_told_though_host_memory_failed_in_another_way() -> None:
    base, key = CellKey("host-host", "SEND", "out"), CellKey("gpu-gpu", "WRITE", "out")
    rulings = truth.judge(table({base: silent(base), key: corrupt(key)}))
    assert [code for code, _ in found(rulings)] == ["PAIR-RETRY-EXCEEDED", "PAIR-DATA-CORRUPT"]


def test_wrong_data_of_host_memory_explains_that_of_gpus_the_same_way_only() -> None:
    base = CellKey("host-host", "SEND", "out")
    same, other = CellKey("gpu-gpu", "WRITE", "out"), CellKey("gpu-gpu", "WRITE", "in")
    rulings = truth.judge(table({key: corrupt(key) for key in (base, same, other)}))
    assert rulings[same].blocked_by == "PAIR-DATA-CORRUPT at b/mlx5_1 (with a)"
    assert rulings[other].finding is not None
