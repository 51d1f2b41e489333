"""The program reads `mcp.json` itself, and names a wrong entry with its line."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.server_file import (
    ServerFile,
    read_servers,
    remove_server,
    whole_command,
    whole_environment,
)
from ollim_bot.kernel.values.tool_servers import ServerSpec

NOTES = {"command": "notes-server", "args": ["--all"], "env": {"KEY": "secret"}}
WEB = {"type": "http", "url": "https://tools.example/mcp", "headers": {"Authorization": "secret"}}


class ServerFileScene:
    def __init__(self, root: Path) -> None:
        self.paths = DataPaths(root)
        self.problems: list[str] = []
        self.file = ServerFile(self.paths, self.problems.append)

    def write(self, content: object) -> None:
        text = content if isinstance(content, str) else json.dumps(content, indent=1)
        self.paths.mcp.write_text(text)


@pytest.fixture
def scene(tmp_path: Path) -> ServerFileScene:
    return ServerFileScene(tmp_path)


def test_programs_and_addresses_are_read_in_the_usual_form(scene: ServerFileScene) -> None:
    scene.write({"mcpServers": {"notes": NOTES, "web": WEB, "off": {**WEB, "disabled": True}}})
    assert scene.file.read() == {
        "notes": ServerSpec("notes", ("notes-server", "--all"), {"KEY": "secret"}),
        "web": ServerSpec(
            "web", url="https://tools.example/mcp", headers={"Authorization": "secret"}
        ),
    }
    assert scene.problems == []


@pytest.mark.parametrize("content", ["", "{}", '{"mcpServers": {}}'])
def test_an_empty_file_names_no_server(scene: ServerFileScene, content: str) -> None:
    scene.write(content)
    assert (scene.file.read(), scene.problems) == ({}, [])


def test_the_file_is_closed_to_others_when_it_is_read(scene: ServerFileScene) -> None:
    scene.write({"mcpServers": {"notes": NOTES}})
    scene.paths.mcp.chmod(0o644)
    scene.file.read()
    assert stat.S_IMODE(scene.paths.mcp.stat().st_mode) == 0o600


def test_a_change_is_noticed_and_an_unchanged_file_is_not_read_again(
    scene: ServerFileScene,
) -> None:
    assert not scene.file.has_changed
    assert scene.file.read() == {}
    assert not scene.file.has_changed
    scene.write({"mcpServers": {"notes": NOTES}})
    assert scene.file.has_changed
    scene.file.read()
    assert not scene.file.has_changed
    scene.paths.mcp.unlink()
    assert scene.file.has_changed
    assert scene.file.read() == {}


def test_while_the_file_cannot_be_read_the_servers_stay(scene: ServerFileScene) -> None:
    scene.write({"mcpServers": {"notes": NOTES}})
    before = scene.file.read()
    scene.write('{"mcpServers": {\n "notes": {"command": "x",}\n}}')
    assert scene.file.read() == before
    scene.file.read()
    assert len(scene.problems) == 1
    assert scene.problems[0].startswith("mcp.json:2: it is not JSON. Write it like {")


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ({"comand": "x"}, "it takes either `command`, for a program, or `url`, for an address"),
        ({**NOTES, "url": "https://x.example"}, "it takes either `command`"),
        ({**NOTES, "envs": {}}, "`envs` is not known there; `env` is meant?"),
        ({**NOTES, "cwd": "/"}, "`cwd` is not known there; it takes command, args, env"),
        ({**NOTES, "args": "--all"}, "`args` takes a list of texts"),
        ({**NOTES, "env": {"A": 1}}, "`env` takes texts by their names"),
        ({**NOTES, "env": {"A=B": "1"}}, "`env` takes texts by their names"),
        ({"command": ""}, "`command` takes a text"),
        ({"command": "a\0b"}, "`command` takes a text"),
        ({"url": "file:///etc/passwd"}, "`url` takes an address that begins with https://"),
        ({"url": "https://[oops"}, "`url` takes an address that begins with https://"),
        ({**WEB, "type": "sse"}, 'the type "sse" is not known; it is `stdio` or `http`'),
        ({"type": "http", "command": "x"}, "a server of the type http needs `url`"),
        ("notes-server", "it takes fields such as"),
    ],
)
def test_a_wrong_entry_is_named_and_harms_no_other(
    scene: ServerFileScene, entry: object, sentence: str
) -> None:
    scene.write({"mcpServers": {"good": NOTES, "bad": entry}})
    assert [*scene.file.read()] == ["good"]
    (problems,) = scene.problems
    lines = scene.paths.mcp.read_text().splitlines()
    (line,) = (number for number, each in enumerate(lines, 1) if each.startswith('  "bad":'))
    assert sentence in problems
    assert problems.startswith(f"mcp.json:{line}: bad: ")
    assert problems.endswith(". The server is left out.")


@pytest.mark.parametrize("name", ["discord", "docs", "a__b", "Big"])
def test_a_name_of_ours_or_an_unclear_one_is_refused(scene: ServerFileScene, name: str) -> None:
    scene.write({"mcpServers": {name: NOTES}})
    assert scene.file.read() == {}
    assert f"mcp.json:3: {name}: the name " in scene.problems[0]


@pytest.mark.parametrize("content", ["[]", '{"mcpServers": []}', "[" * 100_000, "\udcff"])
def test_any_other_content_is_one_sentence(scene: ServerFileScene, content: str) -> None:
    scene.paths.mcp.write_text(content, errors="surrogateescape")
    reading = read_servers(scene.paths)
    assert not reading.is_whole
    (problem,) = reading.problems
    assert problem.startswith("mcp.json")
    assert problem.endswith(".")


def test_a_folder_in_its_place_is_named(scene: ServerFileScene) -> None:
    scene.paths.mcp.mkdir()
    assert scene.file.read() == {}
    assert "mcp.json is not a regular file." in scene.problems[0]


def test_a_server_is_taken_out_and_the_others_stay(scene: ServerFileScene) -> None:
    scene.write({"mcpServers": {"notes": NOTES, "web": WEB}})
    assert remove_server(scene.paths, "notes")
    assert not remove_server(scene.paths, "notes")
    assert [*read_servers(scene.paths).specs] == ["web"]
    assert stat.S_IMODE(scene.paths.mcp.stat().st_mode) == 0o600


def test_nothing_is_taken_out_of_a_file_that_is_not_understood(scene: ServerFileScene) -> None:
    scene.write("{")
    with pytest.raises(WrongInput, match="not JSON"):
        remove_server(scene.paths, "notes")
    assert scene.paths.mcp.read_text() == "{"


def test_a_changed_script_is_another_pin(scene: ServerFileScene) -> None:
    script = scene.paths.root / "tools" / "server.py"
    script.parent.mkdir()
    script.write_text("one")
    data = scene.paths.root / "notes.sqlite"
    data.write_text("one")
    scene.write(
        {
            "mcpServers": {
                "notes": {"command": "python", "args": ["tools/server.py", "./notes.sqlite"]},
                "bad": {"comand": "x"},
            }
        }
    )
    first = scene.file.read()["notes"]
    assert first.script != ""
    data.write_text("another")
    assert scene.file.read()["notes"] == first
    script.write_text("another")
    assert scene.file.has_changed
    second = scene.file.read()["notes"]
    assert second.pin == first.pin
    assert second.script not in ("", first.script)
    assert not scene.file.has_changed
    assert read_servers(scene.paths).specs["notes"] == second
    assert len(scene.problems) == 1
    assert scene.file.places.folders == {str(script.parent)}


def test_words_that_mean_paths_in_the_data_directory_become_whole(scene: ServerFileScene) -> None:
    root = scene.paths.root
    (root / "notes").mkdir()
    (root / "server.py").write_text("x")
    words = ("server.py", "notes", "./new.db", "--all", "--in=./notes", "@a/b", "/etc/x", ".")
    spec = ServerSpec("n", ("python", *words), {"PYTHONPATH": "./lib:notes/", "URL": "http://./x"})
    whole = [f"{root}/server.py", "notes", f"{root}/new.db", "--all", f"--in={root}/notes"]
    assert whole_command(spec, root) == ["python", *whole, "@a/b", "/etc/x", str(root)]
    variables = whole_environment(spec, root)
    assert variables == {"PYTHONPATH": f"{root}/lib:{root}/notes", "URL": "http://./x"}
