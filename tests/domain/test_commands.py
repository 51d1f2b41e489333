"""Slash commands: what was typed becomes arguments, or a sentence says what would be right."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.domain.commands import Argument, CommandSpec
from ollim_bot.errors import WrongInput

CLEAR = CommandSpec("clear", "forget")
MODEL = CommandSpec("model", "change", (Argument("name", "which", ("opus", "haiku")),))
RESUME = CommandSpec("resume", "go on", (Argument("id", "which", is_required=True),))
COMPACT = CommandSpec("compact", "shorten", (Argument("instructions", "what", takes_rest=True),))
CONFIG = CommandSpec(
    "config", "settings", (Argument("key", "which"), Argument("value", "what", takes_rest=True))
)
SAY = CommandSpec(
    "say",
    "words",
    (
        Argument("who", "name", is_required=True),
        Argument("what", "words", is_required=True, takes_rest=True),
    ),
)

argument_lists = st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()).map(
    lambda shape: tuple(
        Argument(
            f"a{number}",
            "about",
            is_required=number < shape[1],
            takes_rest=shape[2] and number == shape[0] - 1,
        )
        for number in range(shape[0])
    )
)
specs = st.builds(CommandSpec, st.just("do"), st.just("about"), argument_lists)
lines = st.lists(st.sampled_from(["one", "two", " ", "  ", "\t", "\n", "\u00a0"])).map("".join)


@pytest.mark.parametrize(
    ("spec", "line", "expected"),
    [
        (CLEAR, "", {}),
        (CLEAR, "  \n", {}),
        (MODEL, "", {}),
        (MODEL, "sonnet", {"name": "sonnet"}),
        (MODEL, "  sonnet  ", {"name": "sonnet"}),
        (RESUME, "5b1e0c77", {"id": "5b1e0c77"}),
        (COMPACT, "", {}),
        (COMPACT, "keep  the\nplans ", {"instructions": "keep  the\nplans"}),
        (CONFIG, "bg_concurrency", {"key": "bg_concurrency"}),
        (CONFIG, "bg_concurrency   3", {"key": "bg_concurrency", "value": "3"}),
        (CONFIG, "key\ta  b", {"key": "key", "value": "a  b"}),
        (CONFIG, "key\u00a0value", {"key": "key", "value": "value"}),
        (SAY, "Ada good morning", {"who": "Ada", "what": "good morning"}),
    ],
)
def test_a_right_line_is_read(spec: CommandSpec, line: str, expected: dict[str, str]) -> None:
    assert spec.read(line) == expected


@pytest.mark.parametrize(
    ("spec", "line", "sentence"),
    [
        (CLEAR, "all", "`/clear` takes no words after it."),
        (MODEL, "opus now", "`/model` takes fewer words: write `/model [name]`."),
        (RESUME, " ", "`/resume` needs more: write `/resume <id>`."),
        (SAY, "Ada", "`/say` needs more: write `/say <who> <what>`."),
    ],
)
def test_a_wrong_line_is_answered_with_what_is_right(
    spec: CommandSpec, line: str, sentence: str
) -> None:
    with pytest.raises(WrongInput) as wrong:
        spec.read(line)
    assert str(wrong.value) == sentence


@given(specs, lines)
def test_every_word_goes_somewhere_in_order_or_the_line_is_refused(
    spec: CommandSpec, line: str
) -> None:
    names = [argument.name for argument in spec.arguments]
    required = {argument.name for argument in spec.arguments if argument.is_required}
    takes_rest = any(argument.takes_rest for argument in spec.arguments)
    count = len(line.split())
    fits = len(required) <= count and (takes_rest or count <= len(names))
    if not fits:
        with pytest.raises(WrongInput):
            spec.read(line)
        return
    found = spec.read(line)
    assert list(found) == names[: len(found)]
    assert required <= set(found)
    assert " ".join(found.values()).split() == line.split()
