"""Texts for property tests: pieces with a meaning in markdown, and arbitrary characters."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st

# Pieces whose meaning depends on the next character or line.
PIECES = (
    *("a", "b c", " ", "\n", "\n\n", "\t", "    ", "  ", "\r\n", "\r", "\\", "\0"),
    *("- ", "* ", "+ ", "1. ", "2) ", "- [ ] ", "- [x] ", "-", "=", "---", "===", "***", "**", "_"),
    *("# ", "####### ", "> ", ">", "```", "```py\n", "~~~", "`", "~~", "|", "| a | b |\n"),
    *(
        "|---|--:|\n",
        "|-",
        ":-:",
        "[x](http://e.org)",
        "![a](http://e.org/x)",
        "[a]",
        "[a]: http://x\n",
    ),
    *("<b>", "</b>", "<!-- ", "<script>", "&amp;", "https://e.org/x", "<https://e.org>", "(", ")"),
    *("\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u00a0", "\ud83d", "\U0001f600", "ü"),
)
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=40).map("".join)


@st.composite
def chunked(draw: st.DrawFn) -> list[str]:
    text = draw(TEXTS)
    cuts = draw(st.lists(st.integers(0, len(text)), max_size=20).map(sorted))
    return [text[begin:end] for begin, end in pairwise([0, *cuts, len(text)])]
