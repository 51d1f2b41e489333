"""What the owner writes is taken in once, whole and in order, and acknowledged when it is kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from devtools.doubles.reception import FakeReception
from hypothesis import given
from hypothesis import strategies as st
from tests.surfaces.discord.input_scene import (
    FULL,
    SUNDAY,
    InputScene,
    after_an_earlier_run,
    file,
    left_over,
    listening,
)

from ollim_bot.kernel.base.errors import DeliveryUncertain, Unreachable, WrongInput
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.values.commands import CommandAnswer
from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.ports import IncomingMessage
from ollim_bot.kernel.values.taint import Untrusted
from ollim_bot.surfaces.discord.inbound import (
    MOST_BYTES,
    MOST_FILES,
    NOT_TAKEN,
    NOTHING_TO_READ,
    InboundQueue,
    not_kept_yet,
)
from ollim_bot.surfaces.discord.rendering import Forwarded, ReceivedMessage, RemoteFile, input_of


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[InputScene]:
    async with listening(tmp_path) as scene:
        yield scene


async def test_a_message_is_kept_then_marked_and_then_remembered(scene: InputScene) -> None:
    scene.reception.refusal = FULL
    seen = scene.say("hello")
    await scene.until_asleep()
    assert not scene.is_marked(seen)
    assert scene.last_seen is None
    scene.reception.refusal = None
    await scene.clock.advance(1)
    await scene.until(lambda: scene.is_marked(seen) and scene.last_seen == seen.ref)
    [incoming] = scene.reception.received
    assert (incoming.id, incoming.surface, incoming.text) == (
        input_of(seen.ref),
        "discord",
        "hello",
    )
    assert dict(incoming.refs) == {"discord": seen.ref}


async def test_messages_of_others_do_nothing(scene: InputScene) -> None:
    scene.say("let me in", is_owners=False)
    scene.say("hello")
    await scene.until(lambda: scene.received)
    assert scene.received == ["hello"]


async def test_one_that_is_brought_twice_is_taken_once(scene: InputScene) -> None:
    seen = scene.say("/model opus")
    scene.inbound.message(seen)
    scene.say("hello")
    await scene.until(lambda: scene.received)
    scene.inbound.message(seen)
    scene.say("bye")
    await scene.until(lambda: scene.received == ["hello", "bye"])
    assert scene.reception.lines == [("discord", "/model opus")]


async def test_one_that_is_answered_already_gets_no_mark(scene: InputScene) -> None:
    await scene.reception.change(is_busy=False)
    seen = scene.say("quick")
    await scene.until(lambda: scene.last_seen == seen.ref)
    await scene.reception.change(is_busy=True)
    fence = scene.say("fence")
    await scene.until(lambda: scene.is_marked(fence))
    assert ("mark", seen.ref) not in scene.channel.calls


async def test_a_mark_that_hangs_keeps_nobody_waiting(scene: InputScene) -> None:
    scene.channel.may_answer.clear()
    for number in range(20):
        scene.say(str(number))
    await scene.until(lambda: len(scene.received) == 20)


async def test_while_the_disk_refuses_it_is_tried_again_and_said_once(scene: InputScene) -> None:
    scene.reception.refusal = FULL
    scene.say("first")
    scene.say("second")
    for _ in range(12):
        await scene.until_asleep()
        await scene.clock.advance(60)
    assert scene.received == []
    assert scene.channel.texts == [not_kept_yet("No space left on device.")]
    assert [call for call, _ in scene.channel.calls] == ["send"]
    scene.reception.refusal = None
    await scene.clock.advance(60)
    await scene.until(lambda: scene.received == ["first", "second"])


@pytest.mark.parametrize(
    ("refusal", "said"),
    [(WrongInput("notes.txt is empty."), "notes.txt is empty."), (ZeroDivisionError(), NOT_TAKEN)],
)
async def test_what_cannot_be_taken_is_said_and_keeps_nobody_out(
    scene: InputScene, refusal: Exception, said: str
) -> None:
    scene.reception.refusal = refusal
    seen = scene.say("look")
    await scene.until(lambda: scene.channel.texts == [said])
    await scene.until(lambda: scene.last_seen == seen.ref)
    scene.reception.refusal = None
    scene.say("hello")
    await scene.until(lambda: scene.received == ["hello"])


async def test_a_message_without_words_is_answered_honestly(scene: InputScene) -> None:
    seen = scene.say("  ")
    await scene.until(lambda: scene.channel.texts == [NOTHING_TO_READ])
    await scene.until(lambda: scene.last_seen == seen.ref)
    assert scene.received == []


async def test_that_the_owner_cannot_be_told_stops_nothing(scene: InputScene) -> None:
    scene.channel.fail("send", Unreachable("There is no network."))
    scene.say("")
    scene.say("hello")
    await scene.until(lambda: scene.received == ["hello"])
    assert scene.channel.texts == []


async def test_a_reply_is_to_the_message_that_the_log_knows_or_its_words_come_with_it(
    scene: InputScene,
) -> None:
    ours = await scene.reception.say("Shall I?")
    scene.reception.show_on("discord", "71 72", ours.id)
    scene.say("yes", reply_to="72", quote="Shall I?")
    scene.say("no", reply_to="73", quote="Will you?")
    await scene.until(lambda: scene.received == ["yes", "no"])
    known, unknown = scene.reception.received
    assert (known.reply_to, known.quote) == (ours.id, "")
    assert (unknown.reply_to, unknown.quote) == (None, "Will you?")


async def test_what_waits_is_still_there_after_it_was_stopped(tmp_path: Path) -> None:
    scene = InputScene(tmp_path)
    scene.reception.refusal = FULL
    async with scene.taking():
        scene.say("hello")
        await scene.until_asleep()
    scene.reception.refusal = None
    async with scene.taking():
        await scene.until(lambda: scene.received == ["hello"])


class FullReception(FakeReception):
    is_full = False

    async def edit(self, input_id: InputId, text: str) -> bool:
        if self.is_full:
            raise FULL
        return await super().edit(input_id, text)


async def test_a_message_that_waits_is_taken_as_edited_or_withdrawn(scene: InputScene) -> None:
    edited, deleted = scene.say("old"), scene.say("oops")
    await scene.until(lambda: len(scene.received) == 2)
    scene.reception.waiting = {input_of(edited.ref), input_of(deleted.ref)}
    scene.inbound.edited(edited.ref, "new")
    scene.inbound.deleted(deleted.ref)
    await scene.until(lambda: scene.reception.waiting == {input_of(edited.ref)})
    message = await scene.reception.message(MessageId(input_of(edited.ref)))
    assert message is not None
    assert message.text == "new"


async def test_so_is_one_that_was_not_taken_in_yet(scene: InputScene) -> None:
    scene.channel.may_answer.clear()
    first = scene.say("first", files=(file(scene, "a.png"),))
    edited, deleted = scene.say("old"), scene.say("oops")
    await scene.until(lambda: ("fetch", "a.png") in scene.channel.calls)
    scene.inbound.edited(first.ref, "first, edited")
    scene.inbound.edited(edited.ref, "new")
    scene.inbound.deleted(deleted.ref)
    fence = scene.say("fence")
    scene.channel.may_answer.set()
    await scene.until(lambda: scene.last_seen == fence.ref)
    assert scene.received == ["first, edited", "new", "fence"]


async def test_one_that_is_edited_while_it_is_received_is_edited_after_that(
    scene: InputScene,
) -> None:
    seen = scene.channel.say("old")

    def edit_meanwhile(_: object) -> None:
        scene.reception.waiting.add(input_of(seen.ref))
        scene.inbound.edited(seen.ref, "new")

    scene.reception.on_message = edit_meanwhile
    scene.inbound.message(seen)
    await scene.until(lambda: [each.text for each in scene.reception.messages] == ["new"])


async def test_one_that_is_deleted_while_it_is_received_is_withdrawn_after_that(
    scene: InputScene,
) -> None:
    seen = scene.channel.say("oops")

    def delete_meanwhile(_: object) -> None:
        scene.reception.waiting.add(input_of(seen.ref))
        scene.inbound.deleted(seen.ref)

    scene.reception.on_message = delete_meanwhile
    scene.inbound.message(seen)
    await scene.until(lambda: scene.received and not scene.reception.waiting)
    assert ("mark", seen.ref) not in scene.channel.calls


async def test_the_mark_of_one_that_was_deleted_is_left_alone(scene: InputScene) -> None:
    seen = scene.say("oops")
    await scene.until(lambda: scene.is_marked(seen))
    del scene.channel.owner[seen.ref]
    scene.inbound.deleted(seen.ref)
    fence = scene.say("fence")
    await scene.until(lambda: scene.is_marked(fence))
    scene.pending_reaction.close_all()
    await scene.until(lambda: not scene.is_marked(fence))
    assert ("unmark", seen.ref) not in scene.channel.calls


async def test_a_change_waits_for_a_disk_that_refuses(tmp_path: Path) -> None:
    scene = InputScene(tmp_path)
    scene.reception = reception = FullReception(scene.clock, tmp_path)
    scene.restart()
    async with scene.taking():
        seen = scene.say("old")
        await scene.until(lambda: scene.received)
        reception.waiting = {input_of(seen.ref)}
        reception.is_full = True
        scene.inbound.edited(seen.ref, "new")
        await scene.until_asleep()
        reception.is_full = False
        await scene.clock.advance(1)
        await scene.until(lambda: reception.messages[0].text == "new")


async def test_a_command_that_was_typed_is_done_and_answered(scene: InputScene) -> None:
    scene.reception.answers["/model"] = CommandAnswer("opus answers now.")
    seen = scene.say("/model opus ")
    await scene.until(lambda: scene.channel.texts == ["opus answers now."])
    assert scene.reception.lines == [("discord", "/model opus")]
    assert scene.last_seen == seen.ref
    assert scene.received == []


async def test_a_command_is_remembered_before_it_is_done_so_that_it_is_not_done_again(
    scene: InputScene,
) -> None:
    scene.store.may_write.clear()
    seen = scene.say("/clear")
    await scene.until(lambda: scene.store.begun)
    assert scene.reception.calls == []
    scene.store.may_write.set()
    await scene.until(lambda: scene.reception.calls)
    assert scene.last_seen == seen.ref


async def test_a_command_is_done_although_the_disk_refuses(scene: InputScene) -> None:
    scene.store.is_full = True
    scene.say("/clear")
    await scene.until(lambda: scene.channel.texts == ["`/clear` is done."])


@pytest.mark.parametrize("text", ["/etc/passwd is odd", "/unknown", "/", "/models", "a /model"])
async def test_what_is_no_command_is_a_message(scene: InputScene, text: str) -> None:
    scene.say(text)
    await scene.until(lambda: scene.received == [text])


async def test_a_command_that_takes_long_keeps_nobody_waiting_for_long(scene: InputScene) -> None:
    scene.reception.may_answer.clear()
    scene.say("/compact")
    scene.say("hello")
    await scene.until(lambda: scene.reception.calls)
    await scene.until_asleep()
    assert scene.received == []
    await scene.clock.advance(1)
    await scene.until(lambda: scene.received == ["hello"])
    scene.reception.may_answer.set()
    await scene.until(lambda: scene.channel.texts == ["`/compact` is done."])


async def test_a_long_answer_comes_in_parts(scene: InputScene) -> None:
    scene.reception.answers["/model"] = CommandAnswer("\n".join(["word " * 20] * 50))
    scene.say("/model")
    await scene.until(lambda: len(scene.channel.texts) == 3)
    assert all(len(each) <= 2000 for each in scene.channel.texts)


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


FORWARDED = Forwarded("a server", SUNDAY - timedelta(hours=1))

UNTRUSTED = Untrusted(
    "forwarded message",
    "a message that the owner forwarded from a server on Discord, written 2026-11-15 08:00. "
    "Discord does not say who wrote it.",
)

COMMANDS = ("/clear", "/model opus", " /clear", "/resume aa11", "/compact now\nplease")


def taken(scene: InputScene, seen: ReceivedMessage) -> IncomingMessage:
    return next(each for each in scene.reception.received if each.id.endswith(seen.ref))


async def test_a_forwarded_command_is_a_quote_and_nothing_is_run(scene: InputScene) -> None:
    said = [scene.say(text, forwarded=FORWARDED) for text in COMMANDS]
    await scene.until(lambda: scene.last_seen == said[-1].ref)
    assert scene.reception.calls == []
    assert [(each.text, each.untrusted) for each in scene.reception.received] == [
        (text, UNTRUSTED) for text in COMMANDS
    ]


async def test_the_owners_own_words_after_it_are_a_command_again(scene: InputScene) -> None:
    scene.say("/clear", forwarded=FORWARDED)
    scene.say("/clear")
    scene.say("what did they want?")
    await scene.until(lambda: scene.received == ["/clear", "what did they want?"])
    assert scene.reception.calls == ["/clear"]
    assert [each.untrusted for each in scene.reception.received] == [UNTRUSTED, None]


async def test_a_reply_to_a_forward_is_the_owners_own_with_a_quote_that_is_not(
    scene: InputScene,
) -> None:
    said = scene.say("what?", reply_to="7", quote="/clear", quote_forwarded=FORWARDED)
    await scene.until(lambda: scene.received)
    incoming = taken(scene, said)
    assert (incoming.untrusted, incoming.untrusted_quote) == (None, UNTRUSTED)
    assert incoming.quote == "/clear"


async def test_an_edit_leaves_a_forward_what_it_is(scene: InputScene) -> None:
    """A forward cannot be edited on Discord, so an edit event does not change it."""
    scene.store.may_write.clear()
    scene.say("/model opus")
    await scene.until(lambda: scene.store.begun)
    said = scene.say("hello", forwarded=FORWARDED)
    scene.inbound.edited(said.ref, "/clear")
    scene.store.may_write.set()
    await scene.until(lambda: scene.received == ["/clear"])
    assert taken(scene, said).untrusted == UNTRUSTED
    assert scene.reception.calls == ["/model opus"]


async def test_a_forward_that_was_missed_is_a_quote_too(tmp_path: Path) -> None:
    scene = InputScene(tmp_path)
    await after_an_earlier_run(scene)
    missed = scene.channel.say("/clear", forwarded=FORWARDED)
    scene.channel.say("hi", is_edited=True)
    async with scene.connected():
        await scene.until(lambda: scene.received == ["/clear", "hi"])
        assert taken(scene, missed).untrusted == UNTRUSTED
        assert scene.reception.calls == []


async def test_what_looks_like_an_edit_of_a_forward_is_not_read_back(tmp_path: Path) -> None:
    scene = InputScene(tmp_path)
    await after_an_earlier_run(scene)
    scene.catch_up.ready()
    await scene.reception.change(is_busy=True)
    async with scene.running():
        await scene.until(lambda: scene.clock.sleeping)
        said = scene.say("hello", forwarded=FORWARDED)
        await scene.until(lambda: scene.received == ["hello"])
        scene.reception.waiting.add(taken(scene, said).id)
        scene.channel.owner[said.ref] = scene.channel.say(
            "/clear", ref=said.ref, forwarded=FORWARDED, is_edited=True
        )
        scene.catch_up.ready()
        scene.say("next")
        await scene.until(lambda: scene.received == ["hello", "next"])
    assert [each.text for each in scene.reception.messages][-2:] == ["hello", "next"]


NOW = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)

refs = st.integers(1, 40)


def seen(ref: int, text: str = "") -> ReceivedMessage:
    return ReceivedMessage(str(ref), NOW, is_owners=True, is_ours=False, text=text or f"text {ref}")


async def taken_by(arrivals: InboundQueue) -> list[tuple[int, str, bool]]:
    """Take all messages that can be taken now: id, text, and whether it was deleted."""
    found: list[tuple[int, str, bool]] = []
    while True:
        try:
            async with asyncio.timeout(0):
                first = await arrivals.first()
        except TimeoutError:
            return found
        found.append((int(first.seen.ref), first.seen.text, first.is_deleted))
        arrivals.done()


@given(st.sets(refs), st.sets(refs))
async def test_what_is_found_and_what_comes_meanwhile_are_one_order_of_each_once(
    found: set[int], live: set[int]
) -> None:
    arrivals = InboundQueue()
    arrivals.hold()
    for ref in sorted(live):
        arrivals.add(seen(ref))
    assert await taken_by(arrivals) == []
    arrivals.release(seen(ref) for ref in sorted(found))
    order = [ref for ref, _, _ in await taken_by(arrivals)]
    assert order == sorted(found | live)
    for ref in found | live:
        arrivals.add(seen(ref))
    arrivals.hold()
    arrivals.release(seen(ref) for ref in sorted(found | live))
    assert await taken_by(arrivals) == []


changes = st.lists(st.tuples(refs, st.none() | st.sampled_from(["one", "two"])))


@given(st.sets(refs), st.sets(refs), changes)
async def test_a_change_counts_whether_the_message_is_there_yet_or_not(
    found: set[int], live: set[int], steps: list[tuple[int, str | None]]
) -> None:
    arrivals = InboundQueue()
    arrivals.hold()
    for ref in sorted(live):
        arrivals.add(seen(ref))
    texts: dict[int, str] = {}
    deleted = set()
    for ref, text in steps:
        if ref in deleted:
            continue
        if text is None:
            arrivals.delete(str(ref))
            deleted.add(ref)
        else:
            arrivals.edit(str(ref), text)
            texts[ref] = text
    arrivals.release(seen(ref) for ref in sorted(found))
    for ref, text, is_deleted in await taken_by(arrivals):
        assert is_deleted == (ref in deleted)
        assert is_deleted or text == texts.get(ref, f"text {ref}")


async def test_the_first_can_be_changed_until_it_is_done() -> None:
    arrivals = InboundQueue()
    arrivals.add(seen(1))
    first = await arrivals.first()
    assert arrivals.edit("1", "new")
    assert first.seen.text == "new"
    arrivals.delete("1")
    assert first.is_deleted
    assert "1" in arrivals
    arrivals.done()
    assert "1" not in arrivals


def test_an_edit_that_changes_no_word_is_none() -> None:
    arrivals = InboundQueue()
    arrivals.add(seen(1, "hello"))
    assert not arrivals.edit("1", "hello")
    assert arrivals.edit("1", "bye")
    assert not arrivals.edit("1", "bye")
    assert arrivals.edit("2", "unknown")
