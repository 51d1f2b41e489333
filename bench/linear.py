"""Texts from outside that are made to be slow: twice the input takes about twice the time.

To add a reader, add a line to `READERS`: its name, a function that makes an input of n characters,
and the function that reads it. Choose hostile inputs: repeated opening signs, texts that almost
match a pattern, texts without an end. An exception counts as an answer. A reader that refuses long
texts is measured up to its limit.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from bench.measure import Result
from ollim_bot.features.phone.ntfy_channel import wording
from ollim_bot.features.today.quick_add_box import plain_line
from ollim_bot.features.webhooks.hook_requests import RawRequest, picked, proof_in, read_object
from ollim_bot.features.webhooks.reception import problems_of
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.logs import RedactingFilter
from ollim_bot.kernel.base.text import difference, slug
from ollim_bot.kernel.permissions.path_rules import PathPolicy, address_problem
from ollim_bot.kernel.prompts.prompt_context import neutralised, one_line, restored
from ollim_bot.kernel.prompts.turn_prompts import first_words
from ollim_bot.kernel.store.attachments.attachment_files import media_type_of, safe_name
from ollim_bot.kernel.store.frontmatter import parse
from ollim_bot.kernel.tools.guards import may_have_hooks, state_dir_guard
from ollim_bot.kernel.tools.registry import MAIN_TOOLS
from ollim_bot.kernel.values.agent_caller import shell_words
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.hook_jobs import WebhookAuth, WebhookSpec
from ollim_bot.kernel.values.jobs import JobSpec
from ollim_bot.kernel.values.permissions import (
    Pattern,
    beyond_main,
    covers,
    fits,
    grant_for,
    matches,
)
from ollim_bot.kernel.values.phrases.durations import parse_duration
from ollim_bot.kernel.values.phrases.moment import parse_moment
from ollim_bot.kernel.values.ports import ToolCall
from ollim_bot.kernel.values.runtime_config import PushContent
from ollim_bot.kernel.values.search import excerpt, folded_words, terms_of
from ollim_bot.kernel.values.taint import addresses_in
from ollim_bot.kernel.values.tool_patterns import problems
from ollim_bot.offline.actions import reminders_in, routines_in
from ollim_bot.offline.intents import schedule_intent
from ollim_bot.offline.phrasings import intents_in
from ollim_bot.offline.situation import read_prompt
from ollim_bot.surfaces.discord.split import shortened, split, with_tables
from ollim_bot.surfaces.terminal.printing import wrapped
from ollim_bot.surfaces.web.frames import block_starts, plain, render
from ollim_bot.surfaces.web.presenter import HtmlDraft

# Characters; the other input of a row has twice as many.
SIZE = 8_000
# Linear is 2, quadratic is 4; the rest is how much two measurements can differ.
MOST_TIMES = 3.0

_ROUNDS = 3
# A reader that takes less time is ignored, even if its time grows.
_NOTHING = 0.002
_NOW = datetime(2026, 2, 3, 9, tzinfo=UTC)

Make = Callable[[int], str]


class Reader(NamedTuple):
    name: str
    make: Make
    read: Callable[[str], object]


def repeated(unit: str, before: str = "", after: str = "") -> Make:
    return lambda size: f"{before}{unit * (size // len(unit))}{after}"


def _each(name: str, read: Callable[[str], object], *units: str, before: str = "") -> list[Reader]:
    return [Reader(f"{name} of {unit!r}", repeated(unit, before), read) for unit in units]


def _fields(text: str) -> object:
    return parse(f"---\n{text}\n---\nbody")


def _drafted(text: str) -> str:
    return HtmlDraft(rest=text).settled().tail()


_redacted = RedactingFilter(["a secret", "aaaa"]).redacted

_MAIN = [Pattern.of(text) for text in MAIN_TOOLS]
_WIDEST = Pattern.of(f"Bash(ollim-bot {'** a ' * 8}b)")
_NOWHERE = PathPolicy(Path("/nowhere"))


def _wide_table(size: int) -> str:
    columns = size // 6
    return "|a" * columns + "|\n" + "|-" * columns + "|\n" + "|\n" * columns


def _pushed(text: str) -> object:
    said = ChatMessage(MessageId("1"), _NOW, Author.BACKGROUND, text)
    return wording(said, PushContent.FULL, "Ollim", _NOW)


def _found(text: str) -> object:
    return excerpt(text, terms_of("a tea"), 200)


def _fitting(glob: str) -> Callable[[str], bool]:
    # A text of more than 8192 characters matches no glob.
    return lambda text: fits(glob, f"./{text[: len(text) // 4]}")


def _covering(glob: str) -> Callable[[str], bool]:
    return lambda text: covers(glob, text[: len(text) // 4])


def _matched(text: str) -> bool:
    return matches(_WIDEST, "Bash", {"command": f"ollim-bot {text}"}, "/nowhere")


def _guarded(text: str) -> str | None:
    return state_dir_guard(ToolCall("Bash", {"command": f"cat {text}"}), _NOWHERE)


def _named(text: str) -> str | None:
    return state_dir_guard(ToolCall("Read", {"file_path": text}), _NOWHERE)


def _proven(text: str) -> object:
    given = [text.encode()]
    headers = {b"stripe-signature": given, b"webhook-signature": given, b"authorization": given}
    headers |= {b"webhook-id": [b"a"], b"webhook-timestamp": [b"%d" % _NOW.timestamp()]}
    return proof_in(RawRequest(headers, b""), b"secret", tuple(WebhookAuth), _NOW)


def _called(text: str) -> object:
    # More than 10 KB are refused unread.
    data = read_object(f'{{"a": [{text[: len(text) // 2].rstrip(",")}]}}'.encode())
    hook = WebhookSpec(JobSpec(id="a", message="Look."), _ANY_WORDS)
    return None if data is None else problems_of(hook, picked(hook, data))


_WORD = {"anyOf": [{"type": "string"}, {"type": "object", "properties": {"a": True}}]}
_ANY_WORDS = {"properties": {"a": {"type": "array", "items": _WORD}}}

# What every long message goes through.
MESSAGE_READERS: list[Reader] = [
    *_each("messages of 2000", split, "a", "\n", "```\n", "| ", "。", "a. ", "\u0301", "> ", "~"),
    *_each("messages of 2000", split, "#\n", "## a\n", "#\n\n", "- a\n", "\u05e9", "\u202e", "🇩"),
    *_each("tables of a message", with_tables, "|a\n|-\n", "|-|\n", "|a|b|\n", "|\\", before="|"),
    Reader("tables of a message of a wide head", _wide_table, with_tables),
    Reader("tables of a message of an address", repeated("|-|\n", after="|://"), with_tables),
    Reader("page of a wide table", _wide_table, render),
    *_each("words to look for", _found, "a ", "漢", "\u0301", "#\n"),
    *_each("words of the index", folded_words, "a ", "漢", "e\u0301", "ﷺ", "_"),
    *_each("push", _pushed, "a", "#\n", "\u202e", "\u0301", "\ud83d"),
    *_each("line for a terminal", lambda text: wrapped(text, 80), "a ", "- ", "a", "\u05e9 "),
    *_each("line of the page", plain_line, "a ", "#\n", "\u202e", "\u0301"),
]

READERS: list[Reader] = [
    *_each("signature of a call", _proven, "t=1,", "v1=0,", ",", "v1,a ", "bearer ", " "),
    *_each("data of a call", _called, "1,", "[],", '{"a":1},', '"a",', '{"b":[]},', "["),
    *_each("glob", _fitting("./" + "*a" * 8 + "b"), "a", "ab", "/a", "*"),
    *_each("deep glob", _fitting("**a" * 8 + "b"), "a", "ab", "/a", "\n"),
    *_each("wider glob", _covering("**a" * 8 + "b"), "a", "*a", "**/", "?"),
    *_each("pattern", problems, "(", "*", "a", "mcp__", "_", "$(", before="Bash("),
    *_each("pattern of a job", lambda text: list(beyond_main([text], _MAIN)), "** ", "a ", "*"),
    *_each("command", shell_words, "a ", "'a' ", "'", '"', "a/b/", "=", " "),
    *_each("command, allowed", _matched, "a ", "a b ", "'a'"),
    *_each("command, guarded", _guarded, "a/b ", "a", "..", "../", "a:b@c=", "-a ", "a,b,", "./"),
    *_each("path, guarded", _named, "a/", "../", "./", "a", ".", "~"),
    *_each("grant", lambda text: grant_for("Bash", {"command": text}, "/x"), "a ", "a", "git "),
    *_each("address", lambda text: address_problem(text, list), "a.", "%", "[", before="http://"),
    *_each("addresses in words", addresses_in, "a.b ", "https://", "((", ".", "<"),
    *_each("difference", lambda text: difference("a\nb\n", text), "a\n", "b\na\n", "a", "\n"),
    *_each("hooks of a skill", may_have_hooks, "- ", "a: b\n", "#\n", " ", before="---\n"),
    *_each("page", render, "[", "![", "![[](", "> ", "- ", "`", "``a`", "*a ", "**a", "a|b\n"),
    *_each("page", render, "x\n\n", "](", "<a ", "&a", "\\", "http://a(", "| a |\n|---|\n", "_"),
    *_each("words of the page", plain, "[", "![", "*a "),
    *_each("blocks of the page", block_starts, "> ", "- a\n", "a|b\n", "```\n", "  - "),
    *_each("draft", _drafted, "![[](", "- a\n", "x\n\n"),
    *_each("fields", _fields, "[", "{a: ", "- ", "? ", "a:\n ", "&a ", "*a, ", before="a: "),
    *_each("fields", _fields, "a", " ", "a ", "_ ", "- a\n", before="a: "),
    *_each("fields", _fields, "a", " ", "- - ", "\r\n", "a:\n ", "? "),
    *_each("cron line", lambda text: Cron.parse(text), "*/1,", "1,", "1-", "*", "9"),
    *_each("moment", lambda text: parse_moment(text, _NOW), "1h ", "at 9 ", "9", "and ", "."),
    *_each("duration", parse_duration, "1h ", "and ", "9", "an hour and ", "few "),
    *_each("tags", neutralised, "[", "[ ", "[routine:", "< ", "recent ", "\\", " ", "\u0301"),
    *_each("tags, one line", one_line, "[", "\n", "\u3164"),
    *_each("tags, restored", restored, "\\", "\\["),
    *_each("first words", first_words, "> a\n", "[late:", "\n", "- ", before="[system] "),
    *MESSAGE_READERS,
    *_each("shortened", lambda text: shortened(text, len(text) - 1), "\u0301", "\U0001f1e6", "a"),
    *_each("log line", _redacted, "a", "aaaa", "a.", "bearer ", 'token"', "://", "sk-ant-", "1//"),
    *_each("log line", _redacted, "authorization ", "/webhooks/1/", "key= ", "token' : "),
    *_each("slug", slug, "a-", "\u0301", "ﷺ", "<"),
    *_each("file name", safe_name, ".", "/", "\u0301", "a.", " "),
    *_each("kind of file", lambda text: media_type_of(text.encode()), "hdlr", before="0000ftyp"),
    *_each(
        "wish", lambda text: schedule_intent(text, _NOW), "at 9 ", "and ", before="remind me to "
    ),
    *_each("meaning", intents_in, "hi ", "please ", "and "),
    *_each("prompt, offline", read_prompt, "> a\n", "- a\n", "[", "\n"),
    *_each("list of reminders", reminders_in, " · ", "a ", before="- a · "),
    *_each("list of routines", routines_in, "  ", "a  ", " a", before="a  b"),
]


def measure(_: Path) -> list[Result]:
    """Texts from outside that are made to be slow: twice the input takes about twice the time."""
    return [
        Result(
            f"read: {name}",
            twice,
            "half of it",
            once,
            most_times=MOST_TIMES if twice > _NOTHING else None,
        )
        for name, once, twice in _worst_of_each(READERS)
    ]


def _worst_of_each(readers: list[Reader]) -> Iterator[tuple[str, float, float]]:
    """For each kind of reader, the input whose time grows most."""
    worst: dict[str, tuple[float, str, float, float]] = {}
    for reader in readers:
        once, twice = seconds_for(reader, SIZE), seconds_for(reader, 2 * SIZE)
        growth = twice / once if twice > _NOTHING else 0
        kind = reader.name.rpartition(" of ")[0] or reader.name
        worst[kind] = max(worst.get(kind, (-1, "", 0, 0)), (growth, reader.name, once, twice))
    for _, name, once, twice in worst.values():
        yield name, once, twice


def seconds_for(reader: Reader, size: int) -> float:
    """CPU seconds, the minimum of some rounds, so that other programs matter little."""
    text = reader.make(size)
    times = []
    for _ in range(_ROUNDS):
        gc.collect()
        began = time.thread_time()
        with suppress(Exception):
            reader.read(text)
        times.append(time.thread_time() - began)
    return max(min(times), 1e-7)
