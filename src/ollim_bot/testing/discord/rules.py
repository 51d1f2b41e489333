"""What Discord takes, and what it refuses, of the body of a message or of the commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ollim_bot.testing.discord.refusals import Form, Json, Refused, empty_message

MOST_FILES = 10

_COMPONENTS_V2 = 1 << 15
_MOST_COMPONENTS = 40
_LINK = 5
_ROW, _BUTTON = 1, 2
_EMBED_TEXTS = {"title": 256, "description": 4096}
_MOST_IN_EMBEDS = 6000
_COMMAND_NAME = re.compile(r"[-_'\w]{1,32}")


def check_message(body: Json) -> None:
    """The fields that are there; whether any words are left is another question."""
    form = Form()
    form.at_most("content", body.get("content"), 2000)
    form.at_most("nonce", body.get("nonce"), 25)
    _check_embeds(form, body.get("embeds") or [])
    components = body.get("components") or []
    if body.get("flags", 0) & _COMPONENTS_V2:
        _check_new_components(form, components)
    else:
        _check_rows(form, components)
    if len(body.get("attachments") or []) > MOST_FILES:
        form.wrong("attachments", "BASE_TYPE_MAX_LENGTH", "Must be 10 or fewer in length.")
    form.check()


def check_not_empty(text: str, embeds: list[Json], files: int, flags: int) -> None:
    has_words = bool(text.strip()) or any(_is_filled(each) for each in embeds)
    if not has_words and not files and not flags & _COMPONENTS_V2:
        raise empty_message()


def trimmed(embed: Json) -> Json:
    """An embed as it stands: without white space around its words."""
    return {name: _trimmed(value) for name, value in embed.items()} | {"type": "rich"}


def _trimmed(value: Any) -> Any:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, dict):
        return {name: _trimmed(each) for name, each in value.items()}
    return [_trimmed(each) for each in value] if isinstance(value, list) else value


def _is_filled(embed: Json) -> bool:
    return any(
        embed.get(part)
        for part in ("title", "description", "fields", "footer", "author", "image", "thumbnail")
    )


def _check_embeds(form: Form, embeds: list[Json]) -> None:
    if len(embeds) > 10:
        form.wrong("embeds", "BASE_TYPE_MAX_LENGTH", "Must be 10 or fewer in length.")
    for number, embed in enumerate(embeds):
        _check_embed(form, f"embeds.{number}", trimmed(embed))
    if sum(len(text) for embed in embeds for text in _texts(trimmed(embed))) > _MOST_IN_EMBEDS:
        message = "Embed size exceeds maximum size of 6000"
        form.wrong("embeds", "MAX_EMBED_SIZE_EXCEEDED", message)


def _check_embed(form: Form, path: str, embed: Json) -> None:
    for name, most in _EMBED_TEXTS.items():
        form.at_most(f"{path}.{name}", embed.get(name), most)
    form.at_most(f"{path}.footer.text", embed.get("footer", {}).get("text"), 2048)
    form.at_most(f"{path}.author.name", embed.get("author", {}).get("name"), 256)
    fields = embed.get("fields", [])
    form.at_most(f"{path}.fields", fields, 25)
    for number, field in enumerate(fields):
        for name, most in (("name", 256), ("value", 1024)):
            form.needed(f"{path}.fields.{number}.{name}", field.get(name))
            form.at_most(f"{path}.fields.{number}.{name}", field.get(name), most)


def _texts(embed: Json) -> Iterator[str]:
    yield embed.get("title") or ""
    yield embed.get("description") or ""
    yield embed.get("footer", {}).get("text") or ""
    yield embed.get("author", {}).get("name") or ""
    for field in embed.get("fields", []):
        yield field.get("name") or ""
        yield field.get("value") or ""


def _check_rows(form: Form, rows: list[Json]) -> None:
    form.at_most("components", rows, 5)
    taken: set[str] = set()
    for number, row in enumerate(rows):
        path = f"components.{number}"
        inner = row.get("components", [])
        if row.get("type") != _ROW:
            message = 'Value of field "type" must be one of (1,).'
            form.wrong(f"{path}.type", "UNION_TYPE_CHOICES", message)
        form.between(f"{path}.components", inner, 1, 5)
        for place, component in enumerate(inner):
            _check_component(form, f"{path}.components.{place}", component, taken)


def _check_new_components(form: Form, components: list[Json]) -> None:
    everything = list(_within(components))
    form.at_most("components", everything, _MOST_COMPONENTS)
    taken: set[str] = set()
    for number, component in enumerate(everything):
        if component.get("type") == _BUTTON:
            _check_component(form, f"components.{number}", component, taken)


def _within(components: list[Json]) -> Iterator[Json]:
    for component in components:
        yield component
        yield from _within(component.get("components", []))


def _check_component(form: Form, path: str, component: Json, taken: set[str]) -> None:
    if component.get("type") == _BUTTON:
        form.at_most(f"{path}.label", component.get("label"), 80)
        if not component.get("label") and not component.get("emoji"):
            form.needed(f"{path}.label", None)
        if component.get("style") == _LINK:
            form.needed(f"{path}.url", component.get("url"))
            return
    custom_id = component.get("custom_id")
    form.between(f"{path}.custom_id", custom_id, 1, 100)
    if custom_id in taken:
        message = "Component custom id cannot be duplicated"
        form.wrong(f"{path}.custom_id", "COMPONENT_CUSTOM_ID_DUPLICATED", message)
    taken.add(str(custom_id))


def check_commands(commands: Any) -> None:
    """All of an application's commands, as they are put at once."""
    if not isinstance(commands, list):
        raise Refused(400, 50035, "Invalid Form Body")
    if len(commands) > 100:
        raise Refused(400, 30032, "Maximum number of application commands reached (100)")
    form, names = Form(), set[str]()
    for number, command in enumerate(commands):
        _check_name(form, str(number), command)
        form.between(f"{number}.description", command.get("description"), 1, 100)
        _check_options(form, f"{number}.options", command.get("options") or [])
        if command.get("name") in names:
            message = "Application command names must be unique"
            form.wrong(f"{number}.name", "APPLICATION_COMMANDS_DUPLICATE_NAME", message)
        names.add(str(command.get("name")))
    form.check()


def _check_name(form: Form, path: str, named: Json) -> None:
    name = str(named.get("name", ""))
    if not _COMMAND_NAME.fullmatch(name) or name != name.lower():
        message = "Command name is invalid"
        form.wrong(f"{path}.name", "APPLICATION_COMMAND_INVALID_NAME", message)


def _check_options(form: Form, path: str, options: list[Json]) -> None:
    form.at_most(path, options, 25)
    may_be_required = True
    for number, option in enumerate(options):
        here = f"{path}.{number}"
        _check_name(form, here, option)
        form.between(f"{here}.description", option.get("description"), 1, 100)
        choices = option.get("choices") or []
        form.at_most(f"{here}.choices", choices, 25)
        for place, choice in enumerate(choices):
            form.between(f"{here}.choices.{place}.name", choice.get("name"), 1, 100)
            form.at_most(f"{here}.choices.{place}.value", choice.get("value"), 100)
        if option.get("required") and not may_be_required:
            message = "Required options must be placed before non-required options"
            form.wrong(here, "APPLICATION_COMMAND_OPTIONS_REQUIRED_INVALID", message)
        may_be_required = may_be_required and bool(option.get("required"))
        if choices and option.get("autocomplete"):
            message = "Choices cannot be given with autocomplete"
            form.wrong(here, "APPLICATION_COMMAND_OPTIONS_CHOICES_AUTOCOMPLETE", message)
