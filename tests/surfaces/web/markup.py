"""The markup of a fragment: which tags and attributes it has, and which words."""

from __future__ import annotations

from html.parser import HTMLParser

# All that a fragment may have. Neither style nor script is among them.
TAGS = {
    *("h2", "h3", "p", "br", "time", "section", "ul", "ol", "li", "bdi", "span", "div"),
    *("button", "a", "strong", "code", "table", "tbody", "tr", "th", "td", "svg", "rect", "path"),
    *("details", "summary", "form", "label", "input", "select", "option", "textarea"),
    *("progress", "figure", "figcaption", "del", "ins"),
}
ATTRIBUTES = {
    *("class", "id", "datetime", "type", "name", "max", "value", "required"),
    *("autocomplete", "role", "aria-label", "aria-labelledby", "aria-hidden", "href"),
    *("scope", "viewbox", "d", "preserveaspectratio", "x", "y", "width", "height", "selected"),
    *("disabled", "aria-live", "maxlength", "enterkeyhint", "placeholder", "data-action"),
    *("data-field-custom_id", "data-field-key", "data-field-name", "data-field-file"),
    *("data-field-line", "data-field-text", "data-field-id", "data-field-server", "data-fold"),
    *("data-at", "data-left", "data-now", "data-most", "data-previews", "data-filter", "data-once"),
}


class Markup(HTMLParser):
    """Collects the tags, attributes and words of a fragment."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.words: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.words.append(data.strip())


def words_of(html: str) -> str:
    """The words of a fragment that has nothing but what it may have."""
    shown = Markup(html)
    assert shown.tags <= TAGS
    assert shown.attributes <= ATTRIBUTES
    return " ".join(filter(None, shown.words))
