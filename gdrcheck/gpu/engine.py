"""Filling and verifying GPU memory, by kernels on the GPU and by the CPU over the same bytes.

Every call returns when the GPU is done with it. Before ``verify`` the caller must have made the
NIC's writes visible to the GPU (``flush``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gdrcheck import likeness, pattern
from gdrcheck.gpu.buffers import Buffer
from gdrcheck.gpu.compat import call, driver
from gdrcheck.gpu.context import Gpu
from gdrcheck.gpu.launcher import KIND_NUMBERS, Kernels, loaded, scratch
from gdrcheck.likeness import Candidate, Expected
from gdrcheck.mismatch import Mismatch, Verdict
from gdrcheck.outcome import ProbeError
from gdrcheck.pattern import Key
from gdrcheck.stream import Bytes, Stream

EVEN = Stream("even")

# What the kernels read and write beside the buffer: the verdict, then candidates, then counts.
_SCRATCH_BYTES = 4096
_VERDICT_BYTES = 24
_CANDIDATE_BYTES = 24
_NONE = (1 << 64) - 1


class Engine:
    """Fills and verifies buffers of one GPU; get it with ``engine_of``.

    ``start`` is the position in the stream of the first byte of the range. CudaError if the driver
    refuses, ValueError for a range that is empty or not inside the buffer, ProbeError if a kernel
    did not do its work.
    """

    def __init__(self, gpu: Gpu, kernels: Kernels, scratch: int) -> None:
        self._gpu = gpu
        self._kernels = kernels
        self._scratch = scratch
        self._host: Bytes = np.empty(0, dtype=np.uint8)
        self._words = np.empty(0, dtype=np.uint64)

    def fill(
        self, buffer: Buffer, key: Key, offset_bytes: int, length_bytes: int, start: int = 0
    ) -> None:
        """Write the key's stream into the range."""
        self._fill(buffer, key.stream, offset_bytes, length_bytes, start)

    def poison(
        self, buffer: Buffer, key: Key, offset_bytes: int, length_bytes: int, start: int = 0
    ) -> None:
        """Write what must not remain once the key's message has arrived."""
        self._fill(buffer, key.stream.complement(), offset_bytes, length_bytes, start)

    def fill_even(
        self, buffer: Buffer, offset_bytes: int, length_bytes: int, start: int = 0
    ) -> None:
        """Write little-endian 64-bit numbers, element i being 2 * i."""
        self._fill(buffer, EVEN, offset_bytes, length_bytes, start)

    def poison_even(self, buffer: Buffer, offset_bytes: int, length_bytes: int) -> None:
        """Write what must not remain once numbers of ``fill_even`` have come: no byte is right."""
        self._fill(buffer, EVEN.complement(), offset_bytes, length_bytes, 0)

    def verify(
        self,
        buffer: Buffer,
        key: Key,
        offset_bytes: int,
        length_bytes: int,
        start: int = 0,
        neighbours: Sequence[tuple[Key, int]] = (),
    ) -> Verdict:
        """What GPU and CPU say of the range, which must hold the key's stream.

        A neighbour is the key of an adjoining range, and the position in its stream that would lie
        at this range's first byte. The CPU sees every byte through copies of a few MiB.
        """
        expected = pattern.expected(key, length_bytes, start, neighbours)
        return self._verify(buffer, offset_bytes, expected)

    def verify_even(
        self, buffer: Buffer, offset_bytes: int, length_bytes: int, start: int = 0
    ) -> Verdict:
        """What GPU and CPU say of the range, which must be as ``fill_even`` leaves it."""
        return self._verify(buffer, offset_bytes, Expected(EVEN, start, length_bytes))

    def gpu_verify_only(
        self,
        buffer: Buffer,
        key: Key,
        offset_bytes: int,
        length_bytes: int,
        start: int = 0,
        neighbours: Sequence[tuple[Key, int]] = (),
    ) -> Mismatch | None:
        """The GPU's half of ``verify``, at the speed of its memory: for what is only timed."""
        expected = pattern.expected(key, length_bytes, start, neighbours)
        buffer.check_range(offset_bytes, length_bytes)
        return self._by_gpu(buffer.address + offset_bytes, expected)

    def gpu_verify_pieces(
        self, buffer: Buffer, pieces: Sequence[tuple[int, Expected]]
    ) -> tuple[Mismatch | None, ...]:
        """What the GPU says of each piece: its offset in the buffer, and what it must be.

        All of them in one turn, which costs hardly more calls of the driver than one piece.
        """
        placed = []
        for offset_bytes, expected in pieces:
            buffer.check_range(offset_bytes, expected.length_bytes)
            placed.append((buffer.address + offset_bytes, expected))
        return tuple(
            self._described(*piece, *found)
            for piece, found in zip(placed, self._compare(placed), strict=True)
        )

    def _fill(
        self, buffer: Buffer, stream: Stream, offset_bytes: int, length_bytes: int, start: int
    ) -> None:
        buffer.check_range(offset_bytes, length_bytes)
        if start < 0:
            raise ValueError(f"a stream has no byte {start}")
        self._kernels.fill(buffer.address + offset_bytes, length_bytes, stream, start)
        self._gpu.synchronize()

    def _verify(self, buffer: Buffer, offset_bytes: int, expected: Expected) -> Verdict:
        buffer.check_range(offset_bytes, expected.length_bytes)
        address = buffer.address + offset_bytes
        return Verdict(self._by_gpu(address, expected), self._by_cpu(address, expected))

    def _by_cpu(self, address: int, expected: Expected) -> Mismatch | None:
        return likeness.verify(lambda at, size: self._read(address + at, size), expected)

    def _by_gpu(self, address: int, expected: Expected) -> Mismatch | None:
        (found,) = self._compare([(address, expected)])
        return self._described(address, expected, *found)

    def _described(
        self, address: int, expected: Expected, first_bad: int, bad_bytes: int
    ) -> Mismatch | None:
        if not bad_bytes:
            return None
        excerpt_at, excerpt_bytes = expected.excerpt_range(first_bad)
        excerpt = self._read(address + excerpt_at, excerpt_bytes).copy()
        sample_at, sample_bytes = expected.sample_range(first_bad)
        sample = self._read(address + sample_at, sample_bytes).tobytes()
        candidates = expected.candidates(first_bad, sample)
        counts = self._counts(address, expected, candidates)
        return expected.mismatch(first_bad, bad_bytes, excerpt, candidates, counts)

    def _compare(self, pieces: Sequence[tuple[int, Expected]]) -> list[tuple[int, int]]:
        """The first wrong byte of each piece and how many there are."""
        if _VERDICT_BYTES * len(pieces) > _SCRATCH_BYTES:
            raise ValueError(f"{len(pieces)} pieces are too many for one turn")
        self._write(self._scratch, np.array([_NONE, 0, 0] * len(pieces), dtype="<u8"))
        for number, (address, expected) in enumerate(pieces):
            verdict = self._scratch + _VERDICT_BYTES * number
            self._kernels.verify(
                address, expected.length_bytes, expected.stream, expected.start, verdict
            )
        words = self._read(self._scratch, _VERDICT_BYTES * len(pieces)).view("<u8")
        return [
            self._checked(expected.length_bytes, *(int(word) for word in row))
            for (_, expected), row in zip(pieces, words.reshape(-1, 3), strict=True)
        ]

    def _checked(
        self, length_bytes: int, first_bad: int, bad_bytes: int, compared_bytes: int
    ) -> tuple[int, int]:
        if compared_bytes != length_bytes or (first_bad < compared_bytes) != bool(bad_bytes):
            raise ProbeError(
                f"the GPU at {self._gpu.device.slot} did not verify {length_bytes} bytes: "
                f"it compared {compared_bytes}, {bad_bytes} wrong, the first at {first_bad}"
            )
        return first_bad, bad_bytes

    def _counts(
        self, address: int, expected: Expected, candidates: Sequence[Candidate]
    ) -> list[int]:
        rows = [
            (KIND_NUMBERS[one.stream.kind], one.stream.tag, one.start % (1 << 64))
            for one in candidates
        ]
        at = self._scratch + _VERDICT_BYTES
        counts = at + _CANDIDATE_BYTES * len(rows)
        words = [word for row in rows for word in row] + [0] * len(rows)
        if _VERDICT_BYTES + 8 * len(words) > _SCRATCH_BYTES:
            raise ValueError(f"{len(rows)} candidates are too many: name fewer neighbours")
        self._write(at, np.array(words, dtype="<u8"))
        length, stream, start = expected.length_bytes, expected.stream, expected.start
        self._kernels.classify(address, length, stream, start, at, len(rows), counts)
        return [int(count) for count in self._read(counts, 8 * len(rows)).view("<u8")]

    def _read(self, address: int, length_bytes: int) -> Bytes:
        """Device memory as it is now; the array is used again by the next read."""
        if len(self._host) < length_bytes:
            self._host = np.empty(length_bytes, dtype=np.uint8)
        out = self._host[:length_bytes]
        self._gpu.device_to_host(address, out)
        return out

    def _write(self, address: int, words: np.typing.NDArray[np.uint64]) -> None:
        """The words are there before the next kernel begins."""
        # Where GPU and CPU share page tables, the copy may read them only later.
        self._words = words
        what = f"cuMemcpyHtoDAsync of {words.nbytes} B to {self._gpu.device.slot}"
        self._gpu.activate()
        call(what, driver.cuMemcpyHtoDAsync, address, int(words.ctypes.data), words.nbytes, 0)


_engines: dict[Gpu, Engine] = {}


def engine_of(gpu: Gpu) -> Engine:
    """The GPU's engine, made at the first call and closed before the GPU's context is.

    CudaError if the kernels cannot be loaded.
    """
    if gpu not in _engines:
        kernels = gpu.stack.enter_context(loaded(gpu))
        address = gpu.stack.enter_context(scratch(gpu, _SCRATCH_BYTES))
        _engines[gpu] = Engine(gpu, kernels, address)
        gpu.stack.callback(_engines.pop, gpu)
    return _engines[gpu]
