"""Lists of an InfiniBand fabric's links, as infiniband-diags prints them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrcheck.ib_links import IbLinks, parse
from gdrcheck.outcome import InputError

# The layout is that of infiniband-diags of rdma-core 50; GUIDs and names are made up.
IBNETDISCOVER = """#
# Topology file: generated on Mon Nov 30 10:00:00 2026
#
# Initiated from node a088c20300aa0001 port a088c20300aa0001

vendid=0x2c9
devid=0xd2f2
sysimgguid=0xfc6a1c0300bb0001
switchguid=0xfc6a1c0300bb0001(fc6a1c0300bb0001)
Switch\t65 "S-fc6a1c0300bb0001"\t\t# "MF0;leaf-1:MQM9700/U1" enhanced port 0 lid 3 lmc 0
[5]\t"H-a088c20300aa0001"[1](a088c20300aa0001) \t\t# "node1 mlx5_0" lid 17 4xNDR
[6]\t"S-fc6a1c0300bb0002"[7]\t\t# "spine-1" lid 4 4xNDR

vendid=0x2c9
devid=0x1021
sysimgguid=0xa088c20300aa0001
caguid=0xa088c20300aa0001
Ca\t1 "H-a088c20300aa0001"\t\t# "node1 mlx5_0"
[1](a088c20300aa0001) \t"S-fc6a1c0300bb0001"[5]\t\t# lid 17 lmc 0 "MF0;leaf-1:MQM9700/U1" lid 3 4xNDR

caguid=0xa088c20300aa0003
Ca\t2 "H-a088c20300aa0003"\t\t# "node2 mlx5_0"
[1](a088c20300aa0003) \t"S-fc6a1c0300bb0001"[65][ext 65]\t\t# lid 18 lmc 0 "leaf-1" lid 3 4xNDR
[2](a088c20300aa0004) \t"H-a088c20300aa0009"[1] (a088c20300aa0009) \t\t# lid 19 lmc 0 "x" lid 20 4xNDR
"""  # noqa: E501
IBLINKINFO = """CA: node1 mlx5_0:
      0xa088c20300aa0001     17    1[  ] ==( 4X        106.25 Gbps Active/  LinkUp)==>       3    5[  ] "MF0;leaf-1:MQM9700/U1" ( )
      0xa088c20300aa0002      0    2[  ] ==(                Down/ Polling)==>             [  ] "" ( )
Switch: 0xfc6a1c0300bb0001 MF0;leaf-1:MQM9700/U1:
           3    5[  ] ==( 4X        106.25 Gbps Active/  LinkUp)==>      17    1[  ] "node1 mlx5_0" ( )
           3    6[  ] ==( 4X        106.25 Gbps Active/  LinkUp)==>       4    7[  ] "spine-1" (Could be 8X )
           3    7[  ] ==(                Down/Disabled)==>             [  ] "" ( )
"""  # noqa: E501
IBLINKINFO_LINES = """0xa088c20300aa0001 "                  node1 mlx5_0"     17    1[  ] ==( 4X        106.25 Gbps Active/  LinkUp)==>  0xfc6a1c0300bb0001      3    5[  ] "MF0;leaf-1:MQM9700/U1" ( )
0xfc6a1c0300bb0001 "         MF0;leaf-1:MQM9700/U1"      3    5[  ] ==( 4X        106.25 Gbps Active/  LinkUp)==>  0xa088c20300aa0001     17    1[  ] "node1 mlx5_0" ( )
"""  # noqa: E501
NODE1, NODE2 = 0xA088C20300AA0001, 0xA088C20300AA0003


@pytest.mark.parametrize("text", [IBNETDISCOVER, IBLINKINFO, IBLINKINFO_LINES])
def test_each_form_tells_the_switch_by_its_guid(text: str) -> None:
    found = parse(text, "links.txt")[NODE1]
    assert (found.switch, found.port) == ("0xfc6a1c0300bb0001", "5")
    assert found.switch_name == "MF0;leaf-1:MQM9700/U1"
    assert found.source == "file"


def test_an_extended_port_is_read_and_one_to_no_switch_is_left_out() -> None:
    found = parse(IBNETDISCOVER, "links.txt")
    assert found[NODE2].port == "65"
    assert set(found) == {NODE1, NODE2}


def test_no_control_character_of_a_name_gets_through() -> None:
    found = parse(IBNETDISCOVER.replace('# lid 17 lmc 0 "MF0', '# lid 17 lmc 0 "\x1b[31mMF0'), "x")
    assert found[NODE1].switch_name == "[31mMF0;leaf-1:MQM9700/U1"


def test_a_port_that_is_down_has_no_neighbour() -> None:
    assert set(parse(IBLINKINFO, "links.txt")) == {NODE1}


def problems(text: str) -> tuple[str, ...]:
    with pytest.raises(InputError) as raised:
        parse(text, "links.txt")
    return raised.value.problems


@pytest.mark.parametrize("text", ["", "\n# nothing\n", "<html></html>", "Ca\t1 x\n[1](a1)\n"])
def test_another_file_is_refused(text: str) -> None:
    (line,) = problems(text)
    assert line.startswith("links.txt: names no port of an adapter")
    assert "ibnetdiscover" in line


def test_a_list_of_the_switches_alone_is_refused() -> None:
    assert "switches alone" in problems(IBLINKINFO[IBLINKINFO.index("Switch:") :])[0]


def test_switches_that_share_a_lid_cannot_be_told_apart_and_are_refused() -> None:
    second = IBLINKINFO[IBLINKINFO.index("Switch:") :].replace("bb0001 MF0;leaf-1", "bb0002 leaf-2")
    lines = problems(IBLINKINFO + second)
    assert "LID 3 is of two switches" in lines[0]


def test_lines_of_another_form_are_named_all_at_once() -> None:
    text = IBNETDISCOVER.replace("lid 17 lmc 0", "lid ?").replace("lid 18 lmc 0", "lid ?")
    first, second = problems(text)
    assert "line 19" in first
    assert "line 23" in second
    (cut,) = problems(IBLINKINFO.replace('"MF0;leaf-1:MQM9700/U1" ( )', '"MF0', 1))
    assert "line 2" in cut


def test_many_bad_lines_are_counted() -> None:
    text = "x ==( )==> y\n" * 20
    found = problems(text)
    assert len(found) == 6
    assert "and 15 more lines" in found[-1]


def parsed(text: str) -> IbLinks | str:
    """What ``parse`` makes of it, or its complaint."""
    try:
        return parse(text, "links.txt")
    except InputError as error:
        return str(error)


@given(st.data())
def test_of_a_list_that_ends_early_nothing_wrong_is_read(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([IBNETDISCOVER, IBLINKINFO, IBLINKINFO_LINES]))
    whole = parse(text, "links.txt")
    left = parsed(text[: data.draw(st.integers(0, len(text)))])
    assert isinstance(left, str) or left.items() <= whole.items()


@given(st.text(max_size=400))
def test_any_text_is_a_list_or_one_clear_error(text: str) -> None:
    found = parsed(text)
    assert not isinstance(found, str) or found.startswith("links.txt: ")


def test_a_port_that_is_at_two_places_is_refused_and_lists_of_two_fabrics_are_not() -> None:
    moved = IBNETDISCOVER.replace('bb0001"[5]\t\t#', 'bb0001"[9]\t\t#')
    (line,) = problems(IBNETDISCOVER + moved)
    assert "port GUID 0xa088c20300aa0001 is cabled to port 5 of" in line
    assert "and to port 9 of" in line
    other = IBNETDISCOVER.replace("00aa00", "00cc00").replace("00bb00", "00dd00")
    assert len(parse(IBNETDISCOVER + other, "links.txt")) == 4


def test_a_line_that_is_far_too_long_is_refused_before_it_is_looked_at() -> None:
    (line,) = problems(IBLINKINFO + " " * 200_000 + "x ==( )==>  x\n")
    assert "has 200013 characters" in line
