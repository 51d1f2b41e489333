"""Real servers over pipes and over HTTP: a failure of one costs only its own tools."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.ports import unused_port

from ollim_bot.features.tool_servers.server_connection import ServerTimeouts, open_connection
from ollim_bot.kernel.base.errors import ToolServerFailed
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.server_file import read_servers
from ollim_bot.kernel.values.tool_servers import ServerSpec, ToolHints

pytestmark = pytest.mark.real_process

SERVER = Path(__file__).with_name("notes_server.py")
QUICK_SERVER = Path(__file__).with_name("quick_server.py")
NOTES = ServerSpec("notes", (sys.executable, str(SERVER)), {"NOTES_KEY": "topsecret"})
QUICK = ServerSpec("notes", (sys.executable, "-S", str(QUICK_SERVER)))
# Starting Python takes long on a busy machine; a hanging call ends first.
LONG = ServerTimeouts(start=60, call=60)
ENVIRON = {
    "PATH": os.environ["PATH"],
    "HOME": os.environ["HOME"],
    "LANG": "C.UTF-8",
    "DISCORD_TOKEN": "of-the-bot",
    "ANTHROPIC_API_KEY": "of-the-bot",
}


async def test_a_program_answers_with_texts_of_a_limited_length(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with open_connection(NOTES, DataPaths(tmp_path), ENVIRON, LONG) as notes:
        assert [each.name for each in notes.tools] == [
            "find",
            "environment",
            "recite",
            "fail",
            "die",
        ]
        assert not [each for each in notes.tools if each.problem]
        assert (await notes.call("find", {"text": "milk"})).text.startswith("Found: milk.")

        variables = (await notes.call("environment", {})).text.splitlines()
        names = {line.partition("=")[0] for line in variables}
        assert names - {"LC_CTYPE"} == {"PATH", "HOME", "LANG", "NOTES_KEY"}

        long = (await notes.call("recite", {"length": 50_000})).text
        assert long.endswith("\n[cut: 30000 further characters]")
        for wrong in ("fail", "no_such_tool"):
            assert (await notes.call(wrong, {})).is_error

        with pytest.raises(ToolServerFailed, match=r"^has stopped\.$"):
            await notes.call("die", {})
        assert not await notes.until_changed()
    logged = [record.getMessage() for record in caplog.records]
    assert "notes: starting with …" in logged
    assert "topsecret" not in str(logged)


async def test_a_call_that_hangs_ends_and_the_next_one_works(tmp_path: Path) -> None:
    async with open_connection(
        QUICK, DataPaths(tmp_path), ENVIRON, replace(LONG, call=0.2)
    ) as notes:
        with pytest.raises(ToolServerFailed, match=r"did not answer hang within 0\.2 s"):
            await notes.call("hang", {})
        await notes.list_tools()
        assert len(notes.tools) == 3


@pytest.mark.parametrize(
    ("said", "hints"),
    [
        ("", ToolHints()),
        ('{"readOnlyHint": true, "title": "Find"}', ToolHints(reads_only=True)),
        ('{"readOnlyHint": true, "openWorldHint": false}', ToolHints(True, False)),
        ('{"readOnlyHint": 1, "openWorldHint": "no"}', ToolHints()),
        ('{"readOnlyHint": null, "openWorldHint": 0, "destructiveHint": {}}', ToolHints()),
    ],
)
async def test_a_server_says_of_a_tool_that_it_only_looks(
    tmp_path: Path, said: str, hints: ToolHints
) -> None:
    manner = tmp_path / "manner"
    manner.write_text(said)
    spec = replace(QUICK, environment={"NOTES_MANNER": str(manner)})
    async with open_connection(spec, DataPaths(tmp_path), ENVIRON, LONG) as notes:
        assert [each.hints for each in notes.tools] == [hints, ToolHints(), ToolHints()]


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (("no-such-program",), "could not be started: there is no program `no-such-program`."),
        (("./no-such-program",), "could not be started: there is no program"),
        (("sh", "-c", "exit 3"), "has stopped."),
        (("sh", "-c", "echo hello; cat >/dev/null"), "did not answer within 0.5 s."),
        (("sleep", "1000"), "did not answer within 0.5 s."),
        (("cat", "/dev/zero"), "sends a line without an end."),
    ],
    ids=["missing", "missing in the folder", "dead", "chatty", "silent", "flooding"],
)
async def test_a_program_that_is_no_server_is_ended(
    tmp_path: Path, command: tuple[str, ...], sentence: str
) -> None:
    started, before = [], _children()
    spec = ServerSpec("odd", command)
    timeouts = ServerTimeouts(start=0.5 if "0.5 s" in sentence else 60)
    with pytest.raises(ToolServerFailed) as failed:
        async with open_connection(spec, DataPaths(tmp_path), ENVIRON, timeouts):
            started.append(command)
    assert sentence in str(failed.value)
    assert started == []
    assert _children() <= before


async def test_a_program_ends_with_its_children_when_it_is_not_held_any_more(
    tmp_path: Path,
) -> None:
    script = 'sleep 1000 & exec "$@"'
    server = (sys.executable, "-S", str(QUICK_SERVER))
    spec = ServerSpec("notes", ("sh", "-c", script, "sh", *server))
    before = _children()
    async with open_connection(spec, DataPaths(tmp_path), ENVIRON, LONG):
        (group,) = _children() - before
        assert any("sleep" in each for each in _group_names(group))
    assert _children() <= before
    async with asyncio.timeout(60):
        while _group_names(group):  # noqa: ASYNC110 - the system rings no bell
            await asyncio.sleep(0.01)


async def test_a_program_runs_in_a_folder_of_its_own_with_its_script_as_approved(
    tmp_path: Path,
) -> None:
    paths = DataPaths(tmp_path)
    script = tmp_path / "tools" / "server.py"
    script.parent.mkdir()
    begin = "def main() -> None:\n"
    noting = f"{begin}    open('where', 'w').close()\n"
    script.write_text(QUICK_SERVER.read_text().replace(begin, noting))
    (tmp_path / "json.py").write_text("raise ValueError('code of the data directory ran')")
    args = ["-S", "tools/server.py"]
    entry = {"command": sys.executable, "args": args}
    paths.mcp.write_text(json.dumps({"mcpServers": {"notes": entry}}))
    spec = read_servers(paths).specs["notes"]
    async with open_connection(spec, paths, ENVIRON, LONG) as notes:
        assert len(notes.tools) == 3
    assert (tmp_path / "state" / "servers" / "notes" / "where").exists()
    assert not (tmp_path / "where").exists()

    script.write_text("raise ValueError('another script ran')")
    with pytest.raises(ToolServerFailed, match=r"^was not started: its script has changed\.$"):
        async with open_connection(spec, paths, ENVIRON, LONG):
            pass


_HOLD = """
import asyncio, os, sys
from pathlib import Path
from ollim_bot.kernel.values.tool_servers import ServerSpec
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.features.tool_servers.server_connection import running_program
from ollim_bot.features.tool_servers.server_connection import Screen

async def hold():
    spec = ServerSpec("odd", ("sh", "-c", "echo $$ > started; exec sleep 1000"))
    screen = Screen(print, print)
    async with running_program(spec, DataPaths(Path.cwd()), os.environ, screen, print):
        await asyncio.sleep(1000)

asyncio.run(hold())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties a process to its parent")
async def test_a_program_dies_with_the_bot_also_when_the_bot_is_killed(tmp_path: Path) -> None:
    bot = await asyncio.create_subprocess_exec(sys.executable, "-c", _HOLD, cwd=tmp_path)
    started = tmp_path / "state" / "servers" / "odd" / "started"
    try:
        async with asyncio.timeout(60):
            while not _is_written(started):  # noqa: ASYNC110 - the system rings no bell
                await asyncio.sleep(0.02)
    finally:
        bot.kill()
        await bot.wait()
    group = int(started.read_text())
    async with asyncio.timeout(60):
        while _group_names(group):  # noqa: ASYNC110 - the system rings no bell
            await asyncio.sleep(0.02)


async def test_a_server_behind_an_address_answers_and_its_end_is_noticed(tmp_path: Path) -> None:
    port = unused_port()
    spec = ServerSpec("web", url=f"http://127.0.0.1:{port}/mcp", headers={"X-Key": "topsecret"})
    with pytest.raises(ToolServerFailed, match=r"could not be reached\."):
        async with open_connection(spec, DataPaths(tmp_path), ENVIRON, LONG):
            pass
    process = await asyncio.create_subprocess_exec(
        sys.executable, SERVER, "--http", str(port), stderr=asyncio.subprocess.DEVNULL
    )
    try:
        await _until_open(port)
        with pytest.raises(ToolServerFailed, match=r"could not be reached\."):
            await _call_and_call_the_dead(spec, process, tmp_path)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _call_and_call_the_dead(
    spec: ServerSpec, process: asyncio.subprocess.Process, folder: Path
) -> None:
    async with open_connection(spec, DataPaths(folder), ENVIRON, LONG) as web:
        assert (await web.call("find", {"text": "milk"})).text.startswith("Found: milk.")
        process.kill()
        await process.wait()
        call = asyncio.create_task(web.call("find", {"text": "milk"}))
        call.add_done_callback(lambda done: isinstance(done.exception(), ToolServerFailed))
        await web.until_changed()


async def _until_open(port: int) -> None:
    async with asyncio.timeout(60):
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            await asyncio.sleep(0.02)


def _is_written(path: Path) -> bool:
    return path.exists() and path.read_text().endswith("\n")


def _children() -> set[int]:
    """The processes that this one has started and that have not ended."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == os.getpid() and state != "Z":
            found.add(int(stat.parent.name))
    return found


def _group_names(group: int) -> list[str]:
    names = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().rpartition(")")
        except OSError:
            continue
        if int(rest.split()[2]) == group and rest.split()[0] != "Z":
            names.append(name)
    return names
