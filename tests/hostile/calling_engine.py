"""An engine in this process: each call passes the real hooks, and what they allow is carried out.

Its tools know no rules, so that only our hooks can refuse. What a broken guard lets through must
not harm the machine of the tests: nothing outside the canary home is touched, no address is
fetched, and only known programs are run. The model gets a canary in its place, so it is a breach.
"""

from __future__ import annotations

import asyncio
import io
import os
import shlex
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout
from datetime import UTC
from fnmatch import fnmatch
from glob import glob
from pathlib import Path
from typing import Any

from claude_agent_sdk import HookContext
from tests.e2e.model_engine import ModelEngine, ModelSession
from tests.hostile.canary_home import CanaryHome

from ollim_bot.kernel.base.clock import Clock, SystemClock
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.engine.bridge import Programs, hooks
from ollim_bot.kernel.values.agent_caller import CALLED_BY, CONVERSATION, PROGRAM
from ollim_bot.kernel.values.events import (
    AgentEvent,
    EndCause,
    SessionNamed,
    TextCompleted,
    ToolEnded,
    ToolRefused,
    ToolStarted,
    TurnEnded,
)
from ollim_bot.kernel.values.ports import Prompt, SessionSpec, Toolset
from ollim_bot.offline.server import CallTool, ChatModel, Message, ModelRequest, Reply, Say
from ollim_bot.surfaces.terminal.main import main

Arguments = Mapping[str, Any]
NO_CONTEXT = HookContext(signal=None)
# They do harm only to the files that they are given.
RUNNABLE = frozenset(
    ("cat", "head", "grep", "ls", "wc", "cp", "mv", "tee", "touch", "rm", "ln", "dd", "printenv")
)
# They are run where they run our own program, or nothing.
RUNNERS = frozenset(("bash", "sh", "env", "nice", "timeout"))


class CallingEngine(ModelEngine):
    """Doubles `AgentEngine`. `environment` is that of the engine's programs."""

    def __init__(
        self,
        model: ChatModel,
        environment: Mapping[str, str],
        canary_home: CanaryHome,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(model, clock or SystemClock(UTC))
        self.environment = environment
        self.canary_home = canary_home

    @asynccontextmanager
    async def open(self, spec: SessionSpec, tools: Toolset) -> AsyncIterator[ModelSession]:
        async with super().open(spec, tools):
            yield self.session(spec, tools)

    def session(self, spec: SessionSpec, tools: Toolset) -> CallingSession:
        return CallingSession(self, spec, tools)


class CallingSession(ModelSession):
    """Doubles `AgentSession`."""

    def __init__(self, engine: CallingEngine, spec: SessionSpec, tools: Toolset) -> None:
        super().__init__(engine, spec, tools)
        self._ask = engine.model.reply
        self._now = engine.clock.now
        self._events: asyncio.Queue[AgentEvent | None] = asyncio.Queue()
        called_by = {CALLED_BY: spec.occurrence or CONVERSATION}
        self._environment = {**engine.environment, **called_by}
        self._folder = spec.working_directory
        self._home = engine.canary_home.home.resolve()
        self._escaped = engine.canary_home.new_canary("what is outside the home of the test")
        programs = Programs(self._environment, self._folder)
        called = hooks(tools, {}, programs)
        (self._before_call,) = called["PreToolUse"][0].hooks
        (self._after_call,) = called["PostToolUse"][0].hooks
        self._own = {
            f"mcp__{server}__{tool.name}": tool
            for server, offered in tools.servers.items()
            for tool in offered
        }
        self._tools: Mapping[str, Callable[[Arguments], str]] = {
            "Read": lambda given: self._path(given["file_path"]).read_text("utf-8", "replace"),
            "Write": lambda given: self._written(given["file_path"], given["content"]),
            "NotebookEdit": lambda given: self._written(
                given["notebook_path"], given["new_source"]
            ),
            "Edit": self._edited,
            "Glob": self._listed,
            "Grep": self._found,
            "WebFetch": lambda _: self._escaped,
        }

    async def _followed(self, prompt: Prompt) -> AsyncIterator[AgentEvent]:
        history = self._begun()
        assert self.spec.resume is not None
        yield SessionNamed(self.spec.resume)
        running = asyncio.create_task(self._converse(prompt.text, history.messages))
        running.add_done_callback(lambda _: self._events.put_nowait(None))
        while (event := await self._events.get()) is not None:
            yield event
        yield TextCompleted(await running)
        yield TurnEnded(EndCause.COMPLETED, await running)

    async def _converse(self, text: str, messages: list[Message], subagent: str = "") -> str:
        """Carry out what the model calls until it calls nothing more; returns what it says then."""
        messages.append(Message("user", ({"type": "text", "text": text},)))
        while True:
            reply = self._ask(self._request(messages))
            assert isinstance(reply, Reply)
            calls = [part for part in reply.parts if isinstance(part, CallTool)]
            if not calls:
                said = "\n\n".join(part.text for part in reply.parts if isinstance(part, Say))
                messages.append(Message("assistant", ({"type": "text", "text": said},)))
                return said
            ids = [self._engine.new_call_id() for _ in calls]
            made = [
                {"type": "tool_use", "id": each, "name": call.name, "input": call.arguments}
                for each, call in zip(ids, calls, strict=True)
            ]
            messages.append(Message("assistant", tuple(made)))
            results = [
                await self._called(each, call, subagent)
                for each, call in zip(ids, calls, strict=True)
            ]
            told = [
                {"type": "tool_result", "tool_use_id": each, "content": result}
                for each, result in zip(ids, results, strict=True)
            ]
            messages.append(Message("user", tuple(told)))

    def _request(self, messages: Sequence[Message]) -> ModelRequest:
        return ModelRequest(
            model="any",
            messages=tuple(messages),
            system=self.spec.system_prompt,
            tools=(*self.tools.builtin, *self._own),
            body={"messages": [{"role": one.role, "content": one.blocks} for one in messages]},
        )

    async def _called(self, call_id: str, call: CallTool, subagent: str) -> str:
        self._events.put_nowait(ToolStarted(call_id, call.name, call.arguments))
        hook: Any = {
            "hook_event_name": "PreToolUse",
            "tool_name": call.name,
            "tool_input": call.arguments,
            "tool_use_id": call_id,
            **({"agent_id": "any", "agent_type": subagent} if subagent else {}),
        }
        decision: Any = await self._before_call(hook, None, NO_CONTEXT)
        output = decision.get("hookSpecificOutput", {})
        if output.get("permissionDecision") == "deny":
            reason = str(output["permissionDecisionReason"])
            self._events.put_nowait(ToolRefused(call_id, call.name, reason))
            return reason
        done = await self._done(call.name, output.get("updatedInput", call.arguments))
        result = f"{output.get('additionalContext', '')}{done}"
        hook["tool_response"] = result
        await self._after_call(hook, None, NO_CONTEXT)
        self._events.put_nowait(ToolEnded(call_id))
        return result

    async def _done(self, tool: str, given: Arguments) -> str:
        try:
            if tool in self._own:
                return (await self._own[tool].run(given)).text
            if tool == "Bash":
                return await asyncio.to_thread(self._ran, given["command"])
            if tool == "Agent":
                return await self._converse(given["prompt"], [], given["subagent_type"])
            if tool in self._tools:
                return await asyncio.to_thread(self._tools[tool], given)
        except _OutsideHome:
            return self._escaped
        except (OllimError, OSError, ValueError) as refused:
            return f"tool_use_error: {refused}"
        return f"No such tool: {tool}"

    def _path(self, name: str | Path) -> Path:
        """The path with links followed. Raises `_OutsideHome`."""
        path = str(name)
        path = str(self._home) + path[1:] if path.startswith("~") else path
        found = Path(self._folder, path).resolve()
        if not found.is_relative_to(self._home):
            raise _OutsideHome
        return found

    def _written(self, name: str, text: str) -> str:
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return f"Written: {name}"

    def _edited(self, given: Arguments) -> str:
        text = self._path(given["file_path"]).read_text()
        return self._written(
            given["file_path"], text.replace(given["old_string"], given["new_string"])
        )

    def _listed(self, given: Arguments) -> str:
        folder = self._path(given.get("path", "."))
        found = glob(given["pattern"], root_dir=folder, recursive=True)
        return "\n".join(str(self._path(folder / name)) for name in found)

    def _found(self, given: Arguments) -> str:
        """The whole text of each file that is searched."""
        start = self._path(given.get("path", "."))
        below = (Path(folder, name) for folder, _, names in os.walk(start) for name in names)
        wanted = given.get("glob", "*")
        return "\n".join(
            f"{path}:{self._path(path).read_text('utf-8', 'replace')}"
            for path in ([start] if start.is_file() else below)
            if fnmatch(path.name, wanted)
        )

    def _ran(self, command: str) -> str:
        """In a shell with the owner's profile, or in this process if the program is our own."""
        program, *words = shlex.split(command)
        name = Path(program).name
        if name == PROGRAM:
            return self._ran_ours(words)
        is_harmless = name in RUNNERS and (not words or PROGRAM in command)
        if name not in RUNNABLE and not is_harmless:
            return self._escaped
        for word in words:
            self._path(word.rpartition("=")[2])
        done = subprocess.run(
            ("bash", "-lc", command),
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        return (done.stdout + done.stderr).decode("utf-8", "replace")

    def _ran_ours(self, words: Sequence[str]) -> str:
        output = io.StringIO()
        with redirect_stdout(output), redirect_stderr(output):
            main(words, environ=self._environment, cwd=self._folder, now=self._now)
        return output.getvalue()


class _OutsideHome(Exception):
    """The call would touch the machine of the tests."""
