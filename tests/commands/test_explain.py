"""gdrcheck explain: a code, what begins alike, and where its output does not go."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from gdrcheck.findings.catalogue import ENTRIES
from tests.commands.support import run


@pytest.mark.parametrize("begin", ["PORT", "port", "PORT-", "DRV-NVIDIA", "P"])
def test_an_area_or_a_beginning_lists_its_codes(begin: str) -> None:
    expected = [entry.code for entry in ENTRIES if entry.code.startswith(begin.upper())]
    done = run("explain", begin)
    assert (done.code, done.err) == (0, "")
    assert [line.split()[0] for line in done.out.splitlines()] == expected
    assert len(expected) > 1
    as_json = json.loads(run("explain", begin, "--json").out)
    assert [entry["code"] for entry in as_json] == expected


def test_words_with_which_one_code_begins_show_that_code() -> None:
    assert run("explain", "PORT-NO-SUBNET").out.startswith("PORT-NO-SUBNET-MANAGER: ")


def test_a_code_that_others_begin_with_is_still_one_code() -> None:
    codes = [entry.code for entry in ENTRIES]
    both = [code for code in codes if sum(other.startswith(code) for other in codes) > 1]
    for code in both:
        assert run("explain", code).out.startswith(f"{code}: ")
        assert json.loads(run("explain", code, "--json").out)["code"] == code


@pytest.mark.parametrize("code", ["NONSENSE", "PORT-X", "PORT-NOT-ACTIV"])
def test_what_is_no_beginning_of_several_codes_is_one_line(code: str) -> None:
    done = run("explain", code)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"{code} is no code; expected one of gdrcheck explain --list")
    assert done.err.count("\n") == 1


# The first fits into Python's buffer, the second does not.
@pytest.mark.parametrize("argument", ["PORT-NOT-ACTIVE", "--markdown"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_named(argument: str, unbuffered: str) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "gdrcheck", "explain", argument],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert done.returncode == 2
    assert done.stderr == b"standard output: No space left on device\n"
