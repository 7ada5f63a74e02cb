"""Reading profiles: all problems at once, each with file, line, key and the nearest known word."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gdrcheck import probes, rails
from gdrcheck.complaints import all_paths
from gdrcheck.outcome import InputError
from gdrcheck.profile import Profile
from gdrcheck.profile_file import load_profile, parse_profile, profile_names
from tests import facts as build
from tests.captured.machines import MACHINES

TODAY = date(2026, 11, 30)
GOOD = """\
gpus: {count: 8, model: "NVIDIA H200"}
rails:
  count: 8
  nics:
    - slot: 0000:17:00.0
    - name: mlx5_*
  port_rate_gbps: 400
  link_layer: infiniband
pkey: 0x8001
waivers:
  - code: PORT-RATE-LOW
    where: node7/*
    reason: transceiver is on its way
    until: 2026-11-30
"""
# Other work on a small machine must not fail these.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
SCHEMA = Profile.model_json_schema()
KEYS = sorted({path.rpartition(".")[2] for path in all_paths(SCHEMA)})


def problems(text: str, today: date = TODAY) -> tuple[str, ...]:
    with pytest.raises(InputError) as caught:
        parse_profile(dedent(text), "p.yml", today)
    return caught.value.problems


def test_good_file_gives_its_values_and_defaults() -> None:
    profile = parse_profile(GOOD, "p.yml", TODAY)
    assert profile.rails is not None
    assert [nic.text() for nic in profile.rails.nics] == ["slot 0000:17:00.0", "name mlx5_*"]
    assert profile.pkey == 0x8001
    assert profile.waivers[0].until == TODAY
    assert profile.registration == "any"
    assert profile.missing_core() == ()


def test_all_problems_of_a_file_are_reported_at_once_in_its_order() -> None:
    assert problems(
        """\
        gpsu:
          count: 8
        rails:
          cuont: 8
          nics:
            - mlx5_0
          port_rate_gbps: "400"
          link_layer: ethernett
        traffic_class: 256
        pkey: 08001
        matrix:
        matrix: full
        """
    ) == (
        "p.yml:1: gpsu: unknown key; did you mean gpus?",
        "p.yml:4: rails.cuont: unknown key; did you mean count?",
        'p.yml:6: rails.nics[0]: is "mlx5_0"; '
        "expected a mapping with keys such as name, slot, netdev, port",
        'p.yml:7: rails.port_rate_gbps: is "400"; expected a number above 0',
        'p.yml:8: rails.link_layer: is "ethernett"; expected one of infiniband, ethernet; '
        "did you mean ethernet?",
        "p.yml:9: traffic_class: is 256; expected a whole number from 0 to 255",
        "p.yml:10: pkey: 08001 starts with 0, which some read as octal; expected 8001, "
        "or hexadecimal as 0x1f41",
        "p.yml:11: matrix: given again in line 12, first in line 11; expected once",
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "p.yml:1: is empty; expected a mapping of keys to values"),
        ("# nothing\n", "p.yml:1: is empty; expected a mapping of keys to values"),
        ("- a\n", "p.yml:1: is not a mapping; expected keys such as gpus and rails"),
        ("rails:\n", "p.yml:1: rails: has no value; expected one, or leave the key out"),
        (
            "gpus:\n  count: 8\n  model:\n",
            "p.yml:3: gpus.model: has no value; expected one, or leave the key out",
        ),
        ("matrix: on\n", 'p.yml:1: matrix: is "on"; expected one of rails, full'),
        ("pkey: true\n", "p.yml:1: pkey: is true; expected a whole number from 1 to 65535"),
        ("pkey: 1.5\n", "p.yml:1: pkey: is 1.5; expected a whole number from 1 to 65535"),
        (
            "link_layer: ethernet\n",
            "p.yml:1: link_layer: unknown key; expected one of gpus, rails, registration, matrix, "
            "pairs, cross_rail, modes, transfers, gid, traffic_class, service_level, pkey, "
            "path_mtu, factors, latency_limit_us, expect, waivers; did you mean rails.link_layer?",
        ),
        (
            "expect: {kernal: 6.8*}\n",
            "p.yml:1: expect.kernal: unknown key; did you mean kernel?",
        ),
        (
            "expect: {cuda: 12.4}\n",
            'p.yml:1: expect.cuda: is 12.4; expected a version as text, for example "12.4"; '
            'put it in quotes: "12.4"',
        ),
        (
            "expect: {driver: 580.10}\n",
            "p.yml:1: expect.driver: is 580.10; expected text that is not empty; "
            'put it in quotes: "580.10"',
        ),
        (
            "expect: {kernel: true}\n",
            "p.yml:1: expect.kernel: is true; expected text that is not empty; "
            'put it in quotes: "true"',
        ),
        (
            "expect: {command_line: [iommu=pt quiet]}\n",
            "p.yml:1: expect.command_line[0]: has white space in it, which no word of a command "
            "line has; expected each word as an entry of its own",
        ),
        (
            "registration: both\nexpect: {open_module: false}\n",
            "p.yml:2: expect.open_module: is false, but registration both needs the open kernel "
            "module; expected true, or registration peermem or any",
        ),
        (
            "expect: {gpus: 8}\n",
            "p.yml:1: expect.gpus: unknown key; expected one of os, kernel, command_line, modules, "
            "iommu, ofed, firmware, driver, cuda, open_module, fabric_manager, mig, bar1_bytes, "
            "vbios, ecc, compute_mode, persistence, confidential_computing, power_limit_w, "
            "nvlinks, peer_access, mtu_bytes, rail_distance, nic_link, gpu_link, uplink, "
            "acs_redirect, relaxed_ordering, max_payload_bytes, max_read_request_bytes; "
            "did you mean gpus, not indented?",
        ),
        (
            "expect: {modules: [ib-core]}\n",
            'p.yml:1: expect.modules[0]: is "ib-core"; '
            "expected a module's name as in lsmod: a-z, 0-9 and _",
        ),
        (
            "expect: {nic_link: {speed_gts: 30}}\n",
            "p.yml:1: expect.nic_link.speed_gts: is 30; expected one of 2.5, 5, 8, 16, 32, 64",
        ),
        (
            "expect: {nic_link: {width: 12}}\n",
            "p.yml:1: expect.nic_link.width: is 12; expected one of 1, 2, 4, 8, 16",
        ),
        (
            "expect: {rail_distance: SISTER}\n",
            'p.yml:1: expect.rail_distance: is "SISTER"; expected one of PIX, PXB, PHB, NODE, SYS',
        ),
        (
            "gpus: {count: 8}\n",
            "p.yml:1: gpus: model is missing; expected the name of the GPUs that were bought, for "
            'example "NVIDIA H200"',
        ),
        (
            "rails: {count: 1, nics: []}\n",
            "p.yml:1: rails.nics: is an empty list; expected a list with at least one entry",
        ),
        (
            "a: &x 1\n",
            "p.yml:1: anchor or alias 'x'; expected the value itself, written out",
        ),
        ("a: !!str 1\n", "p.yml:1: tag 'tag:yaml.org,2002:str'; expected plain YAML without tags"),
        ("---\na: 1\n---\nb: 2\n", "p.yml: 2 YAML documents; expected one"),
        ("latency_limit_us: 1e999\n", "p.yml:1: latency_limit_us: 1e999 is too large a number"),
    ],
)
def test_one_mistake_gives_one_line(text: str, problem: str) -> None:
    assert problems(text) == (problem,)


@pytest.mark.parametrize(
    ("word", "meant"),
    [("driver", "driver"), ("kernal", "kernel"), ("fabricmanager", "fabric_manager")],
)
def test_key_without_its_expect_is_found_there(word: str, meant: str) -> None:
    (problem,) = problems(f"{word}: 580\n")
    assert problem.startswith(f"p.yml:1: {word}: unknown key; expected one of gpus, rails, ")
    assert problem.endswith(f"; did you mean expect.{meant}?")


@pytest.mark.parametrize("registration", ["any", "peermem"])
def test_the_proprietary_module_goes_with_what_it_can_do(registration: str) -> None:
    text = f"registration: {registration}\nexpect: {{open_module: false}}\n"
    assert parse_profile(text, "p.yml", TODAY).expect.open_module is False


def test_facts_in_place_of_a_profile_are_one_line() -> None:
    assert problems(build.facts().model_dump_json(indent=1)) == (
        "p.yml: this is a facts.json, no profile; gdrcheck profile --from p.yml writes a first "
        "profile from it",
    )
    assert problems('{"schema_version": 1, "verdict": "PASS"}') == (
        "p.yml: this is JSON that gdrcheck wrote, no profile",
    )


def test_a_profile_may_be_json() -> None:
    text = Profile().model_dump_json(exclude_none=True)
    assert parse_profile(text, "p.yml", TODAY) == Profile()


def test_contradicting_promises_are_told_at_once_each_at_its_line() -> None:
    assert problems(
        """\
        gpus: {count: 2, model: NVIDIA H200}
        rails:
          count: 4
          nics:
            - {name: mlx5_0, gpu: 1}
            - {name: mlx5_1, gpu: 1}
            - {name: mlx5_2, gpu: 2}
            - {name: mlx5_1*, gpu: 0}
          link_layer: infiniband
        gid: {type: RoCE v2}
        """
    ) == (
        "p.yml:6: rails.nics[1].gpu: is 1, as for rails.nics[0]; expected each GPU once",
        "p.yml:7: rails.nics[2].gpu: is 2, but gpus.count is 2; expected 0 to 1",
        "p.yml:8: rails.nics[3].gpu: goes with one NIC, but name mlx5_1* may be several; name one",
        "p.yml:10: gid.type: RoCE v2 does not exist on rails.link_layer infiniband; "
        "expected one of IB, auto",
    )


def test_what_is_expected_of_gpus_needs_gpus() -> None:
    text = """        gpus: {count: 0}
        expect:
          kernel: 6.8*
          driver: 580.*
          fabric_manager: active
          rail_distance: PIX
        """
    assert problems(text) == tuple(
        f"p.yml:{line}: expect.{key}: is about GPUs, but gpus.count is 0; "
        f"expected GPUs, or no {key}"
        for line, key in ((4, "driver"), (5, "fabric_manager"), (6, "rail_distance"))
    )
    assert problems("expect: {rail_distance: PIX}\n") == (
        "p.yml:1: expect.rail_distance: is between a rail's GPU and its NIC, but gpus is left out; "
        "expected gpus, or no rail_distance",
    )


@pytest.mark.parametrize("text", ['"a\\nb\\x1b": 1\n', 'matrix: "a\\nb\\u2028\\x9b"\n'])
def test_line_breaks_and_escapes_in_a_file_do_not_reach_the_terminal(text: str) -> None:
    (problem,) = problems(text)
    assert problem.isprintable()


@pytest.mark.parametrize(
    ("text", "line"),
    [("a: [1,\n", 2), ("a:\n\tb: 1\n", 2), ("a: 1\n b: 2\n", 2), ('a: "x\n', 2), ("a: \x07\n", 1)],
)
def test_syntax_errors_name_file_and_line(text: str, line: int) -> None:
    (problem,) = problems(text)
    assert problem.startswith(f"p.yml:{line}: ")


def test_deep_nesting_is_refused() -> None:
    assert problems("[" * 5000 + "]" * 5000) == ("p.yml:1: nested deeper than 20 levels",)


def test_waiver_of_an_unknown_code_names_the_nearest() -> None:
    text = GOOD.replace("PORT-RATE-LOW", "PORT-RAT-LOW")
    assert problems(text) == (
        'p.yml:11: waivers[0].code: "PORT-RAT-LOW" is no code; '
        "expected one of gdrcheck explain --list; did you mean PORT-RATE-LOW?",
    )


def test_waiver_ends_after_its_last_day() -> None:
    assert parse_profile(GOOD, "p.yml", date(2026, 11, 30)).waivers
    (problem,) = problems(GOOD, today=date(2026, 12, 1))
    assert problem.startswith(
        "p.yml:14: waivers[0].until: the waiver of PORT-RATE-LOW expired on 2026-11-30; expected"
    )


def test_waiver_without_reason_or_real_day_is_refused() -> None:
    text = GOOD.replace("transceiver is on its way", '""').replace("2026-11-30", "2026-11-31")
    assert problems(text) == (
        'p.yml:13: waivers[0].reason: is ""; expected text that is not empty',
        'p.yml:14: waivers[0].until: is "2026-11-31"; expected a day as YYYY-MM-DD',
    )


def test_file_that_cannot_be_read_is_one_problem(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yml: cannot be read: No such file"):
        load_profile(tmp_path / "none.yml", TODAY)
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        load_profile(tmp_path, TODAY)


def test_file_that_is_not_utf8_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "p.yml").write_bytes(b"gpus:\n  model: caf\xe9\n")
    with pytest.raises(InputError, match=r"p\.yml:2: not UTF-8 text \(byte 0xe9\)"):
        load_profile(tmp_path / "p.yml", TODAY)


def test_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    (tmp_path / "p.yml").write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert load_profile(tmp_path / "p.yml", TODAY) == parse_profile(GOOD, "p.yml", TODAY)


def test_huge_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.yml").write_bytes(b"#" * (2 << 20))
    with pytest.raises(InputError, match="larger than"):
        load_profile(tmp_path / "p.yml", TODAY)


def test_profile_names_are_the_files_that_exist(tmp_path: Path) -> None:
    for name in ("b.yml", "a.yml", ".c.yml", "d.txt"):
        (tmp_path / name).touch()
    assert profile_names((tmp_path, tmp_path / "none")) == ("a", "b")


EXAMPLES = Path(__file__).resolve().parents[1] / "inventory.example/profiles"


def uncommented(text: str, key: str) -> str:
    """``text`` with the block of ``key``, which is a comment there, made real."""
    before, found, block = text.partition(f"\n# {key}:\n")
    lines = block.partition("\n\n")[0].splitlines()
    return "\n".join([before, f"{key}:" if found else "", *(line[2:] for line in lines), ""])


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yml")), ids=lambda path: path.stem)
def test_examples_are_valid_also_with_what_they_show_as_comment(path: Path) -> None:
    assert load_profile(path, TODAY).missing_core() == ()
    shown = parse_profile(uncommented(path.read_text(), "expect"), path.name, TODAY)
    assert shown.expect.model_fields_set


def test_an_example_explains_every_value_to_expect_and_who_can_read_it() -> None:
    text = (EXAMPLES / "h200_ib.yml").read_text()
    expect = parse_profile(uncommented(text, "expect"), "example", TODAY).expect
    assert expect.model_fields_set == set(type(expect).model_fields)
    starred = re.findall(r"^#   (\w+):.*# \*", text, re.MULTILINE)
    assert tuple(f"expect.{key}" for key in starred) == expect.needs_collector()


def test_example_and_manual_name_the_rails_of_a_dgx(tmp_path: Path) -> None:
    machine = MACHINES["dgx"]()
    facts = probes.collect("node1", machine.write(tmp_path))
    example = load_profile(EXAMPLES / "h200_ib.yml", TODAY)
    assert [rail.nic for rail in rails.resolve(example, facts)] == [
        rail.nic for rail in machine.rails
    ]
    manual = (EXAMPLES.parents[1] / "docs/usage.md").read_text()
    block = re.search(r"```yaml\n(gpus:.*?)```", manual, re.DOTALL)
    assert block is not None
    assert parse_profile(block[1], "usage.md", TODAY).rails == example.rails


def outcome_of(text: str) -> Profile | InputError:
    """What reading ``text`` comes to; any other exception is a fault."""
    try:
        return parse_profile(text, "p.yml", TODAY)
    except InputError as error:
        return error


def assert_profile_or_lines(text: str) -> None:
    outcome = outcome_of(text)
    if isinstance(outcome, InputError):
        assert outcome.problems
        for line in outcome.problems:
            assert line.startswith("p.yml"), line
            assert len(line.splitlines()) == 1, line


@unhurried
@given(st.text(max_size=60))
def test_any_text_gives_a_profile_or_problems(text: str) -> None:
    assert_profile_or_lines(text)


@unhurried
@given(st.text(alphabet="ab:-[]{}#&*!|>'\"%@`,? \n\t0x.1e\\U", max_size=40))
def test_any_yaml_punctuation_gives_a_profile_or_problems(text: str) -> None:
    assert_profile_or_lines(text)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.dates()
    | st.text("aé0: ", max_size=5)
)
VALUES = st.recursive(
    SCALARS,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(KEYS), below),
    max_leaves=8,
)


@unhurried
@given(st.dictionaries(st.sampled_from([*KEYS, "on", "x"]), VALUES, max_size=5))
def test_any_yaml_document_gives_a_profile_or_problems(data: dict[str, object]) -> None:
    assert_profile_or_lines(yaml.safe_dump(data))


@unhurried
@given(st.sampled_from(sorted(Profile.model_fields)), st.data())
def test_key_with_one_letter_missing_is_named_with_its_neighbour(
    key: str, data: st.DataObject
) -> None:
    index = data.draw(st.integers(1, len(key) - 1))
    mistyped = key[:index] + key[index + 1 :]
    (problem,) = problems(f"{json.dumps(mistyped)}: 1\n")
    assert problem == f"p.yml:1: {mistyped}: unknown key; did you mean {key}?"
