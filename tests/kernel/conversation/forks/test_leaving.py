"""The three ways out of a fork: each does what its card says, and what cannot be done says why."""

from __future__ import annotations

import pytest
from devtools.doubles.engine import Says, ScriptedEngine, Waits
from tests.kernel.conversation.forks.fork_scene import EXIT, SAVE, ForkScene, fork_scene, reports
from tests.kernel.conversation.scene import card_of, scripted

from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.values.sessions import SessionChange


async def test_saving_makes_the_fork_the_main_conversation() -> None:
    async with fork_scene(engine := scripted("Hello.", "Rome.", "Still Rome.")) as at:
        await at.scene.ask("hi")
        before = at.main
        await at.enter("Rome")
        fork = at.open
        await at.press("Keep all of it")
        assert at.fork is None
        assert at.main == fork.session
        assert at.titles[-1] == "Side conversation ended — all of it kept"
        (event,) = at.happened(SessionChange.SWAPPED)
        assert (event.session_id, event.parent_session_id) == (fork.session, before)
        assert await at.scene.ask("and now?") == "Still Rome."
        assert engine.opened[-1].spec.resume == fork.session


async def test_a_report_queues_a_summary_and_drops_the_fork() -> None:
    engine = scripted("Hello.", "Rome.").then(reports("We chose Rome."), Says("Reported."))
    async with fork_scene(engine) as at:
        await at.scene.ask("hi")
        before = at.main
        await at.enter("Rome")
        await at.press("Keep a summary")
        assert engine.prompts[-1].startswith("[system] ")
        assert "`report_updates`" in engine.prompts[-1]
        assert at.fork is None
        assert at.main == before
        assert at.scene.pending == ["We chose Rome."]
        assert [answer.text for answer in at.scene.answers] == ["Hello.", "Rome."]
        card = card_of(at.cards[-1])
        assert card.title == "Side conversation ended — summary kept"
        assert card.description == "We chose Rome."


@pytest.mark.parametrize(
    ("answers", "last"), [(["No."], "No."), ([], "Rome is best in May." + "x" * 480)]
)
async def test_an_agent_that_does_not_report_is_reported_for(answers: list[str], last: str) -> None:
    engine = scripted("Rome is best in May." + "x" * 600, *answers)
    async with fork_scene(engine if answers else engine.then()) as at:
        await at.enter("Rome")
        await at.press("Keep a summary")
        assert at.fork is None
        (summary,) = at.scene.pending
        assert summary.startswith("A side conversation about “Rome” ended.")
        assert summary.endswith(f"Its last answer began: {last}")


async def test_the_agent_leaves_by_itself_when_its_turn_has_ended() -> None:
    engine = scripted("Rome.").then(EXIT, Says("Bye."))
    async with fork_scene(engine) as at:
        await at.enter("Rome")
        await at.scene.ask("that is all")
        assert at.fork is None
        assert at.titles[-1] == "Side conversation ended — nothing kept"
        assert at.scene.answers[-1].text == "Bye."


async def test_the_owner_is_asked_when_the_agent_wants_to_save() -> None:
    engine = scripted("Rome.").then(SAVE, Says("Shall I?"))
    async with fork_scene(engine) as at:
        await at.enter("Rome")
        fork = at.open
        await at.scene.ask("keep this")
        assert at.titles[-1] == "Keep all of this side conversation?"
        assert at.fork is not None
        question = at.cards[-1]
        await at.press("Keep all of it", question)
        assert at.main == fork.session
        assert at.fork is None
        again = await at.press("Keep all of it", question)
        assert (again.is_error, again.text) == (True, texts.BUTTON_USED)


async def test_the_owner_may_keep_talking_instead() -> None:
    engine = scripted("Rome.").then(SAVE, Says("Shall I?")).answers("Go on.")
    async with fork_scene(engine) as at:
        await at.enter("Rome")
        await at.scene.ask("keep this")
        question = at.cards[-1]
        await at.press("Go on talking")
        assert at.fork is not None
        assert (await at.press("Keep all of it", question)).is_error
        assert await at.scene.ask("more") == "Go on."


async def old_main(at: ForkScene) -> SessionId | None:
    """The conversation before the one from which a fork is opened now."""
    await at.scene.ask("the old one")
    old = at.main
    await at.scene.chat.command("web", "/clear")
    await at.scene.ask("the new one")
    await at.enter("Rome")
    return old


async def main_becomes(at: ForkScene, session: SessionId | None) -> None:
    """As after an edit of `sessions.json`."""
    at.scene.stores.session.transact(lambda _: (session, None))
    await at.scene.talk.state.load()


async def test_saving_is_refused_when_main_has_gone_on_and_a_report_is_offered() -> None:
    engine = scripted("Old.", "New.", "Rome.").then(reports("Rome."))
    async with fork_scene(engine) as at:
        old = await old_main(at)
        await main_becomes(at, old)
        await at.press("Keep all of it")
        assert at.main == old
        assert at.fork is not None
        refused = at.cards[-1]
        assert refused.card is not None
        assert refused.card.title == "Not kept yet"
        assert "the main conversation has gone on" in refused.card.description
        await at.press("Keep a summary", refused)
        assert at.fork is None
        assert at.scene.pending == ["Rome."]


async def test_nobody_is_asked_to_save_what_cannot_be_saved() -> None:
    engine = scripted("Old.", "New.", "Rome.").then(SAVE, Says("Well."))
    async with fork_scene(engine) as at:
        old = await old_main(at)
        await main_becomes(at, old)
        cards = len(at.cards)
        await at.scene.ask("keep this")
        assert len(at.cards) == cards
        assert at.fork is not None


async def test_going_back_to_another_conversation_leaves_the_fork() -> None:
    engine = scripted("Old.", "New.", "Rome.", "More.")
    async with fork_scene(engine) as at:
        old = await old_main(at)
        fork, entry = at.fork, at.entry().id
        assert fork is not None
        await at.scene.chat.command("web", f"/resume {fork.session}")
        assert at.scene.told[-1] == texts.SAME_FORK
        assert not (await at.scene.chat.command("web", f"/resume {old}")).is_error
        assert at.scene.told[-1].endswith(
            "“the old one”. The side conversation about “Rome” was left too."
        )
        assert (at.fork, at.main) == (None, old)
        card = card_of(at.scene.message(entry))
        assert card.buttons == (), "no button says that it was used"
        await at.scene.ask("more")
        assert engine.opened[-1].spec.resume == old


async def test_going_back_to_the_conversation_that_a_fork_came_from_leaves_the_fork() -> None:
    async with fork_scene(scripted("Main.", "Rome.")) as at:
        await at.scene.ask("the main one")
        main = at.main
        await at.enter("Rome")
        await at.scene.chat.command("web", f"/resume {main}")
        assert (at.fork, at.main) == (None, main)
        assert at.scene.changes.count(SessionChange.SWAPPED) == 0


async def test_buttons_of_a_fork_that_is_over_do_nothing() -> None:
    async with fork_scene(scripted("Rome.", "Paris.")) as at:
        await at.enter("Rome")
        old = at.entry()
        await at.press("Leave it")
        await at.enter("Paris")
        for label in ("Keep all of it", "Keep a summary", "Leave it"):
            answer = await at.press(label, old)
            assert (answer.is_error, answer.text) == (True, texts.BUTTON_GONE)
        assert at.open.topic == "Paris"


async def test_pressing_twice_is_leaving_once() -> None:
    async with fork_scene(scripted("Rome.")) as at:
        await at.enter("Rome")
        entry = at.entry()
        for label in ("Keep a summary", "Keep a summary", "Leave it", "Keep all of it"):
            await at.press_only(label, entry)
        await at.scene.quiet()
        assert at.fork is None
        ended = [title for title in at.titles if title.startswith("Side conversation ended")]
        assert ended == ["Side conversation ended — nothing kept"] or len(ended) == 1
        assert len(at.scene.pending) <= 1


async def test_leaving_does_not_wait_for_the_end_of_an_answer() -> None:
    engine = scripted("Rome.").then(Says("A long"), Waits())
    async with fork_scene(engine) as at:
        await at.enter("Rome")
        await at.scene.send("tell me all")
        await at.scene.until(lambda: len(engine.prompts) == 2)
        await at.press("Leave it")
        assert at.fork is None
        assert at.scene.answers[-1].is_cut_off


async def test_leaving_waits_for_the_first_answer() -> None:
    engine = ScriptedEngine().then(Says("Rome"), Waits())
    async with fork_scene(engine) as at:
        await at.scene.chat.command("web", "/fork Rome")
        await at.scene.until(lambda: len(engine.prompts) == 1)
        await at.press_only("Leave it")
        assert at.fork is not None
        await at.scene.chat.interrupt()
        await at.scene.quiet()
        assert at.fork is None


async def test_there_is_nothing_to_report_before_the_first_answer() -> None:
    engine = ScriptedEngine().then(Waits())
    async with fork_scene(engine) as at:
        await at.scene.chat.command("web", "/fork Rome")
        await at.scene.until(lambda: len(engine.prompts) == 1)
        await at.press_only("Keep a summary")
        await at.scene.chat.interrupt()
        await at.scene.quiet()
        assert at.fork is not None
        assert "nothing to keep" in at.scene.told[-1]
        await at.press("Keep all of it")
        assert at.titles[-1] == "Not kept yet"


async def test_clearing_discards_the_fork_and_the_conversation() -> None:
    async with fork_scene(scripted("Hello.", "Rome.", "New.")) as at:
        await at.scene.ask("hi")
        await at.enter("Rome")
        await at.scene.chat.command("web", "/clear")
        assert (at.fork, at.main) == (None, None)
        assert at.titles[-1] == "Cleared"
        assert "The side conversation about “Rome” was left too." in at.cards[-1].text
        assert await at.scene.ask("hello") == "New."


async def test_an_undone_clear_opens_the_fork_again_with_its_ways_out() -> None:
    async with fork_scene(scripted("Hello.", "Rome.", "Still Rome.")) as at:
        await at.scene.ask("hi")
        main = at.main
        await at.enter("Rome")
        fork = at.fork
        entry = at.cards[-1]
        await at.scene.chat.command("web", "/clear")
        await at.press("Undo")
        assert fork is not None
        assert (at.open.id, at.open.session, at.main) == (fork.id, fork.session, main)
        assert await at.scene.ask("and?") == "Still Rome."
        await at.press("Leave it", entry)
        assert at.fork is None
        assert at.titles[-1] == "Side conversation ended — nothing kept"


async def test_a_message_that_comes_while_the_fork_reports_goes_to_main() -> None:
    engine = scripted("Hello.", "Rome.").then(Waits()).answers("Here again.")
    async with fork_scene(engine) as at:
        await at.scene.ask("hi")
        await at.enter("Rome")
        await at.press_only("Keep a summary")
        await at.scene.until(lambda: len(engine.prompts) == 3)
        await at.scene.send("one more thing")
        assert at.fork is not None
        await at.scene.chat.interrupt()
        await at.scene.quiet()
        assert at.fork is None
        assert at.scene.answers[-1].text == "Here again."
        assert at.scene.answers[-1].session == at.main


async def test_compacting_in_a_fork_is_about_the_fork() -> None:
    async with fork_scene(engine := scripted("Hello.", "Rome.")) as at:
        await at.scene.ask("hi")
        main = at.main
        await at.enter("Rome")
        await at.scene.chat.command("web", "/compact")
        assert engine.prompts[-1] == "/compact"
        assert engine.opened[-1].spec.branch_of == main
        assert len(engine.opened) == 2


async def test_forks_are_listed_by_their_topic_and_those_that_were_left_apart() -> None:
    engine = scripted("Hello.", "Rome.", "What about?", "Red ones.")
    engine.then(reports("Roses it is."), Says("Done."))
    engine.answers("Open.")
    async with fork_scene(engine) as at:
        await at.scene.ask("hi")
        await at.enter("a trip to Rome")
        await at.press("Leave it")
        await at.enter()
        await at.scene.ask("which roses?")
        await at.press("Keep a summary")
        assert not (await at.scene.chat.command("web", "/sessions")).is_error
        card = card_of(at.cards[-1])
        assert [(line.heading, line.text.partition(" · ")[2]) for line in card.lines] == [
            ("", "side conversation: which roses? · 2 answers"),
            ("", "hi · 1 answer (this one)"),
            ("Side conversations that you left", "a trip to Rome · 1 answer"),
        ]
        sessions = at.scene.chat.views["sessions"]
        listed = await sessions.look({})
        assert [(each.words, each.is_current) for each in listed.main] == [("hi", True)]
        assert [each.words for each in listed.side] == ["which roses?", "a trip to Rome"]
        assert (await sessions.act("web", "resume", {"id": "nothing"})).is_error
        assert (await sessions.act("web", "clear", {"id": listed.side[0].id})).is_error
        assert (await sessions.act("web", "resume", {"id": listed.side[0].id})).go == "/"
        await at.scene.quiet()
        assert at.scene.told[-1].endswith(": “side conversation: which roses?”.")
        assert (await sessions.look({})).side[0].is_current
        await sessions.act("web", "resume", {"id": listed.main[0].id})
        await at.scene.quiet()
        await at.enter("the open one")
        await at.scene.chat.command("web", "/sessions")
        card = card_of(at.cards[-1])
        assert card.lines[0].text.endswith(
            " · side conversation: the open one · 1 answer (this one)"
        )
        await at.press("Leave it")
        await at.press("Go back to it", next(m for m in at.cards if at.button(m, "Go back to it")))
        assert at.scene.told[-1].endswith(": “side conversation: which roses?”.")
