"""The profile: changed by hand or by the agent, it is there at the next turn."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.kernel.store.files.data_directory import DataDirectory

from ollim_bot.kernel.base.plain_files import SizeLimit
from ollim_bot.kernel.store.files import OsDisk
from ollim_bot.kernel.store.owner_files import ProfileFiles
from ollim_bot.kernel.values.shared_files import Profile

A_WHILE_AGO = 1_700_000_000


class WatchedDisk(OsDisk):
    """Counts the reads; `refuses` makes every read fail."""

    def __init__(self) -> None:
        self.read_files: list[str] = []
        self.refuses = False

    def read(self, path: Path, most: int) -> bytes:
        if self.refuses:
            raise PermissionError(13, "Permission denied", str(path))
        self.read_files.append(path.name)
        return super().read(path, most)


class Scene:
    def __init__(self, data: DataDirectory) -> None:
        self.paths = data.paths
        self.disk = WatchedDisk()
        self.files = ProfileFiles(data.paths, self.disk)

    def write(self, identity: bytes = b"", user: bytes = b"") -> None:
        self.paths.identity.write_bytes(identity)
        self.paths.user.write_bytes(user)


@pytest.fixture
def scene(data: DataDirectory) -> Scene:
    return Scene(data)


def settled(scene: Scene) -> None:
    """Wait longer than the resolution of file times, and read the files once."""
    end = time.monotonic() + 10
    while True:
        scene.files.read()
        scene.disk.read_files.clear()
        scene.files.read()
        if not scene.disk.read_files:
            return
        assert time.monotonic() < end


def test_a_new_data_directory_has_a_character_and_knows_nothing_of_its_owner(scene: Scene) -> None:
    profile, problems = scene.files.read()
    assert profile == Profile(scene.paths.identity.read_text(), scene.paths.user.read_text())
    assert profile.identity.startswith("# Who you are")
    assert profile.user.startswith("# Who the owner is\n\nNothing is known yet.")
    assert problems == ()


def test_nothing_is_read_again_that_did_not_change(scene: Scene) -> None:
    scene.write(b"Calm.", b"Ada.")
    settled(scene)
    assert scene.files.read() == (Profile("Calm.", "Ada."), ())
    assert scene.disk.read_files == []
    scene.paths.user.write_text("Ada, now in Rome.")
    assert scene.files.read()[0] == Profile("Calm.", "Ada, now in Rome.")
    assert scene.disk.read_files == ["USER.md"]


def test_a_change_of_the_same_length_at_once_is_seen(scene: Scene) -> None:
    for number in range(1000, 1200):
        scene.write(b"%d" % number, b"%d" % -number)
        assert scene.files.read()[0] == Profile(f"{number}", f"{-number}")


def test_a_change_that_hides_behind_the_old_date_is_seen(scene: Scene) -> None:
    scene.write(b"one.")
    os.utime(scene.paths.identity, (A_WHILE_AGO, A_WHILE_AGO))
    settled(scene)
    scene.paths.identity.write_bytes(b"two.")
    os.utime(scene.paths.identity, (A_WHILE_AGO, A_WHILE_AGO))
    assert scene.files.read()[0].identity == "two."


def test_a_file_that_goes_away_is_empty(scene: Scene) -> None:
    scene.write(b"Calm.", b"Ada.")
    scene.files.read()
    scene.paths.user.unlink()
    assert scene.files.read() == (Profile("Calm.", ""), ())
    scene.paths.identity.unlink()
    assert scene.files.read() == (Profile("", ""), ())


def test_a_mark_of_the_byte_order_is_not_part_of_the_text(scene: Scene) -> None:
    scene.write(b"\xef\xbb\xbfCalm.")
    assert scene.files.read()[0].identity == "Calm."


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere.md")


def make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


UNUSABLE: list[tuple[Callable[[Path], object], str]] = [
    (
        lambda path: path.write_bytes(b"one\ntw\xff\n"),
        "USER.md:2: is not UTF-8 text. Save it as UTF-8.",
    ),
    (
        lambda path: path.write_bytes(b"one\n\n\0"),
        "USER.md:3: has a zero byte in it. Save it as plain text.",
    ),
    (
        lambda path: path.write_bytes(b"x" * (SizeLimit.PROFILE + 1)),
        "USER.md: is larger than 64 kB. Make it shorter.",
    ),
    (make_folder, "USER.md: is not a file. Move it away."),
    (make_pipe, "USER.md: is not a file. Move it away."),
    (make_dangling, "USER.md: is a link that leads nowhere. Mend or remove it."),
]


@pytest.mark.parametrize(("spoil", "sentence"), UNUSABLE)
def test_a_file_that_cannot_be_used_is_named_and_its_last_good_text_counts(
    scene: Scene, spoil: Callable[[Path], object], sentence: str
) -> None:
    scene.write(b"Calm.", b"Ada.")
    scene.files.read()
    spoil(scene.paths.user)
    told = f"{sentence} Until then its last good text counts."
    for _ in range(2):
        assert scene.files.read() == (Profile("Calm.", "Ada."), (told,))
    scene.paths.identity.write_text("Wild.")
    assert scene.files.read() == (Profile("Wild.", "Ada."), (told,))
    told = f"{sentence} Until then the bot goes on without it."
    assert ProfileFiles(scene.paths).read() == (Profile("Wild.", ""), (told,))


def test_a_file_that_may_not_be_read_is_tried_again_though_it_does_not_change(scene: Scene) -> None:
    scene.write(b"Calm.", b"Ada.")
    settled(scene)
    started_anew = ProfileFiles(scene.paths, scene.disk)
    scene.disk.refuses = True
    profile, problems = started_anew.read()
    assert profile == Profile()
    assert problems == tuple(
        f"{name}: cannot be read: Permission denied. Mend that. "
        "Until then the bot goes on without it."
        for name in ("IDENTITY.md", "USER.md")
    )
    scene.disk.refuses = False
    assert started_anew.read() == (Profile("Calm.", "Ada."), ())


def test_a_mended_file_is_not_complained_about(scene: Scene) -> None:
    scene.write(b"\xff")
    assert scene.files.read()[1] != ()
    scene.write(b"fine")
    assert scene.files.read() == (Profile("fine", ""), ())


def test_the_largest_file_is_read_whole(scene: Scene) -> None:
    scene.write(b"x" * SizeLimit.PROFILE, b"y" * SizeLimit.PROFILE)
    assert scene.files.read() == (Profile("x" * SizeLimit.PROFILE, "y" * SizeLimit.PROFILE), ())
