"""How the browsers that the page knows stand in their file; none is no file."""

from __future__ import annotations

from ollim_bot.domain.browsers import KnownBrowser, KnownBrowsers
from ollim_bot.storage.json_fields import FORMAT, Fields, parse_json, render_json, versioned

Warnings = tuple[str, ...]

_MOST_GENERATIONS = 2**31 - 1


class KnownBrowsersCodec:
    def missing(self) -> KnownBrowsers:
        return KnownBrowsers()

    def decode(self, raw: bytes) -> tuple[KnownBrowsers, Warnings]:
        items = Fields(versioned(parse_json(raw))).items("browsers")
        return KnownBrowsers(tuple(_browser(Fields(item, "browsers")) for item in items)), ()

    def encode(self, value: KnownBrowsers) -> bytes | None:
        if not value.all:
            return None
        browsers = [
            {"id": each.id, "generation": each.generation, "used": each.used.isoformat()}
            for each in value.all
        ]
        return render_json({"version": FORMAT, "browsers": browsers}, indent=2)


def _browser(fields: Fields) -> KnownBrowser:
    return KnownBrowser(
        fields.text("id"),
        fields.whole("generation", least=1, most=_MOST_GENERATIONS),
        fields.moment("used"),
    )
