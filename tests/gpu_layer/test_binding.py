"""Which line of cuda-python these tests run with."""

from __future__ import annotations

import os

import cuda.bindings

# scripts/test runs this folder once more with the newer line, and says so here.
LINE = os.environ.get("GDRCHECK_TEST_CUDA_LINE", "12")


def test_the_binding_is_of_the_line_that_this_run_is_about() -> None:
    assert cuda.bindings.__version__.split(".")[0] == LINE
