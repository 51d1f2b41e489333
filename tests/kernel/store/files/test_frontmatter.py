"""Documents are read strictly, and an edit changes one field and nothing else."""

from __future__ import annotations

import string
import time
from contextlib import suppress

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ollim_bot.kernel.store.document import BadDocument
from ollim_bot.kernel.store.frontmatter import CannotEdit, edited, parse, render

FULL = """\
---
# the morning one
id: a1b2c3d4   # never change this
cron: "30 8 * * 1-5"
skills:
  - mail   # first
  - plan

# how loud
allow_ping: false
notes: >
  folded
  text
empty:
---

Body line
---
still body
"""


def values(text: str) -> dict[str, object]:
    return {name: field.value for name, field in parse(text).fields.items()}


def test_reads_every_shape_of_a_field() -> None:
    assert values(FULL) == {
        "id": "a1b2c3d4",
        "cron": "30 8 * * 1-5",
        "skills": ["mail", "plan"],
        "allow-ping": False,
        "notes": "folded text\n",
        "empty": None,
    }
    assert parse(FULL).body == "Body line\n---\nstill body"
    assert parse(FULL).fields["allow-ping"].line == 10


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("yes", "yes"),
        ("8:30", "8:30"),
        ("20:30:00", "20:30:00"),
        ("2026-11-16T09:00", "2026-11-16T09:00"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("010", 10),
        ("0x1f", 31),
        ("1_000", "1_000"),
        ("1.5", 1.5),
        ("a --- b", "a --- b"),
        ("<<", "<<"),
    ],
)
def test_scalars_follow_yaml_1_2(written: str, value: object) -> None:
    assert values(f"---\nkey: {written}\n---\n") == {"key": value}


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        pytest.param("id: x\n", 1, "first line must be ---", id="no opening"),
        pytest.param("", 1, "first line must be ---", id="empty"),
        pytest.param("---\nid: x\n", 1, "is missing", id="no closing"),
        pytest.param("---\nid: x\nid: y\n---\n", 3, "and in line 2", id="doubled key"),
        pytest.param("---\nrun-at: x\nrun_at: y\n---\n", 3, "and in line 2", id="both spellings"),
        pytest.param("---\nid: x\ncron: */5 * * * *\n---\n", 3, "put quotes round", id="star"),
        pytest.param("---\ncron: * * * * *\n---\n", 2, "put quotes round", id="stars"),
        pytest.param("---\ndescription: Plan: the day\n---\n", 2, "colon needs quotes", id="colon"),
        pytest.param("---\nid: x\n\tcron: y\n---\n", 3, "tab", id="tab"),
        pytest.param("---\n- a\n---\n", 2, "lines such as", id="list"),
        pytest.param("---\njust words\n---\n", 2, "lines such as", id="words"),
        pytest.param("---\na: &x 1\nb: *x\n---\n", 2, "aliases", id="alias"),
        pytest.param("---\na: !!python/name:os.system x\n---\n", 2, "tags", id="tag"),
        pytest.param("---\na: !!binary aGk=\n---\n", 2, "tags", id="binary"),
        pytest.param("---\n? [a]\n: b\n---\n", 2, "must be a word", id="complex key"),
        pytest.param("---\na: {b: 1, b: 2}\n---\n", 2, "stands twice", id="doubled inside"),
        pytest.param("---\nb: é\na: \x07\n---\n", 3, "'\\x07' is not", id="control sign"),
        pytest.param("---\na: " + "9" * 5000 + "\n---\n", 2, "too long", id="long number"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text: str, line: int, says: str) -> None:
    with pytest.raises(BadDocument) as caught:
        parse(text)
    assert caught.value.line == line
    assert says in caught.value.reason


def test_aliases_cannot_blow_up_and_deep_nesting_cannot_crash() -> None:
    laughs = "a: &a [x, x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(9)
    )
    began = time.process_time()
    for head in (laughs, "a: " + "[" * 100_000, "a: " + "{b: " * 5_000, "- " * 50_000):
        with pytest.raises(BadDocument):
            parse(f"---\n{head}\n---\n")
    assert time.process_time() - began < 30


@given(st.text())
def test_any_text_is_a_document_or_a_named_problem(text: str) -> None:
    for candidate in (text, f"---\n{text}\n---\nbody"):
        with suppress(BadDocument):
            assert isinstance(parse(candidate).body, str)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = st.text(string.ascii_lowercase + "-", min_size=1, max_size=12).filter(
    lambda key: key.strip("-") == key and key not in ("null", "true", "false")
)


@given(st.dictionaries(KEYS, JSON, max_size=6), st.text())
def test_what_is_rendered_reads_back_as_the_same(fields: dict[str, object], body: str) -> None:
    text = render(fields, body)
    assert values(text) == fields
    assert parse(text).body == body.strip()


def test_an_edit_changes_one_line_and_keeps_the_comments() -> None:
    changed = edited(FULL, {"cron": "0 9 * * *"})
    assert changed == FULL.replace('"30 8 * * 1-5"', '"0 9 * * *"')
    assert edited(FULL, {"id": "zz"}) == FULL.replace("a1b2c3d4 ", "zz ")
    assert edited(FULL, {"allow-ping": True}) == FULL.replace(
        "allow_ping: false", "allow_ping: true"
    )
    assert edited(FULL, {"empty": "full"}) == FULL.replace("empty:\n", "empty: full\n")


def test_an_edit_of_a_block_keeps_the_comments_behind_it() -> None:
    changed = edited(FULL, {"skills": ["mail"]})
    assert "# how loud\nallow_ping: false" in changed
    assert values(changed)["skills"] == ["mail"]
    folded = edited(FULL, {"notes": "short"})
    assert "notes: short\nempty:" in folded


def test_a_new_field_comes_last_and_a_removed_one_goes_alone() -> None:
    assert edited(FULL, {"late": "run"}) == FULL.replace("empty:\n", "empty:\nlate: run\n")
    assert edited(FULL, {"cron": None}) == FULL.replace('cron: "30 8 * * 1-5"\n', "")
    assert edited(FULL, {"nothing": None}) == FULL
    assert "skills" not in edited(FULL, {"skills": None})
    assert "# how loud" in edited(FULL, {"skills": None})


def test_an_edit_of_the_body_leaves_the_fields_alone() -> None:
    assert edited(FULL, {}, "new").endswith("empty:\n---\nnew\n")
    assert edited("---\nid: x\n---", {}, "new") == "---\nid: x\n---\nnew\n"


def test_an_edit_keeps_line_ends_and_the_byte_order_mark() -> None:
    text = "\ufeff" + FULL.replace("\n", "\r\n")
    changed = edited(text, {"cron": "0 9 * * *", "late": "run"})
    assert changed == text.replace('"30 8 * * 1-5"', '"0 9 * * *"').replace(
        "empty:\r\n", "empty:\r\nlate: run\r\n"
    )


def test_what_cannot_be_edited_safely_is_refused() -> None:
    with pytest.raises(CannotEdit, match="late"):
        edited("---\n{id: x}\n---\n", {"late": "run"})


LINES = st.sampled_from(
    [
        "# comment\n",
        "\n",
        "alpha: 1 # why\n",
        'beta: "x: y" \n',
        "gamma:\n  - a # one\n  - b\n# tail\n",
        "delta: |\n  line\n\n  line\n",
        "epsilon: [a, {b: 'c'}]\n",
        "zeta_eta: plain words\n  over two lines\n",
        "theta: 'sinĝle 🌱'\n",
        "iota:\n",
        "kappa: >-\n    deep\n",
        "lam: {a: 1,\n  b: 2}\n",
    ]
)


@given(
    st.lists(LINES, unique=True, max_size=8),
    st.sampled_from(
        [
            "alpha",
            "beta",
            "gamma",
            "delta",
            "epsilon",
            "zeta-eta",
            "theta",
            "iota",
            "kappa",
            "lam",
            "new",
        ]
    ),
    JSON,
    st.booleans(),
    st.booleans(),
)
def test_any_edit_does_what_it_says_or_nothing(
    lines: list[str], key: str, value: object, crlf: bool, bom: bool
) -> None:
    text = "---\n" + "".join(lines) + "---\nthe body\n"
    text = ("\ufeff" if bom else "") + (text.replace("\n", "\r\n") if crlf else text)
    before = values(text)
    try:
        after = edited(text, {key: value})
    except CannotEdit:
        assume(False)
    expected = {name: kept for name, kept in before.items() if name != key}
    assert values(after) == (expected if value is None else expected | {key: value})
    comments = [line for line in text.splitlines() if line.startswith("#")]
    assert [line for line in after.splitlines() if line.startswith("#")] == comments
