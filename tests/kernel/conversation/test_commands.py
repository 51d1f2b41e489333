"""Slash commands: what each does, and a hint for those that are not right."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import Fails, Says, ScriptedEngine, Waits
from tests.kernel.conversation.scene import HOME, NOW, STATUS, Scene, card_of, scene, scripted
from tests.slash_commands import COMMANDS

from ollim_bot import __version__
from ollim_bot.kernel.base.ids import MessageId, SessionId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.conversation.dispatcher import HELP_TOPICS, help_card
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.events import (
    Compacted,
    CompactionStarted,
    EndCause,
    FailureKind,
    TurnEnded,
)
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.ports import Status
from ollim_bot.kernel.values.sessions import SessionChange, SessionEvent
from ollim_bot.kernel.values.usage import Price, Usage, UsageKind, UsageRow, micros


async def said(at: Scene, line: str) -> str:
    answer = await at.chat.command("web", line)
    assert not answer.is_error
    return answer.text


async def sessions(at: Scene) -> list[str]:
    assert await said(at, "/sessions") == ""
    card = card_of(at.log[-1])
    assert card.problems() == []
    return [line.text for line in card.lines]


async def wrong(at: Scene, line: str) -> str:
    answer = await at.chat.command("web", line)
    assert answer.is_error
    return answer.text


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("/cler", "There is no command `/cler`. Did you mean `/clear`?"),
        ("/xyzzy", "There is no command `/xyzzy`. `/help` shows what I can do."),
        ("/resume", "`/resume` needs more: write `/resume <id>`."),
        ("/clear all", "`/clear` takes no words after it."),
        ("/resume ab", "There is no conversation `ab`. `/sessions` shows them."),
        ("/resume abcd", "There is no conversation `abcd`. `/sessions` shows them."),
        ("/config model.mian", "There is no setting `model.mian`. Did you mean `model.main`?"),
        ("/config wallpaper", "There is no setting `wallpaper`. `/config` shows them all."),
    ],
)
async def test_a_wrong_command_gets_a_hint(line: str, sentence: str) -> None:
    async with scene(ScriptedEngine()) as at:
        assert await wrong(at, line) == sentence
        assert at.log == []


async def test_a_wrong_value_is_refused_and_nothing_is_changed() -> None:
    async with scene(ScriptedEngine()) as at:
        before = at.stores.config.read()
        await wrong(at, "/thinking sometimes")
        await wrong(at, "/config bg_concurrency 99")
        assert at.stores.config.read() == before


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        (replace(STATUS, model="llama3"), "Claude answers, with llama3. Model: default. It takes "),
        (
            replace(STATUS, is_offline=True),
            "The built-in model answers until a real one is connected. Model: default. It takes ",
        ),
    ],
    ids=["named by the settings", "built-in"],
)
async def test_the_model_in_use_is_shown(status: Status, shown: str) -> None:
    async with scene(ScriptedEngine(), status=status) as at:
        assert (await said(at, "/model")).startswith(shown)
        is_said = "The built-in model answers" in await said(at, "/model opus")
        assert is_said == status.is_offline


async def test_settings_are_shown_and_changed() -> None:
    async with scene(ScriptedEngine()) as at:
        assert (await said(at, "/model")).startswith("Claude answers. Model: default. It takes ")
        assert await said(at, "/model opus") == "model.main is now opus (it was default)."
        assert await said(at, "/model opus") == "model.main is opus already."
        doubt = "It is taken as a full model id."
        assert (await said(at, "/model gpt")).endswith(f"(it was opus). {doubt}")
        back = "model.main is now default (it was gpt)."
        assert await said(at, "/model default") == back
        assert await said(at, "/model Opus") == "model.main is now opus (it was default)."
        assert " Model: opus. It takes " in await said(at, "/model")
        assert (await said(at, "/thinking")).startswith("Thinking: ")
        assert (await said(at, "/thinking off")).startswith("thinking.main is ")
        assert at.stores.config.read().thinking_main == "off"
        listed = (await said(at, "/config")).splitlines()
        assert "- `model.main` opus (changed): the model that answers you" in listed
        assert "- `bg_fork_timeout` 1800 seconds: how long a background run may take" in listed
        one = await said(at, "/config model.main")
        assert one.startswith("`model.main` opus (changed): the model that answers you.\nIt takes ")
        assert await said(at, "/config model.main haiku") == (
            "model.main is now haiku (it was opus)."
        )


async def test_a_new_time_zone_is_told_with_the_time_there() -> None:
    async with scene(ScriptedEngine()) as at:
        told = await said(at, "/config timezone Asia/Tokyo")
        assert told.startswith("timezone is now Asia/Tokyo (it was UTC). It is ")
        assert at.stores.config.read().timezone == "Asia/Tokyo"
        default = await said(at, "/config timezone default")
        assert default == "timezone is UTC, its default already."
        assert "Did you mean Asia/Tokyo?" in await wrong(at, "/config timezone Tokio")


async def test_what_was_said_is_found_across_a_clear_and_the_answer_is_not_kept() -> None:
    engine = scripted("The *dentist* is on Friday.", "Hello.")
    async with scene(engine) as at:
        await at.ask("When is the dentist?")
        await at.chat.command("web", "/clear")
        await at.ask("hello")
        before = len(at.log)
        assert await said(at, "/search DENTIST is") == (
            "- today 10:15, bot: The \\***dentist**\\* **is** on Friday.\n"
            "- today 10:15, you: When **is** the **dentist**?"
        )
        assert await said(at, "/search zebra") == "Nothing was said with these words."
        assert await wrong(at, "/search ?!") == "Say a word to look for."
        assert len(at.log) == before


async def test_a_search_shows_the_five_best_and_says_that_there_are_more() -> None:
    async with scene(ScriptedEngine()) as at:
        for number in range(6):
            message = ChatMessage(
                MessageId(f"m{number}"), NOW, Author.BACKGROUND, "tea", job="tea_"
            )
            at.stores.state.run(lambda tx, message=message: tx.messages.add(message))  # type: ignore[misc]
        *lines, more = (await said(at, "/search tea")).splitlines()
        assert lines == ["- today 10:15, tea\\_: **tea**"] * 5
        assert more == "There are more. A further word narrows it down."


async def test_the_version_is_said_with_a_newer_one() -> None:
    newest: list[str] = []

    async def newer() -> str | None:
        return "".join(newest) or None

    async with scene(ScriptedEngine(), newer_version=newer) as at:
        assert await said(at, "/version") == f"ollim-bot {__version__}"
        assert await said(at, "VERSION") == f"ollim-bot {__version__}"
        newest.append("9.0.0")
        told = f"ollim-bot {__version__}. 9.0.0 is there; `/update` puts it in place."
        assert await said(at, "/version") == told


async def test_a_restart_is_asked_for_once_and_an_update_begins_at_once() -> None:
    asked: list[str] = []

    async def begin() -> str:
        return "Looking for a newer version."

    restart = partial(asked.append, "restart")
    async with scene(ScriptedEngine(), restart=restart, update=begin) as at:
        assert await said(at, "/restart") == texts.RESTARTING
        assert asked == ["restart"]
        assert await said(at, "/update") == "Looking for a newer version."


async def test_an_interrupt_says_so_only_where_nothing_runs() -> None:
    engine = ScriptedEngine().then(Waits())
    async with scene(engine) as at:
        assert await said(at, "/interrupt") == "Nothing is running."
        await at.send("one")
        await at.until(lambda: engine.prompts)
        assert await said(at, "/interrupt") == ""
        await at.quiet()
        assert at.told == [texts.STOPPED]


async def test_a_compaction_says_what_was_made_short() -> None:
    clock = ManualClock(NOW)
    engine = ScriptedEngine(clock)
    async with scene(engine, clock=clock) as at:
        for number in range(15):
            await at.ask(f"question {number}")
        await clock.advance((3 * 60 + 12) * 60 + 30)
        same = SessionId(str(at.stores.session.read()))
        engine.then(CompactionStarted(), Compacted(same, tokens_before=45_200))
        assert await said(at, "/compact keep the names") == ""

        assert at.told == ["15 turns · 3h 12m · 45k tokens compacted"]
        assert engine.prompts[-1] == "/compact keep the names"
        await at.ask("one more")
        await clock.advance(60)
        engine.then(Compacted(same, tokens_before=900))
        await said(at, "/compact")
        assert at.told[-1] == "1 turn · 1m · 900 tokens compacted"


async def test_a_compaction_that_fails_or_does_nothing_is_said() -> None:
    engine = ScriptedEngine().answers("Hi.")
    engine.then(Fails(FailureKind.OVERLOADED)).then(Says("Nothing to do."))
    async with scene(engine) as at:
        await said(at, "/compact")
        assert (at.told, engine.prompts) == ([texts.NOTHING_TO_COMPACT], [])
        await at.ask("hello")
        await said(at, "/compact")
        await said(at, "/compact")
        assert at.told[1:] == ["It failed: overloaded.", texts.COMPACTED_NOTHING]


async def test_sessions_are_listed_with_date_size_and_first_words() -> None:
    clock = ManualClock(NOW)
    engine = ScriptedEngine(clock)
    async with scene(engine, clock=clock) as at:
        assert await said(at, "/sessions") == "There are no earlier conversations."
        await at.ask("tell me about trees, please, and about all that lives in and under them")
        old = str(at.stores.session.read())
        await said(at, "/clear")
        await clock.advance(2 * 24 * 3600)
        await at.ask("fish")
        new = str(at.stores.session.read())

        words = "tell me about trees, please, and about all that lives in an…"
        assert await sessions(at) == [
            "today 10:15 · fish · 1 answer (this one)",
            f"Tue 24 Feb 10:15 · {words} · 1 answer",
        ]
        proposed = [f"{new[:8]} fish", f"{old[:8]} {words}"]
        assert await at.chat.completions("resume", "id", "") == proposed
        assert await at.chat.completions("resume", "id", "about tr") == proposed[1:]


async def test_a_listed_conversation_is_gone_back_to_by_its_button() -> None:
    clock = ManualClock(NOW)
    async with scene(ScriptedEngine(clock), clock=clock) as at:
        await at.ask("about trees")
        old = at.stores.session.read()
        await said(at, "/clear")
        await at.ask("about fish")
        await sessions(at)
        (button,) = at.cards[-1].buttons
        line = at.cards[-1].lines[button.line - 1]
        assert line.text.startswith("today 10:15 · about trees")
        assert not (await at.press(button.label)).is_error
        await at.quiet()
        assert at.stores.session.read() == old
        assert at.told[-1] == "Back in the conversation of today 10:15: “about trees”."


async def test_a_conversation_can_be_named_by_its_words() -> None:
    async with scene(ScriptedEngine()) as at:
        await at.ask("about trees")
        old = at.stores.session.read()
        await said(at, "/clear")
        await at.ask("about fish")
        assert "Several conversations have `about`" in await wrong(at, "/resume about")
        await said(at, "/resume Trees")
        assert at.stores.session.read() == old
        (proposed,) = await at.chat.completions("resume", "id", "fish")
        await said(at, f"/resume {proposed}")
        assert at.stores.session.read() != old


@pytest.mark.parametrize("kind", [SessionChange.BG_FORK, SessionChange.ISOLATED_BG])
async def test_background_runs_are_no_conversations(kind: SessionChange) -> None:
    engine = ScriptedEngine()
    async with scene(engine) as at:
        await at.ask("hello")
        run = SessionId("background-run")
        engine.store(run, HOME, "check the mail")
        assert "check the mail" in str(await sessions(at))
        at.stores.session_history.append(SessionEvent(run, kind, NOW))
        assert "check the mail" not in str(await sessions(at))
        assert "no conversation" in await wrong(at, "/resume background")


async def test_a_branch_of_a_compacted_conversation_has_the_words_of_that_one() -> None:
    engine = ScriptedEngine()
    async with scene(engine) as at:
        await at.ask("about trees")
        main, fork = at.stores.session.read(), SessionId("fork-1")
        summary = "This session is being continued from a previous conversation that ran out."
        engine.store(fork, HOME, summary)
        assert "no words yet" in str(await sessions(at))
        event = SessionEvent(fork, SessionChange.INTERACTIVE_FORK, NOW, main)
        at.stores.session_history.append(event)
        listed = str(await sessions(at))
        assert listed.count("about trees") == 2
        assert "being continued" not in listed


MORE_COSTS = "`ollim-bot cost` shows the month, by job and by model."


def spends(
    cost: float, context: int, window: int | None = 200_000, price: Price = Price.LISTED
) -> TurnEnded:
    return TurnEnded(EndCause.COMPLETED, "ok", usage=Usage(context, 10, cost, window, price))


async def test_the_cost_is_that_of_today_and_each_turn_counts_once() -> None:
    clock = ManualClock(NOW)
    engine = ScriptedEngine(clock)
    async with scene(engine, clock=clock) as at:
        assert await said(at, "/cost") == "Today: 0 answers, $0.00."
        engine.then(spends(0.25, 1000)).then(spends(0.75, 40_000))
        await at.ask("one")
        assert await said(at, "/cost") == (
            f"Today: 1 answer, $0.25. The context is 0% full (1k tokens). {MORE_COSTS}"
        )
        await at.ask("two")
        assert [answer.spent and answer.spent.cost_usd for answer in at.answers] == [0.25, 0.5]
        assert await said(at, "/cost") == (
            f"Today: 2 answers, $0.75. The context is 20% full (40k tokens). {MORE_COSTS}"
        )
        await clock.advance(24 * 3600)
        assert await said(at, "/cost") == "Today: 0 answers, $0.00."


async def test_the_cost_of_the_day_includes_every_attempt_of_a_background_run() -> None:
    engine = ScriptedEngine().then(spends(0.25, 1000, None))
    async with scene(engine) as at:
        await at.ask("one")
        run = Occurrence.scheduled(JobKind.ROUTINE, "plan", NOW)
        rows = [
            UsageRow(when, UsageKind.RUN, "m", Price.LISTED, micros(cost), occurrence=run.id)
            for when, cost in ((NOW, 0.5), (NOW, 1.0), (NOW - timedelta(days=1), 64.0))
        ]
        at.store.run(lambda tx: tx.usage.add(*rows))
        assert (
            await said(at, "/cost") == f"Today: 1 answer and 1 background run, $1.75. {MORE_COSTS}"
        )


async def test_the_offline_model_is_free() -> None:
    engine = ScriptedEngine().then(spends(0.25, 1000, None, Price.FREE))
    async with scene(engine, status=replace(STATUS, price=Price.FREE)) as at:
        await at.ask("one")
        assert await said(at, "/cost") == f"Today: 1 answer, free. {MORE_COSTS}"
        assert at.answers[0].spent is not None
        assert at.answers[0].spent.cost_usd == 0


async def test_what_a_server_of_ones_own_costs_is_not_made_up() -> None:
    engine = ScriptedEngine().then(spends(0.25, 1000, None, Price.UNKNOWN))
    engine.then(spends(0.5, 1000))
    async with scene(engine, status=replace(STATUS, price=Price.UNKNOWN)) as at:
        await at.ask("one")
        assert "$" not in await said(at, "/cost")
        assert at.answers[0].spent is not None
        assert at.answers[0].spent.cost_usd == 0
        await at.ask("two, answered by a model whose price is listed")
        told = await said(at, "/cost")
        assert told.startswith("Today: 2 answers, $0.50 and your own server. The context is 0%")


async def test_the_model_that_answers_is_named_until_another_one_is_chosen() -> None:
    usage = Usage(1000, 10, model="claude-sonnet-4-6")
    engine = ScriptedEngine().then(TurnEnded(EndCause.COMPLETED, "ok", usage=usage))
    status = replace(STATUS, provider="Claude (API key)")
    async with scene(engine, status=status) as at:
        assert (await said(at, "/model")).startswith("Claude (API key) answers. Model: default. ")
        await at.ask("one")
        answers = "Claude (API key) answers, with claude-sonnet-4-6. Model: default. "
        assert (await said(at, "/model")).startswith(answers)
        await at.until(lambda: at.surface.statuses[-1].model == "claude-sonnet-4-6")
        await at.chat.command("web", "/model opus")
        await at.until(lambda: at.surface.statuses[-1].model == "opus")
        assert (await said(at, "/model")).startswith("Claude (API key) answers, with opus. ")


async def test_completions_begin_with_what_was_typed_or_else_contain_it() -> None:
    async with scene(ScriptedEngine()) as at:
        assert await at.chat.completions("model", "name", "") == [
            "opus",
            "sonnet",
            "haiku",
            "default",
        ]
        assert await at.chat.completions("model", "name", "S") == ["sonnet", "opus"]
        found = await at.chat.completions("config", "key", "model")
        assert found[0].startswith("model.")
        assert all("model" in key for key in found)
        assert await at.chat.completions("nothing", "name", "") == []
        assert len(await at.chat.completions("config", "key", "")) <= 25


_DESTROYS = {"clear", "restart", "interrupt", "compact"}


async def test_help_is_one_line_and_a_button_for_each_need() -> None:
    async with scene(scripted()) as at:
        assert (await at.chat.command("web", "/help")).text == ""
        card = at.cards[-1]
        assert card.problems() == []
        assert "\n" not in card.description
        assert [button.label for button in card.buttons] == [
            each.label for each in HELP_TOPICS.values()
        ]


async def test_a_need_shows_its_lines_in_place_and_leads_to_the_others() -> None:
    async with scene(scripted()) as at:
        await at.chat.command("web", "/help")
        await at.press("Remind me once")
        await at.press("Start afresh")
        assert len(at.log) == 1
        assert at.cards[-1].title == "Start afresh"
        assert "Undo brings the old one back" in at.cards[-1].description
        await at.press("Again and again")
        assert "every weekday at 9" in at.cards[-1].description


async def test_the_button_of_the_welcome_opens_the_help_once() -> None:
    async with scene(scripted()) as at:
        await at.talk.greeting.say()
        await at.press("What I can do")
        assert [message.text.partition("\n")[0] for message in at.log] == [
            "Hello, I am Ollim",
            "What do you need?",
        ]


@pytest.mark.parametrize("topic", HELP_TOPICS)
def test_every_command_that_the_help_names_exists(topic: str) -> None:
    card = help_card(topic)
    assert card.problems() == []
    assert len(card.description.splitlines()) <= 3
    named = set(re.findall(r"`/([a-z-]+)", card.description))
    assert named <= {command.name for command in COMMANDS}


def test_the_menu_begins_with_a_command_that_destroys_nothing() -> None:
    assert COMMANDS[0].name not in _DESTROYS
    assert "help" in {command.name for command in COMMANDS}
