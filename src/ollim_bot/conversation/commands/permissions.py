"""`/permissions`: what happens to a call that nothing allows, and what was allowed for good."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ollim_bot.conversation.approvals.approvals import Approvals
from ollim_bot.domain.runtime_config import PermissionMode
from ollim_bot.errors import WrongInput

_MEANS: Mapping[PermissionMode, str] = {
    PermissionMode.DONT_ASK: "what is not allowed beforehand is refused",
    PermissionMode.DEFAULT: "you are asked about what is not allowed beforehand",
    PermissionMode.ACCEPT_EDITS: "files are written without asking, you are asked about the rest",
    PermissionMode.BYPASS: "nothing is asked, only what is out of reach always is refused",
}
_BY_NAME: Mapping[str, PermissionMode] = {mode.lower(): mode for mode in PermissionMode}


class PermissionCommands:
    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals

    async def permissions(self, arguments: Mapping[str, str]) -> str:
        """Set the mode that is given, or show what counts; raises `WrongInput`."""
        if "mode" in arguments:
            return await self._set(arguments["mode"])
        mode = await self._approvals.mode()
        granted = await asyncio.to_thread(self._approvals.granted)
        lines = [f"Mode: `{mode}` ({_MEANS[mode]}). It takes {', '.join(PermissionMode)}."]
        if granted:
            lines.append("You have allowed, until `/clear`:")
            lines += [f"- `{pattern}`" for pattern in granted]
        else:
            lines.append("You have allowed nothing with 🔓.")
        return "\n".join(lines)

    async def _set(self, word: str) -> str:
        mode = _BY_NAME.get(word.strip().lower())
        if mode is None:
            known = ", ".join(PermissionMode)
            raise WrongInput(f"There is no mode `{word}`. It takes one of {known}.")
        await self._approvals.set_mode(mode)
        return (
            f"Mode: `{mode}` ({_MEANS[mode]}), until `/clear` or a restart. "
            f"`/config permission_mode {mode}` sets it for good."
        )
