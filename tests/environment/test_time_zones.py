"""Time zones are found by name or from the machine, and no name causes an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.domain.moments import near_zone, zone_named
from ollim_bot.domain.text import nearest
from ollim_bot.environment import system_zone


def key(tz: str, etc: Path) -> str | None:
    zone = system_zone({"TZ": tz}, etc)
    return zone.key if zone else None


@pytest.mark.parametrize(
    ("tz", "zone"),
    [
        pytest.param("Europe/Berlin", "Europe/Berlin", id="name"),
        pytest.param(":Europe/Berlin", "Europe/Berlin", id="colon"),
        pytest.param("{}/zoneinfo/Europe/Berlin", "Europe/Berlin", id="path"),
        pytest.param(":{}/zoneinfo/posix/Asia/Tokyo", "Asia/Tokyo", id="path-posix"),
        pytest.param(":{}/zoneinfo/right/Asia/Tokyo", "Asia/Tokyo", id="path-right"),
        pytest.param(":{}/localtime", "America/New_York", id="path-of-a-link"),
        pytest.param("", "America/New_York", id="empty"),
        pytest.param("<+03>-3", "America/New_York", id="a-rule-and-no-name"),
        pytest.param("/nowhere", "America/New_York", id="path-to-nowhere"),
    ],
)
def test_the_zone_of_the_machine_is_first_what_tz_says(tmp_path: Path, tz: str, zone: str) -> None:
    (tmp_path / "localtime").symlink_to("zoneinfo/America/New_York")
    assert key(tz.format(tmp_path), tmp_path) == zone


def test_the_zone_of_the_machine_is_then_where_localtime_leads(tmp_path: Path) -> None:
    (tmp_path / "localtime").symlink_to("/nowhere/share/zoneinfo/Asia/Tokyo")
    (tmp_path / "timezone").write_text("Europe/Berlin\n")
    assert key("", tmp_path) == "Asia/Tokyo"


def test_the_zone_of_the_machine_is_last_what_timezone_holds(tmp_path: Path) -> None:
    (tmp_path / "localtime").write_bytes(b"a copy")
    (tmp_path / "timezone").write_text("Europe/Berlin\n")
    assert key("", tmp_path) == "Europe/Berlin"


@pytest.mark.parametrize("content", [b"Europe\n", b"", b"\xff", b"../x", b"a\0b"])
def test_a_machine_may_name_no_zone_at_all(tmp_path: Path, content: bytes) -> None:
    assert key("", tmp_path) is None
    (tmp_path / "timezone").write_bytes(content)
    assert key("", tmp_path) is None


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        pytest.param("europe/berlin", "Europe/Berlin", id="small-letters"),
        pytest.param("Amercia/New_York", "America/New_York", id="slip"),
        pytest.param("new york", "America/New_York", id="city"),
        pytest.param("PST", None, id="short"),
        pytest.param("GMT+2", None, id="offset"),
        pytest.param("", None, id="empty"),
    ],
)
def test_what_a_person_meant_is_guessed_where_it_is_near(text: str, zone: str | None) -> None:
    assert near_zone(text) == zone


@given(st.text() | st.sampled_from(["../x", "Europe", "/etc/passwd", "zone.tab", ".", "\udc80"]))
def test_no_name_of_a_zone_raises(name: str) -> None:
    zone = zone_named(name)
    assert zone is None or zone.key == name


@pytest.mark.parametrize(
    ("word", "near"),
    [
        pytest.param("berlni", "berlin", id="swapped"),
        pytest.param("berli", "berlin", id="missing"),
        pytest.param("berlinn", "berlin", id="doubled"),
        pytest.param("berlinnnn", None, id="too-far"),
        pytest.param("pst", None, id="too-short-to-guess"),
        pytest.param("", None, id="empty"),
    ],
)
def test_a_slip_is_understood_and_no_more(word: str, near: str | None) -> None:
    assert nearest(word, ["est", "berlin", "tokyo"]) == near
