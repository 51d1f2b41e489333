"""Asks Discord whose token it is: who the bot is there, and for whom it works."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ollim_bot import __version__
from ollim_bot.kernel.base.http_exchange import Ask, HttpAnswer, ask
from ollim_bot.kernel.base.settings import Secret
from ollim_bot.kernel.upkeep.findings import (
    Check,
    DoctorFinding,
    DoctorInput,
    Found,
    failed,
    off,
    passed,
    warned,
)

USUAL_ADDRESS = "https://discord.com/api/v10"
# Of an application in many servers, and of a small one.
_MESSAGE_CONTENT = (1 << 18) | (1 << 19)
NO_TOKEN = "Discord refused the token"
_NEW_TOKEN = "Run `ollim-bot setup discord` with a new one, then start the bot again."
_AWAY = "Discord cannot be reached now"
_TRIES = "Look at the network; the bot tries again by itself, and `ollim-bot doctor` tells when."
_WAIT = "Nothing to do: the bot tries again by itself, and `ollim-bot doctor` tells when."
_STRANGE = "what answers there is not Discord"
_RIGHT_ADDRESS = "Look at `DISCORD_API_URL` and at the network, then run `ollim-bot doctor`."
_TEAM = "the application belongs to a team, and nobody says for which member it works"
_SET_OWNER = "Run `ollim-bot setup discord`: it asks who you are, and sets `DISCORD_OWNER_ID`."
_TAKE_OUT = (
    "Take `DISCORD_OWNER_ID` out of `.env`, it is for applications of a team only; then run "
    "`ollim-bot doctor` again."
)


def check_discord(given: DoctorInput) -> Found:
    settings = given.valid_settings
    yield discord_account(
        settings.discord_token, settings.discord_owner_id, settings.discord_api_url, ask
    )


def discord_account(
    token: Secret | None, owner_id: int | None, address: str | None, ask: Ask
) -> DoctorFinding:
    if token is None:
        return off("not set up; `ollim-bot setup discord` does it")
    account = look_up_bot(token, address, ask)
    return account if isinstance(account, DoctorFinding) else account.owned_by(owner_id)


class DiscordBot(NamedTuple):
    """What Discord says of a token: the bot's user, and its application."""

    user: Mapping[str, Any]
    application: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.user.get("username"))

    @property
    def team(self) -> Sequence[tuple[str, str]] | None:
        """The id and the name of each member; None if the application is a person's own."""
        team = self.application.get("team")
        if not isinstance(team, dict):
            return None
        users = [member.get("user", {}) for member in team.get("members", ())]
        return [(str(user.get("id")), str(user.get("username"))) for user in users]

    @property
    def sees_message_content(self) -> bool:
        """Whether the privileged intent is on, which direct messages do not need."""
        flags = self.application.get("flags")
        return isinstance(flags, int) and bool(flags & _MESSAGE_CONTENT)

    def owned_by(self, owner_id: int | None) -> DoctorFinding:
        """Whether it is clear for whom the bot works."""
        if (team := self.team) is not None:
            if owner_id is None:
                return failed(_TEAM, _SET_OWNER)
            if (member := dict(team).get(str(owner_id))) is not None:
                return passed(f"{self.name} is let in, for {member} of the team")
            wrong = f"`DISCORD_OWNER_ID` is {owner_id}, who is not in the team of the application"
            step = "Put the user id of a member there and start the bot again: `ollim-bot`."
            return failed(wrong, step)
        owner = self.application.get("owner")
        if not isinstance(owner, dict):
            return failed(_STRANGE, _RIGHT_ADDRESS)
        whom = owner.get("username")
        if owner_id is not None and str(owner_id) != owner.get("id"):
            other = f"{self.name} is for {whom}, and not for `DISCORD_OWNER_ID` {owner_id}"
            return warned(other, _TAKE_OUT)
        return passed(f"{self.name} is let in, for {whom}")


def look_up_bot(token: Secret, address: str | None, ask: Ask) -> DiscordBot | DoctorFinding:
    """Ask Discord whose token it is; the finding says why that is not known."""
    base = address or USUAL_ADDRESS
    headers = {
        "Authorization": f"Bot {token.reveal()}",
        "User-Agent": f"DiscordBot (ollim-bot, {__version__})",
    }
    try:
        bot = ask(f"{base}/users/@me", headers)
        application = ask(f"{base}/oauth2/applications/@me", headers)
    except OSError:
        return warned(_AWAY, _TRIES)
    trouble = _trouble(bot) or _trouble(application)
    return trouble or DiscordBot(bot.said, application.said)


def _trouble(answer: HttpAnswer) -> DoctorFinding | None:
    match answer.status:
        case 401:
            return failed(NO_TOKEN, _NEW_TOKEN)
        case 429:
            return warned("Discord asks to wait", _WAIT)
        case status if status >= 500:
            return warned(_AWAY, _TRIES)
        case 200 if isinstance(answer.said, dict):
            return None
    return failed(_STRANGE, _RIGHT_ADDRESS)


CHECKS = (Check("Discord", check_discord, is_owners=True, is_of_machine=True, place=240),)
