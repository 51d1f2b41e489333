"""All input from outside has a limit, and no text is too long or too deep to be handled."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import pytest
from bench.linear import MESSAGE_READERS, READERS, Reader

from ollim_bot.kernel.base.errors import BadCron, BadPhrase
from ollim_bot.kernel.base.text import LONGEST_SLUG, slug
from ollim_bot.kernel.store.attachments.attachment_files import LONGEST_NAME, safe_name
from ollim_bot.kernel.store.document import BadDocument
from ollim_bot.kernel.store.frontmatter import parse
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.phrases.durations import parse_duration
from ollim_bot.kernel.values.phrases.moment import parse_moment
from ollim_bot.offline.intents import schedule_intent
from ollim_bot.offline.phrasings import intents_in

NOW = datetime(2026, 2, 3, 9, tzinfo=UTC)
LONG = 100_000


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_no_reader_runs_out_of_stack(reader: Reader) -> None:
    try:
        reader.read(reader.make(3000))
    except RecursionError:
        pytest.fail(f"{reader.name} recurses")
    except Exception:  # noqa: BLE001 - a refusal is an answer
        pass


@pytest.mark.parametrize("reader", MESSAGE_READERS, ids=lambda reader: reader.name)
def test_a_message_of_twice_the_length_is_twice_the_work(reader: Reader) -> None:
    once, twice = calls_for(reader, 6_000), calls_for(reader, 12_000)
    assert twice < 2.5 * once + 500


def calls_for(reader: Reader, size: int) -> int:
    """How many calls it makes; unlike its time, that is the same on a busy machine."""
    events: list[str] = []
    text = reader.make(size)
    sys.setprofile(lambda _frame, event, _argument: events.append(event))
    try:
        reader.read(text)
    finally:
        sys.setprofile(None)
    return len(events)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ("a: [" + "x, " * 30_000 + "]", "the fields are longer than 65536 characters"),
        ("a: " + "[" * 60_000, "nested too deeply"),
        ("a: " + "{a: " * 10_000, "nested too deeply"),
        ("- " * 30_000, "nested too deeply"),
        (
            "a: &a [x, x]\n" + "".join(f"b{n}: &b{n} [*a, *a]\n" for n in range(500)),
            "anchors and aliases (& and *) are not used here",
        ),
    ],
)
def test_fields_that_would_unfold_are_refused(fields: str, reason: str) -> None:
    with pytest.raises(BadDocument) as wrong:
        parse(f"---\n{fields}\n---\nbody")
    assert wrong.value.reason == reason


@pytest.mark.parametrize("unit", ["*/1,", "1,", "9", " ", "*"])
def test_a_long_cron_line_is_refused(unit: str) -> None:
    with pytest.raises(BadCron, match="at most 500 characters"):
        Cron.parse((unit * LONG)[:LONG])


@pytest.mark.parametrize("unit", ["1h ", "and ", "9", "few ", "at 9 "])
def test_a_long_phrase_is_refused(unit: str) -> None:
    with pytest.raises(BadPhrase):
        parse_duration((unit * LONG)[:LONG])
    with pytest.raises(BadPhrase):
        parse_moment((unit * LONG)[:LONG], NOW)


def test_the_offline_model_does_not_look_into_long_texts() -> None:
    assert intents_in("hi " * LONG) == ()
    assert schedule_intent("remind me to " + "and " * LONG, NOW) is None


def test_names_are_made_of_the_beginning_of_long_texts() -> None:
    assert slug("a-" * LONG) == ("a-" * LONGEST_SLUG)[: LONGEST_SLUG - 1]
    assert slug("-" * LONG + "a") == ""
    assert len(safe_name("a." * LONG)) <= LONGEST_NAME
