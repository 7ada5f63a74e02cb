"""The run document: its names, its deadlines, and what it refuses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gdrcheck.profile import Profile
from gdrcheck.run import Deadlines, NodeSpec, RunSpec, is_run_id, load, new_run_id


def spec(**changes: Any) -> RunSpec:
    values: dict[str, Any] = {
        "run_id": "20261130T120000Z-0a1b2c",
        "created": datetime(2026, 11, 30, 12, 0, tzinfo=UTC),
        "gdrcheck_version": "0.1.0",
        "nodes": (NodeSpec(name="node1", address="192.0.2.1", profile="lab"),),
        "profiles": {"lab": Profile()},
    }
    return RunSpec(**(values | changes))


def test_run_id_is_in_utc_and_different_each_time() -> None:
    moment = datetime(2026, 11, 30, 1, 0, tzinfo=timezone(timedelta(hours=2)))
    first, second = new_run_id(moment), new_run_id(moment)
    assert first.startswith("20261129T230000Z-")
    assert first != second
    assert is_run_id(first)


@pytest.mark.parametrize("text", ["", "latest", "20261130T120000Z-0a1b2c\n", "../x"])
def test_other_texts_are_no_run_ids(text: str) -> None:
    assert not is_run_id(text)


def test_document_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    written = spec(rounds="all", time_scale=3)
    path.write_text(written.model_dump_json())
    assert load(path) == written


def test_deadlines_grow_with_the_time_scale() -> None:
    assert spec(time_scale=3).waits.check_s == 3 * Deadlines().check_s


@pytest.mark.parametrize("wrong", [{"check_s": 20}, {"rail_s": 1}, {"rendezvous_s": 1800}])
def test_deadlines_that_do_not_nest_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError, match="deadlines must nest"):
        Deadlines(**wrong)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": ()}, "at least 1"),
        ({"profiles": {}}, "profile lab is not in the run"),
        ({"nodes": (NodeSpec(name="a", address="x", profile="lab"),) * 2}, "must be unique"),
        ({"rounds": 0}, "greater than or equal to 1"),
        ({"run_id": "x"}, "should match pattern"),
    ],
)
def test_inconsistent_document_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        spec(**changes)


@pytest.mark.parametrize("name", ["", ".x", "a/b", "a b", "a\n", "x" * 254, "fleet", "pairs"])
def test_node_name_must_be_fit_for_file_names(name: str) -> None:
    with pytest.raises(ValidationError):
        NodeSpec(name=name, address="x", profile="lab")


def test_node_and_its_profile_are_found_by_name() -> None:
    assert spec().node("node1").address == "192.0.2.1"
    assert spec().profile_of("node1") == Profile()
    with pytest.raises(KeyError, match="no node 'node2'"):
        spec().node("node2")


def test_looking_a_node_up_changes_nothing_and_a_copy_has_its_own_nodes() -> None:
    looked_up, fresh = spec(), spec()
    looked_up.node("node1")
    assert looked_up == fresh
    assert looked_up.model_dump_json() == fresh.model_dump_json()
    other = NodeSpec(name="other", address="x", profile="lab")
    copy = looked_up.model_copy(update={"nodes": (other,)})
    assert copy.node("other") is other
    with pytest.raises(KeyError, match="no node 'node1'"):
        copy.node("node1")
