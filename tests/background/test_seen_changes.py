"""What a background run changes by itself is shown to the owner, with Undo."""

from __future__ import annotations

from tests.background.real_scene import RealScene, calls
from tests.background.scene import reminder, routine

from ollim_bot.domain.occurrences import OccurrenceState

ADD = 'ollim-bot routine add --id daily -m "Plan the day." --cron "30 8 * * 1-5" --background'


async def test_a_routine_and_a_cancelled_reminder_are_shown(real: RealScene) -> None:
    # The program finds its data where it would be by itself.
    (real.home / ".ollim-bot").symlink_to(real.root)
    stage, model = real.stage, real.model
    path = stage.stores.reminders.add(reminder("bo", message="Call Bo.", description=""))
    own = reminder("own", message="Look at me!", description="", set_by="routine:abc123")
    stage.stores.reminders.add(own)
    model.then(
        # Else it could write to the owner for nothing, by setting reminders and cancelling them.
        calls("mcp__discord__cancel_reminder", reminder_id="own"),
        calls("Bash", command=ADD),
        calls("mcp__discord__cancel_reminder", reminder_id="bo"),
        calls("mcp__discord__add_reminder", prompt="Call Eve.", delay_minutes=20),
    )
    job = routine(allowed_tools=("Bash(ollim-bot routine *)",), description="Mail")
    assert await stage.run(job) is OccurrenceState.DONE
    posts = [post for post in stage.surface.posts if post.card is not None]
    titles = [post.card.title for post in posts if post.card]
    assert titles == ["Routine added: Plan the day.", "Reminder cancelled: Call Bo."]
    assert {post.job for post in posts} == {"Mail"}
    assert not path.exists()
    card = posts[1].card
    assert card is not None
    assert not (await stage.echo.undo("web", posts[1], card.buttons[0])).is_error
    assert stage.stores.reminders.get("bo").item.spec.message == "Call Bo."
