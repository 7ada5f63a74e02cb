"""Results in a log are found again whole, or it is said that they are not."""

from __future__ import annotations

import hypothesis
import pytest
from hypothesis import strategies as st

from gdrcheck.kubernetes import log_blocks
from gdrcheck.kubernetes.log_blocks import LINE_BYTES, BlockReader, block_lines, header_of

RUN = "20260102T030405Z-0a1b2c"
CONTENT = bytes(range(256)) * 100


def lines_of(content: bytes = CONTENT, node: str = "node1", run_id: str = RUN) -> list[str]:
    header = header_of(content, kind="node", run_id=run_id, of=node)
    return list(block_lines(header, content))


def read(*lines: str, source: str = "pod.log") -> BlockReader:
    reader = BlockReader()
    for line in lines:
        reader.feed(line + "\n", source)
    return reader


def problem_of(*lines: str) -> str:
    reader = read(*lines)
    assert reader.blocks() == []
    return "\n".join(reader.problems)


@hypothesis.given(st.binary(min_size=1, max_size=3 * LINE_BYTES), st.randoms())
def test_blocks_are_found_among_other_lines_in_whatever_order_two_pods_wrote(
    content: bytes, random: object
) -> None:
    one, two = lines_of(content), lines_of(content + b"!", "node2")
    mixed = []
    while one or two:
        take = one if one and (not two or random.random() < 0.5) else two  # type: ignore[attr-defined]
        mixed += [f"2026-01-02T03:04:05Z [pod/x/y] {take.pop(0)}", "something else", ""]
    reader = read(*mixed)
    found = {block.header.of: block.content for block in reader.blocks()}
    assert reader.problems == []
    assert found == {"node1": content, "node2": content + b"!"}


@hypothesis.given(st.data())
def test_a_block_without_one_of_its_lines_is_no_block(data: st.DataObject) -> None:
    lines = lines_of()
    del lines[data.draw(st.integers(0, len(lines) - 1))]
    assert "cut off" in problem_of(*lines)


@hypothesis.given(st.integers(1, len(CONTENT) // LINE_BYTES + 2))
def test_a_log_that_was_cut_off_says_so(kept: int) -> None:
    assert "expected the whole log of the pod" in problem_of(*lines_of()[:kept])


def test_a_line_that_was_cut_or_changed_is_noticed() -> None:
    lines = lines_of()
    assert "line 1 of the results of node node1" in problem_of(
        *lines[:2], lines[2][:-1], *lines[3:]
    )
    # Base64 of other bytes of the same length.
    other = lines[2].rpartition("|")[0] + "|" + "QUJD" * (LINE_BYTES // 3)
    assert "the sum is wrong" in problem_of(*lines[:2], other, *lines[3:])
    assert "is there twice" in "\n".join(read(*lines[:3], other, *lines[3:]).problems)


def test_the_end_alone_is_a_block_whose_beginning_is_missing() -> None:
    assert "beginning is missing" in problem_of(lines_of()[-1])


def test_the_same_log_twice_is_one_block() -> None:
    reader = read(*lines_of(), *lines_of())
    assert len(reader.blocks()) == 1
    assert reader.problems == []


def test_a_log_whose_beginning_is_in_another_file_is_put_together() -> None:
    reader = BlockReader()
    lines = lines_of()
    for line in lines[:3]:
        reader.feed(line, "old.log")
    for line in lines[3:]:
        reader.feed(line, "new.log")
    assert [block.content for block in reader.blocks()] == [CONTENT]


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"kind":"node"}',
        '{"kind":"node","run_id":"../../x","of":"n","gdrcheck_version":"1","length_bytes":1,'
        f'"sha256":"{"0" * 64}"}}',
        f'{{"kind":"node","run_id":"{RUN}","of":"..","gdrcheck_version":"1","length_bytes":1,'
        f'"sha256":"{"0" * 64}"}}',
        f'{{"kind":"node","run_id":"{RUN}","of":"n","gdrcheck_version":"1",'
        f'"length_bytes":99999999999999,"sha256":"{"0" * 64}"}}',
    ],
)
def test_a_wrong_header_is_refused(text: str) -> None:
    (problem,) = problem_of(f"GDRCHECK|0123456789abcdef|begin|{text}").splitlines()
    assert "wrong header" in problem


def test_what_a_block_announces_is_all_that_is_kept_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_blocks, "MAX_TOTAL_BYTES", 10)
    assert "larger than" in problem_of(*lines_of())


def test_too_many_blocks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_blocks, "MAX_BLOCKS", 3)
    reader = read(*(f"GDRCHECK|{number:016x}|0|QUJD" for number in range(5)))
    assert any("more than 3 blocks" in problem for problem in reader.problems)


@hypothesis.given(st.text(max_size=200))
def test_no_line_breaks_the_reader(text: str) -> None:
    reader = read(text, f"GDRCHECK|0123456789abcdef|{text}", f"GDRCHECK|0123456789abcdef|0|{text}")
    assert reader.blocks() == []
