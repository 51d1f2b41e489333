"""What Discord says no with: the status, its own code, and which fields are wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass(eq=False)
class Refused(Exception):
    """`after` is how many seconds to wait, where that would help; `errors` the tree of fields."""

    status: int
    code: int
    message: str
    errors: Json = field(default_factory=dict)
    after: float | None = None
    is_global: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> Json:
        body: Json = {"message": self.message, "code": self.code}
        if self.errors:
            body["errors"] = self.errors
        if self.after is not None:
            body |= {"retry_after": self.after, "global": self.is_global}
        return body


def unauthorized() -> Refused:
    return Refused(401, 0, "401: Unauthorized")


def not_found() -> Refused:
    return Refused(404, 0, "404: Not Found")


def unknown_channel() -> Refused:
    return Refused(404, 10003, "Unknown Channel")


def unknown_message() -> Refused:
    return Refused(404, 10008, "Unknown Message")


def unknown_user() -> Refused:
    return Refused(404, 10013, "Unknown User")


def unknown_emoji() -> Refused:
    return Refused(400, 10014, "Unknown Emoji")


def unknown_webhook() -> Refused:
    return Refused(404, 10015, "Unknown Webhook")


def unknown_interaction() -> Refused:
    return Refused(404, 10062, "Unknown interaction")


def too_many_reactions() -> Refused:
    return Refused(400, 30010, "Maximum number of reactions reached (20)")


def too_many_old_edits(after: float) -> Refused:
    message = "Maximum number of edits to messages older than 1 hour reached. Try again later."
    return Refused(429, 30046, message, after=after)


def too_large() -> Refused:
    return Refused(413, 40005, "Request entity too large")


def already_acknowledged() -> Refused:
    return Refused(400, 40060, "Interaction has already been acknowledged.")


def missing_access() -> Refused:
    return Refused(403, 50001, "Missing Access")


def not_in_a_dm() -> Refused:
    return Refused(403, 50003, "Cannot execute action on a DM channel")


def anothers_message() -> Refused:
    return Refused(403, 50005, "Cannot edit a message authored by another user")


def empty_message() -> Refused:
    return Refused(400, 50006, "Cannot send an empty message")


def invalid_webhook_token() -> Refused:
    return Refused(401, 50027, "Invalid Webhook Token")


def invalid_json() -> Refused:
    return Refused(400, 50109, "The request body contains invalid JSON.")


class Form:
    """Gathers what is wrong with a body, field by field."""

    def __init__(self) -> None:
        self._errors: Json = {}

    def wrong(self, path: str, code: str, message: str) -> None:
        """`path` names a field with dots: `embeds.0.title`."""
        place = self._errors
        for step in path.split("."):
            place = place.setdefault(step, {})
        place.setdefault("_errors", []).append({"code": code, "message": message})

    def at_most(self, path: str, text: object, most: int) -> None:
        if len(_words(text)) > most:
            self.wrong(path, "BASE_TYPE_MAX_LENGTH", f"Must be {most} or fewer in length.")

    def between(self, path: str, text: object, least: int, most: int) -> None:
        if not least <= len(_words(text)) <= most:
            message = f"Must be between {least} and {most} in length."
            self.wrong(path, "BASE_TYPE_BAD_LENGTH", message)

    def needed(self, path: str, value: object) -> None:
        if value is None or value == "":
            self.wrong(path, "BASE_TYPE_REQUIRED", "This field is required")

    def check(self) -> None:
        if self._errors:
            raise self._refused()

    @classmethod
    def of(cls, path: str, code: str, message: str) -> Refused:
        """With one thing wrong."""
        form = cls()
        form.wrong(path, code, message)
        return form._refused()

    def _refused(self) -> Refused:
        return Refused(400, 50035, "Invalid Form Body", self._errors)


def _words(value: object) -> str | list[Any]:
    if isinstance(value, list):
        return value
    return "" if value is None else str(value)
