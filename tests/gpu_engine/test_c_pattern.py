"""pattern.h as C99, which the emulated GPU is built of, against the same in Python."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.gpu.launcher import KIND_NUMBERS
from gdrcheck.stream import MASK, Stream

KERNELS = Path(__file__).resolve().parents[2] / "gdrcheck" / "gpu" / "kernels"
SOURCE = """
#include "pattern.h"
unsigned char byte(gdrcheck_u64 kind, gdrcheck_u64 tag, gdrcheck_u64 position)
{
    return gdrcheck_byte(kind, tag, position);
}
gdrcheck_u64 word_at(gdrcheck_u64 kind, gdrcheck_u64 tag, gdrcheck_u64 position)
{
    return gdrcheck_word_at(kind, tag, position);
}
gdrcheck_u64 sizes(void) { return sizeof(gdrcheck_verdict) << 8 | sizeof(gdrcheck_candidate); }
"""

streams = st.builds(Stream, st.sampled_from(["mixed", "even", "constant"]), st.integers(0, MASK))
positions = st.one_of(st.integers(0, 100), st.integers(0, 1 << 60))


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    path = tmp_path_factory.mktemp("pattern") / "pattern.so"
    command = ["gcc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", f"-I{KERNELS}"]
    command += ["-x", "c", "-", "-shared", "-fPIC", "-o", str(path)]
    subprocess.run(command, input=SOURCE, text=True, check=True, timeout=60)
    loaded = ctypes.CDLL(str(path))
    for name in ("byte", "word_at", "sizes"):
        getattr(loaded, name).restype = ctypes.c_uint8 if name == "byte" else ctypes.c_uint64
    return loaded


@given(streams, positions)
def test_bytes_and_words_are_those_of_python(
    library: ctypes.CDLL, stream: Stream, position: int
) -> None:
    common = [ctypes.c_uint64(one) for one in (KIND_NUMBERS[stream.kind], stream.tag, position)]
    piece = stream.piece(position, 8).tobytes()
    assert library.byte(*common) == piece[0]
    assert library.word_at(*common) == int.from_bytes(piece, "little")


def test_the_structures_have_the_sizes_that_the_engine_reads(library: ctypes.CDLL) -> None:
    assert library.sizes() == 24 << 8 | 24
