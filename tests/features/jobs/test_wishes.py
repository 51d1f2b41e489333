"""The owner's words say what a new job is: its text, whether it comes as it is, dose and nag."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.values.wishes import wish_from_words


def made(words: str, **given: object) -> tuple[str, dict[str, object]]:
    text, fields = wish_from_words(words, JobKind.REMINDER, given)
    return text, dict(fields)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("remind me to call mum", "call mum"),
        ("Please remind me to call mum, please.", "call mum"),
        ("don't let me forget to call mum", "call mum"),
        ("don’t forget the bins", "the bins"),
        ("remember to call mum", "call mum"),
        ("tell me to call mum", "call mum"),
        ("remind me about the dentist", "the dentist"),
        ("remind me that the bins go out", "the bins go out"),
        ("call mum", "call mum"),
    ],
)
def test_the_text_is_what_the_owner_wants_to_be_reminded_of(words: str, text: str) -> None:
    assert made(words) == (text, {"plain": True})


@pytest.mark.parametrize(
    "words",
    [
        "drink water", "check the oven", "read 20 pages", "look after the plants",
        "ask mum about the keys", "remind me to check my mail", "remind me to look at the roast",
        "remind me to check if the door is locked", "Buy:\n- milk\n- eggs",
    ],
)  # fmt: skip
def test_what_the_owner_does_comes_as_it_is(words: str) -> None:
    assert made(words)[1] == {"plain": True}


@pytest.mark.parametrize(
    "words",
    [
        "plan my day", "What matters today?", "tell me the weather", "summarise my inbox",
        "check my mail for the invoice", "check whether the parcel has come",
        "read the news and tell me what matters", "look up the trains to Bern",
        "search the web for a plumber", "remind me to take an umbrella if it rains",
        "remind me what I have to do", "Ask how the interview went.",
        "If the owner has not left, ping.", "x" * 1001,
    ],
)  # fmt: skip
def test_what_is_to_be_looked_up_read_or_judged_is_a_run(words: str) -> None:
    assert made(words)[1] == {}


@pytest.mark.parametrize(
    ("words", "is_dose"),
    [
        ("take my pills", True),
        ("evening meds", True),
        ("use my inhaler", True),
        ("give the cat her tablet", True),
        ("inject the insulin", True),
        ("second dose", True),
        ("buy pills", False),
        ("pick up my medication", False),
        ("charge the tablet", False),
        ("take the tablet to the repair shop", False),
        ("fill the pill box", False),
        ("call the pharmacy about my insulin", False),
        ("take the bins out", False),
    ],
)
def test_taking_a_medicine_is_a_dose(words: str, is_dose: bool) -> None:
    assert (made(words)[1].get("kind") == "dose") is is_dose


@pytest.mark.parametrize(
    ("again", "nag"),
    [
        (", and keep at it until I have", "10m x 4"),
        (" and nag me every 10 minutes", "10m x 4"),
        (", nag me every half hour until I do", "30m x 4"),
        (" until I've done it", "10m x 4"),
        (". Don't stop until I have.", "10m x 4"),
        (" and remind me every 5 minutes until I’ve called her", "5m x 4"),
        (" every 20 minutes until I do", "20m x 4"),
        (", and again every 2 hours", "2h x 4"),
        (" and keep reminding me every hour, at most three times", "1h x 3"),
        (" and nag me twice", "10m x 2"),
    ],
)
def test_what_comes_again_until_it_is_done_says_so_in_words(again: str, nag: str) -> None:
    assert made(f"call mum{again}") == ("call mum", {"plain": True, "nag": nag})


@pytest.mark.parametrize(
    "words",
    [
        "nag me to call mum",
        "keep reminding me to call mum",
        "nag me every 10 minutes until I call mum",
    ],
)
def test_to_be_nagged_is_to_be_reminded_again_and_again(words: str) -> None:
    assert made(words) == ("call mum", {"plain": True, "nag": "10m x 4"})


@pytest.mark.parametrize("words", ["cook the rice until it's done", "keep going until I have it"])
def test_an_end_that_belongs_to_the_task_stays_in_the_text(words: str) -> None:
    assert made(words) == (words, {"plain": True})


@pytest.mark.parametrize(
    ("again", "reason"),
    [
        ("every minute", "`every minute` is too often: the shortest pause is 2 minutes."),
        ("every 2 days", "`every 2 days` is too seldom: the longest pause is 24 hours."),
        ("every 10 minutes 12 times", "`12 times` is too often: it can come again 8 times"),
        ("every now and then", "is not a length of time"),
    ],
)
def test_a_nag_out_of_bounds_is_refused_with_what_would_be_right(again: str, reason: str) -> None:
    with pytest.raises(WrongInput, match=reason):
        made(f"call mum, nag me {again}")


def test_the_usual_nag_is_that_of_the_owner() -> None:
    def nag(words: str, kind: JobKind = JobKind.REMINDER, **given: object) -> object:
        return wish_from_words(words, kind, given, nag_default="15m x 2").fields.get("nag")

    assert nag("call mum") == nag("call mum", JobKind.ROUTINE) == "15m x 2"
    assert nag("call mum, and keep at it until I have") == "15m x 2"
    assert nag("call mum, nag me every hour") == "1h x 2"
    assert nag("call mum", nag="5m x 1") == "5m x 1"
    for given in ({"must": False}, {"max-chain": 2}, {"allow-ping": False}):
        assert nag("call mum", **given) is None
    assert nag("plan my day", JobKind.ROUTINE) is None


def test_a_field_that_was_said_by_itself_holds() -> None:
    assert made("take my pills", plain=False) == ("take my pills", {"plain": False})
    assert made("take my pills", must=False)[1] == {"plain": True, "must": False}
    assert made("plan my day", plain=True)[1] == {"plain": True}
    for field in ("max-chain", "model", "skills", "background"):
        assert "plain" not in made("call mum", **{field: "x"})[1]


def test_after_reading_untrusted_text_words_order_nothing() -> None:
    words = "take my pills, and nag me every 10 minutes"
    for kind in (JobKind.REMINDER, JobKind.ROUTINE):
        wish = wish_from_words(words, kind, {}, nag_default="15m x 2", is_tainted=True)
        assert wish == ("take my pills", {"plain": True})


@pytest.mark.parametrize("part", ["and ", "nag me every ", "check ", "until i have ", "ask ", ", "])
def test_no_text_takes_long_to_read(part: str) -> None:
    begun = time.process_time()
    for length in (990, 100_000):
        with suppress(WrongInput):
            made((part * length)[:length])
    assert time.process_time() - begun < 1
