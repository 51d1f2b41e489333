"""`ollim-bot setup`: few questions, each answer kept at once, and nothing else is written."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from devtools.localdiscord.server import LocalDiscord
from tests.features.calendars.calendar_server import CalendarAnswer, ics, served
from tests.features.install.supervisors import FakeSystemd, write_bot
from tests.features.setup.setup_scene import (
    HANG_UP,
    NOW,
    STOP,
    FakeMachineStart,
    ScriptedPerson,
    SetupScene,
    sentences,
)
from tests.ports import unused_port
from tests.terminal import Terminal

from ollim_bot.features.install.service import SYSTEMD, Supervisor
from ollim_bot.features.setup.setup_command import STEPS, ServiceStart
from ollim_bot.kernel.base.errors import BadSettings, OllimError, WriteFailed, WrongInput
from ollim_bot.kernel.base.instance import single_instance
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.store.questions import look_into
from ollim_bot.kernel.values.schedule import GivenNames
from ollim_bot.surfaces.discord.account import DiscordBot
from ollim_bot.surfaces.terminal.caller import Caller

pytestmark = pytest.mark.real_engine

DENTIST = "SUMMARY:Dentist\nDTSTART:20261116T160000\nDTEND:20261116T170000"
TOKEN = "MTIzNDU2.abcdef.a-token-of-ours"
DOCS = Path(__file__).parents[3] / "docs" / "setup.md"


@pytest.fixture
def scene(tmp_path: Path) -> SetupScene:
    return SetupScene(tmp_path)


async def ran(scene: SetupScene, person: ScriptedPerson, *words: str, **options: object) -> object:
    """Run set-up in a thread, while the local servers of the test run in this loop."""
    return await asyncio.to_thread(lambda: scene.run(person, *words, **options))  # type: ignore[arg-type]


async def test_a_person_with_a_claude_account_and_a_token_needs_fourteen_keys_and_a_paste(
    scene: SetupScene,
) -> None:
    scene.service = FakeMachineStart()
    async with LocalDiscord(token=TOKEN) as discord:
        own_lines = f"# mine\nDISCORD_API_URL={discord.api_url}\n"
        scene.write(own_lines)
        person = ScriptedPerson("", "", "", "1", TOKEN, "", "", "", "", "", "", "y")
        assert await ran(scene, person) is None
    assert scene.claude.is_signed_in
    assert scene.service.is_there
    assert scene.text == f"{own_lines}DISCORD_TOKEN={TOKEN}\n"
    assert scene.paths.env_file.stat().st_mode & 0o777 == 0o600
    assert scene.reports == 1
    # The page promises both numbers.
    typed = person.keystrokes - len(TOKEN)
    assert (len(person.questions), typed) == (12, 14)
    assert f"{len(person.questions)} questions, {typed} keys" in DOCS.read_text()
    assert TOKEN not in person.screen
    assert "Signed in to Claude with the account ada@example.org." in person.screen
    for link in ("oauth2/authorize?client_id=", "users/"):
        assert f"https://discord.com/{link}{discord.bot.id}" in person.screen
    assert person.screen.rstrip().endswith("it writes to you on Discord: `ollim-bot`.")


def test_every_answer_can_be_given_and_the_files_are_said_before(scene: SetupScene) -> None:
    with served(CalendarAnswer(body=ics(DENTIST))) as server:
        person = ScriptedPerson(
            "Ada \"the\" Lovelace", "Max $", "Europe/Paris", "3", "localhost:1", "y", "",
            "qwen3:8b", "", "", server.address("/secret.ics"), "7.00", "y",
            "take my pills", "sometime", "every 2 hours", "every day at 7.30", "10-7", "22-7",
        )  # fmt: skip
        assert scene.run(person) is None
    assert scene.env == {
        "OLLIM_USER_NAME": 'Ada "the" Lovelace',
        "OLLIM_BOT_NAME": "Max $",
        "OLLIM_TIMEZONE": "Europe/Paris",
        "ANTHROPIC_BASE_URL": "localhost:1",
        "ANTHROPIC_AUTH_TOKEN": "none",
        "ANTHROPIC_MODEL": "qwen3:8b",
    }
    before, _, _ = person.screen.partition("1/11")
    assert "~/.ollim-bot/.env" in before
    assert "state/calendars" in before
    assert "secret.ics" not in person.screen
    assert "Nothing answers at localhost:1 (Connection refused)." in person.screen
    routines = {path.stem: path.read_text() for path in scene.paths.routines.glob("*.md")}
    assert "what is on today" in routines["morning"]
    assert "0 7 * * *" in routines["morning"]
    assert "30 7 * * *" in routines["take-my-pills"]
    assert "plain: true" in routines["take-my-pills"]
    assert 'nag: "10m x 4"' in routines["take-my-pills"]
    assert "every 2 hours between 8am and 9pm` or" in person.screen
    config = look_into(scene.paths, NOW, lambda tx: tx.config.get())
    assert config is not None
    assert (config.nag_default, config.quiet_hours) == ("10m x 4", "22:00-07:00")


def test_enter_at_every_question_changes_nothing_at_all(scene: SetupScene) -> None:
    person = ScriptedPerson(*[""] * 11)
    before = sorted(scene.home.iterdir())
    assert scene.run(person) is None
    assert person.answers == []
    marks = [line.split() for line in person.screen.splitlines() if line[:1].isdecimal()]
    assert [mark for mark, *_ in marks] == [f"{number}/11" for number in range(1, 12)]
    assert sorted(scene.home.iterdir()) == before
    assert person.screen.rstrip().endswith("Start the bot now: `ollim-bot`.")
    assert "when jobs have cost 5 US dollars today, they stop using the model" in person.screen


WRONG = {
    "name": (("x" * 81, ""), "too long"),
    "bot-name": (('"Max"', ""), "stands in quotes"),
    "timezone": (("Europe/Berln", ""), "Did you mean Europe/Berlin?"),
    "model": (("5", "2", "two words", ""), "not one of the four"),
    "discord": (("two words", ""), "a space or a strange letter"),
    "phone": (("3", "1", "ftp://x", ""), "not a plain web address"),
    "calendar": (("my calendar", "https://127.0.0.1:1/x", ""), "not a web address"),
    "routine": (("25:00", "whenever", ""), "not a time of day"),
    "reminder": (("take my pills", "sometime", ""), "I do not understand that."),
    "quiet": (("10-7", ""), "not two times"),
}


@pytest.mark.parametrize("word", WRONG)
def test_a_wrong_answer_is_explained_and_asked_again(scene: SetupScene, word: str) -> None:
    answers, reason = WRONG[word]
    person = ScriptedPerson(*answers)
    assert scene.run(person, word) is None
    assert reason in person.screen
    assert person.answers == []
    assert scene.text == ""
    assert not list(scene.paths.root.glob("routines/*"))


def test_a_near_zone_takes_one_enter(scene: SetupScene) -> None:
    scene.environ["TZ"] = "UTC"
    assert scene.run(ScriptedPerson("berlin", ""), "timezone") is None
    assert scene.env == {"OLLIM_TIMEZONE": "Europe/Berlin"}


@pytest.mark.parametrize(("at", "stop"), [*((at, STOP) for at in range(12)), (3, HANG_UP)])
def test_a_stop_at_any_step_keeps_what_was_confirmed(scene: SetupScene, at: int, stop: str) -> None:
    scene.service = FakeMachineStart()
    answers = ["Ada", "Max", "Europe/Paris", "4", "", "", "", "8:30", "", "", "", ""]
    person = ScriptedPerson(*answers[:at], stop)
    assert isinstance(scene.run(person), KeyboardInterrupt)
    given = {"OLLIM_USER_NAME": "Ada", "OLLIM_BOT_NAME": "Max", "OLLIM_TIMEZONE": "Europe/Paris"}
    given["OLLIM_MODEL"] = "offline"
    assert scene.env == dict(list(given.items())[:at])
    assert f"Stopped at {STEPS[at].title}." in person.screen
    assert "`ollim-bot setup` goes on." in person.screen
    assert len(list(scene.paths.root.glob("routines/*.md"))) == (at > 7)
    assert not scene.service.is_there
    assert scene.reports == 0


def test_a_stop_inside_a_step_leaves_that_step_undone(scene: SetupScene) -> None:
    """The address of a server is not kept without its key."""
    assert scene.run(ScriptedPerson("3", "http://127.0.0.1:1", "y", STOP), "model") is not None
    assert scene.text == ""


def test_a_second_run_shows_what_is_there_and_asks_no_more_than_it_must(scene: SetupScene) -> None:
    scene.service = FakeMachineStart()
    first = ScriptedPerson("Ada", "", "Europe/Paris", "4", *[""] * 3, "8:30", "y", "", "22-7", "y")
    assert scene.run(first) is None
    text = scene.text
    second = ScriptedPerson(*[""] * 7)
    assert scene.run(second) is None
    asked = " ".join(second.questions)
    assert "[Ada]" in asked
    assert "[Europe/Paris]" in asked
    assert "time?" not in asked
    assert "y or Enter" not in asked
    assert scene.text == text
    again = ScriptedPerson("Bea")
    assert scene.run(again, "name") is None
    assert scene.env["OLLIM_USER_NAME"] == "Bea"


def test_another_model_takes_the_place_of_the_last(scene: SetupScene) -> None:
    own = "# mine\nANTHROPIC_BASE_URL=http://127.0.0.1:1\nANTHROPIC_AUTH_TOKEN=x\nMINE=1\n"
    scene.write(own)
    person = ScriptedPerson("2", "sk-ant-1")
    assert scene.run(person, "model") is None
    assert scene.text == "# mine\nMINE=1\nANTHROPIC_API_KEY=sk-ant-1\n"
    said = "This takes ANTHROPIC_AUTH_TOKEN and ANTHROPIC_BASE_URL out of `.env`."
    assert said in person.screen
    assert "sk-ant-1" not in person.screen
    assert scene.run(ScriptedPerson("1"), "model") is None
    assert scene.text == "# mine\nMINE=1\n"
    assert scene.claude.is_signed_in


def test_a_login_that_is_not_finished_is_said_and_changes_nothing(scene: SetupScene) -> None:
    scene.claude.refuse()
    scene.write("ANTHROPIC_API_KEY=any\n")
    person = ScriptedPerson("1")
    assert scene.run(person, "model") is None
    assert "`ollim-bot auth login` tries it again." in person.screen
    assert scene.text == "ANTHROPIC_API_KEY=any\n"


def test_what_counts_before_the_file_is_said_and_not_asked(scene: SetupScene) -> None:
    scene.environ["OLLIM_USER_NAME"] = "Eve"
    (scene.home / ".env").write_text("DISCORD_TOKEN=abc\n")
    scene.environ["ANTHROPIC_API_KEY"] = "any"
    person = ScriptedPerson()
    assert scene.run(person, "name", "discord", "model") is None
    assert "ANTHROPIC_API_KEY is set in the environment" in person.screen
    assert "OLLIM_USER_NAME is set in the environment" in person.screen
    assert "DISCORD_TOKEN is set in ~/.env" in person.screen
    silent = ScriptedPerson()
    assert scene.run(silent, "--non-interactive", "--user-name", "Ada") is None
    assert "note: OLLIM_USER_NAME is set in the environment" in scene.printed
    assert scene.env == {"OLLIM_USER_NAME": "Ada"}


@pytest.mark.parametrize("is_asked", [True, False], ids=["asked", "by flags"])
def test_what_was_chosen_in_the_chat_is_shown_and_gives_way(
    scene: SetupScene, *, is_asked: bool
) -> None:
    scene.environ["OLLIM_TIMEZONE"] = "UTC"
    scene.paths.locks.mkdir(parents=True)
    database = open_database(scene.paths, lambda: NOW, is_holder=True, report=print)
    database.run(lambda tx: tx.names.put(GivenNames("Eve", None)))
    # The file has it already, but the choice made in the chat has priority.
    scene.write("OLLIM_USER_NAME=Ada\n")
    database.run(lambda tx: tx.config.change(lambda it: it.with_value("timezone", "Asia/Tokyo")))
    database.close()
    person = ScriptedPerson("Ada", "Max", "Europe/Paris")
    if is_asked:
        assert scene.run(person, "name", "bot-name", "timezone") is None
        assert "Your name [Eve]" in person.questions[0]
        assert "It is 15:15 in Asia/Tokyo." in person.screen
    else:
        words = ("--user-name", "Ada", "--bot-name", "Max", "--timezone", "Europe/Paris")
        assert scene.run(person, "--non-interactive", *words) is None
    kept = look_into(scene.paths, NOW, lambda tx: (tx.names.get(), tx.config.get().timezone))
    assert kept == (GivenNames("Ada", None), "Europe/Paris")
    wanted = {"OLLIM_USER_NAME": "Ada", "OLLIM_BOT_NAME": "Max", "OLLIM_TIMEZONE": "Europe/Paris"}
    assert scene.env == wanted


async def test_a_token_is_checked_with_discord_before_it_is_kept(scene: SetupScene) -> None:
    async with LocalDiscord(token=TOKEN) as discord:
        scene.write(f"DISCORD_API_URL={discord.api_url}\n")
        person = ScriptedPerson("MTIz.wrong.token", "")
        assert await ran(scene, person, "discord") is None
        assert "Discord refused the token." in person.screen
        assert "DISCORD_TOKEN" not in scene.env
        assert await ran(scene, ScriptedPerson(TOKEN), "discord") is None
        again = ScriptedPerson("")
        assert await ran(scene, again, "discord") is None
        assert "Discord: the token is right." in again.screen
        await discord.refuse_connections()
        unsure = ScriptedPerson("MTIz.another.token", "", "")
        assert await ran(scene, unsure, "discord") is None
        assert scene.env["DISCORD_TOKEN"] == TOKEN
        away = ScriptedPerson("MTIz.another.token", "y")
        assert await ran(scene, away, "discord") is None
    assert "Discord cannot be reached now." in away.screen
    assert scene.env["DISCORD_TOKEN"] == "MTIz.another.token"


async def test_of_a_team_the_owner_is_asked_by_name(scene: SetupScene) -> None:
    async with LocalDiscord(token=TOKEN, members=["ada"]) as discord:
        assert discord.team is not None
        scene.write(f"DISCORD_API_URL={discord.api_url}\n")
        piped = ("--non-interactive", "--discord-token", "-")
        refused = await ran(scene, ScriptedPerson(), *piped, is_terminal=False, piped=f"{TOKEN}\n")
        assert "belongs to a team" in str(refused)
        person = ScriptedPerson(TOKEN, "7", "2")
        assert await ran(scene, person, "discord") is None
    assert scene.env["DISCORD_OWNER_ID"] == discord.team[1].id
    assert "2  ada" in person.screen


async def test_no_token_is_sent_to_an_address_that_another_place_names(scene: SetupScene) -> None:
    async with LocalDiscord(token=TOKEN) as discord:
        scene.environ["DISCORD_API_URL"] = discord.api_url
        person = ScriptedPerson(TOKEN, "")
        assert await ran(scene, person, "discord") is None
        assert "both in the same place" in person.screen
        words = ("--non-interactive", "--discord-token", "-")
        ended = await ran(scene, ScriptedPerson(), *words, is_terminal=False, piped=f"{TOKEN}\n")
        assert "both in the same place" in str(ended)
        assert scene.text == ""
        scene.write(f"DISCORD_TOKEN={TOKEN}\n")
        again = ScriptedPerson("")
        assert await ran(scene, again, "discord") is None
        assert "was not checked" in again.screen
        assert discord.requests == []


def test_the_privileged_intent_is_told_when_it_is_on() -> None:
    of_many, of_few = DiscordBot({}, {"flags": 1 << 18}), DiscordBot({}, {"flags": 1 << 19})
    assert of_many.sees_message_content
    assert of_few.sees_message_content
    assert not DiscordBot({}, {"flags": 0}).sees_message_content
    assert not DiscordBot({}, {"flags": "?"}).sees_message_content


async def test_without_a_terminal_all_that_is_wrong_is_said_together(scene: SetupScene) -> None:
    async with LocalDiscord(token=TOKEN) as discord:
        scene.write(f"DISCORD_API_URL={discord.api_url}\n")
        before = scene.text
        words = ["--non-interactive", "--service", "--user-name", "", "--timezone", "Nowhere"]
        words += ["--api-key", "-", "--discord-token", "-"]
        words += ["--calendar", f"http://127.0.0.1:{unused_port()}/x"]
        piped = "two words\nMTIz.wrong.token\n"
        ended = await ran(scene, ScriptedPerson(), *words, is_terminal=False, piped=piped)
    assert isinstance(ended, BadSettings)
    assert ended.exit_code == 2
    flags = [line.partition(":")[0] for line in sentences(ended)]
    assert flags == [
        "--service", "--user-name", "--timezone", "--api-key", "--discord-token", "--calendar",
    ]  # fmt: skip
    assert "MTIz" not in str(ended)
    assert scene.text == before
    assert sorted(path.name for path in scene.paths.root.iterdir()) == [".env"]


async def test_without_a_terminal_everything_can_be_set_in_one_go(scene: SetupScene) -> None:
    scene.service = FakeMachineStart()
    with served(CalendarAnswer(body=ics(DENTIST))) as calendars:
        async with LocalDiscord(token=TOKEN) as discord:
            api = discord.api_url
            scene.write(f"DISCORD_API_URL={api}\nOLLIM_MODEL=offline\n")
            words = ["--non-interactive", "--service", "--user-name", "Ada", "--bot-name", "Max"]
            words += ["--timezone", "Europe/Paris", "--api-key", "-", "--discord-token", "-"]
            words += ["--calendar", calendars.address()]
            person, piped = ScriptedPerson(), f"sk-ant-1\n{TOKEN}\n"
            ended = await ran(scene, person, *words, is_terminal=False, piped=piped)
    assert ended is None, ended
    assert person.questions == []
    assert scene.env == {
        "DISCORD_API_URL": api,
        "OLLIM_USER_NAME": "Ada",
        "OLLIM_BOT_NAME": "Max",
        "OLLIM_TIMEZONE": "Europe/Paris",
        "ANTHROPIC_API_KEY": "sk-ant-1",
        "DISCORD_TOKEN": TOKEN,
    }
    assert scene.service.is_there
    assert "1 event" in person.screen
    hidden = ("sk-ant-1", TOKEN, "secret-7f3a")
    assert not any(secret in person.screen + scene.printed for secret in hidden)


@pytest.mark.parametrize("flag", ["--api-key", "--discord-token"])
def test_a_secret_on_the_command_line_is_refused_and_not_repeated(
    scene: SetupScene, flag: str
) -> None:
    ended = scene.run(ScriptedPerson(), "--non-interactive", flag, "sk-secret", is_terminal=False)
    assert isinstance(ended, WrongInput)
    assert f"Give `{flag} -` and the secret on standard input." in str(ended)
    assert "sk-secret" not in str(ended)


def test_flags_answer_their_questions_in_a_terminal_too(scene: SetupScene) -> None:
    person = ScriptedPerson("", "4", *[""] * 7)
    words = ("--user-name", "Ada", "--bot-name", "Max", "--no-service")
    scene.service = FakeMachineStart()
    assert scene.run(person, *words) is None
    assert scene.env == {
        "OLLIM_USER_NAME": "Ada", "OLLIM_BOT_NAME": "Max", "OLLIM_MODEL": "offline",
    }  # fmt: skip
    assert not scene.service.is_there


def test_without_a_terminal_and_without_flags_it_says_what_to_do(scene: SetupScene) -> None:
    ended = scene.run(ScriptedPerson(), is_terminal=False)
    assert isinstance(ended, WrongInput)
    assert "`ollim-bot setup --non-interactive`" in str(ended)
    assert "has no step `discrod`" in str(scene.run(ScriptedPerson(), "discrod"))


def test_wrong_settings_are_named_and_can_be_mended(scene: SetupScene) -> None:
    scene.write("OLLIM_TIMEZONE=Berln\nOLLIM_USER_NAME='Ada\n")
    person = ScriptedPerson("Ada", "", "Europe/Berlin", *[""] * 8)
    assert scene.run(person) is None
    assert "Berln" in person.screen.partition("1/11")[0]
    assert scene.env == {"OLLIM_TIMEZONE": "Europe/Berlin", "OLLIM_USER_NAME": "Ada"}


def test_a_failure_that_the_doctor_finds_is_the_end(scene: SetupScene) -> None:
    scene.has_failed = True
    person = ScriptedPerson("")
    ended = scene.run(person, "name")
    assert isinstance(ended, OllimError)
    assert ended.exit_code == 1
    assert "run `ollim-bot doctor`" in person.screen


def test_a_service_that_cannot_be_installed_is_told(scene: SetupScene) -> None:
    service = scene.service = FakeMachineStart()
    service.refusal = "It did not start, so all is as it was."
    person = ScriptedPerson("y")
    assert scene.run(person, "service") is None
    assert scene.service.refusal in person.screen


def test_the_service_is_installed_by_its_own_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    scene, manager = SetupScene(home), FakeSystemd(tmp_path / "stand-in", home)
    monkeypatch.setattr(sys, "argv", [str(write_bot(home / "bin"))])
    scene.write(f"OLLIM_WEB_PORT={unused_port()}\n")
    scene.paths.state.mkdir()
    (scene.paths.root / "how").write_text("alive")
    scene.environ |= {"PATH": str(manager.bin), "OLLIM_DATA_DIR": str(scene.paths.root)}
    del scene.environ["TZ"]
    with manager.open():
        caller = Caller(scene.environ, home)
        scene.service = ServiceStart(caller, Supervisor(SYSTEMD, scene.environ))
        assert not scene.service.is_installed()
        person = ScriptedPerson("y")
        assert scene.run(person, "service") is None
        assert scene.service.is_installed(), person.screen + scene.printed
        assert "ExecStart=" in scene.printed
        assert "The bot is running" in person.screen
        again = ScriptedPerson(*[""] * 11)
        assert scene.run(again) is None
    assert "start with this machine" not in again.screen


def test_beside_a_running_bot_it_says_what_counts_when(scene: SetupScene) -> None:
    scene.paths.state.mkdir(parents=True)
    with single_instance(scene.paths.bot_pid):
        unchanged, changed, signed_in = (
            ScriptedPerson(""),
            ScriptedPerson("Ada"),
            ScriptedPerson("1"),
        )
        scene.run(unchanged, "name")
        scene.run(changed, "name")
        scene.run(signed_in, "model")
    assert "nothing needs a restart" in unchanged.screen
    assert "write `/restart` in the chat" in changed.screen
    assert "write `/restart` in the chat" in signed_in.screen


def test_a_full_disk_ends_it_with_a_sentence_and_the_old_file(scene: SetupScene) -> None:
    scene.write("MINE=1\n")
    # A folder at the path of the new file cannot be overwritten.
    (scene.paths.root / "..env.tmp").mkdir()
    ended = scene.run(ScriptedPerson("Ada"), "name")
    assert isinstance(ended, WriteFailed)
    assert ".env" in str(ended)
    assert scene.text == "MINE=1\n"


def test_the_steps_are_offered_by_the_shell(terminal: Terminal) -> None:
    said = terminal.done("completion", "ask", "zsh", "setup", "")
    assert [step.word for step in STEPS if f"{step.word}\t" not in said] == []
