"""One side of a comparison: the folder of a run, or a baseline that was saved from one."""

from __future__ import annotations

import gzip
import re
import zlib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from gdrcheck import __version__
from gdrcheck.outcome import InputError
from gdrcheck.results import data as run_data
from gdrcheck.results.data import Data
from gdrcheck.results.files import read_limited, read_start, write_atomic
from gdrcheck.results.folder import RUN_FILE
from gdrcheck.results.summary import Summary

SUMMARY_FILE = "summary.json"
MAX_SUMMARY_BYTES = 1 << 30
LEVEL = 6
GZIP = zlib.MAX_WBITS | 16
# A baseline unpacks to some ten times its size, a file made to fill the memory to a thousand.
MAX_RATIO = 200
MAX_START_BYTES = 16 * 1024 * 1024
STEP_BYTES = 64 * 1024
START_BYTES = 4096
BEGINNING = re.compile(rb'\{"schema_version":\d+,"summary":')
EXPECTED = "expected a folder of results (results/RUN-ID), or a file that gdrcheck baseline wrote"


class Baseline(BaseModel):
    """All that a comparison needs of a run, in one file: its summary and its data."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    summary: Summary
    data: Data


def read(path: Path) -> Baseline:
    """The run at ``path``, a folder of results or a saved baseline. InputError, one line, when it
    is neither, is damaged, or when its files do not belong together.
    """
    if path.is_dir():
        return together(_summary(path), run_data.read(path / run_data.DATA_FILE), path)
    try:
        packed = read_limited(path.resolve(), run_data.MAX_COMPRESSED_BYTES)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file or folder; {EXPECTED}") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error
    baseline = _parse(packed, path)
    return together(baseline.summary, baseline.data, path)


def save(baseline: Baseline, path: Path) -> None:
    """Write ``baseline`` to ``path``; the same run gives the same bytes. InputError if it cannot be
    written, or a file is there that is no baseline.
    """
    without = None if baseline.data.blocks else {"data": {"blocks", "expectations"}}
    text = baseline.model_dump_json(exclude=without).encode()
    try:
        if path.exists() and not _may_replace(path.resolve()):
            raise InputError(
                f"{path}: is there already and is no baseline; remove it, or give another name"
            )
        if not path.parent.is_dir():
            raise InputError(f"{path.parent}: no such folder; make it first")
        write_atomic(path, gzip.compress(text, LEVEL, mtime=0))
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error


def _may_replace(path: Path) -> bool:
    """Whether the file begins as baselines do, or has nothing in it that could be lost."""
    if not path.is_file():
        return False
    packed = read_start(path, START_BYTES)
    try:
        start = zlib.decompressobj(GZIP).decompress(packed, START_BYTES)
    except zlib.error:
        return False
    return not packed or BEGINNING.match(start) is not None


def _unpacked(packed: bytes, path: Path) -> bytes:
    """The text in ``packed``. InputError when it is none, cut off, or grows as no text does."""
    if not packed:
        raise InputError(f"{path}: is empty; {EXPECTED}")
    unpacker = zlib.decompressobj(GZIP)
    text = bytearray()
    try:
        for first in range(0, len(packed), STEP_BYTES):
            step = packed[first : first + STEP_BYTES]
            most = min(MAX_START_BYTES + MAX_RATIO * (first + len(step)), run_data.MAX_BYTES)
            text += unpacker.decompress(step, most - len(text) + 1)
            if unpacker.unconsumed_tail:
                raise InputError(f"{path}: grows too large when it is unpacked; {EXPECTED}")
            if unpacker.eof:
                return bytes(text)
    except zlib.error as error:
        raise InputError(f"{path}: is no baseline, or damaged; {EXPECTED}") from error
    raise InputError(f"{path}: is cut off; {EXPECTED}")


def _parse(packed: bytes, path: Path) -> Baseline:
    text = _unpacked(packed, path)
    try:
        return Baseline.model_validate_json(text)
    except ValidationError as error:
        raise InputError(
            f"{path}: is no baseline of this version ({__version__}): {_first(error)}; {EXPECTED}"
        ) from error


def _summary(folder: Path) -> Summary:
    path = folder / SUMMARY_FILE
    try:
        return Summary.model_validate_json(read_limited(path, MAX_SUMMARY_BYTES))
    except FileNotFoundError as error:
        if (folder / RUN_FILE).is_file():
            raise InputError(
                f"{folder}: was not merged (no {SUMMARY_FILE}); run: gdrcheck merge {folder}"
            ) from error
        raise InputError(f"{folder}: holds no {SUMMARY_FILE}; {EXPECTED}") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise InputError(
            f"{path}: is no summary of this version ({__version__}): {_first(error)}; "
            f"gdrcheck merge {folder} writes it anew"
        ) from error
    except ValueError as error:
        raise InputError(f"{folder}: {error}") from error


def together(summary: Summary, data: Data, path: Path) -> Baseline:
    """InputError when one is left over from another merge than the other."""
    if summary.run_id != data.run_id:
        raise InputError(
            f"{path}: the summary is of run {summary.run_id}, the data of run {data.run_id}; "
            "gdrcheck merge writes both anew"
        )
    if [node.name for node in data.nodes] != list(summary.nodes):
        raise InputError(
            f"{path}: summary and data name different nodes; gdrcheck merge writes both anew"
        )
    counted = dict.fromkeys(summary.counts, 0)
    for by_kind in data.suites.values():
        for kind, ids in by_kind.items():
            counted[kind] = counted.get(kind, 0) + len(ids)
    for series in data.series:
        for digit in set(series.kinds):
            kind = data.kinds[int(digit)]
            counted[kind] = counted.get(kind, 0) + series.kinds.count(digit)
    for digit, count in (one for block in data.blocks for one in block.counts().items()):
        counted[data.kinds[int(digit)]] += count
    if counted != summary.counts:
        raise InputError(
            f"{path}: the data does not hold the cases that the summary counts; "
            "gdrcheck merge writes both anew"
        )
    return Baseline(summary=summary, data=data)


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" if place else first["msg"]
