"""What is known of the login at Claude, and how it is said."""

from __future__ import annotations

from dataclasses import dataclass

NOT_SIGNED_IN = "Not signed in. Run `ollim-bot auth login`."


@dataclass(frozen=True, slots=True)
class LoginStatus:
    """`method` is the program's own word; whether a login still holds, only a turn can tell."""

    is_logged_in: bool
    method: str = "none"
    account: str | None = None
    plan: str | None = None
    key_source: str | None = None

    @property
    def sentence(self) -> str:
        return f"Signed in to Claude with {self._with}." if self.is_logged_in else NOT_SIGNED_IN

    @property
    def _with(self) -> str:
        match self.method:
            case "claude.ai":
                owner = f"the account {self.account}" if self.account else "a Claude account"
                return f"{owner} ({self.plan})" if self.plan else owner
            case "api_key" if self.account:
                return f"the account {self.account}"
            case "api_key" if self.key_source and self.key_source.isupper():
                return f"the API key in {self.key_source}"
            case "api_key":
                return "an API key"
            case "oauth_token":
                return "a token"
            case other:
                return other
