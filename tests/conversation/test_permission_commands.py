"""`/permissions` shows what counts, and sets the mode of this session."""

from __future__ import annotations

import pytest
from tests.conversation.approval_scene import ApprovalScene
from tests.conversation.scene import call

from ollim_bot.domain.runtime_config import PermissionMode
from ollim_bot.errors import WrongInput


@pytest.fixture
async def scene() -> ApprovalScene:
    return ApprovalScene()


async def test_alone_it_shows_the_mode_and_what_was_allowed_for_good(scene: ApprovalScene) -> None:
    command = scene.command
    shown = await command.permissions(call())
    assert shown.startswith("Mode: `dontAsk` (what is not allowed beforehand is refused).")
    assert "allowed nothing" in shown

    (asking,) = await scene.asked()
    await scene.click("always")
    await scene.within(asking)
    assert "until `/clear`:\n- `Write(./notes/**)`" in await command.permissions(call())
    await scene.approvals.reset()
    assert "allowed nothing" in await command.permissions(call())


@pytest.mark.parametrize("mode", PermissionMode)
async def test_a_mode_counts_for_this_session(scene: ApprovalScene, mode: PermissionMode) -> None:
    command = scene.command
    said = await command.permissions(call(mode=mode.upper()))
    assert said.startswith(f"Mode: `{mode}`")
    assert f"`/config permission_mode {mode}` sets it for good" in said
    assert await scene.approvals.mode() is mode
    assert (await command.permissions(call())).startswith(f"Mode: `{mode}`")
    assert scene.stores.config.read().permission_mode == "dontAsk"


async def test_a_mode_that_there_is_not_says_which_there_are(scene: ApprovalScene) -> None:
    with pytest.raises(WrongInput, match=r"no mode `ask`.* dontAsk, default, acceptEdits, bypass"):
        await scene.command.permissions(call(mode="ask"))
