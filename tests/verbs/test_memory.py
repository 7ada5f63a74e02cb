"""Registrations by each method: addresses, refusals, undoing."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from tests.verbs import fake_pyverbs


def memory() -> Any:
    return fake_pyverbs.load("gdrcheck.verbs.memory")


def verbs_error() -> Any:
    return fake_pyverbs.load("gdrcheck.verbs.errors").VerbsError


@pytest.mark.usefixtures("fake_device")
def test_a_piece_of_a_region_is_addressed_from_where_the_region_is() -> None:
    region = memory().Registration(4660, 100, 4660, 100, 1, 2)
    assert region.at(0, 100) == 4660
    assert region.at(99, 1) == 4759
    assert region.at(100, 0) == 4760


@pytest.mark.usefixtures("fake_device")
@pytest.mark.parametrize(("offset", "length"), [(0, 101), (100, 1), (-1, 5), (5, -1), (101, 0)])
def test_a_piece_that_is_not_inside_has_no_address(offset: int, length: int) -> None:
    region = memory().Registration(0, 100, 0, 100, 1, 2)
    with pytest.raises(ValueError, match="not within a region of 100 bytes"):
        region.at(offset, length)


def test_host_memory_registers_where_it_is(fake_device: Any) -> None:
    with memory().register_host(fake_device, 12_345) as region:
        assert region.requested_address == region.address > 0
        assert region.requested_bytes == region.length_bytes == 12_345
        assert "mr" in fake_pyverbs.nic.alive


def test_a_region_is_deregistered_when_its_block_fails(fake_device: Any) -> None:
    with pytest.raises(ZeroDivisionError), memory().register_host(fake_device, 4096):
        raise ZeroDivisionError
    assert "mr" not in fake_pyverbs.nic.alive


def test_a_region_that_cannot_be_deregistered_says_so(fake_device: Any) -> None:
    region = memory().register_host(fake_device, 4096)
    region.__enter__()
    fake_pyverbs.nic.refuses["dereg_mr"] = errno.EBUSY
    with pytest.raises(verbs_error(), match="ibv_dereg_mr on sim0: EBUSY") as told:
        region.__exit__(None, None, None)
    assert told.value.error_number == errno.EBUSY
    fake_pyverbs.nic.alive.remove("mr")


@pytest.mark.parametrize("number", [errno.EBADF, errno.EOPNOTSUPP, errno.EPROTONOSUPPORT])
def test_the_probe_tells_the_errno(fake_device: Any, number: int) -> None:
    if number != errno.EBADF:
        fake_pyverbs.nic.refuses["reg_dmabuf_mr"] = number
    assert memory().dmabuf_probe_errno(fake_device) == number


def test_a_probe_that_fails_without_an_errno_is_no_answer(fake_device: Any) -> None:
    fake_pyverbs.nic.refuses["reg_dmabuf_mr"] = -1
    with pytest.raises(verbs_error(), match="ibv_reg_dmabuf_mr"):
        memory().dmabuf_probe_errno(fake_device)


def test_a_refused_device_pointer_names_call_size_and_errno(fake_device: Any) -> None:
    fake_pyverbs.nic.refuses["reg_mr"] = errno.EFAULT
    with pytest.raises(
        verbs_error(), match=r"ibv_reg_mr 1 GiB at device pointer 0x7f0000000000 on sim0: EFAULT"
    ):
        memory().register_peermem(fake_device, 0x7F00_0000_0000, 1 << 30).__enter__()
