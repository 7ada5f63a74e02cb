"""docs/lab.md tells of the file as the libraries read it."""

from __future__ import annotations

import re

import pytest
from cuda.bindings import driver

from lab.emulated_gpu.build import SOURCES
from lab.paths import REPOSITORY
from tests.emulated_gpu.emulation import Emulation, status

PAGE = (REPOSITORY / "docs" / "lab.md").read_text()
TABLES = (SOURCES / "gpu_values.h").read_text()
EFFECTS = (SOURCES / "config_parse.c").read_text()


def names(table: str) -> list[str]:
    rows = TABLES.partition(f"#define EMULATED_{table}_VALUES(V)")[2].partition("\n\n")[0]
    found = re.findall(r'V\(\w+, "([^"]*)"', rows)
    assert found
    return found


def test_every_value_of_a_gpu_is_listed() -> None:
    keys = names("GPU") + [f"nvlink N {name}".strip() for name in names("NVLINK")]
    assert [key for key in keys if f"`{key}`" not in PAGE] == []


def test_every_fault_is_listed() -> None:
    effects = re.findall(r'\{"([a-z_ ]+)", EMULATED_\w+, (?:true|false)\}', EFFECTS)
    assert effects
    assert [one for one in effects if f"`{one} = 1" not in PAGE] == []


@pytest.mark.usefixtures("context")
def test_the_example_is_a_file_without_mistakes(
    emulation: Emulation, capfd: pytest.CaptureFixture[str]
) -> None:
    example = PAGE.partition("```ini\n")[2].partition("```")[0]
    assert "[gpu 0]" in example
    emulation.write(example)
    assert status(driver.cuDriverGetVersion) == 0, capfd.readouterr().err
