"""The settings as markup for the page: a form for each, with its default and present effect."""

from __future__ import annotations

from html import escape

from ollim_bot.domain.setting_view import PHONE, SettingLine, SettingsView
from ollim_bot.surfaces.web.marked import section
from ollim_bot.surfaces.web.phone_html import phone_html

_KEYS = (
    '<p class="remark">Keys and passwords are neither shown nor taken here: '
    "<code>ollim-bot setup</code> asks for them.</p>"
)


def settings_html(settings: SettingsView, _: int) -> str:
    """Every setting in its group, and the phone; keys and passwords are none of them."""
    phone = phone_html(settings.phone) if settings.phone else ""
    parts = ["<h2>Settings</h2>"]
    for number, group in enumerate(settings.groups):
        things = f'<ul class="things">{"".join(map(_line, group.lines))}</ul>'
        first = phone if group.name == PHONE else ""
        parts.append(section(f"settings-{number}", escape(group.name), f"{first}{things}"))
    return "".join([*parts, _KEYS])


def _line(line: SettingLine) -> str:
    key = escape(line.key)
    effect = f' <strong class="effect">{escape(line.effect)}</strong>' if line.effect else ""
    unit = f" {escape(line.unit)}" if line.unit else ""
    about = f"It takes {escape(line.takes)}. Default: {escape(line.default)}{unit}."
    back = ""
    if line.is_changed:
        back = (
            f'<button type="button" class="plain" data-action="default" data-field-key="{key}" '
            f'aria-label="Back to the default: {key}">Back to the default</button>'
        )
    return (
        f'<li class="thing"><p>{escape(line.about[:1].upper() + line.about[1:])}.{effect}</p>'
        f'<form data-action="set" data-field-key="{key}">'
        f"<label><code>{key}</code>{_field(line)}</label>"
        f'<button aria-label="Set {key}">Set</button>{back}'
        '<p class="problem" role="alert"></p></form>'
        f'<p class="about">{about}</p></li>'
    )


def _field(line: SettingLine) -> str:
    if not line.choices:
        return f'<input name="value" value="{escape(line.value)}" autocomplete="off" required>'
    options = "".join(
        f"<option{' selected' if each == line.value else ''}>{escape(each)}</option>"
        for each in line.choices
    )
    return f'<select name="value">{options}</select>'
