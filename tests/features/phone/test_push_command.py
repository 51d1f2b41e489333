"""`ollim-bot push`: a phone is paired by a pressed button, tried, and forgotten again."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from devtools.localntfy.phone import Phone
from devtools.localntfy.protocol import Message
from devtools.localntfy.server import LocalNtfy
from tests.features.setup.setup_scene import STOP, ScriptedPerson, SetupScene
from tests.terminal import Terminal

from ollim_bot.features.phone.push_command import set_up_phone
from ollim_bot.features.phone.push_file import PushFile
from ollim_bot.features.phone.push_setup import code_lines
from ollim_bot.kernel.base.environment import read_env_file
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.store.questions import look_into
from ollim_bot.kernel.values.surface_state import PushState
from ollim_bot.surfaces.terminal.caller import Caller

GO_ON, FOLLOWED = "y", ""
TOPIC = re.compile(r"topic   (ollim-[a-z2-7]{26})")


class Owner(ScriptedPerson):
    """A person with a phone, which follows the topic as soon as it is shown."""

    def __init__(self, *answers: str) -> None:
        super().__init__(*answers)
        self.topic: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._loop = asyncio.get_running_loop()

    def say(self, line: str, indent: str = "") -> None:
        super().say(line, indent)
        if found := TOPIC.search(line):
            self._loop.call_soon_threadsafe(self.topic.set_result, found[1])


class Scene:
    def __init__(self, terminal: Terminal, ntfy: LocalNtfy) -> None:
        self.terminal = terminal
        self.ntfy = ntfy
        self.printed = ""
        self.tests = 0

    async def set_up(
        self, person: ScriptedPerson, now: Callable[[], datetime] | None = None, **given: str | bool
    ) -> OllimError | KeyboardInterrupt | None:
        return await asyncio.to_thread(self._set_up, person, now, given)

    def _set_up(
        self,
        person: ScriptedPerson,
        now: Callable[[], datetime] | None,
        given: dict[str, str | bool],
    ) -> OllimError | KeyboardInterrupt | None:
        terminal = self.terminal
        caller = Caller(terminal.environ, terminal.home, now or (lambda: terminal.now))
        with redirect_stdout(io.StringIO()) as out:
            try:
                set_up_phone(given, caller, person, is_terminal=True)
            except (OllimError, KeyboardInterrupt) as ended:
                return ended
            finally:
                self.printed = out.getvalue()
        return None

    async def pair(
        self, *answers: str, token: str = "", server: str = "", is_new: bool = False
    ) -> Owner:
        """Set up with a phone that presses the button."""
        owner = Owner(*answers)
        given = {"server": server} | ({"new": "yes"} if is_new else {})
        running = asyncio.create_task(self.set_up(owner, None, **given))
        ends: list[asyncio.Future[Any]] = [running, owner.topic]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        assert owner.topic.done(), (running.result(), owner.screen)
        async with Phone(self.ntfy.url, owner.topic.result(), token=token) as phone:
            await self.press_next(phone)
            assert await running is None
        return owner

    async def press_next(self, phone: Phone) -> None:
        """Press the button of the next test, and not that of an earlier one."""
        self.tests += 1
        await self.ntfy.until(lambda: len(self._tests()) == self.tests)
        sent = self._tests()[-1]
        await phone.until(lambda: sent.id in [each.id for each in phone.shown])
        shown = next(each for each in phone.shown if each.id == sent.id)
        assert await phone.press(shown, shown.labels[0]) == 200

    def _tests(self) -> list[Message]:
        return [each for each in self.ntfy.topics.published if each.payload.get("actions")]

    @property
    def env(self) -> dict[str, str]:
        path = self.terminal.paths.env_file
        return dict(read_env_file(path.read_text()).values) if path.exists() else {}

    def channels(self) -> dict[str, str]:
        """The identity of each channel that follows the log."""
        paths, now = self.terminal.paths, self.terminal.now
        found = look_into(paths, now, lambda tx: tx.channels.all()) or ()
        return {each.name: each.identity for each in found}

    def push_state(self) -> PushState | None:
        return look_into(self.terminal.paths, self.terminal.now, lambda tx: tx.push.get())


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    terminal = Terminal(tmp_path)
    terminal.make_directory()
    return terminal


async def test_a_phone_is_paired_tried_and_forgotten(terminal: Terminal) -> None:
    async with LocalNtfy() as ntfy:
        scene = Scene(terminal, ntfy)
        owner = await scene.pair("1", ntfy.url, GO_ON, FOLLOWED)
        pairing = PushFile(terminal.paths).read()
        assert pairing is not None
        assert pairing.topic == await owner.topic
        assert terminal.paths.push.stat().st_mode & 0o777 == 0o600
        assert scene.env == {}
        assert scene.channels() == {"ntfy": pairing.identity}
        # The bot takes what came before, and the press itself, for no answer.
        press = ntfy.published(pairing.reply_topic)[-1].id
        identity = pairing.identity
        assert scene.push_state() == PushState(identity, last_reply=press, last_press=terminal.now)
        # What leaves the machine is said before anything is sent.
        leaves = owner.screen.index("What leaves this machine: the words")
        assert owner.screen.index("also that you took a dose") > leaves
        assert owner.screen.index("Go on?") > owner.screen.index("On an iPhone it stays")
        assert scene.printed.count("\n") >= 15
        assert "Waiting for the press: 10:00 left." in scene.printed

        told = terminal.json("push", "status")
        assert told == {
            "paired": True,
            "server": ntfy.url,
            "paired_at": terminal.now.isoformat(),
            "last_press": terminal.now.isoformat(),
            "sent_today": 0,
            "ignored_replies": 0,
            "push_what": "asks",
            "push_content": "full",
        }
        async with Phone(ntfy.url, pairing.topic) as phone:
            trying = asyncio.create_task(asyncio.to_thread(terminal.done, "push", "test"))
            await scene.press_next(phone)
            assert "The press came after 0 s: your phone works." in await trying
            assert "A button was last pressed today 14:30." in terminal.done("push", "status")
            removed = await asyncio.to_thread(terminal.done, "push", "remove")
            await phone.until(lambda: any(each.title == "No longer used" for each in phone.shown))
        assert "The phone was told." in removed
        assert "12 hours" in removed
    assert PushFile(terminal.paths).read() is None
    assert scene.channels() == {}
    assert "No phone is paired." in terminal.done("push", "status")
    for verb in ("test", "remove"):
        assert "No phone is paired." in terminal.refused("push", verb, code=1)
    for topic in (pairing.topic, pairing.reply_topic):
        state = terminal.paths.state
        kept = [path for path in state.rglob("*") if path.is_file()]
        assert not [path for path in kept if topic.encode() in path.read_bytes()]


async def test_tokens_are_asked_for_where_the_server_wants_them_and_kept_with_their_address(
    terminal: Terminal,
) -> None:
    terminal.write(".env", "# mine\nDISCORD_TOKEN=MTIz.abc.def\n").chmod(0o600)
    async with LocalNtfy() as ntfy:
        ntfy.access.close_to_strangers()
        token = ntfy.access.new_token()
        writing = ntfy.access.new_limited_token({"ollim-reply-*": "write"})
        scene = Scene(terminal, ntfy)
        answers = ("1", ntfy.url, GO_ON, "tk_wrong", token, token, writing, "", FOLLOWED)
        owner = await scene.pair(*answers, token=token)
        assert scene.env == {
            "DISCORD_TOKEN": "MTIz.abc.def",
            "NTFY_URL": ntfy.url,
            "NTFY_TOKEN": token,
            "NTFY_REPLY_TOKEN": writing,
        }
        shown = owner.screen + scene.printed
        assert not [each for each in (token, writing, "tk_wrong") if each in shown]
        assert terminal.json("push", "status")["push_what"] == "must"

        first = PushFile(terminal.paths).read()
        assert first is not None
        second = await scene.pair(GO_ON, "2", FOLLOWED, token=token, server=ntfy.url)
        assert await second.topic == first.topic
        assert "This adds another one" in second.screen
        assert terminal.json("push", "status")["push_what"] == "asks"
        third = await scene.pair(GO_ON, "", FOLLOWED, token=token, server=ntfy.url, is_new=True)
        assert await third.topic != first.topic
        assert "The old topic is no longer used, and the phone was told" in third.screen
        assert ntfy.published(first.topic)[-1].text.startswith("ollim-bot sends nothing more")


async def test_without_the_press_nothing_is_kept(terminal: Terminal) -> None:
    moments = [terminal.now]

    def clock() -> datetime:
        moments.append(moments[-1] + timedelta(seconds=50))
        return moments[-1]

    async with LocalNtfy() as ntfy:
        scene = Scene(terminal, ntfy)
        ntfy.access.close_to_strangers("*", except_for="read")
        token = ntfy.access.new_token()
        answers = ("1", ntfy.url, GO_ON, token)
        ended = [
            await scene.set_up(Owner(*answers, ""), clock),
            await scene.set_up(Owner("1", ntfy.url, GO_ON, STOP), clock),
        ]
        assert "Nothing was changed." in (await _screen(scene, ntfy.url, GO_ON, ""))
        ntfy.access.close_to_strangers("*", except_for="write")
        late = Owner(*answers, FOLLOWED)
        ended.append(await scene.set_up(late, clock))
        ended.append(await scene.set_up(Owner(*answers, STOP), clock))
        ended.append(await scene.set_up(Owner("three", ntfy.url, ""), clock))
    said = [type(each).__name__ if isinstance(each, KeyboardInterrupt) else each for each in ended]
    assert [str(each)[:20] for each in said] == [
        "None",
        "KeyboardInterrupt",
        "No press came within",
        "KeyboardInterrupt",
        "None",
    ]
    assert not terminal.paths.push.exists()
    assert scene.env == {}
    assert scene.channels() == {}


async def _screen(scene: Scene, *answers: str) -> str:
    person = Owner(*answers)
    await scene.set_up(person)
    return person.screen


async def test_wrong_input_and_refused_servers_are_said_in_a_sentence(terminal: Terminal) -> None:
    assert "this is no terminal" in terminal.refused("push", "setup")
    async with LocalNtfy(version=(2, 15)) as old:
        scene = Scene(terminal, old)
        terminal.write("state/push.json", "{")
        assert "is not the pairing of a phone" in terminal.refused("push", "status", code=1)
        refused = await scene.set_up(Owner(GO_ON), server=old.url)
        assert "is too old" in str(refused)
        for wrong in ("http://ntfy.example.org", "ftp://x", "https://ada:pw@x.org"):
            assert str(await scene.set_up(Owner(), server=wrong)).startswith("--server: ")
        assert "There is" not in await _screen(scene, "3", "2", "")
        terminal.environ["NTFY_URL"] = "https://ntfy.example.org"
        assert "in the environment" in str(await scene.set_up(Owner(), server=old.url))
        del terminal.environ["NTFY_URL"]
        assert old.published("") == []
    public = await _screen(scene, "2", "")
    assert "kept there for 12 hours" in public


def test_the_code_fits_a_terminal_and_is_drawn_dark_on_light() -> None:
    rows = [[True, False, True], [True, True, False], [False, False, True]]
    assert list(code_lines(rows, has_colours=False)) == [" ▀▄", "▀▀ "]
    coloured = list(code_lines(rows, has_colours=True))
    assert [re.sub(r"\033\[[0-9;]*m", "", line) for line in coloured] == ["█▄▀", "  ▀"]


@pytest.mark.real_process
async def test_the_set_up_pairs_a_phone_or_skips_it_with_one_key(tmp_path: Path) -> None:
    scene = SetupScene(tmp_path)
    async with LocalNtfy() as ntfy:
        skipping = ScriptedPerson("")
        assert await asyncio.to_thread(scene.run, skipping, "phone") is None
        owner = Owner("1", ntfy.url, GO_ON, FOLLOWED)
        running = asyncio.create_task(asyncio.to_thread(scene.run, owner, "phone"))
        async with Phone(ntfy.url, await owner.topic) as phone:
            await Scene(Terminal(tmp_path), ntfy).press_next(phone)
            assert await running is None
    pairing = PushFile(scene.paths).read()
    assert pairing is not None
    assert pairing.topic == owner.topic.result()
    assert "Your phone is paired." in owner.screen
