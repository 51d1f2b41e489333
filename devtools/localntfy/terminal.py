"""Shows a phone in a terminal: its notifications, with a number for each button."""

from __future__ import annotations

from collections.abc import Callable

from devtools.localntfy.phone import Notification, Phone

HELP = """\
Notifications come by themselves, with their buttons. Besides:
  N          press the button [N]
  swipe N    dismiss notification N; the bot is not told
  show       what is on the phone now
  help, quit"""


class Terminal:
    """Notifications and buttons are numbered in the order in which they are first shown."""

    def __init__(self, phone: Phone, write: Callable[[str], None]) -> None:
        self._phone = phone
        self._write = write
        self._shown: list[Notification] = []
        self._numbers: dict[str, int] = {}
        self._buttons: list[tuple[Notification, str]] = []

    async def run_line(self, line: str) -> None:
        """Carry out one typed line; say why if that is not possible."""
        try:
            match line.split():
                case []:
                    pass
                case ["help"]:
                    self._write(HELP)
                case ["show"]:
                    self._show_all()
                case ["swipe", number] if number.isdecimal():
                    self._phone.swipe(self._numbered(int(number)))
                case [number] if number.isdecimal():
                    await self._press(int(number))
                case _:
                    raise LookupError(f"There is no {line.strip()!r}.")
        except LookupError as wrong:
            self._write(f"! {wrong.args[0]} Type help for what can be done.")

    async def watch(self) -> None:
        """Show new, replaced and gone notifications until cancelled."""
        while True:
            await self._phone.changes.until(lambda: self._phone.shown != self._shown, None)
            before, self._shown = self._shown, list(self._phone.shown)
            self._tell_gone(before)
            for each in self._shown:
                if each not in before:
                    self._show(each)

    def _tell_gone(self, before: list[Notification]) -> None:
        left = {each.sequence_id for each in self._shown}
        for each in before:
            if each.sequence_id not in left:
                self._write(f"#{self._numbers[each.sequence_id]} is gone")

    def _show_all(self) -> None:
        if not self._shown:
            self._write("Nothing is shown.")
        for each in self._shown:
            self._show(each)

    def _show(self, one: Notification) -> None:
        change = " (changed)" if one.sequence_id in self._numbers else ""
        number = self._numbers.setdefault(one.sequence_id, len(self._numbers) + 1)
        first, *others = [*([one.title] if one.title else []), *one.text.split("\n")]
        self._write(f"#{number}{change} {first}".rstrip())
        for line in others:
            self._write(f"   {line}".rstrip())
        if one.actions:
            self._write("   " + "  ".join(self._mark(one, label) for label in one.labels))

    def _mark(self, one: Notification, label: str) -> str:
        button = (one, label)
        if button not in self._buttons:
            self._buttons.append(button)
        return f"[{self._buttons.index(button) + 1}] {label}"

    async def _press(self, number: int) -> None:
        if not 0 < number <= len(self._buttons):
            raise LookupError(f"There is no button [{number}].")
        one, label = self._buttons[number - 1]
        status = await self._phone.press(one, label)
        told = f"answered {status}" if status else "nothing answered"
        self._write(f"* {label}: {told}")

    def _numbered(self, number: int) -> Notification:
        for each in self._phone.shown:
            if self._numbers.get(each.sequence_id) == number:
                return each
        raise LookupError(f"There is no notification {number}.")
