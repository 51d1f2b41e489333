"""No secret ever gets into the logs, wherever in an event it is."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import NoReturn

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from tests.key_shapes import KEYS, NO_KEYS
from tests.log_sink import BERLIN, LOGGER, at_nine, failure, root_logger_restored, sink

from ollim_bot.kernel.base.clock import SystemClock
from ollim_bot.kernel.base.logs import MARK, RedactingFilter, log_fields, set_up_logging
from ollim_bot.kernel.base.settings import LogFormat, LogLevel


@pytest.fixture(autouse=True)
def root_logger_as_it_was() -> Iterator[None]:
    with root_logger_restored():
        yield


class Unshowable:
    def __str__(self) -> NoReturn:
        raise RuntimeError("no")

    __repr__ = __str__


@pytest.mark.parametrize(("text", "redacted"), KEYS)
def test_what_has_the_shape_of_a_key_is_redacted(text: str, redacted: str) -> None:
    assert RedactingFilter().redacted(text) == redacted


@pytest.mark.parametrize("text", NO_KEYS)
def test_what_is_no_key_stays(text: str) -> None:
    assert RedactingFilter().redacted(text) == text


def test_overlapping_secrets_leave_nothing_of_either() -> None:
    redacting = RedactingFilter(["abcdef", "defghi", "cdefg", "bcde"])
    assert redacting.redacted("-abcdefghi-abcdef-") == f"-{MARK}-{MARK}-"
    assert RedactingFilter(["aaaa"]).redacted("aaaaaaa") == MARK


def test_a_short_secret_stays_for_it_is_part_of_too_many_words() -> None:
    assert RedactingFilter(["abc", ""]).redacted("abc") == "abc"
    assert RedactingFilter(["abcd"]).redacted("abcd") == MARK


@pytest.mark.parametrize("word", ["none", "NONE", " none", "null", "ollama", "dummy", "no", "0"])
def test_a_placeholder_is_no_secret(word: str) -> None:
    said = f"leftovers: {word} since the backup, and {word.strip()}th"
    assert RedactingFilter([word, "tr0ub4dör"]).redacted(said) == said
    assert RedactingFilter([f"{word}-but-longer"]).redacted(f"a {word}-but-longer") == f"a {MARK}"


def test_a_secret_can_be_learned_later() -> None:
    stream = io.StringIO()
    redacting = set_up_logging(
        LogLevel.INFO, LogFormat.TEXT, secrets=(), clock=SystemClock(BERLIN), stream=stream
    )
    redacting.learn("made-at-start")
    LOGGER.info("made-at-start")
    assert "made-at-start" not in stream.getvalue()


def test_redacting_twice_changes_nothing_more() -> None:
    redacting = RedactingFilter(["hunter22"])
    error = failure(ValueError("hunter22"))
    record = at_nine("token=x %s", "hunter22", field="hunter22", exc_info=(ValueError, error, None))
    redacting.filter(record)
    once = dict(record.__dict__)
    redacting.filter(record)
    assert record.__dict__ == once


def test_the_exception_itself_is_kept_from_the_formatters_of_others() -> None:
    error = failure(ValueError("hunter22"))
    record = at_nine("failed", exc_info=(ValueError, error, None))
    RedactingFilter(["hunter22"]).filter(record)
    assert record.exc_info is None


def test_the_lines_of_a_secret_are_each_a_secret() -> None:
    """A traceback of an exception group indents each line, which splits a secret of two lines."""
    stream = sink(LogFormat.TEXT, "BEGIN KEY\nabcdef\nghijkl")
    group = ExceptionGroup("several", [ValueError("BEGIN KEY\nabcdef\nghijkl")])
    LOGGER.error("failed", exc_info=failure(group))
    assert "several" in stream.getvalue()
    assert not any(line in stream.getvalue() for line in ("BEGIN KEY", "abcdef", "ghijkl"))


@pytest.mark.parametrize("log_format", list(LogFormat))
def test_what_cannot_show_itself_hides_neither_the_event_nor_lets_a_secret_out(
    log_format: LogFormat, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = sink(log_format, "hunter22")
    LOGGER.handle(at_nine("%s and %s", Unshowable(), "hunter22", field=Unshowable()))
    LOGGER.handle(at_nine("too few %s %s hunter22", "hunter22"))
    LOGGER.handle(at_nine("by name %(a)s", {"a": Unshowable()}))
    LOGGER.handle(at_nine("big", field=10**5000, nan=float("nan")))
    LOGGER.handle(at_nine("odd exception", exc_info=("not", "an", "exception")))
    assert len(stream.getvalue().splitlines()) >= 5
    assert "<Unshowable that cannot be shown>" in stream.getvalue()
    assert "hunter22" not in stream.getvalue() + "".join(capsys.readouterr())


_SECRETS = st.text(st.characters(exclude_characters="[]"), min_size=6, max_size=30)


def log_everywhere(secret: str) -> None:
    number = int(secret) if secret.isdecimal() else 7
    LOGGER.info(secret)
    LOGGER.info(
        "a %s b %r c %s",
        secret,
        secret,
        {secret: [secret, secret.encode("utf-8", "surrogatepass")]},
    )
    LOGGER.info("json %s %s", json.dumps(secret), json.dumps([secret], ensure_ascii=False))
    LOGGER.info("both quotes %r", f"'\" {secret}")
    LOGGER.handle(at_nine("stack", stack_info=f"Stack:\n{secret}"))
    LOGGER.info(
        "extra", extra={"field": secret, "list": [secret], "number": number, f"n{secret}": 1}
    )
    LOGGER.info("error %s", KeyError(secret), exc_info=failure(KeyError(secret)))
    LOGGER.info("text", exc_info=failure(ValueError(secret)))
    group = ExceptionGroup(secret, [ValueError(secret)])
    group.add_note(secret)
    LOGGER.info("group", exc_info=failure(group))
    LOGGER.getChild(secret).info("logger")
    with log_fields(run=secret, session=f"x{secret}x"):
        LOGGER.info("ambient")


def written(log_format: LogFormat, secret: str, *known: str) -> str:
    stream = sink(log_format, *known)
    log_everywhere(secret)
    return stream.getvalue()


def strings_in(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from strings_in(inner)
    else:
        yield str(value)


@given(_SECRETS)
@example("it's mine")
@example('it\'s "quoted"')
@example("line one\nline two\r\nline three")
@example("grün ☂ 👩‍💻 secret")
@example("back\\slash\\\\es")
@example("tab\tand \x1b escape")
@example("100%s of %(it)s")
@example("12345678")
@example("a/b?c=d&e f")
def test_a_secret_put_anywhere_never_appears(secret: str) -> None:
    scaffold = written(LogFormat.TEXT, "harmless") + written(LogFormat.JSON, "harmless") + MARK
    spellings = {
        secret,
        secret.replace("'", "\\'"),
        repr(secret)[1:-1],
        repr(secret.encode("utf-8", "surrogatepass"))[2:-1],
        json.dumps(secret)[1:-1],
    }
    assume(not any(spelling in scaffold for spelling in spellings))
    text = written(LogFormat.TEXT, secret, secret)
    lines = written(LogFormat.JSON, secret, secret)
    for spelling in spellings:
        assert spelling not in text
        assert spelling not in lines
    for line in lines.splitlines():
        assert all(secret not in string for string in strings_in(json.loads(line)))
