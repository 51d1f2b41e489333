"""`ollim-bot gmail`: the owner's mail, read-only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.framework import (
    JSON,
    Given,
    Noun,
    argument,
    columns,
    fenced_for,
    number_given,
    plain,
    print_json,
    title,
)
from ollim_bot.surfaces.terminal.printing import show

if TYPE_CHECKING:
    from datetime import datetime

    from ollim_bot.features.google.gmail import Gmail, MailSummary

_USUAL = 20
_MOST = 100

_GMAIL = Noun("gmail")
run = _GMAIL.run
_MAX = argument("--max", metavar="N", help=f"at most so many; {_USUAL} if omitted")


@_GMAIL.verb("the unread mail of the inbox, the newest first", "--max 10", _MAX, JSON)
def _unread(given: Given, caller: Caller) -> None:
    found = _gmail(caller).unread(number_given(given, "max", _USUAL, _MOST))
    _show(found, "No unread mail in the inbox.", given, caller)


@_GMAIL.verb(
    "one mail in plain text, which stays unread",
    "18f0000000000001",
    argument("id", metavar="ID", help="its id, from `unread` or `search`"),
    JSON,
)
def _read(given: Given, caller: Caller) -> None:
    mail = _gmail(caller).read(given["id"])
    if "json" in given:
        content = {
            "to": _fenced(mail.to, caller),
            "body": _fenced(mail.body, caller),
            "is_cut": mail.length > len(mail.body),
            "attachments": [_fenced(each, caller) for each in mail.attachments],
        }
        print_json({"mail": {**_row(mail.summary, caller), **content}})
    else:
        summary = mail.summary
        head = [
            f"From: {summary.sender}",
            f"To: {mail.to}",
            f"Subject: {summary.subject}",
            f"Date: {_when(summary, _now(caller))}",
            *(f"Attached: {name}" for name in mail.attachments),
        ]
        body = mail.body or "(no text)"
        if mail.length > len(mail.body):
            body += f"\n… (cut here: {mail.length - len(mail.body)} more characters)"
        show(_fenced(plain("\n".join([*head, "", body])), caller))


@_GMAIL.verb(
    "search your mail, with Gmail's own search words",
    "from:ada invoice",
    argument("words", metavar="Q", nargs="+", help="words, or Gmail's own: from:ada newer_than:7d"),
    _MAX,
    JSON,
)
def _search(given: Given, caller: Caller) -> None:
    query = " ".join(given["words"]).strip()
    if not query:
        raise WrongInput("Say what to look for, such as: ollim-bot gmail search from:ada invoice")
    found = _gmail(caller).search(query, number_given(given, "max", _USUAL, _MOST))
    _show(found, plain(f"No mail fits “{title(query)}”."), given, caller)


@_GMAIL.verb("the names of all labels", "", JSON)
def _labels(given: Given, caller: Caller) -> None:
    labels = _gmail(caller).labels()
    if "json" in given:
        print_json({"labels": labels})
    else:
        show(plain("\n".join(labels)))


def _gmail(caller: Caller) -> Gmail:
    from ollim_bot.features.google.gmail import Gmail
    from ollim_bot.features.google.google_command import google_client

    return Gmail(google_client(caller))


def _now(caller: Caller) -> datetime:
    return caller.now().astimezone(caller.place().zone)


def _show(mails: Sequence[MailSummary], nothing: str, given: Given, caller: Caller) -> None:
    if "json" in given:
        print_json({"mails": [_row(mail, caller) for mail in mails]})
    elif mails:
        now = _now(caller)
        rows = []
        for mail in mails:
            new, sender, subject = "new" * mail.is_unread, title(mail.sender), title(mail.subject)
            rows.append((plain(mail.id), _when(mail, now), new, sender, subject))
        show(_fenced(columns(rows), caller))
    else:
        show(nothing)


def _when(mail: MailSummary, now: datetime) -> str:
    from ollim_bot.kernel.base.moments import describe

    return describe(mail.date, now) if mail.date else "no date"


def _row(mail: MailSummary, caller: Caller) -> Mapping[str, object]:
    return {
        "id": mail.id,
        "from": _fenced(mail.sender, caller),
        "subject": _fenced(mail.subject, caller),
        "date": mail.date.astimezone(caller.place().zone) if mail.date else None,
        "unread": mail.is_unread,
    }


def _fenced(text: str, caller: Caller) -> str:
    """The text; for the agent, it is marked as data that others wrote."""
    return fenced_for(caller.agent, text, "mail", "mail, which others wrote")
