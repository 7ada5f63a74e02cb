"""A node whose files are broken, foreign or made to harm: its own error, and nobody else's."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gdrcheck.outcome import Outcome, Verdict
from gdrcheck.results.merge import merge
from tests.results.junit_schema import complaints
from tests.results.trees import Merged, fill, port_down, seen, two_nodes

READ = ("events.jsonl", "facts.json", "done.json", "rendezvous.json")
# Judged on the node; the merge does not read them, and nothing in them can change a verdict.
UNREAD = ("counters.json", "gpus.json", "xids.jsonl", "junit.xml", "container.log", "what.ever")
BOMB = b"""<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;">
]><testsuites><testsuite name="&b;"/></testsuites>"""
CONTENTS = {
    "empty": b"",
    "zeros": bytes(1000),
    "entity bomb": BOMB,
    "binary": bytes(range(256)) * 40,
    "deep list": b"[" * 200_000 + b"\n",
    "deep object": b'{"a":' * 100_000 + b"\n",
    "null": b"null\n",
    "list": b"[]\n",
    "beyond every float": b"1e99999\n",
    "long number": b'{"exit_code":' + b"9" * 50_000 + b"}\n",
    "not a number": b'{"exit_code":NaN}\n',
    "half a character": b'{"exit_code":0,"reason":"\\ud800","finished":true}\n',
    "utf-16": '{"exit_code":0}\n'.encode("utf-16"),
}
KINDS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "folder": os.mkdir,
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "link to a file": lambda path: path.symlink_to("/etc/passwd"),
    "link to itself": lambda path: path.symlink_to(path.name),
}


def blamed(merged: Merged) -> None:
    """The run did not pass, node1 is named as the reason, and node2 is whole."""
    assert merged.verdict is not Verdict.PASS
    assert (merged.result("every_node_reported[node1]") or ("",))[0] == "Error"
    assert merged.result("every_node_reported[node2]") is None
    assert merged.result("port_active[node2/rxe0]") is None
    assert "results_readable[node2]" not in merged.cases


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("what", CONTENTS)
def test_a_file_with_something_else_in_it(tmp_path: Path, name: str, what: str) -> None:
    one, _two = two_nodes(tmp_path)
    (one.directory / name).write_bytes(CONTENTS[what])
    blamed(Merged(tmp_path, seen(node1="ok", node2="ok")))


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_none(tmp_path: Path, name: str, kind: str) -> None:
    one, _two = two_nodes(tmp_path)
    (one.directory / name).unlink(missing_ok=True)
    KINDS[kind](one.directory / name)
    blamed(Merged(tmp_path, seen(node1="ok", node2="ok")))


@pytest.mark.parametrize("name", UNREAD)
@pytest.mark.parametrize("what", ["entity bomb", "deep list", "pipe", "link to a device"])
def test_files_that_no_verdict_stands_on(tmp_path: Path, name: str, what: str) -> None:
    one, _two = two_nodes(tmp_path)
    path = one.directory / name
    if what in KINDS:
        KINDS[what](path)
    else:
        path.write_bytes(CONTENTS[what])
    assert Merged(tmp_path).verdict is Verdict.PASS


@pytest.mark.parametrize("key", ["run_id", "node"])
def test_events_of_another_run_or_node(tmp_path: Path, key: str) -> None:
    one, _two = two_nodes(tmp_path)
    path = one.directory / "events.jsonl"
    first, *rest = path.read_text().splitlines()
    changed = json.dumps(json.loads(first) | {key: "20250101T000000Z-000000"})
    path.write_text("\n".join([changed, *rest, ""]))
    blamed(Merged(tmp_path, seen(node1="ok", node2="ok")))


def test_all_files_of_another_node(tmp_path: Path) -> None:
    one, two = two_nodes(tmp_path)
    fill(tmp_path)
    for path in two.directory.iterdir():
        (one.directory / path.name).write_bytes(path.read_bytes())
    blamed(Merged(tmp_path, seen(node1="ok", node2="ok"), whole=False))


def test_times_that_no_sum_can_hold(tmp_path: Path) -> None:
    one, _two = two_nodes(tmp_path)
    fill(tmp_path)
    path = one.directory / "events.jsonl"
    text = re.sub(r'"duration_s":[0-9.]+', '"duration_s":1.7e308', path.read_text())
    assert text.count("1.7e308") > 1
    path.write_text(text)
    merge(tmp_path, seen(node1="ok", node2="ok"))
    root = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert complaints(root) == []
    assert float(root.get("time", "nan")) <= 1e9


# --- any one value ------------------------------------------------------------------------------

VALUES: tuple[Any, ...] = (
    *(None, "", "x" * 100_000, "\ud800", "\x00\x1b[2J", "]]>", "a/b", "[", "a -> b", "../../etc"),
    *("node2", "node1[", "1e400", "\N{PILE OF POO}" * 300, -1, 2**70, 1e308, True, [], {}, ["x"]),
    *("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999999-23:59"),
)


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The way to every value inside of ``value``."""
    inner = value.items() if isinstance(value, dict) else ()
    for key, one in enumerate(value) if isinstance(value, list) else inner:
        yield (*path, key)
        yield from places(one, (*path, key))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(data=st.data())
def test_any_value_replaced_by_a_nasty_one(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("run") / "run"
    one, _two = two_nodes(root)
    one.case("bad[node1/rxe0]", Outcome.FAILED, findings=[port_down()])
    fill(root)
    path = one.directory / data.draw(st.sampled_from(("events.jsonl", "facts.json")))
    lines = path.read_text().splitlines()
    at = data.draw(st.integers(0, len(lines) - 1))
    record = json.loads(lines[at])
    *way, last = data.draw(st.sampled_from(list(places(record))))
    inner = record
    for key in way:
        inner = inner[key]
    inner[last] = data.draw(st.sampled_from(VALUES))
    lines[at] = json.dumps(record)
    path.write_text("\n".join([*lines, ""]))
    summary = merge(root, seen(node1="ok", node2="ok"))
    assert summary.verdict is not Verdict.PASS
    assert summary.nodes["node2"].complete
    assert complaints(ElementTree.parse(root / "junit.xml").getroot()) == []
