"""``gdrcheck collect``: the folder of a run out of the logs of a Job's pods.

The logs may be anybody's: only what belongs to one run is taken, and where two logs tell different
things of it nothing is. The verdict is made here of what the nodes sent, as in a run over ssh.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gdrcheck import __version__
from gdrcheck.kubernetes.judging import with_damage
from gdrcheck.kubernetes.log_blocks import (
    MAX_LINE_CHARS,
    MAX_TOTAL_BYTES,
    Block,
    BlockReader,
    Header,
)
from gdrcheck.kubernetes.parts import node_of, read_part
from gdrcheck.outcome import InputError, Verdict
from gdrcheck.results import console
from gdrcheck.results import folder as run_folder
from gdrcheck.results.folder import RUN_FILE, STATES_FILE
from gdrcheck.results.merge import merge
from gdrcheck.results.plain import one_line
from gdrcheck.results.states import SeenStates, parse
from gdrcheck.results.summary import Summary
from gdrcheck.results.unpack import unpack_all

GET_LOGS = "get the whole log of each pod: kubectl logs POD > FILE"


@dataclass(frozen=True, slots=True)
class Collected:
    """One run out of logs. ``judged`` is the header of index 0's block, None without its log."""

    run_id: str
    files: Mapping[str, bytes]
    judged: Header | None


def collect(logs: Sequence[Path], out: Path, write_page: Callable[[Path], object]) -> int:
    """Make ``out``/RUN-ID of the blocks in ``logs``, merge it, and show the result; returns its
    exit code, 0, 1 or 2.

    InputError, and nothing was made, when the logs do not hold the whole of one run's results, or
    its folder is there already.
    """
    found = read_logs(logs)
    place = out / found.run_id
    if place.exists():
        raise InputError(f"{place}: is there already; expected another --out, or move it away")
    try:
        with _made(place) as draft:
            _write(draft, found.files)
            summary = _merged(draft, found)
            write_page(draft)
    except OSError as error:
        where = error.filename or place
        raise InputError(f"{where}: cannot be written: {error.strerror}") from error
    _point_latest_at(place)
    print(console.text(summary, place))
    return _compared(found, summary).exit_code


def read_logs(logs: Sequence[Path]) -> Collected:
    """What the blocks in ``logs`` hold together. InputError with every problem at once."""
    reader = BlockReader()
    problems: list[str] = []
    for path in logs:
        try:
            for line in _lines(path):
                reader.feed(line, str(path))
        except OSError as error:
            problems.append(f"{path}: {error.strerror}")
    blocks = reader.blocks()
    problems += reader.problems
    if not blocks and not problems:
        names = ", ".join(map(str, logs))
        problems.append(f"{names}: no results of gdrcheck in there; {GET_LOGS}")
    if problems:
        raise InputError(*problems)
    return _joined(blocks)


def _lines(path: Path) -> Iterator[str]:
    """The lines of a log, none of them longer than one of ours can be."""
    with path.open("r", encoding="utf-8", errors="replace", newline="\n") as file:
        while line := file.readline(MAX_LINE_CHARS):
            yield line


def _joined(blocks: Sequence[Block]) -> Collected:
    runs: dict[str, list[str]] = {}
    for block in blocks:
        runs.setdefault(block.header.run_id, []).append(block.source)
    if len(runs) > 1:
        raise InputError(
            *(
                f"{', '.join(dict.fromkeys(sources))}: of run {run_id}; expected logs of one run"
                for run_id, sources in runs.items()
            )
        )
    (run_id,) = runs
    files: dict[str, bytes] = {}
    came_from: dict[str, str] = {}
    left_bytes = MAX_TOTAL_BYTES
    for block in blocks:
        for name, content in _read(block).items():
            if files.setdefault(name, content) != content:
                raise InputError(
                    f"{came_from[name]}, {block.source}: tell different things of {name}"
                )
            if name not in came_from:
                came_from[name] = block.source
                left_bytes -= len(content)
        if left_bytes < 0:
            raise InputError(
                f"{block.source}: the results are larger than {MAX_TOTAL_BYTES >> 20} MiB"
            )
    judged = {one.header.model_dump_json(): one.header for one in blocks if one.of_run}
    if len(judged) > 1:
        raise InputError(f"more than one index 0 judged run {run_id}; expected the logs of one")
    found = Collected(run_id, files, next(iter(judged.values()), None))
    _check(found)
    return found


def _read(block: Block) -> dict[str, bytes]:
    """The files in ``block``. InputError when it tells of what is not for its pod to tell."""
    files = read_part(block.content, block.source)
    if not block.of_run:
        for name in files:
            if name != RUN_FILE and node_of(name) != block.header.of:
                raise InputError(
                    f"{block.source}: holds {name}, but the pod of node {block.header.of}, which "
                    "is not index 0, tells of its own node only"
                )
    return files


def _check(found: Collected) -> None:
    """InputError when the files do not belong together, or some are in a log that is not here."""
    if RUN_FILE not in found.files:
        raise InputError(f"run {found.run_id}: no log holds its {RUN_FILE}; {GET_LOGS}")
    omitted = found.judged.omitted if found.judged else ()
    there = {node for name in found.files if (node := node_of(name)) is not None}
    if missing := [node for node in omitted if node not in there]:
        raise InputError(
            f"run {found.run_id}: index 0 had the results of {', '.join(missing)}, which are in no "
            f"log here; expected those of their pods as well: {GET_LOGS}"
        )


@contextlib.contextmanager
def _made(place: Path) -> Iterator[Path]:
    """A folder that is called ``place`` at the end, or else is gone."""
    place.parent.mkdir(parents=True, exist_ok=True)
    # Of this process alone: one that was killed has left its own.
    draft = place.with_name(f".{place.name}.{secrets.token_hex(4)}.draft")
    draft.mkdir()
    try:
        yield draft
        draft.rename(place)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _point_latest_at(place: Path) -> None:
    """As far as that can be done: by now there is a verdict to tell."""
    try:
        run_folder.point_latest_at(place)
    except (InputError, OSError) as error:
        print(f"note: {error}", file=sys.stderr)


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (folder / "nodes").mkdir(exist_ok=True)


def _merged(folder: Path, found: Collected) -> Summary:
    run = run_folder.read_run(folder)
    if run.run_id != found.run_id:
        raise InputError(f"the blocks are of run {found.run_id}, their {RUN_FILE} of {run.run_id}")
    known = {node.name for node in run.nodes}
    strangers = sorted(
        {node for name in found.files if (node := node_of(name)) is not None} - known
    )
    if strangers:
        raise InputError(f"run {run.run_id} has no node {one_line(', '.join(strangers))}")
    told = found.files.get(STATES_FILE)
    seen = parse(told, f"{STATES_FILE} of index 0") if told is not None else SeenStates()
    return merge(folder, with_damage(seen, unpack_all(folder)))


def _compared(found: Collected, summary: Summary) -> Verdict:
    """The worse of the verdict here and that of index 0; says so when they differ."""
    judged = found.judged
    if judged is None:
        print(
            "note: the log of index 0 is not among these, or ends before its verdict; judged here",
            file=sys.stderr,
        )
        return summary.verdict
    if judged.verdict is None or judged.verdict is summary.verdict:
        return summary.verdict
    print(
        f"index 0 (gdrcheck {judged.gdrcheck_version}) judged {judged.verdict}, gdrcheck "
        f"{__version__} judges {summary.verdict}: other versions, or other logs; the worse counts",
        file=sys.stderr,
    )
    return max(summary.verdict, judged.verdict, key=lambda verdict: verdict.rank)
