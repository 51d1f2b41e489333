"""Other accounts of the machine cannot read the data directory, whatever its mode was."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from tests.kernel.store.files.data_directory import DataDirectory

from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.data_directory import Closing, close_to_others, prepare_data_directory


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    return DataDirectory(tmp_path / "data")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("opened", [0o755, 0o777, 0o750, 0o701, 0o2770])
def test_an_open_data_directory_is_closed_and_said_once(data: DataDirectory, opened: int) -> None:
    data.paths.root.chmod(opened)
    mended, problems = close_to_others(data.paths)
    assert mode(data.paths.root) & 0o777 == 0o700
    assert mended == (
        f"Others on this machine could look into {data.paths.root} until now. That is closed to "
        "them; if you do not trust them, renew your keys."
    )
    assert problems == ()
    assert close_to_others(data.paths) == Closing()


def test_state_and_its_files_are_closed_and_what_can_be_run_stays_so(data: DataDirectory) -> None:
    paths = data.paths
    script = paths.state / "engine" / "script"
    script.parent.mkdir()
    for path, opened in ((paths.config, 0o644), (paths.web_token, 0o666), (script, 0o755)):
        path.write_text("x")
        path.chmod(opened)
    paths.identity.chmod(0o644)
    paths.state.chmod(0o755)
    closing = close_to_others(paths)
    assert "look into state/ and 3 files in state/ until now" in closing.mended
    assert [mode(each) for each in (paths.state, paths.config, paths.web_token, script)] == [
        0o700,
        0o600,
        0o600,
        0o700,
    ]
    assert mode(paths.identity) == 0o644


def test_nothing_that_a_link_in_state_leads_to_is_touched(
    data: DataDirectory, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "mine"
    elsewhere.write_text("x")
    elsewhere.chmod(0o644)
    data.paths.config.symlink_to(elsewhere)
    os.mkfifo(data.paths.state / "pipe", 0o644)
    assert close_to_others(data.paths) == Closing()
    assert mode(elsewhere) == 0o644


@pytest.mark.parametrize("place", ["home", "above", "for all"])
def test_a_folder_that_is_more_than_a_data_directory_stays_as_it_is(
    tmp_path: Path, place: str
) -> None:
    root = tmp_path / "place"
    root.mkdir()
    prepare_data_directory(DataPaths(root))
    root.chmod(0o1777 if place == "for all" else 0o755)
    before = mode(root)
    home = {"home": root, "above": root / "ada"}.get(place, tmp_path / "home")
    closing = close_to_others(DataPaths(root), home)
    assert mode(root) == before
    assert closing == Closing(
        "",
        (
            (
                f"Others on this machine can look into {root}, and it could not be closed to them: "
                "it is not for this data alone. Move the data to a folder of your own."
            ),
        ),
    )


def test_a_data_directory_of_another_account_is_said_and_used(data: DataDirectory) -> None:
    try:
        os.chown(data.paths.root, os.geteuid() + 1, -1)
    except PermissionError:
        pytest.skip("only the superuser gives folders away")
    closing = close_to_others(data.paths)
    assert closing.mended == ""
    assert closing.problems == (
        (
            f"{data.paths.root} belongs to another account, which can read and change all of it. "
            "Have the bot run as that one, or make the folder its own."
        ),
    )
