"""`ollim-bot gmail`: the owner's mail, read-only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.framework import JSON, Given, Noun, argument, columns, plain, print_json, title
from ollim_bot.cli.terminal import show
from ollim_bot.errors import WrongInput

if TYPE_CHECKING:
    from datetime import datetime

    from ollim_bot.integrations.google.gmail import Gmail, Mail, MailSummary

_USUAL = 20
_MOST = 100

_GMAIL = Noun("gmail")
run = _GMAIL.run
_MAX = argument("--max", metavar="N", help=f"at most so many; {_USUAL} if omitted")


@_GMAIL.verb("the unread mail of the inbox, the newest first", "--max 10", _MAX, JSON)
def _unread(given: Given, caller: Caller) -> None:
    _show(_gmail(caller).unread(_limit(given)), "No unread mail in the inbox.", given, caller)


@_GMAIL.verb(
    "one mail in plain text, which stays unread",
    "18f0000000000001",
    argument("id", metavar="ID", help="its id, from `unread` or `search`"),
    JSON,
)
def _read(given: Given, caller: Caller) -> None:
    mail = _gmail(caller).read(given["id"])
    if "json" in given:
        print_json({"mail": {**_row(mail.summary, caller), **_content(mail, caller)}})
    else:
        show(_fenced(_whole(mail, _now(caller)), caller))


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
    found = _gmail(caller).search(query, _limit(given))
    _show(found, plain(f"No mail fits “{title(query)}”."), given, caller)


@_GMAIL.verb("the names of all labels", "", JSON)
def _labels(given: Given, caller: Caller) -> None:
    labels = _gmail(caller).labels()
    if "json" in given:
        print_json({"labels": labels})
    else:
        show(plain("\n".join(labels)))


def _gmail(caller: Caller) -> Gmail:
    from ollim_bot.cli.google import google_client
    from ollim_bot.integrations.google.gmail import Gmail

    return Gmail(google_client(caller))


def _now(caller: Caller) -> datetime:
    return caller.now().astimezone(caller.place().zone)


def _limit(given: Given) -> int:
    text = str(given.get("max", _USUAL))
    if not text.isdecimal() or not 0 < int(text) <= _MOST:
        raise WrongInput(f"--max: {text!r} is not right. It takes a number from 1 to {_MOST}.")
    return int(text)


def _show(mails: Sequence[MailSummary], nothing: str, given: Given, caller: Caller) -> None:
    if "json" in given:
        print_json({"mails": [_row(mail, caller) for mail in mails]})
    elif mails:
        now = _now(caller)
        show(_fenced(columns([_line(mail, now) for mail in mails]), caller))
    else:
        show(nothing)


def _line(mail: MailSummary, now: datetime) -> tuple[str, ...]:
    return (
        plain(mail.id),
        _when(mail, now),
        "new" if mail.is_unread else "",
        title(mail.sender),
        title(mail.subject),
    )


def _when(mail: MailSummary, now: datetime) -> str:
    from ollim_bot.domain.moments import describe

    return describe(mail.date, now) if mail.date else "no date"


def _row(mail: MailSummary, caller: Caller) -> Mapping[str, object]:
    return {
        "id": mail.id,
        "from": _fenced(mail.sender, caller),
        "subject": _fenced(mail.subject, caller),
        "date": mail.date.astimezone(caller.place().zone) if mail.date else None,
        "unread": mail.is_unread,
    }


def _content(mail: Mail, caller: Caller) -> Mapping[str, object]:
    return {
        "to": _fenced(mail.to, caller),
        "body": _fenced(mail.body, caller),
        "is_cut": mail.length > len(mail.body),
        "attachments": [_fenced(each, caller) for each in mail.attachments],
    }


def _whole(mail: Mail, now: datetime) -> str:
    summary = mail.summary
    head = [
        f"From: {summary.sender}",
        f"To: {mail.to}",
        f"Subject: {summary.subject}",
        f"Date: {_when(summary, now)}",
        *(f"Attached: {name}" for name in mail.attachments),
    ]
    body = mail.body or "(no text)"
    if mail.length > len(mail.body):
        body += f"\n… (cut here: {mail.length - len(mail.body)} more characters)"
    return plain("\n".join([*head, "", body]))


def _fenced(text: str, caller: Caller) -> str:
    """The text; for the agent, it is marked as data that others wrote."""
    if caller.agent is None:
        return text
    from ollim_bot.domain.taint import Untrusted
    from ollim_bot.prompts.context import fenced

    return fenced(text, Untrusted("mail", "mail, which others wrote"))
