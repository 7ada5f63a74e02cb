"""Numbers in words."""

from __future__ import annotations

import pytest

from gdrcheck.verbs.errors import error_text, status_name


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (12, "ENOMEM (Cannot allocate memory)"),
        (95, "EOPNOTSUPP (Operation not supported)"),
        (93, "EPROTONOSUPPORT (Protocol not supported)"),
        (524, "errno 524 (Unknown error 524)"),
    ],
)
def test_an_errno_has_the_name_that_people_look_for(number: int, text: str) -> None:
    assert error_text(number) == text


def test_a_status_that_is_not_known_keeps_its_number() -> None:
    assert (status_name(12), status_name(99)) == ("RETRY_EXC_ERR", "status 99")
