"""Who the bot is, and whose: its application, of one person or of a team."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ollim_bot.testing.discord.payloads import user_payload
from ollim_bot.testing.discord.refusals import Json
from ollim_bot.testing.discord.state import User

_ACCEPTED = 2


@dataclass(frozen=True, slots=True)
class Identity:
    """`team` are its members, the owner first; None where the owner has the application alone."""

    bot: User
    owner: User
    team_id: str
    team: Sequence[User] | None = None

    def ready(self, session_id: str, gateway_url: str) -> Json:
        return {
            "v": 10,
            "user": user_payload(self.bot),
            "guilds": [],
            "private_channels": [],
            "session_id": session_id,
            "resume_gateway_url": gateway_url,
            "application": {"id": self.bot.id, "flags": 0},
        }

    def application(self) -> Json:
        return {
            "id": self.bot.id,
            "name": self.bot.name,
            "icon": None,
            "description": "",
            "summary": "",
            "bot_public": False,
            "bot_require_code_grant": False,
            "verify_key": "0" * 64,
            "flags": 0,
            "owner": user_payload(self.owner),
            "team": None,
            **self._team(),
        }

    def _team(self) -> Json:
        """The owner that Discord names of a team's application is a made-up user."""
        if self.team is None:
            return {}
        team = {
            "id": self.team_id,
            "name": "team",
            "icon": None,
            "owner_user_id": self.owner.id,
            "members": [self._member(each) for each in self.team],
        }
        nobody = User(self.team_id, f"team{self.team_id}")
        return {"owner": user_payload(nobody), "team": team}

    def _member(self, user: User) -> Json:
        return {
            "membership_state": _ACCEPTED,
            "permissions": ["*"],
            "role": "admin",
            "team_id": self.team_id,
            "user": user_payload(user),
        }
