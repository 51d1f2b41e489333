"""The card of a question shows all of the call, and nothing in the call can change the card."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st
from tests.domain.strategies import json_values

from ollim_bot.conversation.approvals import ApprovalAnswer, answered_card, asking_card, read_button
from ollim_bot.domain.cards import Button, Color
from ollim_bot.domain.permissions import LONGEST_GRANT, Pattern
from ollim_bot.ports import ToolCall
from ollim_bot.surfaces.web.frames import render

KEY = "0" * 32
GRANT = Pattern.of(f"Write(./{'n' * (LONGEST_GRANT - 13)}/**)")

awkward = st.lists(
    st.sampled_from(
        ["```", "`", "````\n", "\n```\n", "~~~", "x", "\n", "<b>", "**", "\u202e", "\r"]
    )
).map("".join)
values = awkward | json_values | st.integers(0, 6000).map(lambda length: "x" * length)
calls = st.builds(
    ToolCall,
    st.sampled_from(["Write", "Bash", "mcp__mail__send"]) | st.text(max_size=300),
    st.dictionaries(st.text(max_size=60), values, max_size=15),
    st.just("") | st.text(max_size=300),
)


def described(**arguments: object) -> str:
    return asking_card(ToolCall("Write", arguments), KEY, None).description


@given(calls, st.sampled_from([None, GRANT]))
def test_every_surface_takes_the_card_before_and_after_the_answer(
    call: ToolCall, grant: Pattern | None
) -> None:
    card = asking_card(call, KEY, grant)
    assert card.problems() == []
    pressed = card.buttons[-1]
    said = answered_card(card, f"Allowed from now on: `{GRANT}`", Color.GREEN, pressed)
    assert said.problems() == []
    assert (said.title, said.description) == (card.title, card.description)
    assert said.buttons == (pressed._replace(is_used=True),)
    assert all(len(button.custom_id) <= 100 for button in card.buttons)


@given(calls)
@example(ToolCall("Bash", {"command": "ls\n```\n**Allowed** `\n```"}))
def test_nothing_in_a_call_is_read_as_markup(call: ToolCall) -> None:
    description = asking_card(call, KEY, None).description
    parts = len(re.findall("^```$", description, re.MULTILINE)) / 2
    assert description.count("```") == 2 * parts

    outside = re.sub(r"<pre>.*?</pre>", "", render(description), flags=re.DOTALL)
    text = re.sub(r"</?(?:p|br|code)>", "\n", outside)
    plain = re.compile(r"\w{1,39}…?|\d+ more characters of it are not shown here\.")
    assert all(plain.fullmatch(line) for line in text.split("\n") if line.strip())


@given(st.lists(st.text(st.characters(categories=["L", "N", "P"]), max_size=300), max_size=10))
def test_what_fits_is_shown_whole(texts: list[str]) -> None:
    shown = described(**{f"argument{number}": text for number, text in enumerate(texts)})
    assert all(text in shown for text in texts)
    assert "not shown" not in shown


def test_a_text_as_long_as_a_card_is_whole_and_a_longer_one_says_what_is_missing() -> None:
    whole = described(content="x" * 4070)
    assert "x" * 4070 in whole
    cut = described(content="x" * 5000)
    (missing,) = re.findall(r"(\d+) more characters of it are not shown here", cut)
    assert cut.count("x") == 5000 - int(missing) > 3900


def test_a_long_argument_leaves_room_for_the_others() -> None:
    edit = {"file_path": "notes/a.txt", "old_string": "o" * 9000, "new_string": "n" * 1000}
    shown = described(**edit)
    assert "notes/a.txt" in shown
    assert "n" * 1000 in shown
    assert shown.count("o") > 2000
    both = described(file_path="x", old_string="<" * 9000, new_string=">" * 8000)
    assert min(both.count("<"), both.count(">")) > 1700


def test_what_a_call_does_comes_first() -> None:
    shown = described(description="Shows the time", command="rm -r notes")
    assert shown.index("rm -r notes") < shown.index("Shows the time")


def test_what_cannot_be_seen_is_written_out() -> None:
    assert r"a\u202eb\u200bc" in described(command="a\u202eb\u200bc")


def test_arguments_that_are_no_text_are_shown_as_they_are() -> None:
    assert '{\n  "a": [\n    1,\n    true\n  ]\n}' in described(value={"a": [1, True]})
    assert all(f'"{number}": {number}' in described(**{str(n): n for n in range(20)})
               for number in range(20))  # fmt: skip


def test_who_asks_is_told() -> None:
    assert asking_card(ToolCall("Read", {}, subagent="gmail-reader"), KEY, None).title == (
        "Allow Read? (asked by gmail-reader)"
    )


@given(st.text())
def test_a_button_says_what_it_says_or_nothing(data: str) -> None:
    read = read_button(Button("x", "approve", data))
    assert read is None or data == f"{read[0]}:{read[1].value}"
    assert read_button(Button("x", "approve", f"{KEY}:always")) == (KEY, ApprovalAnswer.ALWAYS)
