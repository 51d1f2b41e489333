"""A key is sent only to an address from the same source as the key."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.kernel.base.machine import FakeMachine

from ollim_bot.kernel.base.environment import SET_IN_CURRENT_FOLDER
from ollim_bot.kernel.base.settings import GoogleAddresses, google_addresses

KEY = "k3y-valuE"
BASE = "ANTHROPIC_BASE_URL=http://127.0.0.1:9\n"


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def of_data(machine: FakeMachine, text: str) -> Path:
    return machine.write(text, folder=machine.home / ".ollim-bot")


PAIRS = [
    ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
    ("ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN"),
    ("DISCORD_API_URL", "DISCORD_TOKEN"),
    ("NTFY_URL", "NTFY_TOKEN"),
    ("NTFY_URL", "NTFY_REPLY_TOKEN"),
]


@pytest.mark.parametrize(("address", "key"), PAIRS)
@pytest.mark.parametrize("address_in", ["environment", "data"])
@pytest.mark.parametrize("key_in", ["environment", "start", "data"])
def test_an_address_and_its_key_stand_in_the_same_place(
    machine: FakeMachine, address: str, key: str, address_in: str, key_in: str
) -> None:
    value = {address: "http://127.0.0.1:9", key: KEY}
    texts = dict.fromkeys(("environment", "start", "data"), "")
    texts[key_in] += f"{key}={KEY}\n"
    texts[address_in] += f"{address}={value[address]}\n"
    start, data = machine.write(texts["start"]), of_data(machine, texts["data"])
    environ = dict(line.split("=", 1) for line in texts["environment"].splitlines())
    is_ignored = key_in == "start" and key not in SET_IN_CURRENT_FOLDER
    if address_in == key_in or is_ignored:
        machine.settings(**environ)
        return
    places = {"environment": "environment", "start": f"{start}:1", "data": f"{data}:1"}
    assert machine.problems(**environ) == (
        (
            f"{places[address_in]}: {address}: would have {key}, which stands in {places[key_in]}, "
            "sent there. Right: both in the same place."
        ),
    )


ELSEWHERE = {
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
    "ANTHROPIC_MODEL": "x",
    "DISCORD_API_URL": "http://127.0.0.1:9",
    "GOOGLE_API_URL": "http://127.0.0.1:9",
    "GOOGLE_AUTH_URL": "http://127.0.0.1:9",
    "GOOGLE_TOKEN_URL": "http://127.0.0.1:9",
    "NTFY_URL": "https://evil.example",
    "OLLIM_WEB_HOSTS": "evil.example",
    "WEBHOOK_PORT": "9100",
    "WEBHOOK_SECRET": "theirs",
}


@pytest.mark.parametrize("key_in", ["environment", "start", "data"])
@pytest.mark.parametrize("name", ELSEWHERE)
def test_the_folder_of_the_start_sets_no_address_and_opens_nothing(
    machine: FakeMachine, name: str, key_in: str
) -> None:
    keys = {"ANTHROPIC_API_KEY": KEY, "DISCORD_TOKEN": KEY}
    text = "".join(f"{key}={value}\n" for key, value in keys.items())
    start = machine.write(f"{name}={ELSEWHERE[name]}\n" + (text if key_in == "start" else ""))
    data = of_data(machine, text if key_in == "data" else "")
    settings = machine.settings(**(keys if key_in == "environment" else {}))
    ignored = "is ignored, as this is not the `.env` of the data directory."
    assert settings.warnings == (
        f"{start}:1: {name}: {ignored} Right: in {data}, or in the environment.",
    )
    assert settings.engine_environment() == {"ANTHROPIC_API_KEY": KEY}
    assert settings.discord_token is not None
    assert (settings.discord_api_url, settings.web_hosts, settings.webhook_port) == (None, (), None)
    assert settings.webhook_secret is None
    environ = {"HOME": str(machine.home)}
    addresses = google_addresses(environ, cwd=machine.cwd, etc=machine.etc)
    assert addresses == settings.google == GoogleAddresses()
    # The same lines count in the data directory.
    data.write_text(f"{name}={ELSEWHERE[name]}\n{text}WEBHOOK_SECRET=own\n")
    start.unlink()
    if name != "WEBHOOK_SECRET":
        assert machine.settings(OLLIM_WEB_PORT="0").warnings == ()


def test_names_that_are_no_settings_are_ignored_and_named_in_one_sentence(
    machine: FakeMachine,
) -> None:
    start = machine.write("".join(f"VARIABLE_{n}='x\n'\n" for n in range(9)) + "BELL_SECRET=b\n")
    settings = machine.settings()
    named = "BELL_SECRET, " + ", ".join(f"VARIABLE_{n}" for n in range(7))
    own = machine.home / ".ollim-bot" / ".env"
    assert settings.warnings == (f"{start}: ignored: {named} and 2 more. Right: in {own}.",)
    assert settings.hook_secret("BELL_SECRET") is None


def test_a_second_key_that_comes_along_does_not_cover_for_the_first(machine: FakeMachine) -> None:
    of_data(machine, f"{BASE}ANTHROPIC_AUTH_TOKEN=own\nDISCORD_API_URL=http://127.0.0.1:9\n")
    machine.write(f"ANTHROPIC_API_KEY={KEY}\n")
    problems = machine.problems(DISCORD_TOKEN=KEY)
    assert [problem.split(": ")[1] for problem in problems] == [
        "ANTHROPIC_BASE_URL",
        "DISCORD_API_URL",
    ]
    assert KEY not in "".join(problems)


def test_a_key_of_the_same_file_takes_the_place_of_one_further_back(machine: FakeMachine) -> None:
    machine.write("ANTHROPIC_API_KEY=own\n")
    of_data(machine, f"ANTHROPIC_API_KEY={KEY}\n")
    assert machine.settings().engine_environment()["ANTHROPIC_API_KEY"] == "own"


def test_a_login_is_not_sent_to_an_address_that_a_file_names(machine: FakeMachine) -> None:
    path = of_data(machine, BASE)
    assert machine.problems() == (
        (
            f"{path}:1: ANTHROPIC_BASE_URL: has no key with it, so your login at Claude would be "
            "sent there. Right: ANTHROPIC_AUTH_TOKEN in the same file, with any word if none is "
            "needed."
        ),
    )
    path.write_text(f"{BASE}ANTHROPIC_AUTH_TOKEN=ollama\n")
    machine.settings()


def test_what_else_the_engine_would_send_along_is_withheld_from_the_address_of_a_file(
    machine: FakeMachine,
) -> None:
    of_data(machine, f"{BASE}ANTHROPIC_AUTH_TOKEN=ollama\n")
    along = {"CLAUDE_CODE_OAUTH_TOKEN": KEY, "ANTHROPIC_CUSTOM_HEADERS": f"x-key: {KEY}"}
    assert machine.settings(**along).engine_environment() == {
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
        "ANTHROPIC_AUTH_TOKEN": "ollama",
        "CLAUDE_CODE_OAUTH_TOKEN": "",
        "ANTHROPIC_CUSTOM_HEADERS": "",
    }


def test_the_environment_is_one_place_with_or_without_a_key(machine: FakeMachine) -> None:
    """The owner sets the environment, and the `claude` program reads it in the same way."""
    environ = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "CLAUDE_CODE_OAUTH_TOKEN": KEY}
    assert machine.settings(**environ).engine_environment() == {
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"
    }


def test_the_same_file_by_two_ways_is_one_place(machine: FakeMachine) -> None:
    path = of_data(machine, f"{BASE}ANTHROPIC_API_KEY={KEY}\n")
    (machine.cwd / ".env").symlink_to(path)
    machine.settings()


def test_a_file_in_passing_cannot_say_who_owns_the_bot_of_another_token(
    machine: FakeMachine,
) -> None:
    start = machine.write("DISCORD_OWNER_ID=80351110224678912\n")
    data = of_data(machine, f"DISCORD_TOKEN={KEY}\n")
    assert machine.problems() == (
        (
            f"{start}:1: DISCORD_OWNER_ID: is about DISCORD_TOKEN, which stands in {data}:1. "
            "Right: put it there."
        ),
    )
    start.unlink()
    machine.settings(DISCORD_OWNER_ID="80351110224678912")
    data.write_text("DISCORD_OWNER_ID=80351110224678912\n")
    machine.settings(DISCORD_TOKEN=KEY)


@pytest.mark.parametrize(
    "name", ["HTTPS_PROXY", "NODE_EXTRA_CA_CERTS", "PYTHONPATH", "PATH", "CLAUDE_CONFIG_DIR"]
)
def test_a_file_sets_nothing_but_our_settings(machine: FakeMachine, name: str) -> None:
    machine.write(f"{name}=/somewhere\nANTHROPIC_API_KEY={KEY}\n")
    assert machine.settings().engine_environment() == {"ANTHROPIC_API_KEY": KEY}


def test_a_file_that_another_account_has_left_in_the_start_folder_is_refused(
    machine: FakeMachine,
) -> None:
    path = machine.write("OLLIM_DATA_DIR=/somewhere\n")
    try:
        os.chown(path, os.geteuid() + 1, -1)
    except PermissionError:
        pytest.skip("only the superuser gives files away")
    assert machine.problems() == (
        f"{path}: belongs to another account. Make it a file of yours, or start in another folder.",
    )
    path.rename(machine.home / ".ollim-bot.env")
    data = of_data(machine, "OLLIM_USER_NAME=Ada\n")
    os.chown(data, os.geteuid() + 1, -1)
    assert machine.settings().user_name == "Ada"


@pytest.mark.parametrize("name", ["GOOGLE_API_URL", "GOOGLE_TOKEN_URL", "GOOGLE_AUTH_URL"])
def test_only_the_data_directory_says_where_the_token_for_google_is_sent(
    machine: FakeMachine, name: str
) -> None:
    data = of_data(machine, f"{name}=http://127.0.0.1:9\n")
    for _ in ("without a link to it", "with one"):
        addresses = google_addresses({"HOME": str(machine.home)}, cwd=machine.cwd, etc=machine.etc)
        assert machine.settings().google == addresses
        assert "http://127.0.0.1:9" in (addresses.api, addresses.token, addresses.auth)
        (machine.cwd / ".env").unlink(missing_ok=True)
        (machine.cwd / ".env").symlink_to(data)
