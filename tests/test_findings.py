"""The catalogue: complete, in shape, and every code that the software raises is in it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdrcheck.findings import catalogue, show
from gdrcheck.findings.model import CODE_PATTERN, Entry, Finding, Where
from gdrcheck.outcome import InputError
from gdrcheck.results.console import MAX_WIDTH

ROOT = Path(__file__).resolve().parents[1]
# What a module of the catalogue may hold.
AREAS_OF_MODULE = {
    "host": ("HOST",),
    "drv": ("DRV",),
    "gpu": ("GPU",),
    "gpu_cuda": ("GPU",),
    "gpu_memory": ("GPU",),
    "gpu_health": ("GPU",),
    "gpu_settings": ("GPU",),
    "gpu_links": ("GPU",),
    "pci": ("PCI",),
    "port": ("PORT",),
    "port_settings": ("PORT",),
    "port_counters": ("PORT",),
    "differences": ("PORT", "HOST", "GPU"),
    "fabric": ("FABRIC",),
    "mr": ("MR",),
    "mr_dmabuf": ("MR",),
    "mr_peermem": ("MR",),
    "mr_gpu": ("MR",),
    "mr_move": ("MR",),
    "pair": ("PAIR",),
    "pair_ends": ("PAIR",),
    "pair_gpu": ("PAIR",),
    "pair_numbers": ("PAIR",),
    "run": ("RUN",),
}
# Names of programs that are no English words: in a text they can only be a command.
TOOLS = re.sub(
    r"\s+",
    "|",
    """
    ansible-playbook apt-mark ausearch cat chronyc dcb depmod displaymodeselector dkms dmesg dnf
    dracut echo ethtool flint grep grubby ib_write_bw ibaddr iblinkinfo ibnetdiscover ibportstate
    ibstat ibtracert ibv_devices ibv_devinfo ibv_rc_pingpong ip ipmitool iptables journalctl ls
    lsmod lspci mlnx_qos mlxconfig mlxfwmanager mlxfwreset mlxlink modinfo modprobe mokutil nft
    nvidia-ctk nvidia-smi ofed_info perfquery ping ps python3 rdma readlink setpci sminfo smpquery
    ss sysctl systemctl taskset timedatectl uname update-grub update-initramfs zgrep""".strip(),
)
# Others are words too: they are a command with one of these behind them.
WORDS_OF_TOOLS = (
    "gdrcheck (?:explain|facts|topo|profile|inventory|variables)",
    "(?:podman|docker) (?:image|images|ps|pull|rm|info|system|run)",
    "(?:df|free|head|tail|sort|uniq) -",
)
NAMES = "|".join([TOOLS, *WORDS_OF_TOOLS])
COMMAND_LIKE = re.compile(rf"(?<![\w/.-])(?:{NAMES})(?![\w(-])")
# What stands in commands and settings, and never in a sentence: an option, =, *, |, $.
SHELL_LIKE = re.compile(r"(?<!\w)--?[a-zA-Z]|[=*|$]")
COMMAND = re.compile(r"`([^`]*)`")
each_entry = pytest.mark.parametrize("entry", catalogue.ENTRIES, ids=lambda entry: entry.code)


def test_each_code_is_defined_once() -> None:
    codes = [entry.code for entry in catalogue.ENTRIES]
    assert sorted(set(codes)) == sorted(codes)
    assert set(catalogue.ENTRIES_BY_CODE) == set(codes)


def test_each_code_is_in_the_module_of_its_area() -> None:
    for module in catalogue.AREAS:
        name = module.__name__.rpartition(".")[2]
        for entry in module.ENTRIES:
            assert entry.code.split("-")[0] in AREAS_OF_MODULE[name]


@each_entry
def test_each_entry_is_complete_and_reads_as_sentences(entry: Entry) -> None:
    assert re.fullmatch(CODE_PATTERN, entry.code)
    assert entry.causes
    assert entry.repair
    assert entry.source
    assert not entry.title.endswith(".")
    for sentence in (entry.meaning, entry.evidence, *entry.causes, *entry.repair):
        assert sentence.endswith("."), sentence
        assert "  " not in sentence, sentence


def texts(entry: Entry) -> tuple[str, ...]:
    return (entry.title, entry.meaning, entry.evidence, *entry.causes, *entry.repair)


def commands(entry: Entry) -> Iterator[str]:
    for text in texts(entry):
        yield from COMMAND.findall(text)


@each_entry
def test_each_command_stands_in_backticks(entry: Entry) -> None:
    for text in texts(entry):
        assert text.count("`") % 2 == 0, text
        prose = COMMAND.sub("", text)
        assert not COMMAND_LIKE.search(prose), text
        assert not SHELL_LIKE.search(prose), text


@pytest.mark.parametrize(
    "text",
    [
        "Read it: lspci -nn.",
        "Ask with sminfo, and read its log.",
        "Compare ip neigh.",
        "See gdrcheck topo.",
        "Start it with --network host.",
        "Put iommu=pt on it.",
        "Read /sys/kernel/iommu_groups/*/type.",
    ],
)
def test_a_command_without_backticks_is_found(text: str) -> None:
    assert COMMAND_LIKE.search(text) or SHELL_LIKE.search(text)


@pytest.mark.parametrize(
    "text", ["Use a newer rdma-core.", "Give it an IP address.", "By NCCL (dmesg(1)), or ib_core."]
)
def test_a_sentence_is_no_command(text: str) -> None:
    assert not COMMAND_LIKE.search(text)
    assert not SHELL_LIKE.search(text)


@each_entry
def test_each_command_can_be_copied_whole(entry: Entry) -> None:
    for command in commands(entry):
        assert command == command.strip(), command
        assert command, entry.code
        assert command[-1] not in ".,;", command
        assert shlex.split(command), command


@each_entry
def test_fabric_tools_are_told_which_port_to_ask(entry: Entry) -> None:
    """On a node with several adapters they ask the first one otherwise."""
    fabric = re.compile(r"(sminfo|ibportstate|perfquery|smpquery|ibtracert|iblinkinfo|ibping)\b")
    for command in commands(entry):
        if fabric.match(command):
            assert " -C DEVICE -P PORT" in command, command


@each_entry
def test_what_only_root_can_read_or_set_says_so(entry: Entry) -> None:
    """lspci leaves out the capabilities, silently, for others."""
    for step in entry.repair:
        if re.search(r"`lspci -vv|`setpci ", step):
            assert "root" in step, step


@each_entry
def test_firmware_is_burned_on_one_named_card(entry: Entry) -> None:
    for command in commands(entry):
        if re.match(r"(mlxfwmanager .*-u|flint .*burn|mlxfwreset|mlxconfig)\b", command):
            assert " -d SLOT " in command, command


@each_entry
def test_first_repair_fits_the_line_of_the_summary(entry: Entry) -> None:
    """The summary cuts its lines: a command that lost its end would do something else."""
    line = f"    first: {entry.repair[0]}  (gdrcheck explain {entry.code})"
    assert len(line) <= MAX_WIDTH, line


def test_every_code_that_is_raised_is_in_the_catalogue() -> None:
    quoted = re.compile(r'"(' + CODE_PATTERN.strip("^$") + r')"')
    raised: dict[str, Path] = {}
    for folder in ("gdrcheck", "checks", "playbooks"):
        for file in (ROOT / folder).rglob("*.py"):
            if file.parent.name != "findings":
                raised |= {found[0]: file for found in quoted.findall(file.read_text())}
    unknown = {code: str(file) for code, file in raised.items()}
    for code in catalogue.ENTRIES_BY_CODE:
        unknown.pop(code, None)
    assert unknown == {}
    assert raised


def test_entry_is_found_in_any_case() -> None:
    assert catalogue.entry("port-not-active").code == "PORT-NOT-ACTIVE"


def test_unknown_code_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"did you mean PORT-NOT-ACTIVE\?"):
        catalogue.entry("PORT-NOT-ACTIV")


def test_text_holds_causes_and_repairs_in_their_order() -> None:
    entry = catalogue.entry("MR-ENOMEM-MEMLOCK")
    text = " ".join(show.as_text(entry).split())
    positions = [text.index(part) for part in (entry.meaning, *entry.causes, *entry.repair)]
    assert positions == sorted(positions)


@each_entry
def test_text_and_page_show_each_command_in_one_piece(entry: Entry) -> None:
    text, page = show.as_text(entry), show.as_markdown([entry])
    for command in commands(entry):
        assert f"`{command}`" in text
        assert f"`{command}`" in page


def test_lines_break_between_words_and_never_within_a_command() -> None:
    command = f"`nvidia-smi {'--long-option ' * 9}-x`"
    lines = "\n".join(show.numbered(["A step of words, word-by-word, then " + command], 30))
    assert lines.splitlines() == [
        "  1. A step of words,",
        "     word-by-word, then",
        f"     {command}",
    ]


def test_page_escapes_markup_outside_of_commands_only() -> None:
    entry = catalogue.entry("MR-WRONG-RANGE").model_copy(
        update={
            "title": "Less than <1>",
            "meaning": "Any * of _this_ and aer_dev_fatal, but `ls *_*` stays.",
            "source": "notes [1]",
        }
    )
    page = show.as_markdown([entry])
    assert r"Any \* of \_this\_ and aer_dev_fatal, but `ls *_*` stays." in page
    assert r"Less than \<1\>" in page
    assert r"Source: notes \[1\]" in page


def test_page_of_findings_is_current() -> None:
    page = (ROOT / "docs" / "findings.md").read_text()
    assert page == show.as_markdown(catalogue.ENTRIES), (
        "run: gdrcheck explain --markdown > docs/findings.md"
    )


def test_finding_tells_place_observed_and_expected_in_one_line() -> None:
    finding = Finding(
        code="PORT-RATE-LOW",
        where=Where(node="node1", gpu="gpu0", nic="mlx5_0", peer="node2"),
        observed="200",
        expected="400",
        unit="Gb/s",
    )
    assert finding.text() == (
        "PORT-RATE-LOW at node1/gpu0/mlx5_0 (with node2): observed 200 Gb/s, expected 400 Gb/s"
    )
