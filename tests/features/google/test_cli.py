"""`ollim-bot google`: connecting in a browser or by pasting, looking, disconnecting."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
from devtools.doubles.clock import ManualClock
from devtools.localdiscord.faults import Delayed
from tests.features.google.scene import Browser, GoogleScene, google_scene
from tests.terminal import Terminal

pytestmark = pytest.mark.real_process

CONNECTED = "Google is connected as ada@example.com: tasks, calendar and mail."


class GoogleTerminal(Terminal):
    """A terminal with settings for the local Google and the real time."""

    def __init__(self, home: Path, scene: GoogleScene) -> None:
        super().__init__(home, datetime.now(UTC))
        self.scene = scene
        self.environ |= scene.google.environment

    def shows_a_secret(self, text: str) -> bool:
        return any(secret in text for secret in self.scene.google.sign_ins.secrets)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[GoogleTerminal]:
    clock = ManualClock(datetime.now(UTC))
    with google_scene(tmp_path / ".ollim-bot", clock) as scene:
        yield GoogleTerminal(tmp_path, scene)


def address_from(child: subprocess.Popen[str]) -> str:
    """The address to open, and the last line before the command waits."""
    assert child.stdout is not None
    for line in child.stdout:
        if line.strip().startswith("http"):
            return line.strip()
    raise AssertionError(child.communicate())


def test_a_login_in_the_browser_of_this_machine(terminal: GoogleTerminal) -> None:
    terminal.scene.write_credentials()
    child = terminal.start("google", "login", "--without", "mail")
    page = Browser(["tasks"]).follow(address_from(child))
    out, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (0, "")
    assert out.splitlines()[-1] == (
        "Google is connected as ada@example.com: calendar. Left out: tasks and mail."
    )
    assert "it says whether Google is connected" in page
    assert not terminal.shows_a_secret(out + page)


def test_a_login_from_another_device_by_pasting(terminal: GoogleTerminal) -> None:
    terminal.scene.write_credentials()
    child = terminal.start("google", "login")
    address = Browser().open(address_from(child))
    pasted = f"hello\nhttp://127.0.0.1:9/?state=x&code=y\n{address}\n"
    out, err = child.communicate(pasted, timeout=60)
    assert child.returncode == 0
    assert out.splitlines()[-1] == CONNECTED
    wrong, strange = err.splitlines()
    assert wrong.startswith("That is not the address of Google's last page. Right: one that begins")
    assert strange.startswith("That address belongs to another sign-in.")
    assert not terminal.shows_a_secret(out + err)


def test_two_commands_at_once_renew_the_token_once(terminal: GoogleTerminal) -> None:
    terminal.scene.clock.jump(-7200)
    terminal.scene.connect()
    terminal.scene.clock.jump(7200)
    terminal.scene.google.next_fail("POST /token", Delayed(0.5))
    children = [terminal.start("google", "status") for _ in range(2)]
    for child in children:
        out, err = child.communicate(timeout=60)
        assert (out, err) == (f"{CONNECTED}\n", "")
    assert terminal.scene.google.sign_ins.refreshes == 1


def test_a_login_that_is_not_finished_ends_after_five_minutes(terminal: GoogleTerminal) -> None:
    terminal.scene.write_credentials()
    looks = count()
    answer = terminal.run(
        "google", "login", now=lambda: terminal.now + timedelta(minutes=5 * next(looks))
    )
    assert answer.code == 1
    assert answer.err == (
        "The sign-in at Google was not finished within 5 minutes. Nothing was connected.\n"
    )


def test_without_a_client_the_way_to_one_is_shown(terminal: GoogleTerminal) -> None:
    told = terminal.refused("google", "login", code=3).splitlines()
    assert told[0] == "Google needs an OAuth client of your own, which you make once:"
    assert told[-1] == f"5. Save that file as {terminal.paths.credentials}, and begin again."


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("mial", "--without: there is no 'mial'. Right: tasks, calendar, mail."),
        ("mail,calendar,tasks", "--without: nothing would be left to connect. Right: mail, for"),
    ],
)
def test_what_to_leave_out_has_to_be_known(
    terminal: GoogleTerminal, words: str, sentence: str
) -> None:
    assert terminal.refused("google", "login", "--without", words).startswith(sentence)


def test_the_status_says_whether_google_agrees(terminal: GoogleTerminal) -> None:
    told = "Google is not connected. `/google-auth` or `ollim-bot google login` connects it.\n"
    assert terminal.refused("google", "status", code=3) == told
    terminal.scene.connect()
    assert terminal.done("google", "status") == f"{CONNECTED}\n"
    assert terminal.json("google", "status") == {
        "connected": True,
        "account": "ada@example.com",
        "services": ["tasks", "calendar", "mail"],
        "ends_at": None,
    }
    terminal.scene.google.sign_ins.revoke_everything()
    for _ in range(2):
        told = terminal.refused("google", "status", code=3)
        assert told.startswith("The connection to ada@example.com at Google was revoked or has")
        assert len(told.splitlines()) == 1
    code, out, _ = terminal.run("google", "status", "--json")
    assert (code, json.loads(out)["connected"]) == (3, False)
    assert terminal.done("google", "logout") == "Google is left out now.\n"
    assert terminal.refused("google", "status", code=3).startswith("Google is not connected.")


def test_where_nothing_is_set_up_nothing_is_created(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    assert terminal.done("google", "logout") == "Google was not connected.\n"
    terminal.refused("google", "status", code=3)
    assert not terminal.paths.root.exists()


@pytest.mark.parametrize("verb", ["login", "status", "logout"])
def test_the_connection_is_the_owners_alone(terminal: GoogleTerminal, verb: str) -> None:
    terminal.scene.connect()
    terminal.environ["OLLIM_CALLED_BY"] = "conversation"
    assert terminal.refused("google", verb, code=1) == (
        f"`ollim-bot google {verb}` is for the owner alone. Ask them to do it in a terminal.\n"
    )
    assert terminal.paths.token.exists()
