"""Strategies for texts to be split into messages: usual ones, and extreme ones."""

from __future__ import annotations

from hypothesis import strategies as st

WORDS = st.sampled_from(
    ["tea", "the", "kettle", "boils.", "Really?", "e.g.", "**now**", "`x y`", "ünïcödé", "a|b"]
)
PROSE = st.lists(WORDS, min_size=1, max_size=40).map(" ".join)
LANGUAGES = st.sampled_from(["", "py", "c++", "py title=x", " sh "])
CODE = st.lists(
    st.sampled_from(["x = 1", "    return x", "", "  ", "``", "# a b c d e f g h i j k l m n o"]),
    max_size=12,
).map("\n".join)


@st.composite
def fenced(draw: st.DrawFn) -> str:
    marker = draw(st.sampled_from(["```", "````", "~~~", "  ```"]))
    end = draw(st.sampled_from(["\n" + marker, "\n" + marker, "", "\n``", "\n~~~", "\n````"]))
    return f"{marker}{draw(LANGUAGES)}\n{draw(CODE)}{end}"


ROWS = st.lists(
    st.sampled_from(["- tea", "* of the garden", "  - green", "12. twelve", "| a | b |", "|---|"]),
    min_size=1,
    max_size=12,
).map("\n".join)
ODD = st.one_of(
    st.sampled_from(
        [
            "x" * 130,
            "👩‍👩‍👧‍👦" * 9,
            "🇩🇪" * 40,
            "e\u0301" * 70,
            "漢字かな。" * 20,
            "```a``` b",
            "`" * 90,
        ]
    ),
    st.sampled_from(
        ["\n" + " " * 150, "\n" * 120, "\r\n", "\t", "# Title", "> quoted " * 12, "``` " * 30]
    ),
    st.text(max_size=30),
)
BLOCKS = st.one_of(PROSE, PROSE, fenced(), fenced(), ROWS, ODD)
BREAKS = st.sampled_from(["\n\n", "\n\n", "\n", " ", "", "\n \n"])


@st.composite
def texts(draw: st.DrawFn) -> str:
    blocks = draw(st.lists(BLOCKS, max_size=6))
    return "".join(block + draw(BREAKS) for block in blocks)


TEXTS = texts()
LIMITS = st.sampled_from([50, 60, 80, 120, 300])

# Texts that a model writes when it rambles, or is told to: made of one thing only.
MONOTONOUS = [
    "## Chapter one of the book\n",
    "## a\n",
    "#\n",
    "#\n\n",
    "- a\n",
    "```\n",
    "```py\nx\n```\n",
    "~~~a\n",
    "| a |\n|---|\n",
    "[a](http://b.c) ",
    "x",
    "\u05e9\u05dc\u05d5\u05dd ",
    "\u202e",
    "\u0301",
    "e\u0301\u0302",
    "\U0001f1e9",
]
