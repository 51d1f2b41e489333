"""Markdown on the page is text with a little formatting, even if its author wants more."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.surfaces.web.markdown_texts import HOSTILE_ATTRIBUTES, HOSTILE_HTML, HOSTILE_LINKS, TEXTS

from ollim_bot.surfaces.web.frames import render

TAGS = {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "code", "ul", "ol"),
    *("li", "input", "em", "strong", "s", "a", "table", "thead", "tbody", "tr", "th", "td"),
}
VOID = {"br", "hr", "input"}
ATTRIBUTES = {
    "a": {"href", "title", "target", "rel"},
    "code": {"class"},
    "li": {"class"},
    "ol": {"start"},
    "td": {"class"},
    "th": {"class"},
    "input": {"type", "disabled", "checked"},
}
BOX = '<input type="checkbox"'
TABLE = """\
<table>
<thead>
<tr>
<th class="align-center">a</th>
<th>b</th>
</tr>
</thead>
<tbody>
<tr>
<td class="align-center">1</td>
<td>2</td>
</tr>
</tbody>
</table>
"""
LINK = re.compile(r"(https?://[^/\s]|mailto:[^/\s])", re.IGNORECASE)


class Dom(HTMLParser):
    """The elements that a browser would build from the HTML. Fails at a forbidden element."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text = ""
        self.links: list[str] = []
        self.labels: list[str] = []
        self.tags: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS
        self.tags.append(tag)
        if tag not in VOID:
            self._open.append(tag)
        given = dict(attrs)
        assert len(given) == len(attrs)
        assert set(given) <= ATTRIBUTES.get(tag, set())
        if tag == "a":
            assert LINK.match(given["href"] or "")
            assert (given["target"], given["rel"]) == ("_blank", "noopener noreferrer")
            self.links.append(given["href"] or "")
            self.labels.append("")
        if tag == "input":
            assert given["type"] == "checkbox"
            assert "disabled" in given

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if "a" in self._open:
            self.labels[-1] += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(f"a declaration: {decl}")

    def handle_pi(self, data: str) -> None:
        raise AssertionError(f"an instruction: {data}")


@pytest.mark.parametrize("text", HOSTILE_HTML)
def test_html_in_a_text_stays_text(text: str) -> None:
    dom = Dom(render(text))
    assert dom.links == dom.labels  # Each address is readable.
    assert "input" not in dom.tags or text.startswith("- [x]")


@pytest.mark.parametrize("text", ["<b>bold</b> & <i>", "<script>alert(1)</script>", "a < b > c"])
def test_html_in_a_text_is_shown_as_it_was_written(text: str) -> None:
    assert Dom(render(text)).text.strip() == text


@pytest.mark.parametrize("text", HOSTILE_LINKS)
def test_a_link_that_goes_nowhere_good_is_no_link(text: str) -> None:
    dom = Dom(render(text))
    assert dom.links == []
    assert "x" in dom.text or "alert" in dom.text


@pytest.mark.parametrize("text", HOSTILE_ATTRIBUTES)
def test_no_attribute_can_be_slipped_in(text: str) -> None:
    for link in Dom(render(text)).links:
        assert link.startswith("https://e.org")


@given(TEXTS | st.text(max_size=200))
def test_whatever_is_written_becomes_harmless_html(text: str) -> None:
    Dom(render(text))


@given(st.sampled_from((*HOSTILE_HTML, *HOSTILE_LINKS, *HOSTILE_ATTRIBUTES)), TEXTS, TEXTS)
def test_what_stands_round_it_makes_nothing_dangerous(text: str, before: str, after: str) -> None:
    Dom(render(before + text + after))


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("**b** *i* ~~s~~ `c`", "<p><strong>b</strong> <em>i</em> <s>s</s> <code>c</code></p>\n"),
        ("a\nb", "<p>a<br>\nb</p>\n"),
        ("# a", "<h1>a</h1>\n"),
        ("3. a", '<ol start="3">\n<li>a</li>\n</ol>\n'),
        ("```py\nx\n```", '<pre><code class="language-py">x\n</code></pre>\n'),
        ("```c++\nx\n```", '<pre><code class="language-c++">x\n</code></pre>\n'),
        ("```a&b\nx\n```", "<pre><code>x\n</code></pre>\n"),
        ("- [ ] a", f'<ul>\n<li class="task">{BOX} disabled=""> a</li>\n</ul>\n'),
        ("1. [X] b", f'<ol>\n<li class="task">{BOX} disabled="" checked=""> b</li>\n</ol>\n'),
        ("- [ ]a\n- [y] b", "<ul>\n<li>[ ]a</li>\n<li>[y] b</li>\n</ul>\n"),
        ("[ ] a", "<p>[ ] a</p>\n"),
        ("| a | b |\n|:-:|---|\n| 1 | 2 |", TABLE),
        ("[a]: https://e.org", "<p>[a]: LINK(https://e.org)</p>\n"),
        ("[x](https://e.org 'T')", '<p><a href="https://e.org" title="T"'),
        ("[x](mailto:ada@e.org)", '<p><a href="mailto:ada@e.org"'),
        ("<https://e.org>", "<p>LINK(https://e.org)</p>\n"),
        ("", ""),
    ],
)
def test_markdown_has_its_usual_form(text: str, html: str) -> None:
    link = r'<a href="\1" target="_blank" rel="noopener noreferrer">\1</a>'
    assert render(text).startswith(re.sub(r"LINK\((.*?)\)", link, html))


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("see https://e.org.", ["https://e.org"]),
        ("(https://e.org/a_(b))", ["https://e.org/a_(b)"]),
        ("https://e.org/a?b=c&d=e#f, then", ["https://e.org/a?b=c&d=e#f"]),
        ("https://e.org/a_b_c and http://e.org", ["https://e.org/a_b_c", "http://e.org"]),
        ("**https://e.org**", ["https://e.org"]),
        ("`https://e.org`", []),
        ("xhttps://e.org", []),
        ("https://", []),
        ("[https://a.org](https://b.org)", ["https://b.org"]),
        ("| https://e.org |\n|---|\n| https://f.org |", ["https://e.org", "https://f.org"]),
    ],
)
def test_an_address_in_a_text_is_a_link(text: str, links: list[str]) -> None:
    assert Dom(render(text)).links == links


@pytest.mark.parametrize(
    ("text", "shown", "links"),
    [
        ("![a cat](https://e.org/c.png)", "a cat", ["https://e.org/c.png"]),
        ("![](https://e.org/c.png)", "https://e.org/c.png", ["https://e.org/c.png"]),
        ("![a *cat*](https://e.org/c.png)", "a cat", ["https://e.org/c.png"]),
        ("[![a cat](https://e.org/c.png)](https://f.org)", "a cat", ["https://f.org"]),
    ],
)
def test_a_picture_elsewhere_is_a_link_and_is_never_loaded(
    text: str, shown: str, links: list[str]
) -> None:
    dom = Dom(render(text))
    assert (dom.text.strip(), dom.links) == (shown, links)


@pytest.mark.parametrize(
    "text", ["[" * 5000, "> " * 2000 + "x", "*a " * 3000, "- " * 2000, "`" * 9000]
)
def test_a_text_made_to_be_slow_is_rendered_all_the_same(text: str) -> None:
    Dom(render(text))


def test_a_table_is_not_filled_up_with_thousands_of_cells() -> None:
    """It is the empty cells of a short text that would take a second."""
    head, rule = "|a" * 300, "|-" * 300
    html = render(f"{head}|\n{rule}|\n{'|b' * 300}|\n" + "|c\n" * 200)
    assert (html.count("<th>"), html.count("<td>b</td>"), html.count("c")) == (300, 300, 200)
    assert html.count("<td>") <= 300 + 300
    assert Dom(render("|a|b|\n|-|-|\n" + "|c\n" * 100)).text.count("c") == 100


def test_half_of_a_character_is_shown_as_a_gap() -> None:
    assert render("a\ud83db") == "<p>a\ufffdb</p>\n"
