"""The keys of a machine are carried by hand, and put in place without overwriting others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.standby.scene import StandbyScene, env_of
from tests.terminal import Terminal

SERVERS = '{"mcpServers": {}}'


@pytest.fixture
def carried(scene: StandbyScene) -> Path:
    """The file of keys that the move of `desk` has written."""
    desk = scene.desk
    desk.write(
        ".env", "DISCORD_TOKEN=token-of-desk\nOLLIM_WEB_PORT=8500\nDEPLOY_HOOK_SECRET='two words'\n"
    )
    desk.write("state/calendars/work.source.json", '{"url": "https://example.org/secret"}')
    desk.write("mcp.json", SERVERS)
    desk.write("state/web_token", "of desk alone")
    desk.environ["OTHER_PROGRAM_TOKEN"] = "not ours"
    file = scene.folder / "keys.json"
    words = ("standby", "init", "--yes", "--from", str(scene.file))
    told = desk.done(*words, "--keys", str(file))
    assert "DATABASE_URL, DEPLOY_HOOK_SECRET, DISCORD_TOKEN, mcp.json" in told
    assert "token-of-desk" not in told
    assert file.stat().st_mode & 0o777 == 0o600
    return file


def test_one_file_brings_the_address_and_all_keys_but_those_of_a_machine(
    scene: StandbyScene, carried: Path
) -> None:
    scene.use("shelf")
    shelf = scene.machine("shelf")
    shelf.write(".env", "# mine\nOLLIM_WEB_PORT=8600\n")
    told = shelf.done("standby", "join", "--keys", str(carried))
    assert "This machine stands by for the PostgreSQL database" in told
    assert "Delete " in told
    assert "not here" not in told
    assert env_of(shelf) == {
        "OLLIM_WEB_PORT": "8600",
        "DATABASE_URL": scene.url,
        "DISCORD_TOKEN": "token-of-desk",
        "DEPLOY_HOOK_SECRET": "two words",
    }
    assert "# mine" in shelf.paths.env_file.read_text()
    for key in (shelf.paths.mcp, shelf.paths.calendars / "work.source.json"):
        assert key.stat().st_mode & 0o777 == 0o600
    assert shelf.paths.mcp.read_text() == SERVERS
    assert not shelf.paths.web_token.exists()


def test_a_key_that_differs_stays_until_it_is_to_be_replaced(
    scene: StandbyScene, shelf: Terminal
) -> None:
    scene.desk.write(".env", f"DATABASE_URL='{scene.url}'\nDISCORD_TOKEN=new\n")
    scene.desk.write("mcp.json", SERVERS)
    file = scene.folder / "keys.json"
    assert str(file.name) in scene.desk.done("standby", "keys", str(file))
    assert "exists already" in scene.desk.refused("standby", "keys", str(file))
    shelf.write(".env", f"DATABASE_URL='{scene.url}'\nDISCORD_TOKEN=old\n")
    shelf.write("mcp.json", "{}")
    told = shelf.done("standby", "join", "--keys", str(file))
    assert "none was new" in told
    assert "differ here and stay as they are: DISCORD_TOKEN, mcp.json" in told
    assert (env_of(shelf)["DISCORD_TOKEN"], shelf.paths.mcp.read_text()) == ("old", "{}")
    told = shelf.done("standby", "join", "--keys", str(file), "--replace")
    assert "Keys put in place: DISCORD_TOKEN, mcp.json." in told
    assert (env_of(shelf)["DISCORD_TOKEN"], shelf.paths.mcp.read_text()) == ("new", SERVERS)


def test_a_file_that_is_not_of_keys_is_refused_and_changes_nothing(
    scene: StandbyScene, carried: Path
) -> None:
    shelf = scene.machine("shelf")
    right = json.loads(carried.read_text())
    wrong = [
        ("others on this machine", right),
        ("is not a file of keys", {"format": "other"}),
        ("newer version", {**right, "version": 2}),
        ("which is not a key", {**right, "files": {"../../.bashrc": ""}}),
        ("which is not a key", {**right, "files": {"USER.md": ""}}),
        ("which is not a key", {**right, "files": {"/etc/mcp.json": ""}}),
        ("which is not a key", {**right, "files": {"state/web_token": ""}}),
        ("which is not a key", {**right, "settings": {"path": "x"}}),
        ("which is not a key", {**right, "settings": {"OLLIM_DATA_DIR": "/"}}),
        ("is not a file of keys", {**right, "files": {"mcp.json": 7}}),
    ]
    for number, (reason, content) in enumerate(wrong):
        file = scene.folder / f"{number}.json"
        file.write_text(json.dumps(content))
        file.chmod(0o600 if number else 0o644)
        assert reason in shelf.refused("standby", "join", "--keys", str(file))
    assert env_of(shelf) == {}
    assert not shelf.paths.mcp.exists()
