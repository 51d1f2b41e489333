"""Tokens and secrets of the connection go to Google only: no log, history or error shows them."""

from __future__ import annotations

import logging
import subprocess

import pytest
from devtools.localgoogle.protocol import RawAnswer, Refusal
from tests.features.google.scene import START, Browser, GoogleScene
from tests.log_sink import root_logger_restored, sink
from tests.terminal import Terminal

from ollim_bot.features.google.google_values import redirect_answer
from ollim_bot.features.google.login import SignIn
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.settings import LogFormat, LogLevel
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.journal import open_journal

LISTS = "/tasks/v1/users/@me/lists"


def sign_in(scene: GoogleScene) -> str:
    """Connect by the consent page; returns the redirect address."""
    scene.write_credentials()
    attempt = SignIn(scene.paths, scene.tokens, scene.addresses, scene.clock.now)
    attempt.close()
    redirect = Browser().open(attempt.address)
    attempt.take(redirect)
    return redirect


def test_the_log_has_no_secret_at_any_level(scene: GoogleScene) -> None:
    with root_logger_restored():
        log = sink(LogFormat.TEXT, level=LogLevel.DEBUG)
        redirect = sign_in(scene)
        scene.clock.jump(3600)
        scene.client().call("GET", LISTS)
        token = scene.tokens.read()
        assert token is not None
        # The log of a failure whose traceback holds the secrets.
        for words in (redirect, scene.paths.token.read_text(), {"Authorization": token.access}):
            logging.getLogger("ollim_bot.any").warning("It failed with %s", words)
        scene.google.next_fail(f"GET {LISTS}", RawAnswer(scene.paths.token.read_bytes(), 400))
        try:
            scene.client().call("GET", LISTS)
        except OllimError:
            logging.getLogger("ollim_bot.any").exception("It failed")
    said = log.getvalue()
    assert said.count("It failed") == 4
    assert [each for each in scene.google.sign_ins.secrets if each in said] == []


@pytest.mark.real_process
def test_the_history_has_no_secret(scene: GoogleScene) -> None:
    prepare_data_directory(scene.paths)
    sign_in(scene)
    with open_journal(scene.paths, on_problem=print) as journal:
        journal.prepare()
        for path in (scene.paths.token, scene.paths.credentials, scene.paths.identity):
            journal.note(path, "auto: write it")
        journal.flush()
    everything = ["git", "log", "--all", "-p", "--format=%B"]
    ran = subprocess.run(everything, cwd=scene.paths.root, capture_output=True, check=True)
    by_hand = ["git", "add", "-A", "-n", "."]
    added = subprocess.run(by_hand, cwd=scene.paths.root, capture_output=True, check=True)
    assert b"IDENTITY.md" in ran.stdout
    for name in (b"token.json", b"credentials.json"):
        assert name not in ran.stdout + added.stdout


def test_errors_and_values_show_no_secret(scene: GoogleScene) -> None:
    redirect = sign_in(scene)
    shown = [repr(scene.tokens.read()), repr(redirect_answer(redirect))]
    scene.google.sign_ins.revoke_everything()
    with pytest.raises(OllimError) as failed:
        scene.client().call("GET", LISTS)
    shown.append(repr(failed.value))
    assert not any(each in text for each in scene.google.sign_ins.secrets for text in shown)


@pytest.mark.real_process
def test_no_command_shows_a_token(connected: GoogleScene, terminal: Terminal) -> None:
    connected.google.tasks.add("water")
    mail = connected.google.gmail.receive("Ada", "x", "Hello.", at=START)
    for path in ("/gmail/v1/users/me/labels", "/tasks/v1/lists/@default/tasks/nope"):
        connected.google.next_fail(f"GET {path}", Refusal(403, "forbidden"))
    commands = (
        *("cal today", "cal calendars", "cal refresh", "gmail unread", "gmail labels"),
        *(f"gmail read {mail} --json", "tasks list --json", "tasks show nope"),
    )
    said = "".join(str(terminal.run(*command.split())) for command in commands)
    assert "water" in said
    assert "Hello." in said
    token = connected.tokens.valid()
    assert token.access.reveal() not in said
    assert token.refresh.reveal() not in said
