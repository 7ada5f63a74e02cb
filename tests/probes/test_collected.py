"""Reading what the host collector left: good, broken, hostile, or not there."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.facts import Collector, Unreadable
from gdrcheck.probes import collected
from gdrcheck.probes.collected import CONFIG_FOLDER, FAILURE_FILE, FOLDER, HOST_FILE, MAX_BYTES

SLOT = "0000:41:00.0"
GOOD: dict[str, Any] = {"version": 1, "ran_at_s": 1764460000.0, "complaints": ["units: none"]}


def left(root: Path, content: bytes | dict[str, Any]) -> collected.Collected:
    """What is read when host.json holds ``content``."""
    folder = root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    (folder / HOST_FILE).write_bytes(raw)
    return collected.read(root)


def why(value: object) -> str:
    """The reason of a value that must be unreadable, and not for want of privilege."""
    assert isinstance(value, Unreadable)
    assert not value.privilege
    return value.unreadable


def test_values_and_their_reasons(tmp_path: Path) -> None:
    found = left(tmp_path, {**GOOD, "os": "Some", "units": {"unreadable": "no systemctl"}})
    assert found.collector == Collector(
        version=1, ran_at_s=1764460000.0, complaints=("units: none",)
    )
    assert found.value("os") == "Some"
    assert why(found.value("units")) == "host.json: units: no systemctl"
    assert why(found.value("ofed")) == "host.json: ofed is missing"


def test_an_empty_value_is_a_value(tmp_path: Path) -> None:
    assert left(tmp_path, {**GOOD, "kernel_log": []}).value("kernel_log") == []


def test_without_a_collector_everything_wants_privilege(tmp_path: Path) -> None:
    found = collected.read(tmp_path)
    for value in (found.collector, found.value("os"), found.config_space(SLOT)):
        assert isinstance(value, Unreadable)
        assert value.privilege
        assert value.unreadable == (
            "least privilege: the host collector did not run: sudo python3 -m "
            "gdrcheck.host_collector --out /run/gdrcheck/host (from a checkout)"
        )


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"Module failed:\n no space", "the host collector failed: Module failed: no space"),
        (b"\xff\0", "the host collector failed: "),
        (b"", "the host collector failed: no reason given"),
    ],
)
def test_a_collector_that_failed_is_not_one_that_was_never_run(
    tmp_path: Path, said: bytes, expected: str
) -> None:
    (tmp_path / FOLDER).mkdir(parents=True)
    (tmp_path / FOLDER / FAILURE_FILE).write_bytes(said)
    found = collected.read(tmp_path)
    for value in (found.collector, found.value("os"), found.config_space(SLOT)):
        assert why(value).startswith(expected)
    assert Unreadable.model_validate_json(
        Unreadable(unreadable=why(found.collector)).model_dump_json()
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not JSON"),
        (b'{"version": 1, "ran_at', "not JSON"),
        (b"\xff\xfe\0", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"version": 1, "ran_at_s": NaN}', "not JSON"),
        (b'{"version": 1, "ran_at_s": 1e999}', "not JSON"),
        (b'{"version": 1, "ran_at_s": 1, "os": "\\ud800"}', "not JSON"),
        (b"[]", "not version 1 of its format"),
        (b"{}", "not version 1 of its format"),
        (b'{"version": 2, "ran_at_s": 1}', "not version 1 of its format"),
        (b'{"version": 1}', "ran_at_s or complaints of the wrong type"),
        (b'{"version": 1, "ran_at_s": "then"}', "ran_at_s or complaints of the wrong type"),
        (b'{"version": 1, "ran_at_s": 1, "complaints": "abc"}',
         "ran_at_s or complaints of the wrong type"),
        (b" " * (MAX_BYTES + 1), f"larger than {MAX_BYTES} bytes"),
    ],
)  # fmt: skip
def test_a_broken_file_is_unreadable_as_a_whole(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    found = left(tmp_path, content)
    assert found.values == {}
    for value in (found.collector, found.value("os"), found.config_space(SLOT)):
        assert why(value) == f"host.json: {reason}"


def test_a_folder_in_place_of_the_file(tmp_path: Path) -> None:
    (tmp_path / FOLDER / HOST_FILE).mkdir(parents=True)
    assert why(collected.read(tmp_path).collector) == "host.json: Is a directory"


@given(content=st.one_of(
    st.binary(max_size=200),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["version", "ran_at_s", "complaints", "os"]), inner),
        max_leaves=12,
    ).map(lambda value: json.dumps(value).encode()),
))  # fmt: skip
def test_whatever_the_file_holds_can_be_written_to_facts(
    content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = left(tmp_path_factory.mktemp("root"), content)
    found.collector.model_dump_json()
    found.value("os")
    json.dumps(found.values, allow_nan=False, ensure_ascii=False).encode()


class TestConfigSpace:
    def save(self, root: Path, content: bytes, **changes: Any) -> collected.Collected:
        folder = root / FOLDER / CONFIG_FOLDER
        folder.mkdir(parents=True)
        (folder / SLOT).write_bytes(content)
        return left(root, {**GOOD, **changes})

    def test_its_bytes(self, tmp_path: Path) -> None:
        assert self.save(tmp_path, b"\x5e\x19" * 3000).config_space(SLOT) == b"\x5e\x19" * 2048

    def test_that_is_empty(self, tmp_path: Path) -> None:
        assert why(self.save(tmp_path, b"").config_space(SLOT)) == f"config/{SLOT}: empty"

    @pytest.mark.parametrize("slot", ["../host.json", "", "/etc/passwd", f"{SLOT}\n", "41:00.0"])
    def test_of_what_is_no_function(self, tmp_path: Path, slot: str) -> None:
        found = self.save(tmp_path, b"x")
        assert "is no PCI function" in why(found.config_space(slot))

    @pytest.mark.parametrize(
        ("said", "reason"),
        [
            ({"saved": 0, "failed": {}}, f"config/{SLOT}: No such file or directory"),
            (None, f"config/{SLOT}: No such file or directory"),
            ({"saved": 0, "failed": []}, f"config/{SLOT}: No such file or directory"),
            ({"saved": 0, "failed": {SLOT: {"unreadable": "only 64 bytes"}}},
             f"host.json: config/{SLOT}: only 64 bytes"),
            ({"unreadable": "no answer within 90 s"},
             "host.json: config_spaces: no answer within 90 s"),
        ],
    )  # fmt: skip
    def test_that_is_missing_has_the_reason_that_the_collector_gave(
        self, tmp_path: Path, said: object, reason: str
    ) -> None:
        found = left(tmp_path, {**GOOD, "config_spaces": said})
        assert why(found.config_space(SLOT)) == reason


class TestAge:
    """Files of an earlier boot say nothing of the machine as it runs now."""

    BOOTED_S = int(GOOD["ran_at_s"]) - 10

    def read(self, root: Path, stat: bytes, **changes: Any) -> collected.Collected:
        (root / "proc").mkdir()
        (root / "proc/stat").write_bytes(stat)
        return left(root, {**GOOD, "os": "Some", **changes})

    def booted(self, at_s: float) -> bytes:
        # Of a machine with many interrupts: larger than what the other files may be.
        return b"cpu  1 2 3\nintr 5" + b" 0" * 200_000 + b"\nctxt 7\nbtime %d\n" % at_s

    def test_files_of_this_boot_are_taken(self, tmp_path: Path) -> None:
        assert self.read(tmp_path, self.booted(self.BOOTED_S)).value("os") == "Some"

    def test_files_of_an_earlier_boot_want_the_collector_again(self, tmp_path: Path) -> None:
        found = self.read(tmp_path, self.booted(GOOD["ran_at_s"] + 1))
        for value in (found.collector, found.value("os"), found.config_space(SLOT)):
            assert isinstance(value, Unreadable)
            assert value.privilege
            assert value.unreadable.startswith(
                "the host collector ran before this boot: run it again: sudo python3 -m "
            )

    @pytest.mark.parametrize(("ahead_s", "taken"), [(3600, True), (2 * 86_400, False)])
    def test_files_of_the_future_are_none(
        self, tmp_path: Path, ahead_s: float, taken: bool
    ) -> None:
        found = self.read(tmp_path, self.booted(self.BOOTED_S), ran_at_s=time.time() + ahead_s)
        value = found.value("os")
        assert (value == "Some") is taken
        if not taken:
            assert isinstance(value, Unreadable)
            assert value.privilege
            assert "ran in the future" in value.unreadable

    def test_a_time_of_boot_that_cannot_be_read_is_not_taken_for_an_early_one(
        self, tmp_path: Path
    ) -> None:
        assert "no btime" in why(self.read(tmp_path, b"cpu 1\nbtime x\n").value("os"))
        (tmp_path / "proc/stat").unlink()
        (tmp_path / "proc/stat").mkdir()
        assert "Is a directory" in why(collected.read(tmp_path).value("os"))
