"""Whether Discord lets the bot in, and whom it is for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ollim_bot import __version__
from ollim_bot.settings import Secret
from ollim_bot.upkeep.checks.wire import Answer, Ask
from ollim_bot.upkeep.findings import Finding, failed, passed, warned

NAME = "Discord"
USUAL_ADDRESS = "https://discord.com/api/v10"

_OFF = "off; `DISCORD_TOKEN` in `.env` turns it on"
_NO_TOKEN = "Discord refused the token"
_NEW_TOKEN = "Put a new one in `.env` as `DISCORD_TOKEN` and start the bot again."
_AWAY = "Discord cannot be reached now"
_TRIES = "Look at the network; the bot tries again by itself."
_BUSY = "Discord asks to wait"
_WAIT = "Nothing to do: the bot tries again by itself."
_STRANGE = "what answers there is not Discord"
_RIGHT_ADDRESS = "Look at `DISCORD_API_URL` and at the network."
_TEAM = "the application belongs to a team, and nobody says for which member it works"
_SET_OWNER = "Set `DISCORD_OWNER_ID` in `.env` to the user id of that member."
_OTHER_MEMBER = "Put the user id of a member there and start the bot again."
_TAKE_OUT = "Take `DISCORD_OWNER_ID` out of `.env`: it is for applications of a team only."


def discord_account(
    token: Secret | None, owner_id: int | None, address: str | None, ask: Ask
) -> Iterator[Finding]:
    if token is None:
        yield passed(NAME, _OFF)
        return
    base = address or USUAL_ADDRESS
    headers = {
        "Authorization": f"Bot {token.reveal()}",
        "User-Agent": f"DiscordBot (ollim-bot, {__version__})",
    }
    try:
        bot = ask(f"{base}/users/@me", headers)
        application = ask(f"{base}/oauth2/applications/@me", headers)
    except OSError:
        yield warned(NAME, _AWAY, _TRIES)
        return
    trouble = _trouble(bot) or _trouble(application)
    yield trouble or _owned(str(bot.said.get("username")), application.said, owner_id)


def _trouble(answer: Answer) -> Finding | None:
    match answer.status:
        case 401:
            return failed(NAME, _NO_TOKEN, _NEW_TOKEN)
        case 429:
            return warned(NAME, _BUSY, _WAIT)
        case status if status >= 500:
            return warned(NAME, _AWAY, _TRIES)
        case 200 if isinstance(answer.said, dict):
            return None
    return failed(NAME, _STRANGE, _RIGHT_ADDRESS)


def _owned(name: str, application: Mapping[str, Any], owner_id: int | None) -> Finding:
    team = application.get("team")
    if isinstance(team, dict):
        return _of_team(name, team, owner_id)
    owner = application.get("owner")
    if not isinstance(owner, dict):
        return failed(NAME, _STRANGE, _RIGHT_ADDRESS)
    if owner_id is not None and str(owner_id) != owner.get("id"):
        other = f"{name} is for {owner.get('username')}, and not for `DISCORD_OWNER_ID` {owner_id}"
        return warned(NAME, other, _TAKE_OUT)
    return passed(NAME, f"{name} is let in, for {owner.get('username')}")


def _of_team(name: str, team: Mapping[str, Any], owner_id: int | None) -> Finding:
    if owner_id is None:
        return failed(NAME, _TEAM, _SET_OWNER)
    users = [member.get("user", {}) for member in team.get("members", ())]
    for user in users:
        if user.get("id") == str(owner_id):
            return passed(NAME, f"{name} is let in, for {user.get('username')} of the team")
    wrong = f"`DISCORD_OWNER_ID` is {owner_id}, who is not in the team of the application"
    return failed(NAME, wrong, _OTHER_MEMBER)
