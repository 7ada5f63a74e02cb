"""The folder of a run on the controller: what a merge reads there, keeps there, and removes."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import ValidationError

from gdrcheck import ib_links as links
from gdrcheck import run
from gdrcheck.outcome import InputError
from gdrcheck.results import states
from gdrcheck.results.files import read_limited, write_atomic
from gdrcheck.results.plain import one_line
from gdrcheck.results.states import SeenStates
from gdrcheck.run import RunSpec

RUN_FILE = "run.json"
STATES_FILE = "states.json"
SECRET_FILE = "secret"
LATEST = "latest"
IB_LINKS_FILE = "ib_links.txt"
MAX_RUN_BYTES = 64 * 1024 * 1024
MAX_STATES_BYTES = 64 * 1024 * 1024
MAX_KEYS = 5
EXPECTED = f"expected a folder of results, results/RUN-ID, with {RUN_FILE}"


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """No two processes write the results of ``folder`` at once. InputError when another one does.

    Where it cannot be locked, as on some network file systems, nothing is known of others.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        # Who reads the folder says what is wrong with it.
        yield
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(
                f"{folder}: another process is merging it; wait until it has ended"
            ) from error
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP):
                raise
        yield
    finally:
        os.close(descriptor)


def read_run(folder: Path) -> RunSpec:
    """The run that ``folder`` is of. InputError, one line, if it is not the folder of a run."""
    if not folder.is_dir():
        what = "not a folder" if folder.exists() else "no such folder"
        raise InputError(f"{folder}: {what}; {EXPECTED}")
    try:
        return run.RunSpec.model_validate_json(read_limited(folder / RUN_FILE, MAX_RUN_BYTES))
    except FileNotFoundError as error:
        raise InputError(f"{folder}: holds no {RUN_FILE}; {EXPECTED}") from error
    except OSError as error:
        problem = f"{RUN_FILE} cannot be read: {error.strerror}"
    except ValidationError as error:
        problem = _problem(error)
    except ValueError as error:
        problem = str(error)
    raise InputError(f"{folder}: {problem}; {EXPECTED} as gdrcheck prepare wrote it")


def _problem(error: ValidationError) -> str:
    """Which keys are wrong, not how: the file is a program's, so nobody is to mend it by hand."""
    found = error.errors(include_url=False, include_input=False)
    keys = dict.fromkeys(".".join(map(str, one["loc"])) for one in found if one["loc"])
    if not keys:
        return f"{RUN_FILE} is not a JSON object"
    more = f" and {len(keys) - MAX_KEYS} more" if len(keys) > MAX_KEYS else ""
    shown = one_line(", ".join(list(keys)[:MAX_KEYS]))
    return f"{RUN_FILE} has keys that are missing, unknown or wrong: {shown}{more}"


def kept_states(folder: Path) -> SeenStates:
    """The states that an earlier merge kept; those of nobody if none did. InputError if damaged."""
    path = folder / STATES_FILE
    try:
        return states.parse(read_limited(path, MAX_STATES_BYTES), str(path))
    except FileNotFoundError:
        return SeenStates()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{folder}: {error}") from error


def keep_states(folder: Path, seen: SeenStates) -> None:
    """Keep ``seen``, so that a later merge of ``folder`` knows what this one was told."""
    text = json.dumps(seen.model_dump(mode="json"), indent=2, sort_keys=True)
    write_atomic(folder / STATES_FILE, text.encode() + b"\n")


def ib_links(folder: Path) -> links.IbLinks | None:
    """The links of the InfiniBand fabric that the run was given; None if it was given none.

    InputError if the file is damaged.
    """
    path = folder / IB_LINKS_FILE
    try:
        data = read_limited(path, links.MAX_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{folder}: {error}") from error
    return links.parse(data.decode("utf-8", "replace"), str(path))


def point_latest_at(folder: Path) -> None:
    """Point ``latest``, beside ``folder``, at it in one step, so that it never points nowhere.

    InputError when something else is called so.
    """
    latest = folder.parent / LATEST
    if latest.exists() and not latest.is_symlink():
        raise InputError(f"{latest}: is no symbolic link; expected none or one: move it away")
    temporary = latest.with_name(f".{latest.name}-{folder.name}")
    temporary.symlink_to(folder.name)
    try:
        temporary.replace(latest)
    except OSError:
        temporary.unlink()
        raise


def remove_secret(folder: Path) -> None:
    """Remove the run's secret: it has done its work, and people archive and share the folder."""
    with suppress(IsADirectoryError):
        (folder / SECRET_FILE).unlink(missing_ok=True)
