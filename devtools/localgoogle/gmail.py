"""Gmail of the local Google: read-only."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count

from devtools.localgoogle.protocol import ApiCall, ApiRoute, Json, flag, invalid, not_found, page

_READ = ("https://www.googleapis.com/auth/gmail.readonly",)
_SYSTEM_LABELS = ("INBOX", "UNREAD", "SENT", "SPAM", "TRASH", "IMPORTANT", "STARRED")
_HIDDEN = frozenset({"SPAM", "TRASH"})
_FORMATS = ("full", "metadata", "minimal", "raw")


def text_part(
    text: str, kind: str = "text/plain", charset: str = "UTF-8", filename: str = ""
) -> Json:
    """A part of a message as Gmail answers it: decoded, in base64 for addresses."""
    data = text.encode(charset)
    return {
        "partId": "0",
        "mimeType": kind,
        "filename": filename,
        "headers": [{"name": "Content-Type", "value": f'{kind}; charset="{charset}"'}],
        "body": {"size": len(data), "data": base64.urlsafe_b64encode(data).decode()},
    }


def multipart(kind: str, *parts: Json) -> Json:
    return {"mimeType": f"multipart/{kind}", "filename": "", "headers": [], "parts": [*parts]}


@dataclass(frozen=True, slots=True)
class _StoredMail:
    id: str
    at: datetime
    headers: Mapping[str, str]
    labels: tuple[str, ...]
    payload: Json


class GmailApi:
    def __init__(self) -> None:
        self._numbers = count(1)
        self.mails: list[_StoredMail] = []
        self.labels: dict[str, str] = {}

    def receive(
        self,
        sender: str,
        subject: str,
        payload: Json | str,
        *,
        at: datetime,
        labels: Sequence[str] = ("INBOX", "UNREAD"),
        to: str = "owner@example.com",
    ) -> str:
        """A mail arrives; returns its id."""
        mail_id = f"18f{next(self._numbers):013x}"
        part = text_part(payload) if isinstance(payload, str) else payload
        headers = {"From": sender, "To": to, "Subject": subject}
        self.mails.append(_StoredMail(mail_id, at, headers, tuple(labels), part))
        return mail_id

    def routes(self) -> Sequence[ApiRoute]:
        listing = frozenset({"includeSpamTrash", "labelIds", "maxResults", "pageToken", "q"})
        reading = frozenset({"format", "metadataHeaders"})
        mails = "/gmail/v1/users/me/messages"
        return (
            ApiRoute("GET", "/gmail/v1/users/me/profile", _READ, self._profile),
            ApiRoute("GET", "/gmail/v1/users/me/labels", _READ, self._labels),
            ApiRoute("GET", mails, _READ, self._list, listing),
            ApiRoute("GET", f"{mails}/{{id}}", _READ, self._get, reading),
        )

    def _profile(self, call: ApiCall) -> Json:
        total = len(self.mails)
        return {
            "emailAddress": call.account,
            "messagesTotal": total,
            "threadsTotal": total,
            "historyId": str(total + 1),
        }

    def _labels(self, _: ApiCall) -> Json:
        system = [{"id": name, "name": name, "type": "system"} for name in _SYSTEM_LABELS]
        own = [{"id": key, "name": name, "type": "user"} for key, name in self.labels.items()]
        return {"labels": [*system, *own]}

    def _list(self, call: ApiCall) -> Json:
        wanted = call.params.get("labelIds", ())
        for label in wanted:
            if label not in _SYSTEM_LABELS and label not in self.labels:
                raise invalid(f"Invalid label: {label}")
        has_hidden = flag(call, "includeSpamTrash")
        found = [
            mail
            for mail in sorted(self.mails, key=lambda mail: mail.at, reverse=True)
            if set(wanted) <= set(mail.labels)
            and (has_hidden or not _HIDDEN & set(mail.labels))
            and self._fits(mail, call.param("q"))
        ]
        items = [{"id": mail.id, "threadId": mail.id} for mail in found]
        answer = page(call, items, 100, 500, "messages")
        if not answer["messages"]:
            del answer["messages"]
        return {**answer, "resultSizeEstimate": len(found)}

    def _fits(self, mail: _StoredMail, query: str) -> bool:
        return all(self._has(mail, term) for term in query.split())

    def _has(self, mail: _StoredMail, term: str) -> bool:
        name, colon, value = term.lower().partition(":")
        if colon and name in ("from", "to", "subject"):
            return value in mail.headers[name.capitalize()].lower()
        if colon and name in ("is", "in", "label"):
            return value.upper() in mail.labels
        return term.lower() in f"{mail.headers} {_texts(mail.payload)}".lower()

    def _get(self, call: ApiCall) -> Json:
        kind = call.param("format", "full")
        if kind not in _FORMATS:
            raise invalid(f"Invalid value for format: {kind}")
        mail = next((each for each in self.mails if each.id == call.parts["id"]), None)
        if mail is None:
            raise not_found("Requested entity was not found.")
        answer: Json = {
            "id": mail.id,
            "threadId": mail.id,
            "labelIds": list(mail.labels),
            "snippet": _texts(mail.payload)[:100],
            "internalDate": str(int(mail.at.timestamp() * 1000)),
            "sizeEstimate": 1000,
            "historyId": "1",
        }
        if kind in ("full", "metadata"):
            answer["payload"] = self._payload(mail, call, is_full=kind == "full")
        return answer

    def _payload(self, mail: _StoredMail, call: ApiCall, *, is_full: bool) -> Json:
        asked = {name.lower() for name in call.params.get("metadataHeaders", ())}
        headers = [
            {"name": name, "value": value}
            for name, value in mail.headers.items()
            if is_full or not asked or name.lower() in asked
        ]
        if not is_full:
            return {"mimeType": mail.payload["mimeType"], "headers": headers}
        return {**mail.payload, "headers": [*headers, *mail.payload.get("headers", [])]}


def _texts(part: Mapping[str, object]) -> str:
    parts = part.get("parts")
    if isinstance(parts, list):
        return " ".join(map(_texts, parts))
    body = part.get("body")
    data = body.get("data", "") if isinstance(body, dict) else ""
    return base64.urlsafe_b64decode(data).decode("utf-8", "replace")
