"""The source of the GPU's kernels, compiled for the CPU, against the same in Python."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdrcheck import likeness
from gdrcheck.gpu.launcher import KIND_NUMBERS
from gdrcheck.likeness import Expected
from gdrcheck.mismatch import Mismatch
from gdrcheck.stream import MASK, Bytes, Stream

HERE = Path(__file__).parent
KERNELS = HERE.parents[1] / "gdrcheck" / "gpu" / "kernels"
NONE = MASK
GUARD = 0xA5
GUARD_BYTES = 32

words = st.integers(0, MASK)
streams = st.builds(Stream, st.sampled_from(["mixed", "mixed", "even", "constant"]), words)
lengths = st.one_of(st.integers(1, 40), st.integers(1, 3000))
starts = st.one_of(st.integers(0, 3000), st.integers(0, 1 << 40))
# Of one thread, of fewer than a batch needs, of more threads than there is work.
threads = st.sampled_from([1, 2, 7, 64, 500])
phases = st.integers(0, 15)
# Whether the stream's words lie as those of the memory do: the kernels have a fast way for these.
plains = st.booleans()


def laid(start: int, phase: int, plain: bool) -> int:
    """``start``, or the next byte of the stream that makes its words lie as the memory's do."""
    return start + (phase - start) % 8 if plain else start


class Library:
    """``on_cpu.cpp``: each kernel as a function that takes the number of threads first."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))

    def run(self, name: str, count: int, *arguments: int) -> None:
        getattr(self._library, name)(
            ctypes.c_uint(count), *(ctypes.c_uint64(one) for one in arguments)
        )


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    path = tmp_path_factory.mktemp("kernels") / "on_cpu.so"
    command = ["g++", "-std=c++17", "-O1", "-Wall", "-Werror", "-Wno-unknown-pragmas"]
    command += [f"-I{KERNELS}", "-shared", "-fPIC", "-o", str(path), str(HERE / "on_cpu.cpp")]
    subprocess.run(command, check=True, timeout=120)
    return Library(path)


class Memory:
    """Bytes at a chosen place within 16, between guards."""

    def __init__(self, length: int, phase: int) -> None:
        self._all = np.full(length + 2 * GUARD_BYTES + 32, GUARD, dtype=np.uint8)
        first = -self._all.ctypes.data % 16 + GUARD_BYTES + phase
        self.data: Bytes = self._all[first : first + length]
        self._outside = np.ones(len(self._all), dtype=np.bool_)
        self._outside[first : first + length] = False

    @property
    def address(self) -> int:
        return int(self.data.ctypes.data)

    def untouched_outside(self) -> bool:
        return bool((self._all[self._outside] == GUARD).all())


def by_kernels(library: Library, count: int, memory: Memory, expected: Expected) -> Mismatch | None:
    """What the engine makes of the kernels' numbers."""
    stream = expected.stream
    common = (
        *(count, memory.address, expected.length_bytes),
        *(KIND_NUMBERS[stream.kind], stream.tag, expected.start),
    )
    verdict = np.array([NONE, 0, 0], dtype=np.uint64)
    library.run("verify", *common, verdict.ctypes.data)
    first, bad, compared = (int(word) for word in verdict)
    assert compared == expected.length_bytes
    if not bad:
        assert first == NONE
        return None
    at, size = expected.excerpt_range(first)
    sample_at, sample_size = expected.sample_range(first)
    sample = memory.data[sample_at : sample_at + sample_size].tobytes()
    candidates = expected.candidates(first, sample)
    rows = np.array(
        [(KIND_NUMBERS[c.stream.kind], c.stream.tag, c.start % (1 << 64)) for c in candidates],
        dtype=np.uint64,
    )
    counts = np.zeros(len(candidates), dtype=np.uint64)
    library.run("classify", *common, rows.ctypes.data, len(candidates), counts.ctypes.data)
    excerpt = memory.data[at : at + size]
    return expected.mismatch(first, bad, excerpt, candidates, [int(one) for one in counts])


@given(streams, lengths, phases, starts, threads, plains)
def test_fill_writes_the_stream_and_nothing_beside_it(
    library: Library,
    stream: Stream,
    length: int,
    phase: int,
    start: int,
    count: int,
    plain: bool,
) -> None:
    start = laid(start, phase, plain)
    memory = Memory(length, phase)
    kind = KIND_NUMBERS[stream.kind]
    library.run("fill", count, memory.address, length, kind, stream.tag, start)
    assert np.array_equal(memory.data, stream.piece(start, length))
    assert memory.untouched_outside()


@settings(max_examples=300)
@given(streams, lengths, phases, starts, threads, plains, st.data())
def test_the_kernels_and_python_judge_alike(
    library: Library,
    stream: Stream,
    length: int,
    phase: int,
    start: int,
    count: int,
    plain: bool,
    data: st.DataObject,
) -> None:
    start = laid(start, phase, plain)
    memory = Memory(length, phase)
    memory.data[:] = stream.piece(start, length)
    neighbour = Stream("mixed", stream.tag ^ 77)
    expected = Expected(stream, start, length, Stream("mixed", 5), ((neighbour, start),))
    assert by_kernels(library, count, memory, expected) is None

    first = data.draw(st.integers(0, length - 1))
    last = data.draw(st.integers(first, length - 1))
    distance = data.draw(st.integers(0, 5000))
    wrong = data.draw(
        st.sampled_from(
            [
                stream.complement().piece(start, length),
                Stream("mixed", 5).piece(start, length),
                np.zeros(length, dtype=np.uint8),
                stream.piece(start + distance, length),
                neighbour.piece(start, length),
                neighbour.piece(start + distance, length),
                stream.piece(start, length) ^ np.uint8(1),
            ]
        )
    )
    memory.data[first : last + 1] = wrong[first : last + 1]
    found = by_kernels(library, count, memory, expected)
    assert found == likeness.verify(lambda at, size: memory.data[at : at + size], expected)
    assert (found is None) == np.array_equal(memory.data, stream.piece(start, length))
