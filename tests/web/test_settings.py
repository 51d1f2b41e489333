"""The settings on the page: every one, in its group, and changed as by the command."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from tests.conversation.scene import scene, scripted
from tests.web.markup import ATTRIBUTES, TAGS, Markup

from ollim_bot.domain.changes import Changer
from ollim_bot.domain.costs import Amount
from ollim_bot.domain.quiet import QuietHours, QuietSettings
from ollim_bot.domain.runtime_config import LISTED_KEYS, RuntimeConfig
from ollim_bot.domain.setting_view import GROUPS, PresentState, SettingsView, setting_groups
from ollim_bot.surfaces.web.settings_html import settings_html

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def test_every_setting_stands_in_one_group_with_its_sentence_unit_default_and_effect() -> None:
    assert sorted(key for keys in GROUPS.values() for key in keys) == sorted(LISTED_KEYS)
    config = RuntimeConfig(quiet_hours="22:00-07:00", auto_backup=True)
    quiet = QuietSettings(UTC, QuietHours.parse("22:00-07:00"))
    groups = setting_groups(config, PresentState(NOON, quiet, Amount()))
    lines = {line.key: line for group in groups for line in group.lines}
    assert all(line.about and line.takes for line in lines.values())
    assert lines["quiet_hours"].effect == "next quiet: today 22:00"
    assert lines["auto_backup"].effect == "next: tomorrow 6:00"
    assert lines["auto_backup"].choices == ("on", "off")
    assert [key for key, line in lines.items() if line.is_changed] == ["quiet_hours", "auto_backup"]
    late = setting_groups(config, PresentState(NOON.replace(hour=23), quiet, Amount()))
    assert "quiet now, until tomorrow 7:00" in [line.effect for one in late for line in one.lines]
    without = {line.key for line in lines.values() if line.default in ("off", "none", "default")}
    assert {"travel_minutes", "nag_default"} <= without
    html = settings_html(SettingsView(groups), 100)
    for part in html.split('<li class="thing">')[1:]:
        key = re.findall('data-field-key="([^"]+)"', part)[0]
        assert key not in without or f"Default: {lines[key].default}.</p>" in part, key
    assert "Default: 600 seconds." in html
    assert "Default: 5 US dollars." in html
    shown = Markup(html)
    assert shown.tags <= TAGS
    assert shown.attributes <= ATTRIBUTES


async def test_a_setting_is_changed_with_a_row_and_a_wrong_value_names_its_field() -> None:
    async with scene(scripted()) as at:
        view = at.chat.views.settings
        told = await view.act("web", "set", {"key": "quiet_hours", "value": "the night"})
        assert (told.is_error, told.field) == (True, "value")
        assert "It takes two times such as 22:00-07:00" in told.text
        told = await view.act("web", "set", {"key": "quiet_hours", "value": "22:00-07:00"})
        assert told.text == "quiet_hours is now 22:00-07:00 (it was off)."
        (row,) = at.store.query(lambda tx: tx.changes.newest(1))
        assert (row.by, row.after) == (Changer.PAGE, "22:00-07:00")
        assert (await view.act("web", "default", {"key": "quiet_hours"})).text.endswith("07:00).")
        assert (await view.act("web", "set", {"key": "OLLIM_TOKEN", "value": "x"})).is_error
        told = await view.act("web", "set", {"key": "timezone", "value": "Asia/Tokyo"})
        assert not told.is_error
        groups = (await view.look({})).groups
        zone = next(line for each in groups for line in each.lines if line.key == "timezone")
        assert (zone.value, zone.default) == ("Asia/Tokyo", "default")
