"""Files come with their message; a file that cannot be fetched does not lose the message."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.discord.input_scene import FULL, InputScene, file, left_over, listening

from ollim_bot.errors import DeliveryUncertain, Unreachable
from ollim_bot.surfaces.discord.inbound import MOST_BYTES, MOST_FILES
from ollim_bot.surfaces.discord.rendering import RemoteFile, input_of


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[InputScene]:
    async with listening(tmp_path) as scene:
        yield scene


async def test_who_comes_later_waits_for_the_files_of_who_came_first(scene: InputScene) -> None:
    scene.channel.may_answer.clear()
    scene.say("look", files=(file(scene, "a.png"),))
    scene.say("seen?")
    await scene.until(lambda: ("fetch", "a.png") in scene.channel.calls)
    assert scene.received == []
    scene.channel.may_answer.set()
    await scene.until(lambda: scene.received == ["look", "seen?"])


async def test_files_come_with_the_message_and_leave_nothing_behind(scene: InputScene) -> None:
    seen = scene.say("", files=(file(scene, "a.png", b"picture"), file(scene, "b.txt", b"words")))
    await scene.until(lambda: scene.last_seen == seen.ref)
    kept = scene.reception.messages[0].attachments
    assert [each.name for each in kept] == ["a.png", "b.txt"]
    contents = [(scene.folder / each.path).read_bytes() for each in kept]
    assert contents == [b"picture", b"words"]
    assert left_over(scene) == []


async def test_a_file_that_is_not_to_be_had_does_not_lose_the_message(scene: InputScene) -> None:
    large = file(scene, "photo.png", size=MOST_BYTES + 1)
    lying = file(scene, "film.mp4", b"x" * (MOST_BYTES + 1), size=1)
    gone = RemoteFile("gone.txt", 1, "https://files.example/nowhere")
    scene.say("look", files=(large, lying, gone, file(scene, "a.txt"), file(scene, "no]te\n", b"")))
    await scene.until(lambda: scene.received)
    assert scene.received[0].splitlines() == [
        "look",
        "[photo.png could not be fetched: too large]",
        "[film.mp4 could not be fetched: not there any more, or too large]",
        "[gone.txt could not be fetched: not there any more, or too large]",
        "[no te could not be fetched: empty]",
    ]
    assert [each.name for each in scene.reception.received[0].files] == ["a.txt"]
    assert ("fetch", "photo.png") not in scene.channel.calls


async def test_a_message_whose_only_file_is_not_to_be_had_is_one_still(scene: InputScene) -> None:
    scene.say("", files=(file(scene, "photo.png", size=MOST_BYTES + 1),))
    await scene.until(lambda: scene.received == ["[photo.png could not be fetched: too large]"])
    assert scene.channel.texts == []


async def test_more_files_than_can_come_are_named(scene: InputScene) -> None:
    scene.say("all", files=tuple(file(scene, f"{number}.txt") for number in range(MOST_FILES + 1)))
    await scene.until(lambda: scene.received)
    assert len(scene.reception.received[0].files) == MOST_FILES
    assert scene.received[0].splitlines()[1:] == [
        "[10.txt could not be fetched: only 10 files can come with a message]"
    ]


async def test_a_file_is_asked_for_a_few_times(scene: InputScene) -> None:
    scene.channel.fail("fetch", Unreachable("No."), DeliveryUncertain("No."))
    scene.say("look", files=(file(scene, "a.txt", b"words"),))
    await scene.until_asleep()
    await scene.clock.advance(10)
    await scene.until(lambda: scene.received == ["look"])
    assert scene.reception.messages[0].attachments[0].size == 5


async def test_and_then_the_message_comes_without_it(scene: InputScene) -> None:
    scene.channel.fail("fetch", *[Unreachable("No.")] * 4)
    scene.say("look", files=(file(scene, "a.txt"),))
    await scene.until_asleep()
    await scene.clock.advance(10)
    await scene.until(
        lambda: scene.received == ["look\n[a.txt could not be fetched: Discord does not answer]"]
    )


async def test_files_are_fetched_again_for_each_try_to_keep_them(scene: InputScene) -> None:
    scene.reception.refusal = FULL
    scene.say("look", files=(file(scene, "a.txt"),))
    await scene.until_asleep()
    assert left_over(scene) == []
    scene.reception.refusal = None
    await scene.clock.advance(1)
    await scene.until(lambda: scene.received == ["look"])
    assert scene.channel.calls.count(("fetch", "a.txt")) == 2


async def test_a_folder_that_cannot_be_made_is_a_disk_that_refuses(scene: InputScene) -> None:
    (scene.folder / "fetched").write_text("in the way")
    scene.say("look", files=(file(scene, "a.txt"),))
    await scene.until_asleep()
    (scene.folder / "fetched").unlink()
    await scene.clock.advance(1)
    await scene.until(lambda: scene.received == ["look"])


async def test_one_that_is_deleted_while_its_files_come_is_not_taken_in(scene: InputScene) -> None:
    scene.channel.may_answer.clear()
    seen = scene.say("oops", files=(file(scene, "a.png"),))
    await scene.until(lambda: ("fetch", "a.png") in scene.channel.calls)
    scene.inbound.deleted(seen.ref)
    scene.channel.may_answer.set()
    scene.say("fence")
    await scene.until(lambda: scene.received == ["fence"])
    assert left_over(scene) == []


async def test_an_edit_keeps_what_was_said_about_files(scene: InputScene) -> None:
    seen = scene.say("old", files=(file(scene, "photo.png", size=MOST_BYTES + 1),))
    await scene.until(lambda: scene.received)
    scene.reception.waiting = {input_of(seen.ref)}
    scene.inbound.edited(seen.ref, "new")
    expected = "new\n[photo.png could not be fetched: too large]"
    await scene.until(lambda: scene.reception.messages[0].text == expected)


async def test_what_a_crash_left_of_files_is_removed(tmp_path: Path) -> None:
    scene = InputScene(tmp_path)
    (tmp_path / "fetched" / "1").mkdir(parents=True)
    (tmp_path / "fetched" / "1" / "0").write_text("half")
    async with scene.taking():
        scene.say("hello")
        await scene.until(lambda: scene.received)
    assert left_over(scene) == []
