"""The page served for a test: a real server on a free port, with a fake core behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from devtools.doubles.clock import ManualClock
from devtools.doubles.reception import FakeReception

from ollim_bot.app.surfaces import PAGES
from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.settings import Secret
from ollim_bot.kernel.store.attachments.attachment_files import files_of
from ollim_bot.surfaces.web.access import BrowserKeys, WebLimits
from ollim_bot.surfaces.web.page import WebSurface

SECRET = Secret("a-secret-that-nobody-else-has-0123456789")
SUNDAY = datetime(2026, 11, 15, 14, 30, tzinfo=UTC)


class InMemoryReadMark:
    def __init__(self) -> None:
        self.value: MessageId | None = None

    def read(self) -> MessageId | None:
        return self.value

    def write(self, message_id: MessageId) -> None:
        self.value = message_id


@dataclass
class Scene:
    """`clock` moves only when the test moves it. It is unused if `make_scene` was given a clock."""

    surface: WebSurface
    reception: FakeReception
    mark: InMemoryReadMark
    clock: ManualClock
    folder: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.surface.port}"


def make_scene(
    folder: Path,
    *,
    clock: Clock | None = None,
    port: int = 0,
    hosts: tuple[str, ...] = (),
    secret: Secret = SECRET,
    limits: WebLimits | None = None,
) -> Scene:
    manual = ManualClock(SUNDAY)
    paths = DataPaths(folder)
    paths.locks.mkdir(parents=True, exist_ok=True)
    paths.web_token.write_text(f"{secret.reveal()}\n")
    mark = InMemoryReadMark()
    surface = WebSurface(
        pages=PAGES,
        port=port,
        hosts=hosts,
        keys=BrowserKeys(paths, clock or manual),
        uploads=folder / "state" / "uploads",
        open_attachment=files_of(folder, folder / "state" / "attachments"),
        read_mark=mark,
        clock=clock or manual,
        version="1.2.3",
        limits=limits,
    )
    reception = FakeReception(clock or manual, folder)
    reception.surfaces.append(surface)
    return Scene(surface, reception, mark, manual, folder)


@asynccontextmanager
async def running(scene: Scene) -> AsyncIterator[Scene]:
    """Serve the page until the context ends. The same scene can run again afterwards."""
    serving = asyncio.create_task(scene.surface.run(scene.reception))
    ready = asyncio.create_task(scene.surface.ready())
    await asyncio.wait([serving, ready], timeout=10, return_when=asyncio.FIRST_COMPLETED)
    ready.cancel()
    if serving.done():
        await serving
    try:
        yield scene
    finally:
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
