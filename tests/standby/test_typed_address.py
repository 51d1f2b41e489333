"""The address of the database, typed where it does not belong, is not shown again."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.terminal import Terminal

from ollim_bot.cli.main import COMMANDS

ADDRESSES = (
    "postgresql://ollim:pässwort-7@db.example.org/ollim",
    "POSTGRES://ollim:pässwort-7@localhost:5433/ollim?sslmode=disable",
    "postgresql://ollim:a@b/pässwort-7 with spaces@db/ollim",
    "postgresql:///ollim?host=/run/x&password=pässwort-7",
)
LINES = (
    *((name, "{}") for name in COMMANDS if name not in ("update", "service", "sentinel", "setup")),
    ("{}",),
    ("help", "{}"),
    ("config", "set", "DATABASE_URL", "{}"),
    ("config", "get", "{}"),
    ("reminder", "add", "--at", "tomorrow 9:00", "-m", "call", "{}"),
    ("reminder", "show", "{}"),
    *(("standby", verb, "{}") for verb in ("init", "join", "status", "hand-over", "leave")),
    *(("standby", verb, "--from", "{}") for verb in ("init", "join")),
    *(("standby", verb, "--from={}") for verb in ("init", "join")),
    *(("standby", verb, "--keys", "{}") for verb in ("init", "join")),
    ("standby", "init", "--form", "{}"),
)


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_an_address_given_as_an_argument_is_not_shown(
    tmp_path: Path, line: tuple[str, ...], address: str
) -> None:
    answer = Terminal(tmp_path).run(*(word.format(address) for word in line))
    assert "pässwort-7" not in answer.out + answer.err
    if line[0] == "standby" and not {"--keys", "--form"} & {*line}:
        assert answer.code != 0
        assert "is a key, and no command takes it as an argument" in " ".join(answer.err.split())


@pytest.mark.parametrize(
    "word", ["postgresql://db.example.org/ollim", "https://example.org/a?b=c@d", "postgres"]
)
def test_what_holds_no_password_is_shown(tmp_path: Path, word: str) -> None:
    assert word in Terminal(tmp_path).run("standby", "init", word).err
