"""The secret of the page is made once, only its owner can read it, and a bad one is refused."""

from __future__ import annotations

import re
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from devtools.doubles.disks import SteppedDisk

from ollim_bot.errors import Unreadable, WriteFailed
from ollim_bot.paths import DataPaths
from ollim_bot.settings import Secret
from ollim_bot.store.data_directory import prepare_data_directory
from ollim_bot.store.files import OsDisk
from ollim_bot.surfaces.web.secret import (
    address,
    bot_key,
    browser_key,
    entry_code,
    new_web_secret,
    web_secret,
)


@pytest.fixture
def paths(tmp_path: Path) -> DataPaths:
    paths = DataPaths(tmp_path / "data")
    prepare_data_directory(paths)
    return paths


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_made_once_and_stays(paths: DataPaths) -> None:
    first = web_secret(paths)
    assert len(first.reveal()) >= 43
    assert web_secret(paths) == first
    assert mode(paths.web_token) == 0o600


def test_no_two_are_the_same(tmp_path: Path) -> None:
    made = set()
    for name in ("a", "b"):
        paths = DataPaths(tmp_path / name)
        prepare_data_directory(paths)
        made.add(web_secret(paths).reveal())
    assert len(made) == 2


def test_it_does_not_show_itself(paths: DataPaths) -> None:
    secret = web_secret(paths)
    assert secret.reveal() not in f"{secret} {secret!r}"
    shown = address(8421, entry_code(secret, "a-challenge"))
    assert re.fullmatch(r"http://127\.0\.0\.1:8421/\?[0-9a-f]{8}#a-challenge\.[\w-]{43}", shown)
    assert secret.reveal() not in shown


def test_a_new_one_takes_its_place_and_nothing_of_the_old_one_counts(paths: DataPaths) -> None:
    before = web_secret(paths)
    after = new_web_secret(paths)
    assert before != after == web_secret(paths)
    assert mode(paths.web_token) == 0o600
    assert entry_code(before, "x") != entry_code(after, "x")
    assert browser_key(before, "b", 1) != browser_key(after, "b", 1)
    assert bot_key(before, "b") != bot_key(after, "b")


def test_what_is_made_from_it_serves_one_purpose_only(paths: DataPaths) -> None:
    secret = web_secret(paths)
    made = {bot_key(secret, "b"), bot_key(secret, "b\n1"), entry_code(secret, "b").encode()}
    made |= {browser_key(secret, "b", number) for number in (1, 2)} | {browser_key(secret, "c", 1)}
    assert len(made) == 6


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"short", b"x" * 31, b"x" * 200, b"\xff" * 40, b"a b" * 20, b"x" * 40 + b"\nmore"],
)
def test_what_is_no_secret_is_made_anew(paths: DataPaths, content: bytes) -> None:
    paths.web_token.write_bytes(content)
    paths.web_token.chmod(0o644)
    made = web_secret(paths)
    assert made.reveal().encode() not in (content, content.strip())
    assert mode(paths.web_token) == 0o600
    assert web_secret(paths) == made


def test_a_secret_of_the_owners_own_is_taken(paths: DataPaths) -> None:
    paths.web_token.write_text("my-own-secret-that-is-long-enough-0123456789\n")
    assert web_secret(paths) == Secret("my-own-secret-that-is-long-enough-0123456789")


def test_a_file_that_the_disk_does_not_give_is_made_anew(paths: DataPaths) -> None:
    first = web_secret(paths)

    def refuse_reading(step: str, path: Path) -> None:
        if step == "read":
            raise PermissionError(13, "Permission denied", str(path))

    made = web_secret(paths, SteppedDisk(OsDisk(), refuse_reading))
    assert made != first
    assert web_secret(paths) == made


def test_a_link_is_not_followed_when_it_is_made_anew(paths: DataPaths, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("x")
    paths.web_token.symlink_to(elsewhere)
    web_secret(paths)
    assert elsewhere.read_text() == "x"
    assert not paths.web_token.is_symlink()


def test_a_folder_in_its_place_is_told(paths: DataPaths) -> None:
    paths.web_token.mkdir()
    with pytest.raises(Unreadable, match="is a folder"):
        web_secret(paths)


@pytest.mark.parametrize("wanted", ["write", "sync", "link"])
def test_a_disk_that_refuses_is_told_and_leaves_nothing_half_done(
    paths: DataPaths, wanted: str
) -> None:
    def refuse(step: str, path: Path) -> None:
        if step == wanted and path.parent == paths.state:
            raise OSError(28, "No space left on device", str(path))

    with pytest.raises(WriteFailed, match="No space left"):
        web_secret(paths, SteppedDisk(OsDisk(), refuse))
    assert not paths.web_token.exists()


def test_two_at_once_get_the_same(paths: DataPaths) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: web_secret(paths).reveal(), range(16)))
    assert len(set(made)) == 1
