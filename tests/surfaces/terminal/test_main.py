"""The program finds the right command, and reports every failure in one line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.terminal import Terminal, is_here

from ollim_bot import __version__
from ollim_bot.surfaces.terminal.framework import shown_json
from ollim_bot.surfaces.terminal.main import GROUPS


@pytest.mark.parametrize("words", [["help"], ["--help"], ["-h"], ["help", "help"]])
def test_help_names_every_command_and_every_exit_code(terminal: Terminal, words: list[str]) -> None:
    page = terminal.done(*words)
    assert all(f"  {name} " in page for name in (*GROUPS, "version", "help"))
    assert all(code in page for code in ("0 done", "1 could", "2 wrong", "3 sign-in", "130 "))


@pytest.mark.parametrize("words", [["version"], ["--version"]])
def test_the_version_is_told(terminal: Terminal, words: list[str]) -> None:
    assert terminal.done(*words) == f"ollim-bot {__version__}\n"


@pytest.mark.same_fixtures
@pytest.mark.parametrize("group", [each for each in GROUPS if is_here(each)])
def test_help_about_a_group_is_its_own_help_with_an_example_for_each_verb(
    terminal: Terminal, group: str
) -> None:
    page = terminal.done(group, "--help")
    assert terminal.done("help", group) == page
    table, _, examples = page.partition("examples:")
    verbs = [line.split()[0] for line in table.splitlines() if line.startswith("  ")]
    assert verbs
    for verb in verbs:
        assert f"  ollim-bot {group} {verb}" in examples
        assert f"example:\n  ollim-bot {group} {verb}" in terminal.done("help", group, verb)


@pytest.mark.same_fixtures
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["remindr"], "There is no command `remindr`. Did you mean `reminder`?"),
        (["help", "rotine"], "There is no command `rotine`. Did you mean `routine`?"),
        (["fly"], "There is no command `fly`. `ollim-bot help` shows them all."),
        (
            ["snooze", "oven"],
            "There is no command `snooze`. Did you mean `ollim-bot reminder snooze`?",
        ),
        (
            ["reminder", "delete", "x"],
            "`ollim-bot reminder` has no `delete`. Did you mean `cancel`?",
        ),
        *(
            ([noun, word], f"`ollim-bot {noun}` has no `{word}`. Did you mean `{meant}`?")
            for noun, word, meant in (
                ("tasks", "remove", "delete"),
                ("runs", "sho", "show"),
                ("runs", "get", "show"),
                ("reminder", "lsit", "list"),
                ("tasks", "create", "add"),
                ("skill", "delete", "remove"),
                ("history", "find", "search"),
                ("config", "reset", "unset"),
                ("cal", "remove", "delete"),
            )
        ),
        (
            ["routine", "snooze"],
            "`ollim-bot routine` has no `snooze`. `ollim-bot routine --help` shows them all.",
        ),
        (["web"], "Say what to do: ollim-bot web url."),
        (
            ["reminder", "list", "--jsn"],
            "ollim-bot reminder list: '--jsn' is not understood. Did you mean `--json`?",
        ),
        (
            ["reminder", "add", "-m", "call", "the", "dentist", "--in", "20m"],
            (
                "ollim-bot reminder add: 'the' is not understood. "
                "A text of several words needs quotes: "
                "ollim-bot reminder add -m 'call the dentist' --in 20m"
            ),
        ),
        (
            ["reminder", "snooze"],
            (
                "ollim-bot reminder snooze: the following arguments are required: NAME. "
                "Example: ollim-bot reminder snooze rent --for 15m"
            ),
        ),
        (
            ["reminder", "add", "-m"],
            (
                "ollim-bot reminder add: -m/--message: expected one argument. "
                'Example: ollim-bot reminder add -m "call the dentist" --in 20m'
            ),
        ),
        (["reminder", "add", "-m", "x", "--in", "-5m"], "`-5m` does not lie ahead. Write `5m`."),
        (
            ["reminder", "list", "--js"],
            (
                "ollim-bot reminder list: '--js' is not understood. "
                "`ollim-bot reminder list --help` shows them all."
            ),
        ),
    ],
)
def test_a_wrong_word_is_refused_in_one_line_that_says_what_would_be_right(
    terminal: Terminal, words: list[str], sentence: str
) -> None:
    assert terminal.refused(*words) == f"{sentence}\n"
    assert list(terminal.home.iterdir()) == []


_SKILL = "---\nname: y\ndescription: x\nallowed-tools: [WebSearch]\n---\nDo it.\n"
_ADDING = ("skill", "add", "--yes", "--")


@pytest.mark.parametrize("name", ["--help", "-h", "help", "x"])
@pytest.mark.parametrize(
    "words",
    [
        ("help", *_ADDING), ("help", *_ADDING, "x"), ("help", "help", *_ADDING),
        ("help", "--help", *_ADDING), ("help", "--", *_ADDING), ("help", "skill", "--", "add"),
        ("help", "skill", "add", "x"), ("help", "skill", "add", "--yes"),
        ("help", "skill", "", "add", "x"), ("--help", *_ADDING), ("-h", *_ADDING, "x"),
        ("help", "completion", "ask", "zsh", *_ADDING), ("completion", "ask", "zsh", *_ADDING),
        ("completion", "ask", "fish", "help", *_ADDING, ""), ("version", *_ADDING),
        ("skill", "--help", "add", "x", "--yes"), ("skill", "-h", *_ADDING[1:], "x"),
        ("skill", "help", *_ADDING[1:], "x"), ("skill", "add", "--help", "--yes", "x"),
        ("help", "backup", "--"), ("help", "backup", "x"), ("help", "--trial"), ("-h", "--trial"),
    ],
)  # fmt: skip
def test_help_prints_and_runs_nothing(
    terminal: Terminal, words: tuple[str, ...], name: str
) -> None:
    folder = terminal.home / name
    folder.mkdir()
    (folder / "SKILL.md").write_text(_SKILL)
    answer = terminal.run(*words)
    assert answer.out.startswith(("usage: ", "words\n", "files\n", "\n", "ollim-bot ")) or (
        answer.code == 2 and not answer.out
    )
    assert [each.name for each in terminal.home.iterdir()] == [name]


def test_an_interrupt_ends_a_command_without_a_word(terminal: Terminal) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    assert terminal.run("reminder", "list", now=interrupt) == (130, "", "")  # type: ignore[arg-type]


def test_a_disk_that_refuses_is_named_with_the_file(terminal: Terminal) -> None:
    terminal.write("reminders", "a file where a folder should be")
    assert terminal.refused("reminder", "list", code=1) == (
        f"{terminal.paths.reminders}: cannot be listed: Not a directory.\n"
    )


@pytest.mark.parametrize("words", [("reminder", "list"), ("web", "url"), ("reminder", "show", "x")])
def test_a_data_directory_that_the_folder_of_the_start_names_is_not_used(
    terminal: Terminal, words: tuple[str, ...]
) -> None:
    (terminal.home / ".env").write_text("OLLIM_DATA_DIR=other\nWEBHOOK_PORT=9100\n")
    other = terminal.home / "other"
    (other / "reminders").mkdir(parents=True)
    (other / "reminders/x.md").write_text("---\nid: x\nrun-at: 2030-01-01T09:00\n---\nEvil.\n")
    answer = terminal.run(*words)
    assert "Evil" not in answer.out
    assert answer.err.count("OLLIM_DATA_DIR: is ignored") == 1
    assert not (other / "state").exists()


def test_wrong_settings_are_refused_before_anything_is_done(terminal: Terminal) -> None:
    terminal.environ["OLLIM_TIMEZONE"] = "Europe/Berln"
    assert "Did you mean Europe/Berlin?" in terminal.refused("reminder", "list")
    assert not terminal.paths.root.exists()


def test_the_start_says_all_that_is_wrong_as_the_page_about_settings_shows(
    terminal: Terminal,
) -> None:
    page = (Path(__file__).parents[3] / "docs/settings.md").read_text("utf-8")
    about = page.partition("## When something is wrong")[2]
    file, said = re.findall(r"```(?:sh)?\n(.+?)```", about, re.DOTALL)[:2]
    terminal.write(".env", file).chmod(0o600)
    del terminal.environ["OLLIM_TIMEZONE"]
    root = str(terminal.paths.root)
    assert terminal.refused() == said.replace("/home/ada/.ollim-bot", root)


def test_all_wrong_settings_are_told_at_once_and_nothing_is_made(terminal: Terminal) -> None:
    terminal.environ |= {"DISCORD_OWNER_ID": "me", "OLLIM_WEB_PORT": "web", "OLLIM_LOG": "loud"}
    lines = terminal.refused().splitlines()
    assert len(lines) == 3
    assert all("Right: " in line for line in lines)
    assert list(terminal.home.iterdir()) == []


def test_a_wrong_zone_does_not_keep_set_up_from_mending_it(terminal: Terminal) -> None:
    terminal.environ["OLLIM_TIMEZONE"] = "Europe/Berln"
    refused = terminal.refused("setup", "--non-interactive", "--timezone", "Nowhere")
    assert refused.startswith("--timezone: ")


def test_what_a_terminal_would_obey_is_never_printed(terminal: Terminal) -> None:
    evil = "\x1b]0;owned\x07 \x9b31m\u202e\u2066\u200f\x7f"
    terminal.done(
        "reminder", "add", "-m", f"first {evil}\nsecond {evil}", "--in", "1h", "--id", "x"
    )
    terminal.write(f"reminders/{evil}.md", "no job")
    for words in (["list", "--json"], ["show", "x", "--json"]):
        said = terminal.done("reminder", *words)
        assert said.replace("\n", "").isprintable()
        assert repr(f"second {evil}")[1:-1] in str(json.loads(said))
    for words in (["list"], ["show", "x"], ["cancel", evil]):
        answer = terminal.run("reminder", *words)
        assert (answer.out + answer.err).replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "sign", ["\x9b", "\x7f", "\u202e", "\u200f", "\u2066", "\ud800", "\U000e0041"]
)
def test_json_is_the_same_with_signs_that_a_terminal_does_not_show(sign: str) -> None:
    value = {f"a{sign}b": [f'{sign}\\{sign}"\n', "Grüße 👩‍💻"]}
    for indent in (None, 2):
        shown = shown_json(json.dumps(value, ensure_ascii=False, indent=indent))
        assert shown.replace("\n", "").isprintable()
        assert json.loads(shown) == value
    assert "Grüße 👩" in shown


_FIRST_STEPS = {
    "today": "Today, Sun 15 Nov\nNothing waits for you, and nothing more comes today.\n",
    "reminder": 'No reminders. Add one: ollim-bot reminder add -m "call the dentist" --in 20m\n',
    "routine": "No routines. Add one: ollim-bot routine add "
    '-m "plan my day" --every "weekday at 9"\n',
    "rehearse": "Nothing would happen until Sun 22 Nov 14:30. "
    'Add something: ollim-bot reminder add -m "call the dentist" --in 20m\n',
    "runs": "No runs yet.\n",
    "runs list --json": '{\n  "runs": []\n}\n',
    "runs check": "No runs yet.\n",
    "receipt": "Today: due 0, came 0, held 0, late 0, lost 0.",
    "cost": "What the model costs\n  today       $0.00\n",
    "cost --by job": "Nothing has been used yet.\n",
    "doses": "No doses in Nov 2026.\n",
    "doses --month 2026-02": "No doses in Feb 2026.\n",
    "marks": "No note and no task has words of others.\n",
    "history search x": "Nothing was said with “x”.\n",
    "history search x --json": '{\n  "messages": []\n}\n',
    "history sessions": "No conversations yet.\n",
    "about-me": "The bot has written down nothing about you yet.",
    **dict.fromkeys(
        ("cal today", "cal upcoming", "cal calendars"),
        "There are no calendars yet. `ollim-bot cal subscribe - --name Work` adds one",
    ),
    "cal today --json": '{\n  "events": []\n}\n',
}


@pytest.mark.same_fixtures
@pytest.mark.parametrize("command", _FIRST_STEPS)
def test_where_nothing_is_yet_a_command_says_so_and_makes_nothing(
    terminal: Terminal, command: str
) -> None:
    assert terminal.done(*command.split()).startswith(_FIRST_STEPS[command])
    assert list(terminal.home.iterdir()) == []


@pytest.mark.parametrize("noun", ["reminder", "routine", "config", "runs"])
def test_a_noun_alone_lists(terminal: Terminal, noun: str) -> None:
    assert terminal.run(noun) == terminal.run(noun, "list")
    assert terminal.json(noun) == terminal.json(noun, "list")


@pytest.mark.parametrize("words", [("version", "--help"), ("help", "version")])
def test_the_help_of_version_is_help(terminal: Terminal, words: tuple[str, ...]) -> None:
    assert terminal.done(*words).startswith("usage: ollim-bot version\n")
