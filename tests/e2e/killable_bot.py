"""The bot in its own process, which a test may kill or signal, with a doubled engine.

The engine asks the scripted model of the test through a socket. It stores conversations in files,
so that they go on after a kill, as those of the real engine do.
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

from devtools.scripted_model import ScriptedModel
from tests.e2e import fork_server
from tests.e2e.bot import Bot
from tests.e2e.in_process_bot import app_with
from tests.e2e.model_engine import ModelEngine

from ollim_bot.app.app import Adapters, Ending
from ollim_bot.kernel.base.clock import Clock, SystemClock
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.logs import set_up_logging
from ollim_bot.kernel.base.loopback import allow_many_descriptors
from ollim_bot.kernel.base.settings import Settings
from ollim_bot.offline.server import ModelRequest

_LOOPBACK = "127.0.0.1"


class KillableBot(Bot):
    """`model_port` is the port of `serve_model`."""

    def __init__(self, home: Path, model_port: int, settings: Mapping[str, str]) -> None:
        super().__init__(home, None, settings)
        self._run = partial(_run, model_port)

    async def _start_forked(self) -> fork_server.Process:
        return await fork_server.start_bot(self.home, self.environment(), self.output, self._run)


@asynccontextmanager
async def serve_model(model: ScriptedModel) -> AsyncIterator[int]:
    """Answer the requests of a `PersistentModelEngine`; yields the port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(pickle.dumps(model.reply(pickle.loads(await reader.read()))))
        writer.close()

    async with await asyncio.start_server(answer, _LOOPBACK) as server:
        yield server.sockets[0].getsockname()[1]


class PersistentModelEngine(ModelEngine):
    """Stores each session in a file of `folder`; a kill leaves the last complete version."""

    def __init__(self, port: int, clock: Clock, folder: Path) -> None:
        super().__init__(ScriptedModel(), clock)
        self._port = port
        self._folder = folder
        folder.mkdir(exist_ok=True)
        for path in folder.glob("*.session"):
            self.histories[SessionId(path.stem)] = pickle.loads(path.read_bytes())

    async def ask(self, request: ModelRequest) -> object:
        reader, writer = await asyncio.open_connection(_LOOPBACK, self._port)
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
    engine = PersistentModelEngine(port, clock, home / "engine")
    while asyncio.run(_until_stopped(settings, clock, engine)) is Ending.RESTART:
        pass


async def _until_stopped(
    settings: Settings, clock: SystemClock, engine: PersistentModelEngine
) -> Ending:
    adapters = Adapters(clock=clock, engine=engine)
    app = app_with(settings, adapters, lambda line: print(line, flush=True))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, app.stop)
    return await app.run()
