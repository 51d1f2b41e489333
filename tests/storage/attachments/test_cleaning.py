"""Old attachments are removed, and the oldest ones when there are too many."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import pytest
from tests.storage.attachments.pictures import picture
from tests.storage.attachments.scene import AttachmentScene

from ollim_bot.errors import WrongInput
from ollim_bot.store.attachments.files import AttachmentLimits

SMALL = AttachmentLimits(file=5000, downloads=1000)
PNG = picture("image/png")


def test_files_leave_after_thirty_days(scene: AttachmentScene) -> None:
    scene.keep(b"old")
    scene.keep(PNG)
    scene.now += timedelta(days=20)
    scene.keep(b"newer", "newer.txt")
    assert scene.store().clean(scene.now + timedelta(days=9, hours=23)) == 0
    assert scene.store().clean(scene.now + timedelta(days=10, minutes=1)) == 2
    assert scene.downloads() == ["newer.txt"]
    assert list(scene.data.paths.attachments.iterdir()) == []


def test_cleaning_leaves_links_folders_and_what_was_moved_in_lately(scene: AttachmentScene) -> None:
    downloads = scene.data.paths.downloads
    (downloads / "folder").mkdir()
    (downloads / "folder" / "file").write_bytes(b"x")
    (downloads / "link").symlink_to(scene.data.paths.identity)
    (downloads / "moved").write_bytes(b"x")
    os.utime(downloads / "moved", (0, 0))
    assert scene.store().clean(datetime.now(UTC)) == 0
    assert scene.store().clean(datetime.now(UTC) + timedelta(days=31)) == 1
    assert scene.downloads() == ["folder", "link"]
    assert scene.data.paths.identity.exists()


def test_the_oldest_downloads_make_room_for_a_new_one(scene: AttachmentScene) -> None:
    for number in range(3):
        scene.keep(bytes(300), f"{number}.bin", SMALL)
        scene.now += timedelta(days=1)
    scene.keep(bytes(300), "3.bin", SMALL)
    assert scene.downloads() == ["1.bin", "2.bin", "3.bin"]


def test_todays_downloads_never_make_room(scene: AttachmentScene) -> None:
    scene.keep(bytes(300), "yesterday.bin", SMALL)
    scene.now += timedelta(days=1)
    for number in range(3):
        scene.keep(bytes(300), f"{number}.bin", SMALL)
    with pytest.raises(WrongInput, match=r"^4\.bin does not fit: the files of today"):
        scene.keep(bytes(300), "4.bin", SMALL)
    assert scene.downloads() == ["0.bin", "1.bin", "2.bin"]


def test_pictures_take_no_room_of_the_downloads(scene: AttachmentScene) -> None:
    limits = AttachmentLimits(downloads=len(PNG))
    scene.keep(PNG, "a.png", limits)
    scene.keep(b"x" * len(PNG), "a.txt", limits)
    assert len(list(scene.data.paths.attachments.iterdir())) == 1


def test_cleaning_also_takes_what_is_too_much(scene: AttachmentScene) -> None:
    for number in range(3):
        scene.keep(bytes(500), f"{number}.bin")
        scene.now += timedelta(days=1)
    assert scene.store(SMALL).clean(scene.now) == 1
    assert scene.downloads() == ["1.bin", "2.bin"]
