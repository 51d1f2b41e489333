"""What a person reads of a mail, from the message resource of Gmail's API. Pure."""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.errors import HeaderParseError
from email.header import decode_header
from html import unescape
from typing import Any

from ollim_bot.features.google.google_client import GoogleClient
from ollim_bot.features.google.google_values import GoogleService
from ollim_bot.kernel.base.errors import GoogleRefused, OllimError, WrongInput

LONGEST_BODY = 3000
NO_SUBJECT = "(no subject)"
UNREAD = "UNREAD"

# A part beyond this is not looked at: the first 3000 characters of a mail come long before.
_LONGEST_PART = 200_000
_MOST_PARTS = 200
_SAFE_CHARSET = re.compile(
    r"(?:utf-?(?:8|16|32)|us-ascii|ascii|latin|iso-?8859|iso-?2022|windows-?|cp-?\d|koi8|big5|gb|"
    r"euc|shift|ks_c|mac|tis|hz)[a-z0-9_-]*",
    re.IGNORECASE,
)
_CHARSET = re.compile(r"""charset\s*=\s*["']?([^\s"';]+)""", re.IGNORECASE)
_UNSEEN = frozenset({"Cc", "Cf", "Cs"})
_NOT_SHOWN = frozenset({"head", "noscript", "script", "style", "template", "title"})
# A mail writes them without an end, which HTML allows.
_WITHOUT_END = frozenset({"br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"})
_BLOCKS = frozenset(
    {
        *("address", "article", "blockquote", "center", "dd", "div", "dl", "dt", "footer", "form"),
        *("h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "ol", "p", "pre"),
        *("section", "table", "tbody", "tr", "ul"),
    }
)
_PARAGRAPHS = frozenset({"h1", "h2", "h3", "p"})
# A tag ends before the next one begins, so that no text, however broken, is read more than once.
# `html.parser` reads some texts again and again: a mail of 400 kB can take it minutes.
_MARKUP = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)([^<>]*)>|<[!?/][^<>]*>|([^<]+|<)")
_ALT = re.compile(r"""\balt\s*=\s*(["'])([^"']*)""", re.IGNORECASE)
_HIDING = re.compile(
    r"\shidden(?![\w=-])|display\s*:\s*none|visibility\s*:\s*hidden|"
    r"(?:font-size|max-height|opacity)\s*:\s*0(?:\.0*)?(?![.\d])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class MailSummary:
    """`date` is None if Gmail names none."""

    id: str
    sender: str
    subject: str
    date: datetime | None
    is_unread: bool


@dataclass(frozen=True, slots=True)
class Mail:
    """`body` is plain text of at most 3000 characters; `length` is the length of the whole."""

    summary: MailSummary
    to: str
    body: str
    length: int
    attachments: tuple[str, ...]


def summary_of(message: Mapping[str, object]) -> MailSummary:
    labels, payload, date = message.get("labelIds"), _mapping(message.get("payload")), None
    with suppress(ValueError, OverflowError, OSError):
        date = datetime.fromtimestamp(int(str(message.get("internalDate"))) // 1000, UTC)
    return MailSummary(
        str(message.get("id", "")),
        decoded_words(_header(payload, "from")),
        decoded_words(_header(payload, "subject")) or NO_SUBJECT,
        date,
        isinstance(labels, list) and UNREAD in labels,
    )


def mail_of(message: Mapping[str, object]) -> Mail:
    """The mail with its plain text, or else with the readable text of its HTML."""
    payload = _mapping(message.get("payload"))
    body = tidied(_text(payload))
    attachments = tuple(
        decoded_words(str(part.get("filename") or "")) or _kind(part) or "a file"
        for part in _leaves(payload)
        if _is_attachment(part)
    )
    return Mail(
        summary_of(message),
        decoded_words(_header(payload, "to")),
        body[:LONGEST_BODY],
        len(body),
        attachments,
    )


def decoded_words(header: str) -> str:
    """The value of a header on one line, with its encoded words decoded."""
    if "=?" in header:
        # What cannot be decoded is shown as it is.
        with suppress(HeaderParseError, binascii.Error, ValueError):
            header = "".join(_decoded(*part) for part in decode_header(header))
    return " ".join(_seen(header).split())


def readable_text(html: str) -> str:
    """The text that a reader of the page sees; what its styles hide is left out."""
    page = _ReadableText()
    for found in _MARKUP.finditer(_without_comments(html[:_LONGEST_PART])):
        slash, tag, attributes, text = found.groups()
        if text is not None:
            page.text(text)
        elif not tag:  # a declaration
            continue
        elif slash:
            page.end(tag.lower())
        else:
            page.begin(tag.lower(), attributes)
    return tidied("".join(page.pieces))


def tidied(text: str) -> str:
    """The text without unseen characters, and with one empty line at most between paragraphs."""
    lines = (" ".join(line.split()) for line in _seen(text).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _header(part: Mapping[str, object], name: str) -> str:
    headers = part.get("headers")
    for each in headers if isinstance(headers, list) else ():
        header = _mapping(each)
        if str(header.get("name", "")).lower() == name:
            return str(header.get("value", ""))
    return ""


def _text(payload: Mapping[str, object]) -> str:
    """All plain texts in their order; only without any, the readable texts of the HTML parts."""
    leaves = [part for part in _leaves(payload) if not _is_attachment(part)]
    plain = [_content(part) for part in leaves if _kind(part) in ("text/plain", "")]
    if any(text.strip() for text in plain):
        return "\n\n".join(plain)
    return "\n\n".join(
        readable_text(_content(part)) for part in leaves if _kind(part) == "text/html"
    )


def _leaves(payload: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """The parts that hold no others, in their order. A mail inside the mail is one part."""
    waiting, seen = [payload], 0
    while waiting and seen < _MOST_PARTS:
        part = waiting.pop()
        seen += 1
        inner = part.get("parts")
        if isinstance(inner, list) and inner and _kind(part) != "message/rfc822":
            waiting.extend(_mapping(each) for each in reversed(inner[:_MOST_PARTS]))
        else:
            yield part


def _is_attachment(part: Mapping[str, object]) -> bool:
    return bool(part.get("filename")) or not _kind(part).startswith("text/")


def _kind(part: Mapping[str, object]) -> str:
    return str(part.get("mimeType") or "").lower()


def _content(part: Mapping[str, object]) -> str:
    data = str(_mapping(part.get("body")).get("data") or "")[: _LONGEST_PART * 4 // 3 // 4 * 4]
    try:
        raw = base64.urlsafe_b64decode(data + "=" * (-len(data) % 4))
    except (binascii.Error, ValueError):
        return ""
    found = _CHARSET.search(_header(part, "content-type"))
    return _decoded(raw, found[1] if found else None)


def _decoded(raw: bytes | str, charset: str | None) -> str:
    """UTF-8 where the bytes are that: mails often name a charset that they do not use."""
    if isinstance(raw, str):
        return raw
    named = charset if charset and _SAFE_CHARSET.fullmatch(charset) else None
    is_stateful = b"\x1b" in raw or b"\0" in raw or b"~{" in raw
    for encoding in (named, "utf-8") if is_stateful else ("utf-8", named):
        try:
            return raw.decode(encoding or "utf-8")
        except (UnicodeDecodeError, LookupError):
            continue
    return raw.decode("latin-1" if named is None else "utf-8", "replace")


def _seen(text: str) -> str:
    """Without control characters, and without those that take no room or turn the direction."""
    text = re.sub(r"\r\n?|[\v\f\x85\u2028\u2029]", "\n", text)
    return "".join(
        sign for sign in text if sign in "\n\t" or unicodedata.category(sign) not in _UNSEEN
    )


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


class _ReadableText:
    """Follows the tags of a page, and gathers what is shown."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._hidden: list[str] = []

    def text(self, data: str) -> None:
        if not self._hidden:
            # A line break in the source is a space on the page.
            self.pieces.append(unescape(re.sub(r"\s+", " ", data)))

    def begin(self, tag: str, attributes: str) -> None:
        if self._hidden:
            if tag == self._hidden[-1]:
                self._hidden.append(tag)
        elif tag not in _WITHOUT_END and (tag in _NOT_SHOWN or _HIDING.search(attributes)):
            self._hidden.append(tag)
        elif tag == "br" or tag in _BLOCKS:
            self.pieces.append("\n- " if tag == "li" else "\n")
        elif tag in ("td", "th"):
            self.pieces.append(" ")
        elif tag == "img" and (alt := _ALT.search(attributes)) and not _HIDING.search(attributes):
            self.text(alt[2])

    def end(self, tag: str) -> None:
        if self._hidden:
            if tag == self._hidden[-1]:
                self._hidden.pop()
        elif tag in _BLOCKS:
            self.pieces.append("\n\n" if tag in _PARAGRAPHS else "\n")


def _without_comments(html: str) -> str:
    """An open comment hides all that follows, as in a browser."""
    kept, at = [], 0
    while (opened := html.find("<!--", at)) >= 0:
        kept.append(html[at:opened])
        closed = html.find("-->", opened)
        at = closed + len("-->") if closed >= 0 else len(html)
    return "".join([*kept, html[at:]])


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
        with ThreadPoolExecutor(_AT_ONCE) as workers:
            messages = [*workers.map(lambda mail_id: self._found(mail_id, how), ids)]
        return [summary_of(message) for message in messages if message is not None]

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
