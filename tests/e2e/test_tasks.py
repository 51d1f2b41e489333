"""A newcomer without an account keeps tasks by talking, by the page and by the file."""

from __future__ import annotations

from tests.e2e.bot import Bot


async def test_tasks_work_whole_without_a_model_of_ones_own(newcomer: Bot) -> None:
    assert await newcomer.ask("add a task: buy a card, due 2026-01-05") == (
        "Task added: buy a card, overdue since Mon 5 Jan."
    )
    assert "buy a card" in await newcomer.ask("what are my tasks")
    path = newcomer.data / "tasks.md"
    assert path.read_text() == "- [ ] buy a card (due 2026-01-05)\n"

    assert (await newcomer.command("/tasks"))["text"] == ""
    await newcomer.press("Done")
    assert path.read_text() == "- [x] buy a card (due 2026-01-05)\n"
    await newcomer.press("Undo")
    assert path.read_text() == "- [ ] buy a card (due 2026-01-05)\n"

    assert await newcomer.ask("done with the card") == "Task done: buy a card."
    assert path.read_text() == "- [x] buy a card (due 2026-01-05)\n"
