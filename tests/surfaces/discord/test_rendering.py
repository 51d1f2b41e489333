"""Every message of the log has a form that Discord takes, and a long one reads like its text."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.surfaces.discord.draft_scene import outgoing_messages, texts_of
from tests.surfaces.discord.message_texts import LIMITS, MONOTONOUS, PROSE, TEXTS

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.job_kinds import JobKey, JobKind
from ollim_bot.kernel.values.cards import Button, Card, CardField, CardLine
from ollim_bot.kernel.values.chat import Attachment, Author, ChatMessage
from ollim_bot.kernel.values.hook_jobs import WebhookSpec
from ollim_bot.kernel.values.jobs import JobSpec
from ollim_bot.kernel.values.overviews import Listed, jobs_card
from ollim_bot.kernel.values.schedule import Skips
from ollim_bot.surfaces.discord.rendering import (
    GOES_ON_IN_FILE,
    WHOLE,
    OutgoingMessage,
    fitted,
    outgoing_of,
    parts_of,
)
from ollim_bot.surfaces.discord.split import (
    LONGEST,
    is_character_boundary,
    piece_ends,
    share_of,
    shortened,
    split,
    with_tables,
)
from ollim_bot.surfaces.discord.translation import view_of

FORK = "-# side conversation · apart from the main one"

SAID = ChatMessage(MessageId("1"), datetime(2026, 1, 1, tzinfo=UTC), Author.ASSISTANT, "Hello.")

PHOTO = Attachment("a.png", "attachments/a.png", "image/png", 3)

TEA = Card("Tea", "It is *ready*.", fields=(CardField("Where", "kitchen"),))


def length(outgoing: OutgoingMessage) -> int:
    """The length of a card as Discord counts it."""
    assert outgoing.card is not None
    fields = [text for one in outgoing.card.fields for text in (one.name, one.value)]
    return sum(
        map(len, [outgoing.card.title, outgoing.card.description, *fields, outgoing.card_footer])
    )


def card(given: Card, **fields: object) -> Card:
    message = replace(SAID, text=given.text, card=given, **fields)  # type: ignore[arg-type]
    [outgoing] = outgoing_messages(message)
    assert outgoing.card is not None
    return outgoing.card


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (SAID, "Hello."),
        (replace(SAID, text="  Hello.\n"), "Hello."),
        (replace(SAID, footer="73 % full"), "Hello.\n-# 73 % full"),
        (replace(SAID, footer="Late: 9:00. *x*"), "Hello.\n-# Late: 9:00. \\*x\\*"),
        (replace(SAID, footer="F(http://a.b)"), "Hello.\n-# F(http\\://a.b)"),
        (replace(SAID, is_cut_off=True), "Hello.\n-# cut off here"),
        (replace(SAID, in_fork=True), f"Hello.\n{FORK}"),
        (
            replace(SAID, is_cut_off=True, footer="a\nb", in_fork=True),
            f"Hello.\n-# cut off here\n-# a b\n{FORK}",
        ),
        (replace(SAID, author=Author.BACKGROUND, job="tea_time"), "-# ⏰ tea\\_time\nHello."),
        (replace(SAID, author=Author.PROGRAM, text="One.\n\nTwo."), "-# One.\n\n-# Two."),
        (
            replace(SAID, author=Author.PROGRAM, text="Run:\n```sh\nmake\n```\nthen"),
            "-# Run:\n```sh\nmake\n```\n-# then",
        ),
        (replace(SAID, author=Author.OWNER, text="Hi\n\nyou"), "> Hi\n> \n> you\n-# from the page"),
        (replace(SAID, author=Author.OWNER, in_fork=True), f"> Hello.\n-# from the page\n{FORK}"),
        (replace(SAID, text="```py\nx = 1", footer="f"), "```py\nx = 1\n```\n-# f"),
        (replace(SAID, text=" "), "…"),
    ],
)
def test_who_speaks_and_where_is_seen(message: ChatMessage, text: str) -> None:
    assert texts_of(message) == [text]


@given(TEXTS.filter(str.strip))
def test_an_answer_stands_there_as_it_was_written(text: str) -> None:
    assert texts_of(replace(SAID, text=text)) == list(split(with_tables(text.strip())))


@pytest.mark.parametrize(
    ("table", "drawn"),
    [
        (
            "| what | when |\n|:--|--:|\n| **iron** | `8:00` |\n| 漢字 | 9 \\| 10 |",
            "```\nwhat  when\n────  ──────\niron  8:00\n漢字  9 | 10\n```",
        ),
        ("a | b\n--- | ---\n1 |\n\nafter", "```\na  b\n─  ─\n1\n```\n\nafter"),
        (
            f"| a | b |\n|-|-|\n| {'x' * 40} | y |",
            f"```\na{' ' * 25}b\n{'─' * 24}  ─\n{'x' * 40}  y\n```",
        ),
        ("```\n| a |\n|---|\n| 1 |\n```", "```\n| a |\n|---|\n| 1 |\n```"),
        ("| a |\n|---|\n| https://a.example |", "| a |\n|---|\n| https://a.example |"),
        ("a | b\n---\nno table", "a | b\n---\nno table"),
    ],
)
def test_a_table_is_drawn_with_even_columns_in_a_code_block(table: str, drawn: str) -> None:
    """Discord shows no tables. Code shows no links, so a table with an address stays."""
    assert texts_of(replace(SAID, text=table)) == [drawn]


MESSAGES = st.builds(
    lambda text, copies, author, job, footer, files, flags: replace(
        SAID,
        text=text * copies,
        author=author,
        job=job,
        footer=footer,
        attachments=(PHOTO,) * files,
        is_cut_off=flags[0],
        in_fork=flags[1],
    ),
    st.one_of(TEXTS, st.sampled_from(["a\n" * 100, "word " * 100, "\n> q", "```\n" + "y\n" * 100])),
    st.sampled_from([1, 1, 5, 40]),
    st.sampled_from(Author),
    st.sampled_from(["", "morning", "_" * 500]),
    st.sampled_from(["", "73 % full", "x " * 900]),
    st.sampled_from([0, 1, 10, 11, 35]),
    st.tuples(st.booleans(), st.booleans()),
)


@given(MESSAGES)
def test_every_part_can_be_sent(message: ChatMessage) -> None:
    sent = outgoing_messages(message)
    assert sent
    assert outgoing_messages(message) == sent
    for outgoing in sent:
        assert len(outgoing.text) <= LONGEST
        assert outgoing.text.strip() or outgoing.files
        assert len(outgoing.files) <= 10
    files = [file for outgoing in sent for file in outgoing.files]
    assert [file for file in files if file != WHOLE] == list(message.attachments)
    assert sent[-1].text.endswith(FORK) or not message.in_fork or message.attachments


@given(
    st.one_of(TEXTS.filter(str.strip), st.sampled_from(MONOTONOUS)),
    st.integers(1, 60_000),
    st.sampled_from(Author),
)
def test_a_message_is_ten_pieces_at_most_and_then_a_file(
    text: str, size: int, author: Author
) -> None:
    whole = (text * size)[:size]
    sent = outgoing_messages(replace(SAID, text=whole, author=author, footer="73 % full"))
    assert len(sent) <= 10
    assert all(is_balanced(outgoing.text) for outgoing in sent)
    if sent[-1].files:
        assert sent[-1].whole == whole
        assert sent[-1].text == f"-# {GOES_ON_IN_FILE}\n-# 73 % full"
    elif author is Author.ASSISTANT:
        assert "\n".join(outgoing.text for outgoing in sent) == "\n".join(
            [*split(with_tables(whole.strip())), "-# 73 % full"]
        )


def test_the_pieces_above_a_file_begin_the_text() -> None:
    words = [f"word{number}" for number in range(5000)]
    sent = outgoing_messages(replace(SAID, text=" ".join(words), attachments=(PHOTO,)))
    shown = " ".join(outgoing.text for outgoing in sent[:-1]).split()
    assert len(sent) == 10
    assert shown == words[: len(shown)]
    assert [outgoing.files for outgoing in sent] == [(PHOTO,), *[()] * 8, (WHOLE,)]


@given(MESSAGES)
def test_the_words_of_the_owner_and_of_the_program_are_marked_in_every_line(
    message: ChatMessage,
) -> None:
    quoted = texts_of(replace(message, author=Author.OWNER, job="", text=f"a {message.text}"))
    for line in "\n".join(filter(None, quoted)).split("\n"):
        assert line.startswith(("> ", "-# "))


def test_a_long_line_of_the_program_is_small_in_every_part() -> None:
    said = texts_of(replace(SAID, author=Author.PROGRAM, text="word " * 1000))
    assert len(said) == 3
    assert all(text.startswith("-# word") for text in said)


def test_files_go_with_the_first_words_ten_at_a_time() -> None:
    files = tuple(replace(PHOTO, name=str(number)) for number in range(23))
    sent = outgoing_messages(replace(SAID, text="word " * 500, attachments=files))
    assert [len(outgoing.files) for outgoing in sent] == [10, 10, 3]
    assert [bool(outgoing.text) for outgoing in sent] == [True, True, False]
    assert sum((outgoing.files for outgoing in sent), ()) == files
    assert outgoing_messages(replace(SAID, text="", attachments=(PHOTO,))) == [
        OutgoingMessage(files=(PHOTO,))
    ]


def test_the_parts_are_those_of_the_message() -> None:
    message = replace(SAID, text="word " * 900)
    assert {(part.id, part.author) for part in parts_of(message)} == {("1", Author.ASSISTANT)}


def test_a_card_is_one_part_without_other_words() -> None:
    message = replace(SAID, text=TEA.text, card=TEA)
    assert outgoing_messages(message) == [OutgoingMessage(card=TEA)]
    crowd = outgoing_messages(replace(message, attachments=(PHOTO,) * 11))
    assert [(outgoing.card, len(outgoing.files)) for outgoing in crowd] == [(TEA, 10), (None, 1)]
    in_fork = replace(message, in_fork=True, job="tea_time", footer="late")
    [outgoing] = outgoing_messages(in_fork)
    assert (outgoing.text, outgoing.card) == ("", TEA)
    assert outgoing.card_footer == f"⏰ tea_time · late · {FORK.removeprefix('-# ')}"


def test_a_card_that_is_named_as_its_job_says_the_name_once() -> None:
    card = Card("drink water")
    message = replace(SAID, author=Author.BACKGROUND, job="drink water", card=card)
    (part,) = parts_of(message)
    assert outgoing_of(part).card_footer == ""


LENGTHS = st.sampled_from([0, 1, 80, 81, 256, 257, 1024, 1025, 4096, 5000])

STRINGS = st.builds(lambda size, char: char * size, LENGTHS, st.sampled_from("x 漢\n"))

CARDS = st.builds(
    lambda title, text, fields, buttons: Card(title, text, fields=fields, buttons=buttons),
    STRINGS,
    STRINGS,
    st.lists(st.builds(CardField, STRINGS, STRINGS, st.booleans()), max_size=30).map(tuple),
    st.lists(
        st.builds(
            lambda label, action, data: Button(label, action, data),
            STRINGS,
            st.sampled_from(["agent", "undo"]),
            STRINGS,
        ),
        max_size=30,
    ).map(tuple),
)


@given(CARDS, st.sampled_from(["", "late", "x" * 5000]))
def test_a_card_of_any_size_can_be_sent(given: Card, footer: str) -> None:
    [outgoing] = outgoing_messages(
        replace(SAID, card=given, footer=footer, job=footer, in_fork=True)
    )
    shown = outgoing.card
    assert shown is not None
    assert length(outgoing) <= 6000
    assert len(shown.title) <= 256
    assert len(shown.description) <= 4096
    assert len(shown.fields) <= 25
    assert all(one.name.strip() and len(one.name) <= 256 for one in shown.fields)
    assert all(one.value.strip() and len(one.value) <= 1024 for one in shown.fields)
    assert shown.text.strip()
    ids = [button.custom_id for button in shown.buttons]
    assert len(set(ids)) == len(ids) == min(len(given.buttons), 25)
    assert all(len(each) <= 100 for each in ids)
    assert all(0 < len(button.label) <= 80 for button in shown.buttons)


def test_what_fits_in_all_counts_every_word_of_a_card() -> None:
    full, last = (CardField("n", "v" * 1023),) * 5, CardField("n", "v" * 500)
    for size in range(1, 600):
        shape = Card("t", fields=(*full, CardField("n", "v" * size), last))
        [outgoing] = outgoing_messages(replace(SAID, card=shape, footer="x" * 300))
        assert 5000 < length(outgoing) <= 6000


def test_what_a_card_had_to_leave_out_is_seen() -> None:
    long = card(Card("t" * 300, "d" * 5000, fields=(CardField("n" * 300, "v" * 2000),)))
    assert [long.title[-2:], long.description[-2:]] == ["t…", "d…"]
    assert [(one.name[-2:], one.value[-2:]) for one in long.fields] == [("n…", "v…")]
    many = card(Card("t", fields=tuple(CardField(str(number), "v") for number in range(30))))
    assert len(many.fields) == 25
    assert many.fields[-1] == CardField("…", "6 more")
    large = card(Card("t", fields=(CardField("n", "v" * 1024),) * 8))
    assert large.fields[-1] == CardField("…", "3 more")
    assert card(Card("t", fields=(CardField("n", " "),))).fields == (CardField("n", "…"),)


def test_a_button_that_could_not_be_told_from_others_does_nothing() -> None:
    good, long = Button("Good", "agent", "k"), Button("Long", "agent", "k" * 100)
    shown = card(Card("t", buttons=(good, long, good)))
    assert shown.buttons[0] == good
    assert [button.is_used for button in shown.buttons] == [False, True, True]
    assert [button.label for button in shown.buttons] == ["Good", "Long", "Good"]


@given(st.text(alphabet="ab \u0301\u200d👩🏽🇩🇪", max_size=40), st.integers(1, 40))
def test_what_is_shortened_ends_with_a_whole_character(text: str, longest: int) -> None:
    short = shortened(text, longest)
    assert len(short) <= longest
    if short != text:
        assert short.endswith("…")
        kept = len(short) - 1
        assert text.startswith(short[:-1])
        is_torn = not is_character_boundary(text, kept) and any(
            is_character_boundary(text, at) for at in range(1, kept + 1)
        )
        assert not is_torn or text[:kept].rstrip() != text[:kept]


def test_a_card_that_counts_to_a_moment_has_a_time_that_discord_keeps_true() -> None:
    until = datetime(2026, 11, 18, 10, 40, tzinfo=UTC)
    card = fitted(Card("Timer until today 10:40", "Bread", until=until), "")
    assert card.description == "Bread\n<t:1794998400:R>"


def test_an_earlier_card_of_a_thing_is_one_small_line() -> None:
    line = Card("feed *the* cat · asked at 9:00", earlier_of="k1")
    (shown,) = outgoing_messages(replace(SAID, card=line, job="feed *the* cat", footer=""))
    assert (shown.text, shown.card) == (r"-# feed \*the\* cat · asked at 9:00", None)


def test_webhooks_are_listed_under_their_own_heading() -> None:
    bell = JobSpec(id="bell", message="x", description="The *bell*", background=True)
    hooks = [WebhookSpec(bell, {}), WebhookSpec(replace(bell, id="old", enabled=False), {})]
    now = datetime(2026, 11, 16, 9, 30, tzinfo=UTC)
    calls = {JobKey(JobKind.WEBHOOK, "bell"): now - timedelta(minutes=18)}
    called = {JobKind.WEBHOOK: Listed(hooks)}
    card = jobs_card(JobKind.ROUTINE, Listed(()), Skips(), now, called, calls)
    shown = fitted(card, "")
    assert shown.description.splitlines() == [
        "**Webhooks**",
        r"**1** · The \*bell\* · called today 9:12",
        "**Paused**",
        r"**2** · The \*bell\*",
    ]
    labels = ["1 · Pause", "1 · More", "2 · Resume", "2 · More"]
    assert [each.label for each in shown.buttons] == labels


def test_lines_with_buttons_are_numbered_as_their_buttons_are() -> None:
    lines = (CardLine("tea at *9:00*", "Overdue"), CardLine("sleep"), CardLine("walk", "Next"))
    buttons = (
        Button("All done", "dismiss"),
        Button("Done", "done", "a", line=1),
        Button("Skip", "job_skip", "b", line=3),
        Button("Pause", "job_pause", "b", line=3),
    )
    shown = fitted(Card("Today", "Two of three.", lines=lines, buttons=buttons), "")
    assert shown.description.splitlines() == [
        "Two of three.",
        "**Overdue**",
        r"**1** · tea at \*9:00\*",
        "sleep",
        "**Next**",
        "**2** · walk",
    ]
    labels = ["1 · Done", "2 · Skip", "2 · Pause", "All done"]
    assert [each.label for each in shown.buttons] == labels
    view = view_of(shown.buttons)
    assert view is not None
    rows = [[each["label"] for each in row["components"]] for row in view.to_components()]
    assert rows == [["1 · Done"], ["2 · Skip", "2 · Pause"], ["All done"]]


FENCE = re.compile(r"[^\S\n]*(`{3,}|~{3,})(.*)")

CODE = "\n".join(f"    print({number})" for number in range(400))


def is_balanced(text: str, longest: int = LONGEST) -> bool:
    marker = ""
    for line in text.split("\n"):
        found = FENCE.fullmatch(line.removesuffix("\r"))
        if found is None:
            continue
        run, about, share = found[1], found[2].rstrip(), share_of(longest)
        if marker:
            is_end = (
                not about.strip()
                and len(run) <= share
                and run[0] == marker[0]
                and len(run) >= len(marker)
            )
            marker = "" if is_end else marker
        elif max(len(run), len(about)) <= share and ("`" not in about or run[0] == "~"):
            marker = run
    return not marker


def is_shown_of(source: str, text: str) -> bool:
    """Whether `text` is `source` but for white space at the ends and added code fences."""
    first, last = text.partition("\n")[0] + "\n", text.rpartition("\n")[2]
    before = ["", first] if FENCE.match(first) else [""]
    after = ["", last, "\n" + last] if FENCE.match(last) else [""]
    return any((one + source + two).strip() == text for one, two in product(before, after))


@given(TEXTS, LIMITS)
def test_the_pieces_are_the_text(text: str, longest: int) -> None:
    ends = [end.at for end in piece_ends(text, longest)]
    pieces = split(text, longest)
    for (begin, end), shown in zip(pairwise([0, *ends, len(text)]), pieces, strict=False):
        assert is_shown_of(text[begin:end], shown)
    assert len(pieces) >= len(ends)


@given(TEXTS, TEXTS, LIMITS)
def test_what_was_cut_off_stays_whatever_follows(text: str, more: str, longest: int) -> None:
    settled = split(text, longest)[:-1]
    assert split(text + more, longest)[: len(settled)] == settled


@given(TEXTS, LIMITS, st.data())
def test_what_was_cut_off_stays_from_any_moment(
    text: str, longest: int, data: st.DataObject
) -> None:
    whole = split(text, longest)
    settled = split(text[: data.draw(st.integers(0, len(text)))], longest)[:-1]
    assert whole[: len(settled)] == settled


@given(TEXTS, LIMITS)
def test_every_piece_can_be_sent(text: str, longest: int) -> None:
    for piece in split(text, longest):
        assert 1 <= len(piece) <= longest
        assert piece == piece.strip()
        assert is_balanced(piece, longest)


@given(st.lists(PROSE, min_size=1, max_size=30))
def test_no_word_is_torn_and_little_room_is_wasted(paragraphs: list[str]) -> None:
    text = "\n\n".join(paragraphs)
    pieces = split(text, 300)
    assert " ".join(pieces).split() == text.split()
    assert all(len(piece) > 0.6 * 300 for piece in pieces[:-1])


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("a" * 1400 + "\n\n" + "b " * 200 + "\n" + "c " * 400, "a" * 1400),
        ("a " * 100 + "\n" + "b" * 1500 + "\n" + "c " * 400, "a " * 100 + "\n" + "b" * 1500),
        ("One two. " * 190 + "Three " * 100, ("One two. " * 190).strip()),
        ("so it goes on and " * 200, "so it goes on and " * 111 + "so"),
        ("a " * 500 + "x" * 1500, ("a " * 500).strip()),
        ("x" * 2500, "x" * 2000),
        ("漢字。" * 1000, "漢字。" * 666),
    ],
    ids=["paragraph", "line", "sentence", "word", "long word", "longest word", "ideographs"],
)
def test_a_piece_ends_with_the_largest_unit_that_fills_it(text: str, first: str) -> None:
    assert split(text)[0] == first


@pytest.mark.parametrize(
    "one", ["👩‍👩‍👧‍👦", "👍🏽", "🇩🇪", "e\u0301", "\u1100\u1161\u11a8", "\ud83d\ude00", "❤️"]
)
@pytest.mark.parametrize("shift", range(4))
def test_what_is_seen_as_one_character_is_not_torn(one: str, shift: int) -> None:
    pieces = split("x" * shift + one * 300, 100)
    assert len(pieces) > 1
    assert all(piece.removeprefix("x" * shift) == one * piece.count(one) for piece in pieces)


@pytest.mark.parametrize("marker", ["```", "````", "~~~", "   ```"])
@pytest.mark.parametrize("language", ["py", "", "c++ title=x"])
def test_a_fence_is_closed_and_opened_again_with_its_language(marker: str, language: str) -> None:
    pieces = split(f"Look:\n\n{marker}{language}\n{CODE}\n{marker}\n\nDone.")
    bare = marker.strip()
    assert len(pieces) == 3
    assert pieces[0].startswith(f"Look:\n\n{marker}{language}\n    print(0)\n")
    assert all(piece.endswith(f"\n{bare}") for piece in pieces[:-1])
    opened = f"{bare}{language.partition(' ')[0]}\n    print("
    assert all(piece.startswith(opened) for piece in pieces[1:])
    code = re.findall(r"^    print\(\d+\)$", "\n".join(pieces), re.MULTILINE)
    assert "\n".join(code) == CODE


@pytest.mark.parametrize("length", range(1950, 2010))
def test_no_piece_has_an_empty_block(length: int) -> None:
    lines = "y\n" * 30
    for text in (f"{'x' * length}\n```py\n{lines}```", f"```py\n{'x' * length}\n```\n\nAnd then."):
        for piece in split(text):
            assert not re.search(r"^```(py)?\n*```$", piece, re.MULTILINE)


def test_white_space_before_a_long_line_of_code_is_no_block_of_its_own() -> None:
    for piece in split(f"```\n    {'x' * 3000}\n```"):
        assert "x" in piece


@pytest.mark.parametrize("before", ["", "```\n", "~~~\n"])
def test_a_line_that_only_begins_like_a_fence_makes_none_where_it_is_cut(before: str) -> None:
    for piece in split(f"{before}``` {'x' * 300}", 60):
        assert is_balanced(piece, 60)


def test_a_space_with_a_mark_above_it_is_no_place_to_cut() -> None:
    pieces = split("tea \u0301" * 100, 60)
    assert len(pieces) > 1
    assert all(piece[0] != "\u0301" for piece in pieces)


@given(st.lists(st.integers(1, 90), min_size=1, max_size=40), st.sampled_from(["- ", "| ", "3. "]))
def test_a_row_is_not_cut(sizes: list[int], mark: str) -> None:
    rows = [f"{mark}{'tea ' * (size // 4)}{size}" for size in sizes]
    pieces = split("\n".join(rows), 100)
    assert [line for piece in pieces for line in piece.split("\n")] == rows


def test_a_row_that_no_message_could_take_is_cut_at_a_word() -> None:
    pieces = split("- " + "tea " * 100, 100)
    assert len(pieces) == 5
    assert " ".join(pieces).split() == ["-", *["tea"] * 100]


def test_a_heading_stays_with_what_it_is_about() -> None:
    [first, second] = split("word " * 320 + "\n\n## Tea\n\n" + "leaf " * 150)
    assert first.endswith("word")
    assert second.startswith("## Tea\n\nleaf")
    [first, second] = split("word " * 350 + "\n## Tea\n- " + "leaf " * 150)
    assert first.endswith("word")
    assert second.startswith("## Tea\n- leaf")


@pytest.mark.parametrize("unit", MONOTONOUS)
def test_a_monotonous_text_fills_its_pieces(unit: str) -> None:
    text = unit * (20_000 // len(unit))
    # Two neighbours hold more than fits into one.
    assert len(split(text)) <= 2 * len(text) / LONGEST + 1


@pytest.mark.parametrize("text", ["", " ", "\n\n\t", "\n" * 5000])
def test_of_nothing_there_is_no_piece(text: str) -> None:
    assert split(text) == ()


def test_white_space_of_any_length_makes_no_piece() -> None:
    gap = "\n" * 3000
    assert split(f"{gap}one{gap}two{gap}") == ("one", "two")


def test_a_fence_that_is_still_open_is_shown_closed() -> None:
    assert split("```py\nx = 1") == ("```py\nx = 1\n```",)
    assert split("```py\nx = 1\n") == ("```py\nx = 1\n```",)
    assert split("```py\nx = 1", foot="after") == ("```py\nx = 1\n```\nafter",)
