"""What the doctor says of webhooks: off, free, ours, shut, guessable, or without a model."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.features.doctor.doctor_table import look, with_commands
from tests.kernel.base.machine import FakeMachine
from tests.ports import unused_port

from ollim_bot.features.webhooks.checks import port, screening, secrets
from ollim_bot.kernel.base.http_exchange import HttpAnswer
from ollim_bot.kernel.upkeep.findings import DoctorFinding, DoctorInput, Level, passed
from ollim_bot.kernel.values.hook_jobs import WebhookSpec
from ollim_bot.kernel.values.jobs import JobSpec
from ollim_bot.kernel.values.provider import Provider, ProviderKind

SECRET = "a-long-random-text"
OURS = HttpAnswer(405, {"error": "method not allowed"})
OFFLINE = Provider(ProviderKind.OFFLINE, "the offline model")
CLAUDE = Provider(ProviderKind.CLAUDE, "Claude")
NOW = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
FREE_TEXT = {"type": "object", "properties": {"title": {"type": "string"}}}


def hook(job_id: str = "ci", fields: Mapping[str, Any] | None = None, **more: Any) -> WebhookSpec:
    return WebhookSpec(JobSpec(id=job_id, message="x", background=True), fields or {}, **more)


def spec(*lines: str) -> str:
    return "\n".join(["---", "id: ci", *(lines or ("fields: {type: object}",)), "---", "Look.", ""])


class WebhookCheckScene:
    """A home directory with the file of one webhook."""

    def __init__(self, folder: Path) -> None:
        self._machine = FakeMachine(folder)

    def write(self, text: str) -> None:
        folder = self._machine.home / ".ollim-bot/webhooks"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ci.md").write_text(text)

    def findings(self, **environ: str) -> list[DoctorFinding]:
        settings = self._machine.settings(**environ)
        given = DoctorInput(settings, settings, (), environ, NOW, OFFLINE)
        return look(given, "webhooks")


@pytest.fixture
def scene(tmp_path: Path) -> WebhookCheckScene:
    return WebhookCheckScene(tmp_path)


def test_without_a_port_they_are_off_and_files_are_a_warning(scene: WebhookCheckScene) -> None:
    (finding,) = scene.findings()
    assert (finding.level, finding.detail[:11]) == (Level.OFF, "not set up;")
    scene.write(spec())
    (finding,) = scene.findings()
    assert (finding.level, finding.detail) == (Level.WARN, "off, so nothing calls ci")
    assert "WEBHOOK_PORT=9100" in finding.next


def test_each_mistake_in_a_file_is_named_with_what_to_do(scene: WebhookCheckScene) -> None:
    scene.write(spec("fields: {type: string}", "auth: magic", "colour: red"))
    levels = [(each.level, each.detail.partition(": ")[2][:8]) for each in scene.findings()]
    assert levels[:-1] == [
        (Level.FAIL, "fields: "), (Level.FAIL, "auth: 'm"),
        (Level.WARN, "colour: "),
    ]  # fmt: skip
    assert all(finding.next for finding in scene.findings()[:-1])


def test_a_free_port_with_all_secrets_is_right(scene: WebhookCheckScene) -> None:
    scene.write(spec("fields: {type: object}", "enabled: false"))
    number = str(unused_port())
    (finding,) = scene.findings(WEBHOOK_PORT=number, WEBHOOK_SECRET=SECRET)
    free = f"1 webhook, 1 paused; port {number} is free, and the bot is not running"
    assert finding == replace(passed(free), name="webhooks")


def test_all_that_keeps_a_webhook_from_working_is_found_at_once(scene: WebhookCheckScene) -> None:
    scene.write(spec(f"fields: {json.dumps(FREE_TEXT)}", "secret-env: CI_SECRET"))
    findings = scene.findings(WEBHOOK_PORT=str(unused_port()), WEBHOOK_SECRET="short")
    assert [(each.level, each.detail.split()[0]) for each in findings] == [
        (Level.PASS, "1"),
        (Level.WARN, "WEBHOOK_SECRET"),
        (Level.FAIL, "CI_SECRET"),
        (Level.WARN, "the"),
    ]


def test_a_port_that_another_program_has_is_a_failure(scene: WebhookCheckScene) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        number = str(server.getsockname()[1])
        (finding,) = scene.findings(WEBHOOK_PORT=number, WEBHOOK_SECRET=SECRET)
    assert (finding.level, finding.detail[:10]) == (Level.FAIL, f"port {number}"[:10])


def silence(_: str, __: Mapping[str, str]) -> HttpAnswer:
    raise ConnectionRefusedError


@pytest.mark.parametrize(
    ("answer", "level", "words"),
    [
        (OURS, Level.PASS, "2 webhooks; the bot answers at port 9100"),
        (HttpAnswer(405, None), Level.FAIL, "another program has port 9100"),
        (HttpAnswer(200, {"error": "method not allowed"}), Level.FAIL, "another program has"),
        (None, Level.FAIL, "the bot runs, but nothing answers at port 9100"),
    ],
)
def test_the_running_bot_answers_at_its_port(
    answer: HttpAnswer | None, level: Level, words: str
) -> None:
    ask = silence if answer is None else lambda *_: answer
    finding = port(9100, [hook("a"), hook("b")], ask, is_running=True)
    assert (finding.level, finding.detail[: len(words)]) == (level, words)
    assert bool(finding.next) is (level is not Level.PASS)


def test_a_secret_that_is_missing_or_short_is_named_and_never_shown(tmp_path: Path) -> None:
    settings = FakeMachine(tmp_path).settings(WEBHOOK_SECRET="shorty", B_TOKEN=SECRET)
    hooks = [hook("a", secret_env="A_SECRET"), hook("b", secret_env="B_TOKEN"), hook("c")]
    hooks += [hook(name, secret_env="A_SECRET") for name in ("d", "e", "f", "g")]
    short, missing = secrets(settings, hooks)
    assert short.level is Level.WARN
    assert short.detail.startswith("WEBHOOK_SECRET has fewer than 16 characters")
    assert (missing.level, missing.detail) == (
        Level.FAIL,
        "A_SECRET is not set, so nothing can call a, d, e and 2 more",
    )
    assert "shorty" not in str((short, missing))


def test_webhooks_that_share_a_secret_are_named_with_how_to_part_them(tmp_path: Path) -> None:
    values = {"A_SECRET": SECRET, "B_SECRET": SECRET, "C_SECRET": SECRET * 2}
    settings = FakeMachine(tmp_path).settings(WEBHOOK_SECRET=SECRET * 3, **values)
    alone = [hook("c", secret_env="C_SECRET"), hook("d")]
    assert list(secrets(settings, alone)) == []
    pair = [hook("a", secret_env="A_SECRET"), hook("at-home", secret_env="B_SECRET")]
    (same_value,) = with_commands(secrets(settings, [*alone, *pair]))
    assert (same_value.level, same_value.detail) == (
        Level.WARN,
        "a and at-home share a secret (A_SECRET and B_SECRET): a call signed for one opens all",
    )
    assert "`ollim-bot webhook edit at-home --secret-env AT_HOME_SECRET`" in same_value.next
    two = list(secrets(settings, [*alone, *pair, hook("e")]))
    assert [each.detail.partition(" share")[0] for each in two] == ["d and e", "a and at-home"]
    assert SECRET not in str(two)


def test_text_that_no_model_can_screen_is_a_warning() -> None:
    closed = {"type": "object", "properties": {"result": {"enum": ["passed"]}}}
    fine = [hook("plain", FREE_TEXT, is_plain=True), hook("closed", closed)]
    assert list(screening(fine, lambda: pytest.fail("no text, so no model is asked for"))) == []
    assert list(screening([hook("a", FREE_TEXT)], lambda: CLAUDE)) == []
    (finding,) = screening([*fine, hook("a", FREE_TEXT), hook("b", FREE_TEXT)], lambda: OFFLINE)
    assert (finding.level, finding.detail) == (
        Level.WARN,
        "the offline model cannot screen text, so calls of a and b are refused",
    )
    assert "deliver: plain" in finding.next
