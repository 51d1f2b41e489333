"""Run as a program: write notes in child processes, and kill each at another crash point.

The arguments are as those of `tests.kernel.store.killed_worker`. A crash point is before and after
each COMMIT, and before, in and after the writing of a note.
"""

from __future__ import annotations

import asyncio

from devtools.doubles.clock import ManualClock
from tests.kernel.store.killed_worker import CrashPoint, connecting, kill_at_each
from tests.kernel.store.scene import NOW, StoreScene
from tests.kernel.tools.server.tool_scene import make_tool_scene
from tests.stores import Stores, memory_stores

from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.store.store import DatabaseStore
from ollim_bot.kernel.tools.toolset import toolset
from ollim_bot.kernel.values.ports import Refusal, ToolCall
from ollim_bot.kernel.values.taint import Taint


def write_until_killed(scene: StoreScene, crash_point: CrashPoint) -> None:
    asyncio.run(_write(scene, crash_point))


async def _write(scene: StoreScene, crash_point: CrashPoint) -> None:
    (scene.root / "notes").mkdir()
    database = scene.open(connection=connecting(crash_point))
    stores = Stores(DatabaseStore(database, ManualClock(NOW)), memory_stores(NOW).repositories)
    context = make_tool_scene(scene.root, stores=stores).context
    context.run.session, context.run.taint = SessionId("main"), Taint(("web page",))

    async def let_through(_: ToolCall) -> Refusal | None:
        return None

    tools = toolset(context, let_through)
    crash_point.is_armed = True
    for number in range(100):
        path = scene.root / f"notes/{number}.md"
        call = ToolCall("Write", {"file_path": str(path), "content": "EVIL"})
        await tools.gate(call)
        crash_point.reach()
        with path.open("w", buffering=1) as note:
            note.write("EV")
            note.flush()
            crash_point.reach()
            note.write("IL")
        crash_point.reach()
        await tools.after_call(call, "")


if __name__ == "__main__":
    kill_at_each(write_until_killed)
