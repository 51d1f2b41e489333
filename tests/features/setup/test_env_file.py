"""The `.env` of the data directory: a change touches its own names, and nothing else."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ollim_bot.kernel.base.environment import env_pieces, read_env_file
from ollim_bot.kernel.base.errors import WriteFailed
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.settings import Settings, problem_with
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.files import OsDisk
from ollim_bot.kernel.upkeep.env_file import change_env_file, env_text, stronger_place, with_changes


class FullDisk(OsDisk):
    def write(self, path: Path, data: bytes, mode: int) -> None:
        super().write(path, data[:3], mode)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


NAMES = ("OLLIM_USER_NAME", "DISCORD_TOKEN", "OTHER", "MINE")
_ENDS = st.sampled_from(["\n", "\r\n", "\n\n", "\r"])
_WORDS = st.text(st.sampled_from("ab #='\"\\$`\t "), max_size=8)
_LINES = st.one_of(
    st.builds("# {}".format, _WORDS),
    st.builds("{}={}".format, st.sampled_from(NAMES), _WORDS),
    st.builds('export {} = "{}" # why'.format, st.sampled_from(NAMES), st.just("a\nb")),
    st.builds("{}='{}".format, st.sampled_from(NAMES), _WORDS),
    _WORDS,
)
FILES = st.builds(
    lambda mark, lines: mark + "".join(line + end for line, end in lines),
    st.sampled_from(["", "\ufeff"]),
    st.lists(st.tuples(_LINES, _ENDS), max_size=6),
)
VALUES = st.text(min_size=1, max_size=20).filter(lambda text: not problem_with(NAMES[0], text))


@given(FILES, VALUES.map(str.strip).filter(bool), VALUES.map(str.strip).filter(bool))
def test_what_is_written_is_read_and_the_rest_reads_as_before(
    text: str, name: str, token: str
) -> None:
    changed = with_changes(text, {"OLLIM_USER_NAME": name, "DISCORD_TOKEN": token})
    after = read_env_file(changed)
    assert (after.values["OLLIM_USER_NAME"], after.values["DISCORD_TOKEN"]) == (name, token)
    assert {problem.name for problem in after.problems}.isdisjoint(NAMES[:2])
    before = read_env_file(text)
    for other in ("OTHER", "MINE") if not before.problems else ():
        assert after.values.get(other) == before.values.get(other)


@given(FILES)
def test_without_the_names_the_text_stays_letter_for_letter(text: str) -> None:
    assert with_changes(text, {"NOT_THERE": None}) == text
    pieces = env_pieces(text.removeprefix("\ufeff"))
    assume(
        all(len(piece.text.split()) < 2 or len(piece.text.splitlines()) == 1 for piece in pieces)
    )
    assert comments(with_changes(text, {"OLLIM_USER_NAME": "Ada"})) == comments(text)


def comments(text: str) -> list[str]:
    lines = re.split(r"\r\n|\r|\n", text.removeprefix("\ufeff"))
    return [line for line in lines if line.lstrip().startswith("#")]


@given(FILES)
def test_a_name_is_taken_out_wherever_it_stands(text: str) -> None:
    after = read_env_file(with_changes(text, {"DISCORD_TOKEN": None}))
    assert "DISCORD_TOKEN" not in after.values
    assert "DISCORD_TOKEN" not in {problem.name for problem in after.problems}


def test_order_comments_and_the_way_a_line_is_written_survive() -> None:
    text = (
        "# mine\r\n"
        "export OLLIM_USER_NAME = 'Bob' # the old one\r\n"
        "\r\n"
        "SOMETHING_ELSE=1\r\n"
        "OLLIM_TIMEZONE=UTC   # travelling\r\n"
        "OLLIM_USER_NAME=again"
    )
    changes = {"OLLIM_USER_NAME": "Ada Lovelace", "OLLIM_TIMEZONE": "Europe/Berlin", "NEW": "x"}
    assert with_changes(text, changes) == (
        "# mine\r\n"
        'export OLLIM_USER_NAME = "Ada Lovelace" # the old one\r\n'
        "\r\n"
        "SOMETHING_ELSE=1\r\n"
        "OLLIM_TIMEZONE=Europe/Berlin # travelling\r\n"
        "NEW=x\n"
    )


def test_quotes_that_another_line_leaves_open_do_not_take_the_new_line_in() -> None:
    changed = with_changes("OTHER='open\n", {"OLLIM_USER_NAME": "O' # x"})
    assert read_env_file(changed).values["OLLIM_USER_NAME"] == "O' # x"
    assert changed.endswith("OTHER='open\n")


@given(VALUES, VALUES)
def test_the_settings_read_what_a_person_has_typed(name: str, other: str) -> None:
    """Both values pass through the file of the data directory, as in the program."""
    root = Path("/nowhere/data")
    text = with_changes("", {"OLLIM_USER_NAME": name.strip(), "OLLIM_BOT_NAME": other.strip()})
    settings, problems = Settings.examined(
        {"OLLIM_DATA_DIR": str(root), "TZ": "UTC"},
        cwd=Path("/nowhere"),
        proposed={DataPaths(root).env_file: text},
    )
    assert problems == []
    wanted = (name.strip() or "friend", other.strip() or "Ollim")
    assert (settings.user_name, settings.bot_name) == wanted


@pytest.fixture
def paths(tmp_path: Path) -> DataPaths:
    paths = DataPaths(tmp_path / "data")
    prepare_data_directory(paths)
    return paths


@pytest.mark.parametrize("mode", [None, 0o644])
def test_only_the_owner_can_read_the_file(paths: DataPaths, mode: int | None) -> None:
    if mode is not None:
        paths.env_file.write_text("MINE=1\n")
        paths.env_file.chmod(mode)
    change_env_file(paths, {"DISCORD_TOKEN": "t"})
    assert paths.env_file.stat().st_mode & 0o777 == 0o600
    assert env_text(paths) == ("" if mode is None else "MINE=1\n") + "DISCORD_TOKEN=t\n"


def test_a_link_stays_a_link(paths: DataPaths, tmp_path: Path) -> None:
    elsewhere = tmp_path / "settings"
    elsewhere.write_text("MINE=1\n")
    paths.env_file.symlink_to(elsewhere)
    change_env_file(paths, {"DISCORD_TOKEN": "t"})
    assert elsewhere.read_text() == "MINE=1\nDISCORD_TOKEN=t\n"
    assert os.path.islink(paths.env_file)


def test_a_full_disk_leaves_the_file_as_it_was(paths: DataPaths) -> None:
    change_env_file(paths, {"MINE": "1"})
    with pytest.raises(WriteFailed, match="No space left on device"):
        change_env_file(paths, {"MINE": "2"}, FullDisk())
    assert env_text(paths) == "MINE=1\n"
    assert [path.name for path in paths.root.glob(".*.tmp")] == []


def test_a_file_that_cannot_be_read_is_not_written_over(paths: DataPaths) -> None:
    paths.env_file.mkdir()
    with pytest.raises(WriteFailed, match="cannot be read"):
        change_env_file(paths, {"MINE": "1"})


def test_what_counts_before_the_file_is_named(paths: DataPaths, tmp_path: Path) -> None:
    name, beside = "DISCORD_TOKEN", tmp_path / ".env"
    beside.write_text(f"{name}=1\nOLLIM_LOG=\nANTHROPIC_BASE_URL=x\n")
    assert stronger_place(name, {name: "2"}, beside, paths) == "the environment"
    assert stronger_place(name, {name: " "}, beside, paths) == str(beside)
    assert stronger_place("OLLIM_LOG", {}, beside, paths) is None
    assert stronger_place("ANTHROPIC_BASE_URL", {}, beside, paths) is None
    # When started in the data directory, both files are the same file.
    change_env_file(paths, {name: "1"})
    assert stronger_place(name, {}, paths.env_file, paths) is None
