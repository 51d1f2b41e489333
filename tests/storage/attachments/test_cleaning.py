"""Kept files leave when they are old, and the oldest leave when there are too many."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import pytest
from tests.storage.attachments.desk import Desk
from tests.storage.attachments.pictures import picture

from ollim_bot.errors import WrongInput
from ollim_bot.store.attachments.files import AttachmentLimits

SMALL = AttachmentLimits(file=5000, downloads=1000)
PNG = picture("image/png")


def test_files_leave_after_thirty_days(desk: Desk) -> None:
    desk.keep(b"old")
    desk.keep(PNG)
    desk.now += timedelta(days=20)
    desk.keep(b"newer", "newer.txt")
    assert desk.keeper().clean(desk.now + timedelta(days=9, hours=23)) == 0
    assert desk.keeper().clean(desk.now + timedelta(days=10, minutes=1)) == 2
    assert desk.downloads() == ["newer.txt"]
    assert list(desk.data.paths.attachments.iterdir()) == []


def test_cleaning_leaves_links_folders_and_what_was_moved_in_lately(desk: Desk) -> None:
    downloads = desk.data.paths.downloads
    (downloads / "folder").mkdir()
    (downloads / "folder" / "file").write_bytes(b"x")
    (downloads / "link").symlink_to(desk.data.paths.identity)
    (downloads / "moved").write_bytes(b"x")
    os.utime(downloads / "moved", (0, 0))
    assert desk.keeper().clean(datetime.now(UTC)) == 0
    assert desk.keeper().clean(datetime.now(UTC) + timedelta(days=31)) == 1
    assert desk.downloads() == ["folder", "link"]
    assert desk.data.paths.identity.exists()


def test_the_oldest_downloads_make_room_for_a_new_one(desk: Desk) -> None:
    for number in range(3):
        desk.keep(bytes(300), f"{number}.bin", SMALL)
        desk.now += timedelta(days=1)
    desk.keep(bytes(300), "3.bin", SMALL)
    assert desk.downloads() == ["1.bin", "2.bin", "3.bin"]


def test_todays_downloads_never_make_room(desk: Desk) -> None:
    desk.keep(bytes(300), "yesterday.bin", SMALL)
    desk.now += timedelta(days=1)
    for number in range(3):
        desk.keep(bytes(300), f"{number}.bin", SMALL)
    with pytest.raises(WrongInput, match=r"^4\.bin does not fit: the files of today"):
        desk.keep(bytes(300), "4.bin", SMALL)
    assert desk.downloads() == ["0.bin", "1.bin", "2.bin"]


def test_pictures_take_no_room_of_the_downloads(desk: Desk) -> None:
    limits = AttachmentLimits(downloads=len(PNG))
    desk.keep(PNG, "a.png", limits)
    desk.keep(b"x" * len(PNG), "a.txt", limits)
    assert len(list(desk.data.paths.attachments.iterdir())) == 1


def test_cleaning_also_takes_what_is_too_much(desk: Desk) -> None:
    for number in range(3):
        desk.keep(bytes(500), f"{number}.bin")
        desk.now += timedelta(days=1)
    assert desk.keeper(SMALL).clean(desk.now) == 1
    assert desk.downloads() == ["1.bin", "2.bin"]
