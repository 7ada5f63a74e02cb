"""What a case says of an attempt and of transfers: every measurement, in words."""

from __future__ import annotations

from dataclasses import replace

from gdrcheck import told
from gdrcheck.registration import Refusal, Support
from tests.captured.gpu_stand_in import movement, whole_attempt

KNOWN = Support(dmabuf_errno=9, dmabuf_attribute=True, gdr_attribute=True)


def test_an_export_a_registration_and_its_end_have_their_times_by_size() -> None:
    said = dict(told.attempt(whole_attempt("dmabuf", KNOWN)))
    assert said["method"] == "dmabuf"
    assert said["sizes tried"] == "64 KiB, 2 MiB, 1 GiB"
    assert said["mapping of the export"] == "plain"
    assert said["whole 1 GiB"] == "export 15 us, register 200 us, deregister 100 us"
    assert said["first neighbour 4097 B"].startswith("export")
    assert said["registered 64 times"] == "200 to 201 us"
    assert "limited by" not in said


def test_peermem_exports_nothing() -> None:
    said = dict(told.attempt(whole_attempt("peermem", KNOWN)))
    assert said["whole 64 KiB"] == "register 200 us, deregister 100 us"
    assert "mapping of the export" not in said


def test_what_limited_the_sizes_is_said() -> None:
    limited = replace(whole_attempt("dmabuf", KNOWN), limited_by="BAR1 has 256 MiB")
    assert dict(told.attempt(limited))["limited by"] == "BAR1 has 256 MiB"
    refused = whole_attempt("dmabuf", KNOWN, Refusal("register", "EFAULT", 14))
    assert "limited by" not in dict(told.attempt(replace(refused, limited_by="1 GiB asked")))


def test_an_attempt_that_was_refused_at_once_tells_what_was_tried() -> None:
    refused = whole_attempt("peermem", KNOWN, Refusal("register", "EFAULT", 14))
    assert dict(told.attempt(refused)) == {"method": "peermem", "sizes tried": "64 KiB"}


def test_what_moved_is_told_by_way_and_operation() -> None:
    said = dict(told.movement(movement("dmabuf")))
    assert said["gpu to host by READ"] == "65537 B"
    assert len([name for name in said if " by " in name]) == 6
    assert said["flush"] == "flushed"
    assert "mapping of the export" not in said
    mapped = replace(movement("dmabuf"), flag="pcie")
    assert dict(told.movement(mapped))["mapping of the export"] == "pcie"


def test_nothing_moved_is_told_as_nothing() -> None:
    nothing = replace(movement("dmabuf"), moved=())
    assert told.movement(nothing) == [("method", "dmabuf"), ("flush", "none")]


def test_a_mapping_that_was_refused_before_is_told() -> None:
    made = whole_attempt("dmabuf", KNOWN)
    regions = tuple(replace(one, other_refused="pcie: no") for one in made.regions)
    assert dict(told.attempt(replace(made, regions=regions)))["the other mapping"] == "pcie: no"
    assert "the other mapping" not in dict(told.attempt(made))
