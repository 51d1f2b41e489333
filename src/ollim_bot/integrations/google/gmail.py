"""Gmail, read-only: what is unread, one mail, a search, and the labels."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from threading import Thread
from typing import Any

from ollim_bot.domain.google import GoogleService
from ollim_bot.errors import GoogleRefused, OllimError, WrongInput
from ollim_bot.integrations.google.client import GoogleClient
from ollim_bot.integrations.google.mail_text import (
    UNREAD,
    Mail,
    MailSummary,
    decoded_words,
    mail_of,
    summary_of,
)

_MESSAGES = "/gmail/v1/users/me/messages"
_HEADERS = ("From", "Subject")
_ID = re.compile(r"[0-9a-zA-Z_-]{1,64}")
# Google allows 250 units a second, and a mail costs 5.
_AT_ONCE = 5


class Gmail:
    """Reads mail and changes nothing. Raises `SignInNeeded`, `GoogleRefused` or `Unreachable`."""

    def __init__(self, client: GoogleClient) -> None:
        self._client = client

    def unread(self, most: int) -> Sequence[MailSummary]:
        """The newest unread mails of the inbox."""
        return self._summaries({"labelIds": ["INBOX", UNREAD]}, most)

    def search(self, query: str, most: int) -> Sequence[MailSummary]:
        """The newest mails that fit, in Gmail's own language of searches."""
        return self._summaries({"q": query}, most)

    def read(self, mail_id: str) -> Mail:
        self._client.require(GoogleService.MAIL)
        found = self._found(mail_id, {"format": "full"})
        if found is None:
            raise OllimError(f"There is no mail {mail_id}. `ollim-bot gmail unread` shows the new.")
        return mail_of(found)

    def labels(self) -> Sequence[str]:
        """The names of all labels, those of Gmail first."""
        self._client.require(GoogleService.MAIL)
        answer = self._client.call("GET", "/gmail/v1/users/me/labels")
        labels = [each for each in answer.get("labels", ()) if isinstance(each, dict)]
        labels.sort(key=lambda each: (each.get("type") == "user", str(each.get("name"))))
        return [decoded_words(str(each.get("name", ""))) for each in labels]

    def _summaries(
        self, wanted: Mapping[str, str | Sequence[str]], most: int
    ) -> Sequence[MailSummary]:
        self._client.require(GoogleService.MAIL)
        answer = self._client.call("GET", _MESSAGES, {**wanted, "maxResults": most})
        found = [each for each in answer.get("messages", ()) if isinstance(each, dict)]
        how = {"format": "metadata", "metadataHeaders": _HEADERS}
        ids = [str(each.get("id", "")) for each in found[:most]]
        return [
            summary_of(message)
            for message in _at_once(lambda mail_id: self._found(mail_id, how), ids)
            if message is not None
        ]

    def _found(self, mail_id: str, how: Mapping[str, Any]) -> Mapping[str, object] | None:
        """None for a mail that was deleted since it was listed."""
        if not _ID.fullmatch(mail_id):
            example = "`ollim-bot gmail unread` has them."
            raise WrongInput(f"{mail_id!r} is not the id of a mail. {example}")
        try:
            return self._client.call("GET", f"{_MESSAGES}/{mail_id}", how)
        except GoogleRefused as refused:
            if refused.status == 404:
                return None
            raise


def _at_once(
    get: Callable[[str], Mapping[str, object] | None], ids: Sequence[str]
) -> list[Mapping[str, object] | None]:
    """The answers in the order of the ids, a few at a time. Raises the first failure."""
    answers: list[Mapping[str, object] | None] = [None] * len(ids)
    failures: list[OllimError] = []

    def work(first: int) -> None:
        for place in range(first, len(ids), _AT_ONCE):
            if failures:
                return
            try:
                answers[place] = get(ids[place])
            except OllimError as failed:
                failures.append(failed)

    workers = [Thread(target=work, args=(first,)) for first in range(min(_AT_ONCE, len(ids)))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]
    return answers
