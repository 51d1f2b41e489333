"""Tasks on Discord: /tasks, its buttons and their Undo, with the file that a person edits."""

from __future__ import annotations

from devtools.localdiscord.state import Message
from tests.e2e.discord.discord_scene import WELCOME, DiscordScene, words

FILE = "# Home\n- [ ] water the ferns\n- [ ] pay the rent (due 2026-01-05)\n  from savings\n"


def labels(message: Message) -> list[str]:
    return [str(each["label"]) for each in message.buttons if not each.get("disabled")]


async def test_a_task_is_ticked_and_deleted_by_buttons_and_both_are_undone(
    scene: DiscordScene,
) -> None:
    await scene.card(WELCOME)
    path = scene.bot.data / "tasks.md"
    path.write_text(FILE)
    assert (await scene.command("tasks")).is_deleted
    card = await scene.card("Tasks")
    assert "pay the rent · overdue since" in words(card)
    second = ["2 · Done", "2 · Delete", "2 · Break it down"]
    assert labels(card) == ["1 · Done", "1 · Delete", "1 · Break it down", *second]

    await scene.press(card, "1 · Done")
    await scene.until(lambda: labels(card) == ["1 · Undo", *second])
    assert "✓ pay the rent · " in words(card)
    assert path.read_text() == FILE.replace("[ ] pay", "[x] pay")
    await scene.press(card, "1 · Undo")
    await scene.until(lambda: labels(card)[0] == "1 · Done")
    assert path.read_text() == FILE

    await scene.press(card, "1 · Delete")
    await scene.until(lambda: labels(card)[0] == "1 · Undo")
    path.write_text(f"{path.read_text()}- [ ] by hand\n")
    await scene.press(card, "1 · Undo")
    await scene.until(lambda: labels(card)[0] == "1 · Done")
    assert path.read_text() == f"{FILE}- [ ] by hand\n"

    path.write_text("")
    gone = await scene.press(card, "2 · Done")
    await scene.until(lambda: gone.followups)
    assert gone.followups[-1].text == "That task is not there any more."
