"""The file of the watcher of XIDs: what is written is read back, and what is broken is told."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck import xids
from gdrcheck.xids import Line, WatchBegun, WatchTrouble, XidSeen

SLOT, OTHER = "0000:1b:00.0", "0000:1c:00.0"
TIME = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
BEGUN = WatchBegun(time=TIME, watched=(SLOT,), refused={OTHER: "NVML: Not Supported"})

times = st.datetimes(timezones=st.just(UTC))
slots = st.sampled_from([SLOT, OTHER, xids.UNKNOWN])
lines: st.SearchStrategy[Line] = st.one_of(
    st.builds(WatchTrouble, time=times, problem=st.text()),
    st.builds(XidSeen, time=times, slot=slots, xid=st.integers(0, 1 << 64)),
)


@given(st.lists(lines))
def test_what_is_written_is_read_back(made: list[Line]) -> None:
    watch = xids.parsed("".join(map(xids.written, [BEGUN, *made])))
    assert watch.begun == BEGUN
    assert list(watch.seen) == [one for one in made if isinstance(one, XidSeen)]
    troubles = [one.problem for one in made if isinstance(one, WatchTrouble)]
    assert list(watch.problems) == troubles


def test_words_of_the_driver_may_hold_anything() -> None:
    trouble = WatchTrouble(time=TIME, problem="a\u2028b\x85c\nd")
    assert xids.parsed(xids.written(BEGUN) + xids.written(trouble)).problems == (trouble.problem,)


def test_xids_belong_to_their_gpu() -> None:
    seen = [XidSeen(time=TIME, slot=slot, xid=number) for slot, number in ((SLOT, 79), (OTHER, 31))]
    watch = xids.parsed("".join(map(xids.written, [BEGUN, *seen])))
    assert [one.xid for one in watch.of(SLOT)] == [79]
    assert [one.xid for one in watch.of(OTHER)] == [31]


def test_a_whole_watch_leaves_no_doubt_about_what_it_watched() -> None:
    watch = xids.parsed(xids.written(BEGUN))
    assert watch.doubt(SLOT) is None
    assert watch.doubt(OTHER) == "NVML: Not Supported"
    assert watch.doubt("0000:1d:00.0") == "it was not among the GPUs that were watched"


@given(st.binary())
def test_whatever_the_file_holds_is_read_and_never_taken_for_silence(data: bytes) -> None:
    watch = xids.parsed(data.decode("utf-8", "replace"))
    assert watch.doubt(SLOT)


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_line_that_was_cut_off_is_a_doubt(cut: int) -> None:
    last = xids.written(XidSeen(time=TIME, slot=SLOT, xid=79))[:-cut]
    watch = xids.parsed(xids.written(BEGUN) + last)
    assert (watch.doubt(SLOT) is None) is (cut == 1)


def test_no_file_is_a_doubt() -> None:
    assert xids.parsed("", "the file is not there").doubt(SLOT) == "the file is not there"
