"""A backup of rows on a server is the same file as ever: it comes back as a file or on a server."""

from __future__ import annotations

from pathlib import Path

from tests.cli.terminal import Terminal
from tests.postgres.test_tables import found
from tests.standby.scene import StandbyScene, in_file
from tests.standby.test_commands import bot_leading
from tests.standby.test_moving import all_rows

from ollim_bot.store.opening import ask_rows
from ollim_bot.upkeep.archive import opened_backup


def test_a_backup_on_each_machine_has_the_rows_of_the_server(
    scene: StandbyScene, shelf: Terminal
) -> None:
    desk = scene.desk
    with bot_leading(scene, desk, "desk"):
        desk.done("config", "set", "timezone", "Europe/Paris")
        on_server = scene.rows_on_server(all_rows)
        for terminal, name in ((desk, "one"), (shelf, "two")):
            told = terminal.json("backup")
            assert told["complete"]
            with opened_backup(Path(told["path"])) as backup:
                files = [entry.path for entry in backup.manifest.files]
            assert {"data/state/ollim.db", "data/state/config.json"} <= {*files}
            other = scene.machine(name)
            other.done("restore", told["path"], "--accept", "none")
            assert ask_rows(other.paths, all_rows) == on_server
            assert in_file(other, found) == scene.on_server(found)
            assert "Europe/Paris" in other.done("config")
