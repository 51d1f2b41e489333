"""Discord's error answers, and the validation rules that lead to them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


MOST_FILES = 10
_COMPONENTS_V2 = 1 << 15
_MOST_COMPONENTS = 40
_LINK = 5
_ROW, _BUTTON = 1, 2
_EMBED_TEXTS = {"title": 256, "description": 4096}
_MOST_IN_EMBEDS = 6000
_COMMAND_NAME = re.compile(r"[-_'\w]{1,32}")


@dataclass(eq=False)
class DiscordError(Exception):
    """An error answer. `after` is how many seconds to wait; `errors` is the tree of fields."""

    status: int
    code: int
    message: str
    errors: Json = field(default_factory=dict)
    after: float | None = None
    is_global: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> Json:
        body: Json = {"message": self.message, "code": self.code}
        if self.errors:
            body["errors"] = self.errors
        if self.after is not None:
            body |= {"retry_after": self.after, "global": self.is_global}
        return body


def unauthorized() -> DiscordError:
    return DiscordError(401, 0, "401: Unauthorized")


def not_found() -> DiscordError:
    return DiscordError(404, 0, "404: Not Found")


def unknown_channel() -> DiscordError:
    return DiscordError(404, 10003, "Unknown Channel")


def unknown_message() -> DiscordError:
    return DiscordError(404, 10008, "Unknown Message")


def unknown_user() -> DiscordError:
    return DiscordError(404, 10013, "Unknown User")


def unknown_emoji() -> DiscordError:
    return DiscordError(400, 10014, "Unknown Emoji")


def unknown_webhook() -> DiscordError:
    return DiscordError(404, 10015, "Unknown Webhook")


def unknown_interaction() -> DiscordError:
    return DiscordError(404, 10062, "Unknown interaction")


def too_many_reactions() -> DiscordError:
    return DiscordError(400, 30010, "Maximum number of reactions reached (20)")


def too_many_old_edits(after: float) -> DiscordError:
    message = "Maximum number of edits to messages older than 1 hour reached. Try again later."
    return DiscordError(429, 30046, message, after=after)


def too_large() -> DiscordError:
    return DiscordError(413, 40005, "Request entity too large")


def already_acknowledged() -> DiscordError:
    return DiscordError(400, 40060, "Interaction has already been acknowledged.")


def missing_access() -> DiscordError:
    return DiscordError(403, 50001, "Missing Access")


def not_in_a_dm() -> DiscordError:
    return DiscordError(403, 50003, "Cannot execute action on a DM channel")


def anothers_message() -> DiscordError:
    return DiscordError(403, 50005, "Cannot edit a message authored by another user")


def empty_message() -> DiscordError:
    return DiscordError(400, 50006, "Cannot send an empty message")


def invalid_webhook_token() -> DiscordError:
    return DiscordError(401, 50027, "Invalid Webhook Token")


def invalid_json() -> DiscordError:
    return DiscordError(400, 50109, "The request body contains invalid JSON.")


class FormErrors:
    """Collects the errors of a body, field by field."""

    def __init__(self) -> None:
        self._errors: Json = {}

    def wrong(self, path: str, code: str, message: str) -> None:
        """`path` names a field with dots: `embeds.0.title`."""
        place = self._errors
        for step in path.split("."):
            place = place.setdefault(step, {})
        place.setdefault("_errors", []).append({"code": code, "message": message})

    def at_most(self, path: str, text: object, most: int) -> None:
        if len(_words(text)) > most:
            self.wrong(path, "BASE_TYPE_MAX_LENGTH", f"Must be {most} or fewer in length.")

    def between(self, path: str, text: object, least: int, most: int) -> None:
        if not least <= len(_words(text)) <= most:
            message = f"Must be between {least} and {most} in length."
            self.wrong(path, "BASE_TYPE_BAD_LENGTH", message)

    def needed(self, path: str, value: object) -> None:
        if value is None or value == "":
            self.wrong(path, "BASE_TYPE_REQUIRED", "This field is required")

    def check(self) -> None:
        if self._errors:
            raise self._refused()

    @classmethod
    def of(cls, path: str, code: str, message: str) -> DiscordError:
        """A refusal with one error."""
        form = cls()
        form.wrong(path, code, message)
        return form._refused()

    def _refused(self) -> DiscordError:
        return DiscordError(400, 50035, "Invalid Form Body", self._errors)


def _words(value: object) -> str | list[Any]:
    if isinstance(value, list):
        return value
    return "" if value is None else str(value)


def check_message(body: Json) -> None:
    """Validate the given fields; `check_not_empty` checks that there is content."""
    form = FormErrors()
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
    stop_loading = bool(text.strip()) or any(_is_filled(each) for each in embeds)
    if not stop_loading and not files and not flags & _COMPONENTS_V2:
        raise empty_message()


def trimmed(embed: Json) -> Json:
    """The embed as Discord stores it: without white space around its texts."""
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


def _check_embeds(form: FormErrors, embeds: list[Json]) -> None:
    if len(embeds) > 10:
        form.wrong("embeds", "BASE_TYPE_MAX_LENGTH", "Must be 10 or fewer in length.")
    for number, embed in enumerate(embeds):
        _check_embed(form, f"embeds.{number}", trimmed(embed))
    if sum(len(text) for embed in embeds for text in _texts(trimmed(embed))) > _MOST_IN_EMBEDS:
        message = "Embed size exceeds maximum size of 6000"
        form.wrong("embeds", "MAX_EMBED_SIZE_EXCEEDED", message)


def _check_embed(form: FormErrors, path: str, embed: Json) -> None:
    for name, most in _EMBED_TEXTS.items():
        form.at_most(f"{path}.{name}", embed.get(name), most)
    form.at_most(f"{path}.footer.text", embed.get("footer", {}).get("text"), 2048)
    form.at_most(f"{path}.author.name", embed.get("author", {}).get("name"), 256)
    fields = embed.get("fields", [])
    form.at_most(f"{path}.fields", fields, 25)
    for number, entry in enumerate(fields):
        for name, most in (("name", 256), ("value", 1024)):
            form.needed(f"{path}.fields.{number}.{name}", entry.get(name))
            form.at_most(f"{path}.fields.{number}.{name}", entry.get(name), most)


def _texts(embed: Json) -> Iterator[str]:
    yield embed.get("title") or ""
    yield embed.get("description") or ""
    yield embed.get("footer", {}).get("text") or ""
    yield embed.get("author", {}).get("name") or ""
    for entry in embed.get("fields", []):
        yield entry.get("name") or ""
        yield entry.get("value") or ""


def _check_rows(form: FormErrors, rows: list[Json]) -> None:
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


def _check_new_components(form: FormErrors, components: list[Json]) -> None:
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


def _check_component(form: FormErrors, path: str, component: Json, taken: set[str]) -> None:
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
    """Validate all commands of an application, as they are uploaded together."""
    if not isinstance(commands, list):
        raise DiscordError(400, 50035, "Invalid Form Body")
    if len(commands) > 100:
        raise DiscordError(400, 30032, "Maximum number of application commands reached (100)")
    form, names = FormErrors(), set[str]()
    for number, command in enumerate(commands):
        _check_name(form, str(number), command)
        form.between(f"{number}.description", command.get("description"), 1, 100)
        _check_options(form, f"{number}.options", command.get("options") or [])
        if command.get("name") in names:
            message = "Application command names must be unique"
            form.wrong(f"{number}.name", "APPLICATION_COMMANDS_DUPLICATE_NAME", message)
        names.add(str(command.get("name")))
    form.check()


def _check_name(form: FormErrors, path: str, named: Json) -> None:
    name = str(named.get("name", ""))
    if not _COMMAND_NAME.fullmatch(name) or name != name.lower():
        message = "Command name is invalid"
        form.wrong(f"{path}.name", "APPLICATION_COMMAND_INVALID_NAME", message)


def _check_options(form: FormErrors, path: str, options: list[Json]) -> None:
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
