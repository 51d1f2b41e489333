"""The first day of a person: what they type is done, asked about or sent to its place.

Never is something else done than was meant. The bot runs in a process of its own with the built-in
model and the real clock; the test types on the page's API and looks at the files.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.e2e.bot import Bot
from tests.e2e.conftest import running
from tests.phrase_files import read

from ollim_bot.kernel.store.frontmatter import parse

TALKS = read(Path(__file__).with_name("first_day_talks.txt"))
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
CHANGES = ("reminder", "timer", "routine", "task", "change", "gone", "done")
TASKS = "- [ ] eggs and bread\n- [ ] water bill\n\n## shopping\n\n- [ ] milk\n"


def zone_of_ten_in_the_morning() -> str:
    """A zone in which it is between ten and eleven now, so that what is said has one meaning."""
    ahead = (10 - datetime.now(UTC).hour + 11) % 24 - 11
    return f"Etc/GMT{-ahead:+d}" if ahead else "Etc/UTC"


def due(words: str, now: datetime) -> datetime:
    """The moment of an expectation, to the minute."""
    today = now.replace(second=0, microsecond=0, tzinfo=None)
    if minutes := re.fullmatch(r"\+(\d+)", words):
        return (now.replace(tzinfo=None) + timedelta(minutes=int(minutes[1]))).replace(
            microsecond=0
        )
    *day, clock = words.split()
    hour, minute = map(int, clock.split(":"))
    at = time(hour, minute)
    if not day:
        found = datetime.combine(today, at)
        return found if found > today else found + timedelta(days=1)
    if days := re.fullmatch(r"\+(\d)d", day[0]):
        return datetime.combine(today + timedelta(days=int(days[1])), at)
    if day[0] in WEEKDAYS:
        ahead = (WEEKDAYS.index(day[0]) - today.weekday()) % 7
        found = datetime.combine(today + timedelta(days=ahead), at)
        return found if found > today else found + timedelta(days=7)
    return datetime.combine(next_date(day[0], today.date()), at)


def next_date(month_day: str, today: date) -> date:
    month, day = map(int, month_day.split("-"))
    found = date(today.year, month, day)
    return found if found >= today else found.replace(year=today.year + 1)


class FirstDay:
    def __init__(self, bot: Bot, zone: ZoneInfo) -> None:
        self.bot = bot
        self.zone = zone
        self.files: dict[Path, str] = {}

    @property
    def now(self) -> datetime:
        return datetime.now(self.zone)

    def seed(self) -> None:
        """What is set before the first word."""
        head = "plain: true\nmust: true\n"
        for name, cron, text in (
            ("aaaa0001", "0 20 * * *", "take my pills"),
            ("aaaa0002", "15 18 * * 1-5", "leave for work"),
        ):
            self._write("routines", name, f'cron: "{cron}"\n{head}', text)
        for name, words, text in (
            ("bbbb0001", "+1d 9:00", "email my landlord"),
            ("bbbb0002", "+1d 15:00", "dentist"),
            ("bbbb0003", "+2d 18:00", "gym"),
            ("bbbb0004", "+5d 18:00", "gym"),
        ):
            self._write(
                "reminders", name, f'run-at: "{due(words, self.now).isoformat()}"\n{head}', text
            )
        (self.bot.data / "tasks.md").write_text(TASKS)

    def _write(self, folder: str, name: str, head: str, text: str) -> None:
        path = self.bot.data / folder / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"---\nid: {name}\n{head}---\n{text}\n")

    def look(self) -> dict[Path, str]:
        folders = (self.bot.data / "reminders", self.bot.data / "routines")
        paths = [path for folder in folders for path in folder.glob("*.md")]
        tasks = self.bot.data / "tasks.md"
        return {path: path.read_text() for path in [*paths, tasks]}

    async def take(self, words: str) -> tuple[list[str], str]:
        """What the words changed, and all that was shown then, with its buttons."""
        before, seen = self.look(), {one["id"] for one in await self.bot.messages()}
        told = ""
        if words.startswith("press: "):
            try:
                told = (await self.bot.press(words.removeprefix("press: ")))["text"]
            except AssertionError as missing:
                told = str(missing)
        else:
            await self.bot.say(words)
        await self.bot.until(lambda: not self.bot.open_inputs())
        new = [one for one in await self.bot.messages() if one["id"] not in seen]
        shown = [told, *(_shown(one) for one in new if one["author"] != "owner")]
        return list(_changes(before, self.look())), "\n".join(shown)


def _shown(message: Mapping[str, Any]) -> str:
    card = message["card"] or {"buttons": ()}
    return "\n".join([message["text"], *(each["label"] for each in card["buttons"])])


def _changes(before: Mapping[Path, str], after: Mapping[Path, str]) -> Iterator[str]:
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        if old == new:
            continue
        if path.name == "tasks.md":
            yield from _of_tasks(str(old), str(new))
        elif new is None:
            yield f"gone: {parse(str(old)).body.strip()}"
        else:
            found = parse(new)
            fields = {name: field.value for name, field in found.fields.items()}
            kind = "timer" if "set-at" in fields else path.parent.name.removesuffix("s")
            yield f"{'change' if old else kind}: {found.body.strip()} @ {_when(fields)}"


def _of_tasks(old: str, new: str) -> Iterator[str]:
    for line in new.splitlines():
        if line not in old.splitlines():
            sign, title = line[:6], line[6:]
            yield f"{'done' if sign == '- [x] ' else 'task'}: {title}"


def _when(fields: Mapping[str, object]) -> str:
    if "run-at" in fields:
        return datetime.fromisoformat(str(fields["run-at"])).isoformat()
    if "every" in fields:
        return f"every {fields['every']} at {fields['at']}"
    cron = str(fields["cron"])
    return f"cron {cron} until {fields['until']}" if "until" in fields else cron


def is_right(want: str, changes: list[str], shown: str, at: FirstDay) -> bool:
    kind, _, rest = want.partition(":")
    rest = rest.strip()
    if kind not in CHANGES:
        parts = rest.casefold().split(", ")
        return not changes and all(part in shown.casefold() for part in parts)
    if len(changes) != 1:
        return False
    text, _, when = rest.partition(" @ ")
    found_kind, _, found = changes[0].partition(": ")
    found_text, _, found_when = found.partition(" @ ")
    if found_kind != kind or found_text.casefold() != text.casefold():
        return False
    if not when:
        return True
    if re.match(r"[\d*]\S* [\d*]\S* \S+ \S+ \S+$|every ", when):
        return found_when == when
    if until := re.fullmatch(r"(cron .*) until (\d\d-\d\d)", when):
        return found_when == f"{until[1]} until {next_date(until[2], at.now.date())}"
    moment = datetime.fromisoformat(found_when)
    local = moment.astimezone(at.zone).replace(tzinfo=None) if moment.tzinfo else moment
    allowed = timedelta(minutes=2) if when.startswith("+") and "d" not in when else timedelta()
    return abs(local - due(when, at.now)) <= allowed


def verdict_of(want: str, *, right: bool) -> str:
    kind = want.partition(":")[0]
    return (
        {"asked": "asked", "place": "refused, with the place"}.get(kind, "right")
        if right
        else "wrong"
    )


def words_of(words: str, at: FirstDay) -> str:
    """`the one on +5d` with the day as a person says it."""
    found = re.search(r"\+(\d)d", words)
    if found is None:
        return words
    day = at.now.date() + timedelta(days=int(found[1]))
    return words.replace(found[0], f"{day:%A}".lower())


@pytest.mark.minutes
@pytest.mark.real_engine
async def test_what_is_typed_on_the_first_day_is_done_asked_or_sent_to_its_place(
    tmp_path: Path,
) -> None:
    """What the built-in model makes of all kinds of words stands in `tests/offline`."""
    zone = zone_of_ten_in_the_morning()
    bot = Bot(tmp_path, None, {"OLLIM_TIMEZONE": zone})
    at = FirstDay(bot, ZoneInfo(zone))
    bot.data.mkdir(parents=True, mode=0o700)
    at.seed()
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    async with running(bot):
        for name, talk in TALKS.items():
            for words, want in talk:
                changes, shown = await at.take(words_of(words, at))
                verdict = verdict_of(want, right=is_right(want, changes, shown, at))
                counts[verdict] += 1
                if verdict == "wrong":
                    found = "; ".join(changes) or "nothing changed"
                    wrong.append(f"{name}: {words!r}: wanted {want!r}, found {found} | {shown}")
    print(f"{counts.total()} lines: {dict(counts)}")
    assert not wrong, "\n\n".join([f"{dict(counts)}", *wrong])
