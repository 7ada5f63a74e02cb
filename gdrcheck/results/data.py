"""``data.json.gz``: every case of a run with its numbers, in columns; small at any size of run.

The page and the comparison of two runs are made of it. Pair cases are kept by what they measure:
one ``Series`` for each check, mode, operation and rail, one row for each ordered pair of places.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gdrcheck.outcome import InputError, Outcome
from gdrcheck.results.data_blocks import Block, Expectation
from gdrcheck.results.files import read_limited, write_atomic
from gdrcheck.results.summary import WAIVED, WARNED

DATA_FILE = "data.json.gz"
# What became of a case, as the counts of the summary have it. A series holds its digits.
KINDS: tuple[str, ...] = (*(str(outcome) for outcome in Outcome), WAIVED, WARNED)
DIGITS = {kind: str(number) for number, kind in enumerate(KINDS)}
MAX_COMPRESSED_BYTES = 512 * 1024 * 1024
MAX_BYTES = 4 * 1024 * 1024 * 1024
LEVEL = 6
FAST = 1

# Names of columns of numbers; those of bandwidth by size are ``gbps_65536``, in bytes.
P50_US, P99_US, MIN_US, MAX_US = "p50_us", "p99_us", "min_us", "max_us"
GBPS, GBPS_BACK, EXPECTED_GBPS = "gbps", "gbps_back", "expected_gbps"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Part(_Model):
    """One PCI function of a picture. ``above`` is the slot of the bridge above, None at the top.

    ``name`` is ``gpu0``, ``mlx5_0`` or empty. ``link`` is what it runs at and ``link_max`` what it
    can do, as ``32 GT/s x16``; empty when unknown. ``note``: model, or rate and state of the port.
    """

    slot: str
    kind: Literal["root port", "switch", "gpu", "nic", "nvswitch", "other"]
    name: str = ""
    above: str | None = None
    root_bus: str = ""
    numa_node: int | None = None
    link: str = ""
    link_max: str = ""
    note: str = ""


class Topology(_Model):
    """What the picture of a node shows. ``unknown`` says why there is none, else it is empty."""

    parts: tuple[Part, ...] = ()
    unknown: str = ""


class RailData(_Model):
    """One rail of a node: its GPU and NIC as in names of cases. ``distance`` is as PIX or SYS."""

    id: int
    gpu: str | None
    nic: str
    distance: str | None = None
    # Slots tell a device that was renamed from one that was replaced.
    gpu_slot: str | None = None
    nic_slot: str | None = None


class NodeData(_Model):
    """One node. ``topology`` is an index into ``Data.topologies``; nodes alike share one.

    ``versions`` are those of the summary, and of firmware, by name.
    """

    name: str
    leaf: str | None
    profile: str
    complete: bool
    versions: dict[str, str]
    rails: tuple[RailData, ...]
    topology: int


class Place(_Model):
    """An end of pair cases: ``node1/gpu0/mlx5_0``. ``node`` is an index into ``Data.nodes``.

    ``rail`` None: nobody said which rail it is.
    """

    text: str
    node: int
    rail: int | None


class Series(_Model):
    """Pair cases of one kind on one rail. All columns are as long as ``source``.

    ``source`` and ``sink`` are indices into ``Data.places``; the data goes source to sink.
    ``kinds`` has one digit a row, an index into ``KINDS``. ``numbers`` are columns by name, with
    the unit in it; None where a row has none. ``limited_by`` are indices into ``Data.words``: what
    limits the expected rate; -1 for none. ``mode`` and ``operation`` None: the whole rail or pair.
    """

    check: str
    mode: str | None
    operation: str | None
    rail: int | None
    source: tuple[int, ...]
    sink: tuple[int, ...]
    kinds: str = Field(pattern=r"^[0-9]*$")
    numbers: dict[str, tuple[float | None, ...]] = Field(default_factory=dict)
    limited_by: tuple[int, ...] = ()

    @model_validator(mode="after")
    def _whole(self) -> Series:
        rows = len(self.source)
        columns = (self.sink, self.kinds, *self.numbers.values())
        if any(len(column) != rows for column in columns) or len(self.limited_by) not in (0, rows):
            raise ValueError(f"{self.check}: columns of different lengths")
        return self


class Data(_Model):
    """Everything of a run that is too much for its summary.

    ``suites``: the ids of all cases that are in no series or block, by suite, then by kind.
    ``findings``: by suite and id of every case that has any, each as ``CODE at PLACE``.
    """

    schema_version: Literal[1] = 1
    run_id: str
    kinds: tuple[str, ...] = KINDS
    nodes: tuple[NodeData, ...]
    topologies: tuple[Topology, ...]
    places: tuple[Place, ...]
    words: tuple[str, ...]
    series: tuple[Series, ...]
    suites: dict[str, dict[str, tuple[str, ...]]]
    findings: dict[str, dict[str, tuple[str, ...]]] = Field(default_factory=dict)
    # Of wide runs alone: absent in the files of others.
    blocks: tuple[Block, ...] = ()
    expectations: tuple[Expectation, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Data:
        ends = [end for one in self.series for column in (one.source, one.sink) for end in column]
        told = [
            ("topologies", len(self.topologies), [node.topology for node in self.nodes]),
            ("nodes", len(self.nodes), [place.node for place in self.places]),
            ("places", len(self.places), ends),
            ("kinds", len(self.kinds), [int(one) for one in {*"".join(self._digits())}]),
            ("expectations", len(self.expectations), list(self._expected())),
        ]
        for name, count, used in told:
            if used and not (min(used) >= 0 and max(used) < count):
                raise ValueError(f"an index into {name} is beyond its end")
        return self

    def _digits(self) -> Iterator[str]:
        yield from (series.kinds for series in self.series)
        for block in self.blocks:
            yield from ("".join(filter(str.isdigit, text)) for text in block.outcomes)

    def _expected(self) -> Iterator[int]:
        for block in self.blocks:
            for text in block.wanted:
                yield from (number for number in text if number != -1)

    def case_id(self, series: Series, row: int) -> str:
        """The name of the case that this row of ``series`` is."""
        return case_id(
            series, self.places[series.source[row]].text, self.places[series.sink[row]].text
        )

    def kinds_by_case(self) -> Iterator[tuple[str, str, str]]:
        """Every case of the run as suite, id and kind."""
        for suite, by_kind in self.suites.items():
            for kind, ids in by_kind.items():
                for id_ in ids:
                    yield suite, id_, kind
        for series in self.series:
            for row, digit in enumerate(series.kinds):
                yield "pairs", self.case_id(series, row), self.kinds[int(digit)]


def case_id(series: Series, source: str, sink: str) -> str:
    """``latency[SOURCE -> SINK, MODE, OPERATION]``: the name of a case of ``series``."""
    what = f", {series.mode}, {series.operation}" if series.mode else ""
    return f"{series.check}[{source} -> {sink}{what}]"


def write(path: Path, data: Data) -> None:
    """Write ``data`` to ``path``, compressed; the same data gives the same bytes."""
    if data.blocks:
        # Most of it is compressed already.
        text, level = data.model_dump_json(), FAST
    else:
        text, level = data.model_dump_json(exclude={"blocks", "expectations"}), LEVEL
    write_atomic(path, gzip.compress(text.encode(), level, mtime=0))


def read(path: Path) -> Data:
    """The data at ``path``. InputError, one line, if it is missing, damaged, or too large."""
    try:
        packed = read_limited(path, MAX_COMPRESSED_BYTES)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; gdrcheck merge {path.parent} writes it") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error
    return parse(packed, str(path))


def parse(packed: bytes, name: str) -> Data:
    """The data in ``packed``, which came from ``name``. InputError, one line, if it is none."""
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        text = unpacker.decompress(packed, MAX_BYTES)
    except zlib.error as error:
        raise InputError(f"{name}: is not compressed as gzip does: {error}") from error
    if not unpacker.eof:
        raise InputError(f"{name}: is cut off, or longer than {MAX_BYTES} bytes")
    try:
        return Data.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(
            f"{name}: {place}: {first['msg']}; gdrcheck merge writes the file anew"
        ) from error
