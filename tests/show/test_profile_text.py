"""A profile as YAML: what is read again is the same profile, and every comment is about a key."""

from __future__ import annotations

from datetime import date

import yaml
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.complaints import all_paths
from gdrcheck.profile import Profile
from gdrcheck.profile_file import parse_profile
from gdrcheck.show.profile_text import COMMENTS, as_text
from tests import facts as build

TODAY = date(2026, 11, 30)
WORD = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=60)
ASCII = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=60)


@given(ASCII, st.floats(min_value=0.001, max_value=1e9), st.lists(WORD, max_size=3))
def test_what_is_written_is_what_is_read(text: str, rate_gbps: float, words: list[str]) -> None:
    profile = build.profile(
        gpus={"count": 2, "model": text},
        rails={"count": 1, "nics": [{"netdev": text, "port": 2}], "port_rate_gbps": rate_gbps},
        expect={"kernel": text, "command_line": words, "nic_link": {"width": 8}},
    )
    assert parse_profile(as_text(profile, [text]), "out", TODAY) == profile


def test_partition_keys_are_written_as_people_read_them() -> None:
    text = as_text(build.profile(pkey=0x8001), [])
    assert "\npkey: 0x8001\n" in text
    assert parse_profile(text, "out", TODAY).pkey == 0x8001


def test_comments_are_about_keys_that_a_profile_has() -> None:
    assert set(COMMENTS) <= set(all_paths(Profile.model_json_schema()))


def test_head_is_comment_only() -> None:
    text = as_text(build.profile(), ["one " * 60, "two\nthree"])
    head = text.partition("\n\n")[0].splitlines()
    assert head[0] == "---"
    assert head[-3:] == ["#", "# two", "# three"]
    assert all(line.startswith("#") for line in head[1:])
    assert yaml.safe_load(text)["gpus"]["count"] == 1
