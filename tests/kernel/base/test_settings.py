"""Settings: what is valid, and the messages about invalid values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as checks
from hypothesis import strategies as st
from tests.kernel.base.machine import FakeMachine
from tests.kernel.base.wrong_settings import SECRET, WRONG_VALUES

from ollim_bot.kernel.base.errors import BadSettings
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.settings import (
    GoogleAddresses,
    LogFormat,
    LogLevel,
    ModelChoice,
    NtfyAccount,
    Secret,
    Settings,
)


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def test_without_anything_set_the_defaults_hold(machine: FakeMachine) -> None:
    settings = machine.settings()
    assert settings == Settings(
        paths=DataPaths(machine.home / ".ollim-bot"),
        zone=settings.zone,
        user_name="friend",
        bot_name="Ollim",
        discord_token=None,
        discord_owner_id=None,
        discord_api_url=None,
        web_port=8421,
        web_hosts=(),
        webhook_port=None,
        webhook_secret=None,
        log_level=LogLevel.INFO,
        log_format=LogFormat.TEXT,
        model=ModelChoice.AUTO,
        google=GoogleAddresses(),
        ntfy=NtfyAccount(),
        anthropic={},
        warnings=(),
    )
    assert settings.zone.key == "Europe/Berlin"


MODELS = {
    "ANTHROPIC_MODEL": "sonnet",
    "ANTHROPIC_DEFAULT_OPUS_MODEL": "big",
    "ANTHROPIC_DEFAULT_SONNET_MODEL": "middle",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL": "small",
}
EVERYTHING = MODELS | {
    "DISCORD_TOKEN": "discord-token",
    "DISCORD_OWNER_ID": "80351110224678912",
    "DISCORD_API_URL": "http://127.0.0.1:9000/api/v10/",
    "OLLIM_USER_NAME": "Ada 👩‍💻",
    "OLLIM_BOT_NAME": "Ollie",
    "OLLIM_TIMEZONE": "America/New_York",
    "OLLIM_DATA_DIR": "/srv/ollim",
    "OLLIM_WEB_PORT": "0",
    "OLLIM_WEB_HOSTS": "Ollim.example.org, box,,box",
    "WEBHOOK_PORT": "9100",
    "WEBHOOK_SECRET": "hush hush",
    "OLLIM_LOG": "DEBUG",
    "OLLIM_LOG_FORMAT": "json",
    "OLLIM_MODEL": "offline",
    "GOOGLE_API_URL": "http://127.0.0.1:9000/",
    "GOOGLE_TOKEN_URL": "https://google.example.org/token",
    "GOOGLE_AUTH_URL": "http://[::1]:9000/auth",
    "NTFY_URL": "https://ntfy.example.org/",
    "NTFY_TOKEN": "phone-token",
    "NTFY_REPLY_TOKEN": "reply-token",
    "DATABASE_URL": "postgresql://ollim:word@db.example.org/ollim",
    "ANTHROPIC_API_KEY": "api-key",
    "ANTHROPIC_AUTH_TOKEN": "auth-token",
    "ANTHROPIC_BASE_URL": "https://models.example.org",
}


def test_every_setting_is_read(machine: FakeMachine) -> None:
    settings = machine.settings(**EVERYTHING)
    assert settings == Settings(
        paths=DataPaths(Path("/srv/ollim")),
        zone=settings.zone,
        user_name="Ada 👩‍💻",
        bot_name="Ollie",
        discord_token=Secret("discord-token"),
        discord_owner_id=80351110224678912,
        discord_api_url="http://127.0.0.1:9000/api/v10",
        web_port=None,
        web_hosts=("ollim.example.org", "box"),
        webhook_port=9100,
        webhook_secret=Secret("hush hush"),
        log_level=LogLevel.DEBUG,
        log_format=LogFormat.JSON,
        model=ModelChoice.OFFLINE,
        google=GoogleAddresses(
            "http://127.0.0.1:9000", "https://google.example.org/token", "http://[::1]:9000/auth"
        ),
        ntfy=NtfyAccount("https://ntfy.example.org", Secret("phone-token"), Secret("reply-token")),
        anthropic={
            "ANTHROPIC_API_KEY": Secret("api-key"),
            "ANTHROPIC_AUTH_TOKEN": Secret("auth-token"),
            "ANTHROPIC_BASE_URL": "https://models.example.org",
            **MODELS,
        },
        warnings=(),
        database_url=Secret(EVERYTHING["DATABASE_URL"]),
    )
    assert settings.zone.key == "America/New_York"
    ours = ("discord-token", "hush hush", EVERYTHING["DATABASE_URL"], "phone-token", "reply-token")
    assert settings.secrets() == (*ours, "api-key", "auth-token")
    assert settings.engine_environment() == {
        "ANTHROPIC_API_KEY": "api-key",
        "ANTHROPIC_AUTH_TOKEN": "auth-token",
        "ANTHROPIC_BASE_URL": "https://models.example.org",
        **MODELS,
    }


@pytest.mark.parametrize("address", ["localhost:11434", "127.0.0.1:11434/", "[::1]:11434"])
def test_an_address_on_this_machine_needs_no_scheme(machine: FakeMachine, address: str) -> None:
    given = machine.settings(ANTHROPIC_BASE_URL=address, ANTHROPIC_AUTH_TOKEN="none")
    assert given.engine_environment()["ANTHROPIC_BASE_URL"] == f"http://{address.rstrip('/')}"


def test_the_way_to_the_database_is_encrypted_unless_it_stays_on_this_machine(
    machine: FakeMachine,
) -> None:
    there, without = "postgresql://ollim:word@db.example.org/ollim", "?sslmode=disable"
    here = [f"postgresql://ollim@{host}/ollim" for host in ("localhost", "127.0.0.1", "[::1]")]
    here += ["postgresql:///ollim?host=/run/postgresql", "postgres:///ollim"]
    right = [there, f"{there}?sslmode=verify-full", *here]
    right += [each + ("&" if "?" in each else "?") + without[1:] for each in here]
    wrong = [
        f"{there}{without}",
        f"{there}?sslmode=require",
        f"{there}?hostaddr=10.0.0.1&{without[1:]}",
    ]
    wrong += ["db.example.org", "https://db.example.org", "postgresql:ollim", "postgresql://[::1/x"]
    assert [
        each for each in right if machine.settings(DATABASE_URL=each).database_url is None
    ] == []
    for each in wrong:
        [problem] = machine.problems(DATABASE_URL=each)
        assert problem.startswith("environment: DATABASE_URL: the value ")
        assert "word@" not in problem.replace("ollim:password@", "")


@pytest.mark.same_fixtures
@pytest.mark.parametrize(("name", "value", "sentence"), WRONG_VALUES)
def test_a_wrong_value_is_told_with_its_place_and_what_would_be_right(
    machine: FakeMachine, name: str, value: str, sentence: str
) -> None:
    assert machine.problems(**{name: value}) == (f"environment: {name}: {sentence}",)


@pytest.mark.same_fixtures
@pytest.mark.parametrize(
    "name", ["DISCORD_TOKEN", "WEBHOOK_SECRET", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"]
)
@pytest.mark.parametrize("value", [f"{SECRET}\x01", f"'{SECRET}'"])
def test_a_problem_never_shows_a_secret(machine: FakeMachine, name: str, value: str) -> None:
    assert SECRET not in str(machine.problems(**{name: value}))


def test_all_problems_are_told_at_once(machine: FakeMachine) -> None:
    path = machine.write("OLLIM_LOG=loud\nnonsense\nOLLIM_WEB_PORT=none\n")
    assert machine.problems(OLLIM_TIMEZONE="Nowhere", OLLIM_MODEL="best") == (
        f"{path}:2: has no `=`. Write NAME=value, or # before a comment.",
        "environment: OLLIM_TIMEZONE: 'Nowhere' is not a time zone. Right: Europe/Berlin, or UTC.",
        (
            f"{path}:3: OLLIM_WEB_PORT: 'none' is not a port. "
            "Right: a number such as 8421, or 0 for off."
        ),
        (
            f"{path}:1: OLLIM_LOG: 'loud' is not one of the choices. "
            "Right: debug or info or warning or error."
        ),
        "environment: OLLIM_MODEL: 'best' is not one of the choices. Right: auto or offline.",
    )


def test_a_webhook_port_without_a_secret_is_a_problem(machine: FakeMachine) -> None:
    assert machine.problems(WEBHOOK_PORT="9100") == (
        "environment: WEBHOOK_PORT: needs a secret. Right: WEBHOOK_SECRET=a-long-random-text",
    )
    assert machine.settings(WEBHOOK_SECRET="alone").webhook_port is None
    assert machine.settings(WEBHOOK_PORT="0").webhook_port is None


def test_a_webhook_is_opened_by_the_secret_it_names(machine: FakeMachine) -> None:
    text = "GITHUB_HOOK_SECRET=from-the-file\nBELL_TOKEN=bell\n"
    machine.write(text, folder=machine.home / ".ollim-bot")
    environ = {
        "WEBHOOK_SECRET": "common",
        "GITHUB_HOOK_SECRET": "mine",
        "LANG": "C",
        "A_KEY": "a\nb",
    }
    settings = machine.settings(**environ)
    assert settings.hook_secret(None) == settings.hook_secret("WEBHOOK_SECRET") == Secret("common")
    assert settings.hook_secret("GITHUB_HOOK_SECRET") == Secret("mine")
    assert settings.hook_secret("BELL_TOKEN") == Secret("bell")
    assert settings.hook_secret("LANG") is settings.hook_secret("A_KEY") is None
    assert settings.secrets() == ("common", "mine", "bell")


def test_two_servers_cannot_share_a_port(machine: FakeMachine) -> None:
    assert machine.problems(WEBHOOK_PORT="8421", WEBHOOK_SECRET="x") == (
        "environment: WEBHOOK_PORT: is the port of the page too. Right: another one.",
    )
    settings = machine.settings(WEBHOOK_PORT="8421", WEBHOOK_SECRET="x", OLLIM_WEB_PORT="0")
    assert settings.webhook_port == 8421


def test_a_file_that_others_can_read_is_a_warning(machine: FakeMachine) -> None:
    path = machine.write("OLLIM_USER_NAME=x", mode=0o644)
    assert machine.settings().warnings == (f"{path}: others can read it. Run `chmod 600 {path}`.",)


def test_a_name_with_a_slip_is_a_warning(machine: FakeMachine) -> None:
    path = machine.write("A=b\nOLLIM_USERNAME=x")
    own = machine.home / ".ollim-bot" / ".env"
    assert machine.settings(OLLIM_COLOUR="red", OTHER="x").warnings == (
        f"{path}: ignored: A. Right: in {own}.",
        "environment: OLLIM_COLOUR: there is no such setting.",
        f"{path}:2: OLLIM_USERNAME: there is no such setting. Did you mean OLLIM_USER_NAME?",
    )


def test_a_machine_that_names_no_zone_is_a_warning(machine: FakeMachine) -> None:
    (machine.etc / "timezone").unlink()
    settings = machine.settings()
    assert settings.zone.key == "UTC"
    assert settings.warnings == (
        (
            "OLLIM_TIMEZONE: is not set, and this machine names no time zone, so it is UTC. "
            "Right: the name of yours, such as Europe/Berlin."
        ),
    )


_VALUES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
_NAMES = st.sampled_from(
    ["OLLIM_DATA_DIR", "OLLIM_TIMEZONE", "OLLIM_WEB_HOSTS", "DISCORD_OWNER_ID", "TZ", "OLLIM_X"]
)


@given(environ=st.dictionaries(_NAMES, _VALUES), file=st.text())
@checks(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_nothing_but_bad_settings_is_ever_raised(
    tmp_path: Path, environ: Mapping[str, str], file: str
) -> None:
    (tmp_path / ".env").write_bytes(file.encode("utf-8", "surrogatepass"))
    with suppress(BadSettings):
        settings = Settings.from_env({"HOME": "/home/ada", **environ}, cwd=tmp_path, etc=tmp_path)
        assert settings.paths.root.is_absolute()


def test_no_way_of_showing_settings_shows_a_secret(machine: FakeMachine) -> None:
    settings = machine.settings(
        DISCORD_TOKEN=SECRET, WEBHOOK_SECRET=SECRET, ANTHROPIC_API_KEY=SECRET
    )
    secret = settings.discord_token
    assert SECRET not in f"{settings} {settings!r} {secret} {secret!r} {asdict(settings)}"
    assert secret == Secret(SECRET)
    assert secret != Secret("other")
    assert len({secret, Secret(SECRET)}) == 1


def test_the_page_about_settings_names_each_and_shows_what_is_really_said(
    machine: FakeMachine,
) -> None:
    page = Path(__file__).parents[3].joinpath("docs", "settings.md").read_text("utf-8")
    example, wrong, told, _ = re.findall(r"```\w*\n(.*?)\n```", page, re.DOTALL)
    assert [name for name in EVERYTHING if f"| `{name}` |" not in page] == []
    data = machine.home / ".ollim-bot"
    machine.write(example.replace("paste the token here, without spaces", "token"), folder=data)
    assert machine.settings().warnings == ()
    machine.write(wrong, folder=data)
    assert "\n".join(machine.problems()).replace(str(data), "/home/ada/.ollim-bot") == told


def test_a_misspelt_name_in_a_file_is_a_warning_and_a_name_of_others_is_not(
    machine: FakeMachine,
) -> None:
    names = "DISCORD_TOKN=x\nEDITOR=vi\nGITHUB_SECRET=y\n"
    path = machine.write(names, folder=machine.home / ".ollim-bot")
    warnings = machine.settings(DISCORD_TOKN="x").warnings
    assert warnings == (
        f"{path}:1: DISCORD_TOKN: there is no such setting. Did you mean DISCORD_TOKEN?",
    )


def test_what_is_set_in_two_places_is_told_if_it_differs(machine: FakeMachine) -> None:
    own = machine.write(
        "OLLIM_USER_NAME=Ada\nDISCORD_TOKEN=a\n", folder=machine.home / ".ollim-bot"
    )
    machine.write("OLLIM_USER_NAME=Bob\nDISCORD_TOKEN=b\n")
    found = machine.settings(OLLIM_USER_NAME="Bob").overruled
    assert found == (
        f"{own}:2: DISCORD_TOKEN: {machine.cwd}/.env:2 sets it to something else, which counts.",
        f"{own}:1: OLLIM_USER_NAME: environment sets it to something else, which counts.",
    )
    assert machine.settings(OLLIM_USER_NAME="Ada", DISCORD_TOKEN="b").user_name == "Ada"
