"""Facts about Discord are stored, and nothing waits for the disk."""

from __future__ import annotations

from tests.discord.input_scene import SlowStore, eventually, running_tasks

from ollim_bot.surfaces.discord.facts import DiscordFacts


async def test_what_was_said_is_known_at_once_and_on_disk_soon() -> None:
    store = SlowStore()
    facts = DiscordFacts(store)
    facts.saw("7")
    facts.keep_commands_hash("abc")
    facts.add_draft("8")
    assert await facts.last_seen() == "7"
    assert await facts.commands_hash() == "abc"
    assert await facts.drafts() == ("8",)
    async with running_tasks(facts.run()):
        await eventually(lambda: store.writes)
    later = DiscordFacts(store)
    assert await later.last_seen() == "7"
    assert await later.commands_hash() == "abc"
    assert await later.drafts() == ("8",)


async def test_nothing_is_remembered_at_first() -> None:
    facts = DiscordFacts(SlowStore())
    assert await facts.last_seen() is None
    assert await facts.commands_hash() is None
    assert await facts.drafts() == ()


async def test_what_was_seen_goes_forward_only() -> None:
    store = SlowStore()
    facts = DiscordFacts(store)
    facts.saw("10")
    facts.saw("9")
    assert await facts.last_seen() == "10"
    assert await facts.flush()
    facts.saw("8")
    assert await facts.flush()
    assert await DiscordFacts(store).last_seen() == "10"


async def test_many_are_written_in_one_go() -> None:
    store = SlowStore()
    facts = DiscordFacts(store)
    store.may_write.clear()
    async with running_tasks(facts.run()):
        for number in range(1, 151):
            facts.saw(str(number))
        store.may_write.set()
        await eventually(lambda: store.discord.last_seen == "150")
    assert store.writes <= 2


async def test_what_is_said_while_the_disk_writes_is_not_forgotten() -> None:
    store = SlowStore()
    facts = DiscordFacts(store)
    store.may_write.clear()
    async with running_tasks(facts.run()):
        facts.saw("1")
        facts.add_draft("5")
        await eventually(lambda: store.begun)
        facts.saw("2")
        facts.remove_draft("5")
        store.may_write.set()
        await eventually(lambda: store.discord.last_seen == "2")
    assert store.discord.drafts == ()


async def test_a_disk_that_refuses_takes_nothing_away() -> None:
    store = SlowStore()
    facts = DiscordFacts(store)
    store.is_full = True
    facts.saw("1")
    facts.add_draft("5")
    assert not await facts.flush()
    assert await facts.last_seen() == "1"
    store.is_full = False
    assert await facts.flush()
    assert await DiscordFacts(store).drafts() == ("5",)
    assert await facts.flush()
    assert store.writes == 1
