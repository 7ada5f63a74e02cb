"""The published schemas: current, valid, and true of what gdrcheck itself writes."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from gdrcheck import schemas
from gdrcheck.outcome import InputError
from gdrcheck.profile import Profile

PUBLISHED = Path(__file__).resolve().parents[1] / "schemas"


@pytest.mark.parametrize("name", schemas.names())
def test_published_schema_is_current(name: str) -> None:
    assert (PUBLISHED / f"{name}.json").read_text() == schemas.schema_text(name), (
        "run: gdrcheck schema --write schemas"
    )


def test_no_other_schema_is_published() -> None:
    assert sorted(file.stem for file in PUBLISHED.iterdir()) == list(schemas.names())


@pytest.mark.parametrize("name", schemas.names())
def test_schema_is_a_valid_one(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(schemas.schema_text(name)))


def test_profile_schema_takes_profiles_and_refuses_unknown_keys() -> None:
    validator = jsonschema.Draft202012Validator(json.loads(schemas.schema_text("profile")))
    assert validator.is_valid(Profile().model_dump(mode="json"))
    assert not validator.is_valid({"gpsu": {"count": 8}})


def test_unknown_schema_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"did you mean profile\?"):
        schemas.schema_text("profil")


def test_folder_that_cannot_be_written_is_one_problem(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file: cannot be written: File exists"):
        schemas.write(tmp_path / "file")
