"""Addresses of interfaces, asked of the kernel."""

from __future__ import annotations

import socket

import pytest

from gdrcheck.probes.addresses import ipv4_addresses


def test_the_loopback_interface_has_its_address() -> None:
    assert ipv4_addresses()["lo"] == "127.0.0.1"


def test_an_interface_without_an_address_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "lo"), (99, "nosuch0")])
    assert ipv4_addresses() == {"lo": "127.0.0.1"}
