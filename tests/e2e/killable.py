"""The bot in a process of its own, to be killed or signalled, whose engine is doubled.

Its engine asks the scripted model of the test through a socket, and keeps what was said in files,
so that a conversation goes on after a kill as one of the real engine does.
"""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

from tests.e2e import warm
from tests.e2e.bot import Bot
from tests.e2e.inline import made_app
from tests.e2e.model_engine import ModelEngine

from ollim_bot.app.app import Ending
from ollim_bot.clock import SystemClock
from ollim_bot.connections import allow_many_descriptors
from ollim_bot.domain.sessions import SessionId
from ollim_bot.logs import set_up_logging
from ollim_bot.offline.messages import ModelRequest
from ollim_bot.offline.scripted import ScriptedModel
from ollim_bot.ports import Clock
from ollim_bot.settings import Settings

_HERE = "127.0.0.1"


class KillableBot(Bot):
    """`model_port` is the one of `asked_at`."""

    def __init__(self, home: Path, model_port: int, settings: Mapping[str, str]) -> None:
        super().__init__(home, None, settings)
        self._run = partial(_run, model_port)

    async def _warm(self) -> warm.Process:
        return await warm.started(self.home, self.environment(), self.output, self._run)


@asynccontextmanager
async def asked_at(model: ScriptedModel) -> AsyncIterator[int]:
    """The port where the model answers a `KeptEngine`."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(pickle.dumps(model.reply(pickle.loads(await reader.read()))))
        writer.close()

    async with await asyncio.start_server(answer, _HERE) as server:
        yield server.sockets[0].getsockname()[1]


class KeptEngine(ModelEngine):
    """`folder` has a file for each session, of which a kill leaves the last whole one."""

    def __init__(self, port: int, clock: Clock, folder: Path) -> None:
        super().__init__(ScriptedModel(), clock)
        self._port = port
        self._folder = folder
        folder.mkdir(exist_ok=True)
        for path in folder.glob("*.session"):
            self.histories[SessionId(path.stem)] = pickle.loads(path.read_bytes())

    async def ask(self, request: ModelRequest) -> object:
        reader, writer = await asyncio.open_connection(_HERE, self._port)
        try:
            writer.write(pickle.dumps(request))
            writer.write_eof()
            return pickle.loads(await reader.read())
        finally:
            writer.close()

    def keep(self, session: SessionId) -> None:
        draft = self._folder / f"{session}.draft"
        draft.write_bytes(pickle.dumps(self.histories[session]))
        draft.replace(self._folder / f"{session}.session")

    def new_call_id(self) -> str:
        return f"call-{uuid4()}"


def _run(port: int) -> None:
    gc.freeze()
    gc.enable()
    home = Path(os.environ["HOME"])
    settings = Settings.from_env(os.environ, cwd=home)
    clock = SystemClock(settings.zone)
    set_up_logging(
        settings.log_level,
        settings.log_format,
        secrets=settings.secrets(),
        clock=clock,
        stream=sys.stderr,
    )
    allow_many_descriptors()
    engine = KeptEngine(port, clock, home / "engine")
    while asyncio.run(_until_stopped(settings, clock, engine)) is Ending.RESTART:
        pass


async def _until_stopped(settings: Settings, clock: SystemClock, engine: KeptEngine) -> Ending:
    app = made_app(settings, clock, engine, lambda line: print(line, flush=True))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, app.stop)
    return await app.run()
