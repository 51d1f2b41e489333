"""The readable text of a mail, from all forms that Gmail returns."""

from __future__ import annotations

import base64
import time
from datetime import UTC, datetime

import pytest
from devtools.localgoogle.gmail import multipart, text_part

from ollim_bot.integrations.google.gmail import (
    LONGEST_BODY,
    decoded_words,
    mail_of,
    readable_text,
    summary_of,
)


def message(payload: dict[str, object], **headers: str) -> dict[str, object]:
    named = [{"name": name, "value": value} for name, value in headers.items()]
    own = payload.get("headers")
    payload = {**payload, "headers": [*named, *(own if isinstance(own, list) else [])]}
    return {"id": "a1", "labelIds": ["INBOX", "UNREAD"], "payload": payload}


def body(payload: dict[str, object]) -> str:
    return mail_of(message(payload)).body


HTML = text_part("<p>Hello <b>you</b></p>", "text/html")
PLAIN = text_part("Hello you\r\n\r\n\r\n\r\n  plain")
FILE = {"mimeType": "application/pdf", "filename": "bill.pdf", "body": {"attachmentId": "x"}}


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        pytest.param(PLAIN, "Hello you\n\nplain", id="plain"),
        pytest.param(HTML, "Hello you", id="html"),
        pytest.param(multipart("alternative", HTML, PLAIN), "Hello you\n\nplain", id="both"),
        pytest.param(multipart("alternative", text_part(" \n"), HTML), "Hello you", id="blank"),
        pytest.param(
            multipart("mixed", multipart("related", multipart("alternative", HTML)), FILE),
            "Hello you",
            id="nested",
        ),
        pytest.param(multipart("mixed", text_part("a"), text_part("b")), "a\n\nb", id="two texts"),
        pytest.param(
            multipart("mixed", text_part("a"), text_part("b", filename="b.txt")), "a", id="a file"
        ),
        pytest.param({"mimeType": "text/plain", "body": {"data": "%%%"}}, "", id="no base64"),
        pytest.param({"mimeType": "text/plain", "body": None, "parts": 7}, "", id="wrong types"),
        pytest.param({}, "", id="nothing"),
        pytest.param(FILE, "", id="only a file"),
    ],
)
def test_plain_text_comes_first_and_else_what_the_html_shows(
    payload: dict[str, object], expected: str
) -> None:
    assert body(payload) == expected


@pytest.mark.parametrize(
    "charset", ["utf-8", "iso-8859-1", "windows-1252", "iso-8859-15", "utf-16"]
)
def test_letters_beyond_ascii_arrive_in_every_charset(charset: str) -> None:
    assert body(text_part("Grüße für Zoë", charset=charset)) == "Grüße für Zoë"


def test_asian_and_cyrillic_charsets_arrive() -> None:
    assert body(text_part("日本語です", charset="iso-2022-jp")) == "日本語です"
    assert body(text_part("日本語です", charset="shift_jis")) == "日本語です"
    assert body(text_part("Привет", charset="koi8-r")) == "Привет"


def test_utf8_under_a_wrong_name_and_an_unknown_charset_are_read_all_the_same() -> None:
    part = text_part("Grüße")
    for name in ("iso-8859-1", "x-unknown", "punycode", "zlib", "rot13"):
        part["headers"] = [{"name": "Content-Type", "value": f"text/plain; charset={name}"}]
        assert body(part) == "Grüße"
    data = base64.urlsafe_b64encode("Grüße".encode("latin-1")).decode()
    assert body({**part, "headers": [], "body": {"data": data}}) == "Grüße"


def test_a_long_text_is_cut_and_its_length_is_known() -> None:
    mail = mail_of(message(text_part("word " * 5000)))
    assert (len(mail.body), mail.length) == (LONGEST_BODY, 24_999)


def test_attachments_are_named_and_a_mail_inside_is_one_of_them() -> None:
    inner = {"mimeType": "message/rfc822", "filename": "", "parts": [text_part("inner")]}
    named = {**FILE, "filename": "=?utf-8?q?Rechnung_f=C3=BCr_Zo=C3=AB.pdf?="}
    mail = mail_of(message(multipart("mixed", PLAIN, named, inner)))
    assert mail.attachments == ("Rechnung für Zoë.pdf", "message/rfc822")
    assert "inner" not in mail.body


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("plain", "plain"),
        ("=?UTF-8?B?R3LDvMOfZQ==?= an alle", "Grüße an alle"),
        ("=?iso-8859-1?q?Gr=FC=DFe?=\r\n =?iso-8859-1?q?_zwei?=", "Grüße zwei"),
        ("=?utf-8?b?a?=", "=?utf-8?b?a?="),
        ("=?nonsense?q?abc?=", "abc"),
        ("a\r\nBcc: b\x00\u202e", "a Bcc: b"),
    ],
)
def test_encoded_words_are_decoded_and_a_header_is_one_line(header: str, expected: str) -> None:
    assert decoded_words(header) == expected


def test_a_listing_has_sender_subject_date_and_whether_it_is_unread() -> None:
    raw = {
        **message(PLAIN, From="Ada <ada@example.com>", Subject=""),
        "internalDate": "1794819600000",
    }
    summary = summary_of(raw)
    assert (summary.sender, summary.subject) == ("Ada <ada@example.com>", "(no subject)")
    assert summary.date == datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
    assert summary.is_unread
    assert summary_of({"id": "b", "internalDate": "soon", "payload": []}).date is None


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("one<br>two<p>three</p>four", "one\ntwo\nthree\n\nfour"),
        ("<ul><li>a</li><li>b</li></ul>", "- a\n\n- b"),
        ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>", "a b\n\nc"),
        ("<style>p{}</style><title>t</title><script>x()</script>seen", "seen"),
        ("a<!-- hidden -->b<!-- open", "ab"),
        ("<div style='display:none'>hidden<div>x</div></div>seen", "seen"),
        ('<span style="font-size:0px">hidden</span><b hidden>x</b>seen', "seen"),
        ("<p style='font-size:0.9em'>small</p>", "small"),
        ("<img alt='A cat' src=x><img hidden alt=y>", "A cat"),
        ("Tom &amp; Jerry &lt;x&gt; &#8364;5 &nosuch;", "Tom & Jerry <x> €5 &nosuch;"),
        ("1 < 2 and <b>3</b> > 2", "1 < 2 and 3 > 2"),
        ("zero\u200bwidth\u00ad \u202eturned", "zerowidth turned"),
    ],
)
def test_html_becomes_what_a_reader_of_the_page_sees(html: str, expected: str) -> None:
    assert readable_text(html) == expected


def test_broken_html_takes_time_in_proportion_to_its_length() -> None:
    begin = time.process_time()
    for broken in ("<", "<!--", "<!---->", "<a ", "</", "<![CDATA[", "<div hidden>", "&#"):
        readable_text(broken * (200_000 // len(broken)))
    assert time.process_time() - begin < 20
