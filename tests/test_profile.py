"""The profile's own rules: what selectors match, what counts as too little, equal digests."""

from __future__ import annotations

import re

import pytest
from pydantic import ValidationError

from gdrcheck.expect import Expect
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


H200S = {"count": 2, "model": "NVIDIA H200"}


def rails_with_gpus(*gpus: int | None) -> dict[str, object]:
    nics = [{"name": f"mlx5_{index}", "gpu": gpu} for index, gpu in enumerate(gpus)]
    return {"count": len(gpus), "nics": nics}


@pytest.mark.parametrize("gpus", [H200S, None])
def test_each_rail_may_name_a_gpu_of_its_own(gpus: dict[str, object] | None) -> None:
    profile = Profile.model_validate({"gpus": gpus, "rails": rails_with_gpus(1, 0, None)})
    assert profile.rails is not None
    assert [nic.gpu for nic in profile.rails.nics] == [1, 0, None]


@pytest.mark.parametrize(
    ("gpus", "named", "said"),
    [
        (H200S, (0, 2), r"is 2, but gpus\.count is 2; expected 0 to 1"),
        ({"count": 0}, (0,), r"is 0, but gpus\.count is 0; expected GPUs, or no gpu"),
        ({"count": 1, "model": "x"}, (1,), r"gpus\.count is 1; expected 0$"),
        (H200S, (1, 1), r"is 1, as for rails\.nics\[0\]; expected each GPU once"),
        (None, (1, 1), r"is 1, as for rails\.nics\[0\]"),
    ],
)
def test_gpus_of_rails_that_cannot_be_are_refused(
    gpus: dict[str, object] | None, named: tuple[int, ...], said: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        Profile.model_validate({"gpus": gpus, "rails": rails_with_gpus(*named)})
    (error,) = caught.value.errors()
    assert re.search(said, error["msg"])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("driver", "580.*"),
        ("cuda", "12.4"),
        ("open_module", False),
        ("fabric_manager", "absent"),
        ("mig", "disabled"),
        ("bar1_bytes", 1),
        ("vbios", "96.*"),
        ("ecc", "enabled"),
        ("compute_mode", "default"),
        ("persistence", "on"),
        ("confidential_computing", "off"),
        ("power_limit_w", 700),
        ("nvlinks", 18),
        ("peer_access", "all"),
        ("rail_distance", "SYS"),
        ("gpu_link", {}),
    ],
)
def test_no_value_of_a_gpu_is_expected_where_none_is_promised(key: str, value: object) -> None:
    expect = {key: value, "kernel": "6.8*"}
    with pytest.raises(ValidationError, match=rf"is about GPUs.*or no {key} "):
        Profile.model_validate({"gpus": {"count": 0}, "expect": expect})
    assert Profile.model_validate({"gpus": H200S, "expect": expect}).expect.kernel == "6.8*"


@pytest.mark.parametrize(
    ("gpus", "mig", "said"),
    [(1, None, "gpus.count is 1; expected no peer_access"), (2, "enabled", "expect.mig enabled")],
)
def test_gpus_that_can_have_no_peers_are_promised_none(
    gpus: int, mig: str | None, said: str
) -> None:
    expect = {"peer_access": "all", "mig": mig}
    with pytest.raises(ValidationError, match=said):
        Profile.model_validate({"gpus": H200S | {"count": gpus}, "expect": expect})


def test_what_only_the_collector_reads_is_named() -> None:
    assert Expect(kernel="6.8*").needs_collector() == ()
    assert Expect(relaxed_ordering=False, os="Debian*").needs_collector() == (
        "expect.os",
        "expect.relaxed_ordering",
    )


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


@pytest.mark.parametrize("key", ["name", "slot", "netdev"])
def test_a_device_serves_one_rail(key: str) -> None:
    value = {"name": "mlx5_0", "slot": "0000:1a:00.0", "netdev": "eth1"}[key]
    nics = [{key: value, "port": 1}, {key: value, "port": 2}]
    with pytest.raises(ValidationError, match=r"named by rails\.nics\[0\] as well"):
        Profile.model_validate({"rails": {"count": 2, "nics": nics}})
