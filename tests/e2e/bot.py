"""The real bot in its own process; tests use its page and read its files."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import aiohttp
from tests.e2e import fork_server
from tests.kernel.engine.cheap_starts import CHEAP_STARTS
from tests.patience import patience
from tests.ports import unused_port
from tests.surfaces.web.sign_in import SignInClient, protocols

from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.settings import Secret
from ollim_bot.kernel.store.delivery_rows import Delivery
from ollim_bot.kernel.store.message_log import LoggedMessage
from ollim_bot.kernel.store.questions import look_into
from ollim_bot.kernel.store.transaction import Step
from ollim_bot.kernel.values.occurrences import LedgerRow

R = TypeVar("R")

# Its clock differs from UTC by no whole hour.
ODD_ZONE = "Asia/Kathmandu"

Message = Mapping[str, Any]


class Bot:
    """`home` holds all its files; `model` is the address of its Messages API."""

    def __init__(self, home: Path, model: str | None, settings: Mapping[str, str] | None = None):
        self.home = home
        self.data = home / "data"
        self.port = unused_port()
        self.output = home / "output.log"
        self._model = model
        self._settings = settings or {}
        self._process: fork_server.Process | None = None
        self._http: aiohttp.ClientSession | None = None
        self._session = ""
        self._is_started = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def http(self) -> aiohttp.ClientSession:
        assert self._http is not None
        return self._http

    async def start(self, *, command: Sequence[str] = ()) -> None:
        """Returns when the page answers; a `command` runs in a new Python interpreter."""
        if command:
            self._process = await self._start_new_interpreter(command)
        else:
            self._process = await self._start_forked()
        await self.reconnect()

    async def _start_forked(self) -> fork_server.Process:
        return await fork_server.start_bot(self.home, self.environment(), self.output)

    async def _start_new_interpreter(self, command: Sequence[str]) -> fork_server.Process:
        with self.output.open("ab") as output:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                *command,
                cwd=self.home,
                env=self.environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    async def reconnect(self) -> None:
        """Sign in to the page as soon as it answers."""
        await self._disconnect()
        self._is_started = False
        await self.until(self._is_up)
        self._is_started = True
        self._http = aiohttp.ClientSession(
            headers={"Origin": self.url}, timeout=aiohttp.ClientTimeout(patience())
        )
        secret = Secret((self.data / "state" / "web_token").read_text().strip())
        sign_in = SignInClient(self._http, self.url)
        self._session = await sign_in.session(await sign_in.enter(await sign_in.code(secret)))
        self._http.headers["Authorization"] = f"Bearer {self._session}"

    def environment(self) -> dict[str, str]:
        """Nothing of the environment of the tests but the search path."""
        provider = (
            {}
            if self._model is None
            else {"ANTHROPIC_BASE_URL": self._model, "ANTHROPIC_API_KEY": "any-key-will-do"}
        )
        return {
            "PATH": os.environ["PATH"],
            **CHEAP_STARTS,
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "OLLIM_DATA_DIR": str(self.data),
            "OLLIM_TIMEZONE": ODD_ZONE,
            "OLLIM_WEB_PORT": str(self.port),
            "OLLIM_LOG": "debug",
            **provider,
            **self._settings,
        }

    async def stop(self, signal_number: int = signal.SIGTERM) -> int:
        """Send a signal that ends the bot, and return its exit code."""
        assert self._process is not None
        await self._disconnect()
        if self._process.returncode is None:
            self._process.send_signal(signal_number)
        async with asyncio.timeout(patience()):
            return await self._process.wait()

    async def kill(self) -> None:
        await self.stop(signal.SIGKILL)

    async def wait(self) -> int:
        """Wait until the bot has ended by itself, and return its exit code."""
        assert self._process is not None
        async with asyncio.timeout(patience()):
            return await self._process.wait()

    async def say(
        self,
        text: str,
        *,
        message_id: str | None = None,
        reply_to: str = "",
        files: Mapping[str, bytes] | None = None,
    ) -> str:
        """Send a message and return its id; the bot has accepted it when this returns."""
        message_id = message_id or str(uuid4())
        form = aiohttp.FormData(default_to_multipart=True)
        form.add_field("id", message_id)
        form.add_field("text", text)
        form.add_field("reply_to", reply_to)
        for name, data in (files or {}).items():
            form.add_field("file", BytesIO(data), filename=name, content_type="text/plain")
        async with self.http.post(f"{self.url}/api/messages", data=form) as response:
            assert response.status == 200, await response.text()
        return message_id

    async def command(self, line: str) -> Message:
        async with self.http.post(f"{self.url}/api/commands", json={"line": line}) as response:
            assert response.status == 200, await response.text()
            answer: Message = await response.json()
            return answer

    async def press(self, label: str) -> Message:
        """Press a button of the newest card on which this button is enabled."""
        cards = [one for one in await self.messages() if one["card"]]
        for message in reversed(cards):
            for button in message["card"]["buttons"]:
                if button["label"] == label and not button["is_used"]:
                    return await self.click(message["id"], button["custom_id"])
        raise AssertionError(f"There is no button {label!r}.")

    async def click(self, message: str, custom_id: str) -> Message:
        body = {"message_id": message, "custom_id": custom_id}
        async with self.http.post(f"{self.url}/api/clicks", json=body) as response:
            assert response.status == 200, await response.text()
            answer: Message = await response.json()
            return answer

    async def title(self, title: str) -> None:
        """Wait for a card of this title."""

        async def found() -> bool:
            shown = await self.messages()
            return any(one["card"] and one["card"]["title"] == title for one in shown)

        await self.until(found)

    async def interrupt(self) -> bool:
        async with self.http.post(f"{self.url}/api/interrupt", json={}) as response:
            return bool((await response.json())["stopped"])

    async def messages(self) -> list[Message]:
        """The messages that the page shows, oldest first."""
        async with self.http.get(f"{self.url}/api/messages?limit=100") as response:
            shown: list[Message] = (await response.json())["messages"]
            return shown

    async def answers(self) -> list[str]:
        shown = await self.messages()
        return [one["text"] for one in shown if one["author"] == "assistant"]

    async def answer(self, number: int = 1) -> str:
        """Wait for the answer of this number."""
        await self.until(lambda: self._has_answers(number))
        return (await self.answers())[number - 1]

    async def ask(self, text: str) -> str:
        """Say something and wait for the answer."""
        before = len(await self.answers())
        await self.say(text)
        return await self.answer(before + 1)

    async def note(self, part: str) -> str:
        """Wait for a message of the program that contains `part`."""

        async def found() -> bool:
            return any(part in text for text in await self.notes())

        await self.until(found)
        return next(text for text in await self.notes() if part in text)

    async def notes(self) -> list[str]:
        return [one["text"] for one in await self.messages() if one["author"] == "program"]

    @asynccontextmanager
    async def socket(self) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        async with self.http.ws_connect(
            f"{self.url}/api/socket", protocols=protocols(self._session)
        ) as opened:
            await opened.send_json({"type": "hello", "last": None})
            yield opened

    async def until(self, condition: Callable[[], Any]) -> None:
        """Poll the condition within the time limit; it may be a coroutine function."""
        pause = 0.02
        async with asyncio.timeout(patience()):
            while True:
                self._check()
                begun = time.monotonic()
                result = condition()
                if asyncio.iscoroutine(result):
                    result = await result
                if result:
                    return
                # Each check takes time from the bot, which may run in this process.
                await asyncio.sleep(max(pause, 3 * (time.monotonic() - begun)))
                pause = min(1.2 * pause, 0.2)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The lines of a log in `state/`."""
        path = self.data / "state" / name
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    def ledger(self) -> list[LedgerRow]:
        """The rows of the ledger; empty before the database is made."""
        found = look_into(
            DataPaths(self.data), datetime.now(UTC), lambda tx: tx.ledger.page(0, 9**9)
        )
        return [] if found is None else found[0]

    def query(self, question: Step[R]) -> R:
        """Run a query on the database."""
        found = look_into(DataPaths(self.data), datetime.now(UTC), question)
        assert found is not None, "there is no database"
        return found

    def deliveries(self) -> list[Delivery]:
        """The deliveries to Discord, in the order of the log."""
        log = [each.message.id for each in self.log()]
        found = look_into(
            DataPaths(self.data),
            datetime.now(UTC),
            lambda tx: [tx.deliveries.get("discord", each) for each in log],
        )
        return [each for each in found or () if each is not None]

    def log(self) -> list[LoggedMessage]:
        """The newest messages, oldest first."""
        found = look_into(
            DataPaths(self.data), datetime.now(UTC), lambda tx: tx.messages.page(1000)
        )
        return found or []

    def open_inputs(self) -> set[str]:
        """The ids of the inputs that were accepted and have not ended."""
        inbox = look_into(DataPaths(self.data), datetime.now(UTC), lambda tx: tx.inbox.get())
        return set() if inbox is None else {each.id for each in inbox.accepted}

    def session(self) -> str | None:
        path = self.data / "state" / "sessions.json"
        return path.read_text().strip() if path.exists() else None

    def engines(self) -> list[int]:
        """The pids of the running processes of its engine."""
        processes = (entry for entry in Path("/proc").iterdir() if entry.name.isdigit())
        children = (entry for entry in processes if _is_child(entry, self.pid))
        return [int(entry.name) for entry in children if _is_engine(entry)]

    def _check(self) -> None:
        if self._http is not None or not self._is_started:
            assert self._process is not None
            assert self._process.returncode is None, self.output.read_text()

    async def _has_answers(self, number: int) -> bool:
        return len(await self.answers()) >= number

    async def _is_up(self) -> bool:
        try:
            async with aiohttp.ClientSession() as http, http.get(f"{self.url}/healthz") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    async def _disconnect(self) -> None:
        if self._http is not None:
            await self._http.close()
            self._http = None


def _is_child(entry: Path, pid: int) -> bool:
    try:
        fields = (entry / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return int(fields[1]) == pid and fields[0] != "Z"


def _is_engine(entry: Path) -> bool:
    """The bot has other children too, such as git."""
    try:
        return b"stream-json" in (entry / "cmdline").read_bytes()
    except OSError:
        return False
