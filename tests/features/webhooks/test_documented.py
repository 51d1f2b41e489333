"""Every example of the page about webhooks works: its file, its call, and what is picked of it.

The bodies have the shape that each service documents, with values of our own.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.features.webhooks import calls
from tests.features.webhooks.scene import NOW, SECRET, HookScene, new_scene, serving
from tests.terminal import Terminal

from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.job_checker import JobFileChecker
from ollim_bot.kernel.values.hook_jobs import WebhookSpec
from ollim_bot.kernel.values.shared_files import JobFile, JobFolder
from ollim_bot.kernel.values.webhook_data import has_free_text, unknown_places

PAGE = (Path(__file__).parents[3] / "docs" / "webhooks.md").read_text()
BODIES = Path(__file__).parent / "bodies"
FILES = dict(
    re.findall(r"^Save this as `webhooks/([\w-]+)\.md`.*?^```\n(.*?)^```", PAGE, re.M | re.S)
)
SHELL = "\n".join(re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S)).replace("\\\n", " ")

Signing = Callable[[bytes], Mapping[str, str]]
EXAMPLES: dict[str, tuple[str, Signing, dict[str, object]]] = {
    "build": (
        "github",
        lambda body: calls.github(SECRET, body, "workflow_run"),
        {
            "repository": "ada/tidepool",
            "branch": "main",
            "workflow": "tests",
            "result": "failure",
            "page": "https://github.com/ada/tidepool/actions/runs/19402811356",
        },
    ),
    "house": (
        "home_assistant",
        lambda _: calls.bearer(SECRET),
        {"thing": "Washing machine", "state": "finished"},
    ),
    "payments": (
        "stripe",
        lambda body: calls.stripe(SECRET, body, NOW.timestamp()),
        {"customer": "Marit Holm", "cents": 1900, "currency": "eur", "attempt": 1},
    ),
    "thought": (
        "iphone",
        lambda _: calls.bearer(SECRET),
        {
            "thought": "Ask Marit whether the mooring lines need replacing before the winter",
            "where": "Hafenstraße 4, Kiel",
            "battery": 64,
        },
    ),
    "backup": (
        "shell",
        lambda _: calls.bearer(SECRET),
        {"job": "photos", "result": "failed", "seconds": 814},
    ),
}


def documented(name: str, home: Path) -> WebhookSpec:
    """The webhook of the page, from a file in a data directory."""
    checker = JobFileChecker(DataPaths(home))
    reading = checker.read(JobFile(JobFolder.WEBHOOKS, f"{name}.md"), FILES[name])
    assert reading.problems == ()
    assert isinstance(reading.job, WebhookSpec)
    return reading.job


def scene_of(*hooks: WebhookSpec) -> HookScene:
    scene = new_scene()
    scene.add(*hooks)
    scene.secrets |= {hook.secret_env: SECRET.encode() for hook in hooks}
    return scene


def test_all_files_of_the_page_are_tried() -> None:
    assert FILES.keys() == EXAMPLES.keys()
    assert {path.stem for path in BODIES.iterdir()} == {body for body, _, _ in EXAMPLES.values()}


@pytest.mark.parametrize("name", EXAMPLES)
async def test_each_example_is_accepted_with_what_it_picks(name: str, tmp_path: Path) -> None:
    file, signing, fields = EXAMPLES[name]
    body = (BODIES / f"{file}.json").read_bytes()
    hook = documented(name, tmp_path)
    assert hook.spec.id == name
    assert unknown_places(hook.spec.message, hook.fields) == []
    async with serving(scene_of(hook)) as scene:
        answer = await scene.call(name, body, signing(body))
        assert (answer.status, answer.body["status"]) == (202, "accepted")
        assert scene.accepted == [(answer.body["run"], fields)]
        other = {key: value.replace("e", "f") for key, value in signing(body).items()}
        assert (await scene.call(name, body, other)).status == 401


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_terminal_shows_what_each_example_picks_and_leads_to(name: str, tmp_path: Path) -> None:
    file, _, fields = EXAMPLES[name]
    terminal = Terminal(tmp_path)
    terminal.write(f"webhooks/{name}.md", FILES[name])
    call = ("webhook", "test", name, "--data", f"@{BODIES / file}.json", "--dry-run")
    shown = terminal.json(*call)
    assert shown.pop("fields") == fields
    (effect,) = shown.values()
    assert effect == "Washing machine: finished" or effect.startswith(f"[webhook:{name}]")
    words = terminal.run(*call)
    assert all(f"{key} " in words.out for key in fields)
    hook = documented(name, tmp_path)
    assert ("free text" in words.err) is (has_free_text(hook.fields) and not hook.is_plain)


@pytest.mark.parametrize("name", EXAMPLES)
def test_data_that_the_terminal_makes_up_fits_each_example(name: str, tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    terminal.write(f"webhooks/{name}.md", FILES[name])
    fields = terminal.json("webhook", "test", name, "--dry-run")["fields"]
    assert fields.keys() == EXAMPLES[name][2].keys()


def test_other_events_of_these_services_are_ignored(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    for name in ("build", "payments"):
        terminal.write(f"webhooks/{name}.md", FILES[name])
        body, _, _ = EXAMPLES[name]
        changed = json.loads((BODIES / f"{body}.json").read_text()) | {
            "action": "requested",
            "type": "invoice.paid",
        }
        call = ("webhook", "test", name, "--data", json.dumps(changed), "--dry-run")
        assert "would be ignored" in terminal.refused(*call, code=1)


@pytest.mark.real_process
async def test_the_lines_of_the_two_minute_path_do_what_they_say(tmp_path: Path) -> None:
    (added,) = re.findall(r"^ollim-bot (webhook add .*)$", SHELL, re.M)
    terminal = Terminal(tmp_path)
    terminal.done(*shlex.split(added))
    (file,) = terminal.paths.webhooks.iterdir()
    reading = JobFileChecker(terminal.paths).read(
        JobFile(JobFolder.WEBHOOKS, file.name), file.read_text()
    )
    assert isinstance(reading.job, WebhookSpec)
    async with serving(scene_of(reading.job)) as scene:
        answer = await made(scene, "wash")
        assert (answer.status, answer.body["status"]) == (202, "accepted")


async def test_the_call_of_the_script_is_accepted_once_a_day(tmp_path: Path) -> None:
    async with serving(scene_of(documented("backup", tmp_path))) as scene:
        statuses = [(await made(scene, "backup")).status for _ in range(2)]
    assert statuses == [202, 200]


async def made(scene: HookScene, name: str) -> calls.HookAnswer:
    """Make the call by curl that the page shows for the webhook."""
    (line,) = [line for line in SHELL.splitlines() if f"/hook/{name}" in line]
    variables = {"$WEBHOOK_SECRET": SECRET, "$(date +%F)": "2026-11-16", "$result": "failed"}
    for variable, value in {**variables, "$SECONDS": "814"}.items():
        line = line.replace(variable, value)
    words = shlex.split(line)
    (address,) = [word for word in words if word.startswith("http")]
    headers = [words[at].split(": ", 1) for at, word in enumerate(words[:-1], 1) if word == "-H"]
    (body,) = [words[at] for at, word in enumerate(words[:-1], 1) if word == "-d"]
    hook = urlsplit(address).path.removeprefix("/hook/")
    return await scene.call(hook, body.encode(), dict(headers))
