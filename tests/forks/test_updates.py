"""Pending updates in a fork: each is shown to it once, and the main session sees them too."""

from __future__ import annotations

from tests.conversation.scene import scripted
from tests.forks.fork_scene import fork_scene

from ollim_bot.domain.events import Noted

READ_ONLY = "RECENT BACKGROUND UPDATES (read-only — main session will also see these)"
FOR_MAIN = "RECENT BACKGROUND UPDATES (mention key findings in your response)"


async def test_a_fork_is_shown_each_update_once_and_main_sees_it_afterwards() -> None:
    async with fork_scene(engine := scripted("Hello.", "Rome.", "May.", "June.", "Back.")) as at:
        await at.scene.ask("hi")
        at.scene.stores.leave_update("3 mails.", at.scene.clock.now())
        await at.enter("Rome")
        assert f"{READ_ONLY}\n- (just now) 3 mails." in engine.prompts[-1]
        await at.scene.ask("when?")
        assert "mails" not in engine.prompts[-1]
        at.scene.stores.leave_update("The build is green.", at.scene.clock.now())
        await at.scene.ask("are you sure?")
        assert "build is green" in engine.prompts[-1]
        assert "mails" not in engine.prompts[-1]
        assert at.scene.pending == ["3 mails.", "The build is green."]
        await at.press("Leave it")
        await at.scene.ask("hello again")
        assert FOR_MAIN in engine.prompts[-1]
        assert "3 mails." in engine.prompts[-1]
        assert "The build is green." in engine.prompts[-1]
        assert at.scene.pending == []


async def test_another_fork_is_shown_them_again() -> None:
    async with fork_scene(engine := scripted("Rome.", "Paris.")) as at:
        at.scene.stores.leave_update("3 mails.", at.scene.clock.now())
        await at.enter("Rome")
        await at.press("Leave it")
        await at.enter("Paris")
        assert "3 mails." in engine.prompts[-1]


async def test_only_main_says_that_it_catches_up() -> None:
    async with fork_scene(scripted("Rome.", "Hello.")) as at:
        at.scene.stores.leave_update("3 mails.", at.scene.clock.now())
        await at.enter("Rome")
        await at.press("Leave it")
        events = [event for shown in at.scene.surface.events.values() for event in shown]
        assert not [event for event in events if isinstance(event, Noted)]
        await at.scene.ask("hi")
        shown = at.scene.surface.events[at.scene.surface.starts[-1].turn]
        assert Noted("catching up on background activity...") in shown
        assert at.scene.answers[-1].footer == "catching up on background activity..."


async def test_what_a_restart_left_open_is_not_shown_again() -> None:
    engine = scripted("Rome.", "May.")
    async with fork_scene(engine) as at:
        at.scene.stores.leave_update("3 mails.", at.scene.clock.now())
        await at.enter("Rome")
        stores = at.scene.stores
    async with fork_scene(engine, stores=stores) as at:
        await at.scene.ask("when?")
        assert "mails" not in engine.prompts[-1]
        assert at.scene.answers[-1].in_fork
