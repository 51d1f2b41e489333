"""What a person edits is committed as such, and what the bot writes is not said twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.scheduling.desk import Desk, routine
from tests.storage.data_directory import QuickDisk

from ollim_bot.domain.jobs import Routine
from ollim_bot.ports import Shelf
from ollim_bot.store.job_files import open_shelves

BY_HAND = "by hand: routines/plan.md"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "data")


def routines_of(desk: Desk) -> Shelf[Routine]:
    disk = QuickDisk()
    return open_shelves(desk.paths, desk.hand_edits, disk).routines


async def settled(desk: Desk) -> list[str]:
    await desk.looked()
    await desk.looked_later()
    return desk.journal.messages


async def test_an_edit_by_hand_is_noted_once(desk: Desk) -> None:
    await desk.looked()
    desk.plan.write_text(routine("plan"))
    assert await settled(desk) == [BY_HAND]
    assert [path for path, _ in desk.journal.notes] == [desk.plan]
    assert await settled(desk) == [BY_HAND]


@pytest.mark.parametrize(
    "name", ["USER.md", "IDENTITY.md", "tasks.md", "tool-policy.yaml", "skills/tidy/SKILL.md"]
)
async def test_the_other_files_of_the_owner_are_noted_too(desk: Desk, name: str) -> None:
    path = desk.paths.root / name
    path.parent.mkdir(exist_ok=True)
    await desk.looked()
    for written in ("first", "then another"):
        path.write_text(written)
        await settled(desk)
    path.unlink()
    assert await settled(desk) == [f"by hand: {name}"] * 3
    assert await settled(desk) == [f"by hand: {name}"] * 3


async def test_what_the_agent_writes_of_them_is_not_by_hand(desk: Desk) -> None:
    await desk.looked()
    desk.paths.user.write_text("Likes tea.")
    await desk.looked()
    desk.hand_edits.note(desk.paths.user, "auto: write USER.md")
    assert await settled(desk) == ["auto: write USER.md"]


async def test_the_book_says_when_an_edit_will_be_noted(desk: Desk) -> None:
    await desk.looked()
    desk.plan.write_text(routine("plan"))
    wait = (await desk.looked()).look_again_in
    assert wait is not None
    await desk.looked_later(wait)
    assert desk.journal.messages == [BY_HAND]


async def test_what_was_there_at_the_start_is_not_noted(desk: Desk) -> None:
    desk.plan.write_text(routine("plan"))
    assert await settled(desk) == []


async def test_a_removal_by_hand_is_noted(desk: Desk) -> None:
    desk.plan.write_text(routine("plan"))
    await desk.looked()
    desk.plan.unlink()
    assert await settled(desk) == [BY_HAND]


async def test_a_wrong_file_and_a_comment_are_noted_too(desk: Desk) -> None:
    await desk.looked()
    desk.plan.write_text("nothing right")
    assert await settled(desk) == [BY_HAND]
    desk.plan.write_text("# nothing right")
    assert await settled(desk) == [BY_HAND, BY_HAND]


async def test_what_the_bot_writes_is_noted_by_the_one_who_writes(desk: Desk) -> None:
    desk.plan.write_text(routine("plan"))
    await desk.looked()
    shelf = routines_of(desk)
    shelf.amend("plan", {"description": "The day"})
    assert await settled(desk) == ["edit routine plan"]
    shelf.remove("plan")
    assert await settled(desk) == ["edit routine plan", "remove routine plan"]


async def test_a_write_that_is_spoken_for_after_it_was_seen_is_not_by_hand(desk: Desk) -> None:
    await desk.looked()
    desk.plan.write_text(routine("plan"))
    await desk.looked()
    desk.hand_edits.note(desk.plan, "auto: write routines/plan.md")
    assert await settled(desk) == ["auto: write routines/plan.md"]


async def test_an_edit_right_after_the_bots_own_is_by_hand(desk: Desk) -> None:
    desk.plan.write_text(routine("plan"))
    await desk.looked()
    routines_of(desk).amend("plan", {"description": "The day"})
    desk.plan.write_text(routine("plan", body="Plan it otherwise."))
    assert await settled(desk) == ["edit routine plan", BY_HAND]


async def test_a_link_to_the_data_directory_does_not_confuse(desk: Desk, tmp_path: Path) -> None:
    await desk.looked()
    desk.plan.write_text(routine("plan"))
    linked = tmp_path / "linked"
    linked.symlink_to(desk.paths.root)
    desk.hand_edits.note(linked / "routines" / "plan.md", "auto: write routines/plan.md")
    assert await settled(desk) == ["auto: write routines/plan.md"]
