"""Talks to the bot through the local Discord, in a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from devtools.localdiscord.server import LocalDiscord
from devtools.localdiscord.state import Message
from devtools.localdiscord.validation import DiscordError, Json

HELP = """\
A line is a message to the bot. Besides:
  /name words        a slash command; /name alone shows what it takes if something is missing
  !click N           press the button [N]
  !react ✅ [N]      react to message N, or to the bot's last one; !unreact takes it back
  !reply N words     reply to message N
  !forward words     forward what somebody else wrote elsewhere
  !edit words        change your last message; !delete takes it back
  !commands          what commands there are
  !drop              break the connection of the bot
  !help, !quit"""


@dataclass(frozen=True, slots=True)
class _View:
    """What was last shown of a message."""

    text: str
    cards: tuple[str, ...]
    buttons: tuple[str, ...]
    files: tuple[str, ...]
    marks: tuple[str, ...]
    is_deleted: bool = False


class Terminal:
    """Messages and buttons are numbered in the order in which they are first shown."""

    def __init__(self, discord: LocalDiscord, write: Callable[[str], None]) -> None:
        self._discord = discord
        self._write = write
        self._numbers: dict[str, int] = {}
        self._shown: dict[str, _View] = {}
        self._buttons: list[tuple[str, str]] = []
        self._own: list[str] = []
        self._verbs: Mapping[str, Callable[[list[str]], None]] = {
            "click": self._click,
            "react": self._react,
            "unreact": self._unreact,
            "reply": self._reply,
            "forward": self._forward,
            "edit": self._edit,
            "delete": self._delete,
            "commands": self._commands_there,
            "drop": lambda _: self._discord.drop_gateway(),
            "help": lambda _: self._write(HELP),
        }

    def run_line(self, line: str) -> None:
        """Carry out one typed line; say why if that is not possible."""
        line = line.strip()
        try:
            if line.startswith("/"):
                self._slash(line[1:])
            elif line.startswith("!"):
                self._act(line[1:].split())
            elif line:
                self._own.append(self._discord.say(line))
        except (LookupError, ValueError, DiscordError) as wrong:
            reason = wrong.message if isinstance(wrong, DiscordError) else str(wrong.args[0])
            self._write(f"! {reason} Type !help for what can be done.")

    async def watch(self) -> None:
        """Show new and changed messages until cancelled."""
        while True:
            await self._discord.state.until(self._news, None)
            for message in self._news():
                self._show(message)

    def _act(self, words: list[str]) -> None:
        verb = words[0] if words else ""
        if verb not in self._verbs:
            raise LookupError(f"There is no !{verb}.")
        self._verbs[verb](words[1:])

    def _slash(self, typed: str) -> None:
        name, _, rest = typed.partition(" ")
        specs = [each for each in self._discord.commands if each["name"] == name]
        options = specs[0].get("options", []) if specs else []
        self._discord.call(name, _arguments(options, rest.strip()))

    def _click(self, words: list[str]) -> None:
        number = _number(words)
        if not 0 < number <= len(self._buttons):
            raise LookupError(f"There is no button [{number}].")
        self._discord.click(*self._buttons[number - 1])

    def _react(self, words: list[str]) -> None:
        self._discord.react(self._named(words[1:]), _word(words, "an emoji"))

    def _unreact(self, words: list[str]) -> None:
        self._discord.unreact(self._named(words[1:]), _word(words, "an emoji"))

    def _reply(self, words: list[str]) -> None:
        text = " ".join(words[1:])
        self._own.append(self._discord.say(text, reply_to=self._named(words[:1])))

    def _forward(self, words: list[str]) -> None:
        stranger = self._discord.stranger
        theirs = self._discord.say(" ".join(words), as_user=stranger, in_guild=True)
        self._own.append(self._discord.forward(theirs))

    def _edit(self, words: list[str]) -> None:
        self._discord.edit(self._last_own(), " ".join(words))

    def _delete(self, _: list[str]) -> None:
        self._discord.delete(self._last_own())
        self._own.pop()

    def _commands_there(self, _: list[str]) -> None:
        for each in self._discord.commands:
            names = " ".join(f"[{one['name']}]" for one in each.get("options", []))
            self._write(f"  /{each['name']} {names}".rstrip() + f": {each['description']}")

    def _last_own(self) -> str:
        if not self._own:
            raise LookupError("You have said nothing yet.")
        return self._own[-1]

    def _named(self, words: Sequence[str]) -> str:
        """The message with that number, or the bot's last one."""
        if words:
            wanted = _number(words)
            found = [each for each, number in self._numbers.items() if number == wanted]
        else:
            found = [each.id for each in self._discord.said]
        if not found:
            raise LookupError("There is no such message.")
        return found[-1]

    def _news(self) -> list[Message]:
        found = self._discord.state.messages.values()
        ours = [each for each in found if each.author == self._discord.bot and not each.is_loading]
        return [each for each in ours if self._shown.get(each.id) != _view(each)]

    def _show(self, message: Message) -> None:
        before, view = self._shown.get(message.id), _view(message)
        self._shown[message.id] = view
        number = self._numbers.setdefault(message.id, len(self._numbers) + 1)
        if view.is_deleted:
            self._write(f"#{number} is deleted")
            return
        if before is None or before.marks == view.marks:
            change = " (changed)" if before else ""
            only_you = " (only you see this)" if message.is_ephemeral else ""
            first, *others = view.text.split("\n")
            self._write(f"#{number}{change}{only_you} {first}".rstrip())
            for line in others:
                self._write(f"   {line}".rstrip())
            for line in (*view.cards, *view.files, *self._numbered(message)):
                self._write(f"   {line}")
        else:
            self._write(f"#{number} has {' '.join(view.marks) or 'no reaction'}")

    def _numbered(self, message: Message) -> list[str]:
        marks = []
        for each in message.buttons:
            key = (message.id, str(each.get("custom_id")))
            if key not in self._buttons:
                self._buttons.append(key)
            state = " (off)" if each.get("disabled") else ""
            marks.append(f"[{self._buttons.index(key) + 1}] {_label(each)}{state}")
        return ["  ".join(marks)] if marks else []


def _view(message: Message) -> _View:
    return _View(
        message.text,
        tuple(line for each in message.embeds for line in _card(each)),
        tuple(f"{each.get('custom_id')}{each.get('disabled')}" for each in message.buttons),
        tuple(f"file: {each.name} ({len(each.content)} bytes)" for each in message.files),
        tuple(message.reactions),
        message.is_deleted,
    )


def _card(embed: Json) -> list[str]:
    fields = [f"{each['name']}: {each['value']}" for each in embed.get("fields", [])]
    parts = [embed.get("title"), embed.get("description"), *fields]
    parts.append(embed.get("footer", {}).get("text"))
    return [f"│ {line}" for part in parts if part for line in str(part).splitlines()]


def _label(button: Json) -> str:
    emoji = (button.get("emoji") or {}).get("name") or ""
    return f"{emoji} {button.get('label') or ''}".strip()


def _number(words: Sequence[str]) -> int:
    word = _word(words, "a number")
    if not word.isdecimal():
        raise ValueError(f"{word} is no number.")
    return int(word)


def _word(words: Sequence[str], meaning: str) -> str:
    if not words:
        raise ValueError(f"It takes {meaning}.")
    return words[0]


def _arguments(options: Sequence[Json], typed: str) -> dict[str, object]:
    """One word each, in quotes if it has spaces; the last one takes the rest."""
    names = [str(each["name"]) for each in options]
    if len(names) <= 1:
        return {names[0] if names else "argument": typed} if typed else {}
    words = shlex.split(typed)
    if len(words) > len(names):
        words[len(names) - 1 :] = [" ".join(words[len(names) - 1 :])]
    return dict(zip(names, words, strict=False))
