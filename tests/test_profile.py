"""The profile's own rules: what selectors match, what counts as too little, equal digests."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from gdrcheck.profile import Gpus, NicSelector, Profile, Rails

RAILS = Rails(
    count=1, nics=(NicSelector(name="mlx5_*"),), port_rate_gbps=400, link_layer="ethernet"
)


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        (NicSelector(name="mlx5_*"), True),
        (NicSelector(name="mlx5_1"), False),
        (NicSelector(name="MLX5_*"), False),
        (NicSelector(slot="0000:17:*"), True),
        (NicSelector(netdev="eth[0-3]"), False),
    ],
)
def test_selector_matches_by_one_identity(selector: NicSelector, matches: bool) -> None:
    assert selector.matches(name="mlx5_0", slot="0000:17:00.0", netdev=None) is matches


@pytest.mark.parametrize("keys", [{}, {"name": "mlx5_0", "slot": "0000:17:00.0"}])
def test_selector_is_by_exactly_one_key(keys: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="exactly one of name, slot, netdev"):
        NicSelector(**keys)


def test_gpus_must_be_named_when_there_are_any() -> None:
    with pytest.raises(ValidationError, match="model is missing"):
        Gpus(count=8)
    assert Gpus(count=0).model is None


@pytest.mark.parametrize(
    ("profile", "missing"),
    [
        (Profile(), ("gpus", "rails")),
        (Profile(gpus=Gpus(count=0)), ("rails",)),
        (
            Profile(rails=Rails(count=1, nics=RAILS.nics)),
            ("gpus", "rails.port_rate_gbps", "rails.link_layer"),
        ),
        (Profile(gpus=Gpus(count=0), rails=RAILS), ()),
    ],
)
def test_missing_core_names_each_key_left_out(profile: Profile, missing: tuple[str, ...]) -> None:
    assert profile.missing_core() == missing


def test_gid_type_must_exist_on_the_link_layer() -> None:
    with pytest.raises(ValidationError, match="does not exist on rails"):
        Profile.model_validate({"rails": RAILS.model_dump(), "gid": {"type": "IB"}})


def test_digest_is_equal_for_equal_promises_only() -> None:
    explicit = Profile.model_validate({"matrix": "rails", "rails": RAILS.model_dump()})
    assert Profile(rails=RAILS).digest() == explicit.digest()
    assert Profile(rails=RAILS).digest() != Profile(rails=RAILS, matrix="full").digest()


@pytest.mark.parametrize(
    "name", ["x" * 65, "../../etc", "..", "mlx5/0", "mlx5 0", "mlx5_0]", "mlx5,1", ""]
)
def test_a_name_that_is_no_device_name_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        NicSelector(name=name)


@pytest.mark.parametrize("name", ["mlx5_bond_0", "rocep1s0f0", "x" * 64, "irdma-0", "mlx5_[0-3]"])
def test_a_name_that_may_be_one_is_taken(name: str) -> None:
    assert NicSelector(name=name).text() == f"name {name}"


@pytest.mark.parametrize("key", ["slot", "netdev"])
def test_no_selector_is_longer_than_a_name_may_be(key: str) -> None:
    with pytest.raises(ValidationError):
        NicSelector(**{key: "*" * 65})
