"""Runs the real checks on a written tree, by the entry that a node's supervisor uses."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gdrcheck import __version__, probes
from gdrcheck.facts import Facts
from gdrcheck.findings.model import Severity
from gdrcheck.node.process import pytest_argv
from gdrcheck.outcome import Outcome
from gdrcheck.profile import Profile
from gdrcheck.results import events
from gdrcheck.results.events import EndEvent
from gdrcheck.run import NodeSpec, RunSpec
from tests.captured.gpu_stand_in import NOTHING_WRONG, Wrong, in_place_of_gpus
from tests.captured.stand_in import in_place_of_pyverbs

NODE = "node1"
CHECKS = Path(__file__).resolve().parents[2] / "checks"
# Memory is registered with a device: no tree can stand for that.
LIVE_CHECKS = ("check_memory.py",)


@dataclass(frozen=True, slots=True)
class Ran:
    """What the checks made of a tree."""

    facts: Facts
    cases: dict[str, EndEvent]

    @property
    def findings(self) -> dict[tuple[str, str], list[str]]:
        """Code and place of every finding, and the names of the cases that raised it."""
        found: dict[tuple[str, str], list[str]] = {}
        for id_, case in self.cases.items():
            for finding in case.findings:
                found.setdefault((finding.code, finding.where.text()), []).append(id_)
        return found

    @property
    def severities(self) -> set[Severity]:
        """The severities of all findings."""
        return {one.severity for case in self.cases.values() for one in case.findings}

    def of(self, outcome: Outcome) -> dict[str, str]:
        """The cases with this outcome, each with its message."""
        return {id_: case.message for id_, case in self.cases.items() if case.outcome is outcome}


def run_checks(root: Path, profile: Profile, out: Path, wrong: Wrong = NOTHING_WRONG) -> Ran:
    """Reads facts below ``root`` and runs every check of a node but those of host memory.

    ``out`` is made for what they leave. ``wrong`` is what CUDA and registrations do against the
    facts. AssertionError, with pytest's output, if pytest broke.
    """
    facts = probes.collect(NODE, root)
    out.mkdir()
    with in_place_of_pyverbs(facts, root), in_place_of_gpus(facts, wrong):
        return Ran(facts, judge(facts, profile, out))


def judge(
    facts: Facts, profile: Profile, out: Path, only: Sequence[str] = ()
) -> dict[str, EndEvent]:
    """What the checks of a node, or ``only`` those of some files, make of ``facts``, by case."""
    # As on a node: the checks read what was written to the file.
    (out / "facts.json").write_text(facts.model_dump_json())
    (out / "run.json").write_text(_spec(profile).model_dump_json())
    argv = pytest_argv(CHECKS, "node", _options(out))
    arguments = argv[argv.index("pytest") + 1 :]
    if only:
        arguments[-1:] = [str(CHECKS / "node" / name) for name in only]
    ignored = [f"--ignore={CHECKS / 'node' / name}" for name in LIVE_CHECKS]
    log_file = out / "pytest.log"
    with _clean_environment(), log_file.open("w") as stream, redirect_stdout(stream):
        code = pytest.main([*arguments, *ignored])
    assert code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED), log_file.read_text()
    log = events.read(out / "events.jsonl")
    assert not log.problems, log.problems
    return {event.id: event for event in log.events if isinstance(event, EndEvent)}


def _options(out: Path) -> list[str]:
    return [
        f"--gdrcheck-run={out / 'run.json'}",
        f"--gdrcheck-node={NODE}",
        f"--gdrcheck-events={out / 'events.jsonl'}",
        f"--gdrcheck-out={out}",
        "--gdrcheck-phase=node",
    ]


def _spec(profile: Profile) -> RunSpec:
    return RunSpec(
        run_id="20260102T030405Z-0a1b2c",
        created=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        gdrcheck_version=__version__,
        nodes=(NodeSpec(name=NODE, address="192.0.2.1", profile="bought"),),
        profiles={"bought": profile},
    )


@contextmanager
def _clean_environment() -> Iterator[None]:
    """Without what the outer pytest, or its owner, has set for itself."""
    before = {name: value for name, value in os.environ.items() if name.startswith("PYTEST_")}
    for name in before:
        del os.environ[name]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    try:
        yield
    finally:
        for name in [name for name in os.environ if name.startswith("PYTEST_")]:
            del os.environ[name]
        os.environ.update(before)


def promised(profile: Profile, changes: Mapping[str, Any]) -> Profile:
    """``profile`` with other promises."""
    return Profile.model_validate(merged(profile.model_dump(exclude_unset=True), changes))


def merged(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """``values`` with ``changes``, key by key."""
    return {
        **values,
        **{
            key: merged(values[key], change)
            if isinstance(change, Mapping) and isinstance(values.get(key), Mapping)
            else change
            for key, change in changes.items()
        },
    }
