"""Which version is newer, and what changed between two of them."""

from __future__ import annotations

import pytest

from ollim_bot.domain.presence import Version, changes_between, newest_tag

CHANGELOG = """# Changelog

What changes.

## 0.13.0 (2026-12-01)

- new

## 0.12.1

- mended

## 0.12.0

- old
"""


@pytest.mark.parametrize(
    "text", ["v0.13", "0.13.0rc1", "v01.2.3", "v1.2.3.4", "nightly", "", "v1.2.3\n", "v1.2.٣"]
)
def test_what_is_not_a_plain_version_is_none(text: str) -> None:
    assert Version.of(text) is None


def test_versions_are_compared_by_number_and_other_tags_do_not_count() -> None:
    tags = ["v0.9.9", "v0.10.0", "0.99.0", "vintage", "v0.11.0-beta", "v0.10.0^{}"]
    assert newest_tag(tags) == Version(0, 10, 0)
    assert newest_tag(["latest"]) is None
    assert Version(0, 10, 0).tag == "v0.10.0"


def test_the_changelog_between_two_versions_has_the_later_ones_alone() -> None:
    between = changes_between(CHANGELOG, Version(0, 12, 0), Version(0, 13, 0))
    assert between == "## 0.13.0 (2026-12-01)\n\n- new\n\n## 0.12.1\n\n- mended"
    assert changes_between(CHANGELOG, Version(0, 12, 0), Version(0, 12, 1)) == (
        "## 0.12.1\n\n- mended"
    )
    assert changes_between("", Version(0, 12, 0), Version(0, 13, 0)) == ""
