"""`ollim-bot webhook`: files that another program calls, written and read in the terminal."""

from __future__ import annotations

import json

import pytest
from tests.terminal import Terminal

WASH = ("webhook", "add", "The washing machine is done.", "--id", "wash", "--deliver", "plain")
BUILD = (
    *("webhook", "add", "If {{result}} is failed, say which {{project}} it was."),
    *("--id", "build", "--description", "A build", "--field", "result=passed,failed"),
    *("--field", "project", "--pick", "result=/run/conclusion", "--pick", "project=/repo/name"),
    *("--on", "workflow_run.completed", "--auth", "github", "--secret-env", "GITHUB_HOOK_SECRET"),
)


def switched_on(terminal: Terminal, **more: str) -> Terminal:
    terminal.environ |= {"WEBHOOK_PORT": "9100", "WEBHOOK_SECRET": "hush-hush-hush", **more}
    return terminal


@pytest.mark.real_process
def test_a_webhook_without_data_is_one_line(terminal: Terminal) -> None:
    answer = switched_on(terminal).run(*WASH)
    assert answer.out == (
        "Webhook set: The washing machine is done, when /hook/wash is called.\n"
        "id wash, file ~/.ollim-bot/webhooks/the-washing-machine-is-done.md\n"
    )
    assert answer.err == "note: the bot is not running, so nothing comes yet.\n"
    (file,) = terminal.paths.webhooks.iterdir()
    assert file.read_text() == (
        '---\nid: wash\nfields: {"type": object}\ndeliver: plain\n---\n'
        "The washing machine is done.\n"
    )
    assert terminal.git("log", "--format=%s", "-1") == ["add webhook wash"]


def test_fields_picks_events_and_proofs_are_given_by_flags(terminal: Terminal) -> None:
    terminal.done(*BUILD)
    (hook,) = terminal.json("webhook", "list")["webhooks"]
    assert hook["fields"] == {
        "type": "object",
        "required": ["result", "project"],
        "properties": {"result": {"enum": ["passed", "failed"]}, "project": {"type": "string"}},
    }
    assert hook["pick"] == {"result": "/run/conclusion", "project": "/repo/name"}
    assert (hook["on"], hook["auth"]) == (["workflow_run.completed"], ["github"])
    assert (hook["secret-env"], hook["deliver"]) == ("GITHUB_HOOK_SECRET", None)
    assert not {"cron", "next", "must", "nag", "timezone", "background"} & hook.keys()
    shown = terminal.done("webhook", "show", "build")
    assert "  opened by  the secret GITHUB_HOOK_SECRET, as github\n" in shown
    assert "  takes      result and project\n" in shown
    assert "time zone" not in shown
    assert terminal.json("webhook", "show", "build") == hook


def test_a_field_that_is_only_picked_or_named_in_the_text_is_text(terminal: Terminal) -> None:
    terminal.done("webhook", "add", "Look at it.", "--id", "issue", "--pick", "title=/issue/title")
    fields = terminal.json("webhook", "show", "issue")["fields"]
    assert fields["properties"] == {"title": {"type": "string"}}
    terminal.done("webhook", "add", "{{who}} is at the {{ door }}.", "--id", "bell")
    fields = terminal.json("webhook", "show", "bell")["fields"]
    assert fields["properties"] == {"who": {"type": "string"}, "door": {"type": "string"}}
    missing = terminal.refused("webhook", "add", "{{who}} rings.", "--field", "door")
    assert "{{who}} in the text is not one of the properties" in missing


def test_a_webhook_is_called_by_its_id_and_not_by_its_braces(terminal: Terminal) -> None:
    hook = ("webhook", "add", "{{app}} is out.", "--id", "deploy", "--field", "app:string")
    switched_on(terminal).done(*hook, "--deliver", "plain")
    assert terminal.done("webhook", "cancel", "deploy") == "Webhook cancelled: deploy.\n"


def test_a_webhook_is_changed_paused_resumed_and_cancelled(terminal: Terminal) -> None:
    switched_on(terminal).done(*WASH)
    changed = terminal.done("webhook", "edit", "wash", "--field", "minutes:integer")
    assert changed == "Webhook changed: The washing machine is done, when /hook/wash is called.\n"
    assert terminal.json("webhook", "show", "wash")["fields"]["required"] == ["minutes"]
    terminal.done(*BUILD)
    terminal.done("webhook", "pause", "build")
    assert terminal.done("webhook", "list") == (
        "wash   when called  The washing machine is done  (plain)\nbuild  paused       A build\n"
    )
    assert "Webhook resumed: A build" in terminal.done("webhook", "resume", "build")
    assert terminal.done("webhook", "cancel", "washing") == (
        "Webhook cancelled: The washing machine is done.\n"
    )


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--field", "a b"), "--field: 'a b' is not understood. Example: --field minutes:integer"),
        (("--field", "a:text"), "--field: 'text' is not a type. It takes string, integer, number,"),
        (("--field", "a", "--fields", "{}"), "--field and --fields both say what comes."),
        (("--fields", "{"), "'{' is not JSON: "),
        (("--pick", "a"), "--pick: 'a' names no place. Example: --pick title=/issue/title"),
        (("--pick", "a=title"), "pick: "),
        (("--auth", "magic"), "auth: "),
        (("--secret-env", "LANG"), "secret-env: "),
        (("--cron", "0 9 * * *"), "'--cron' is not understood"),
        (("--nag", "10m x 4"), "'--nag' is not understood"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    terminal: Terminal, flags: tuple[str, ...], said: str
) -> None:
    assert said in terminal.refused("webhook", "add", "x", *flags)
    assert not terminal.paths.webhooks.exists()


def test_all_that_is_wrong_is_said_at_once(terminal: Terminal) -> None:
    wrong = ("--auth", "magic", "--id", "A", "--fields", '{"type": "string"}', "--deliver", "x")
    lines = terminal.refused("webhook", "add", "x", *wrong).splitlines()
    assert {line.partition(":")[0] for line in lines} == {"auth", "id", "fields", "deliver"}


def test_the_address_comes_with_a_line_that_calls_it_and_without_the_secret(
    terminal: Terminal,
) -> None:
    switched_on(terminal).done(*WASH, "--field", "minutes:integer", "--field", "program=wool,silk")
    answer = terminal.run("webhook", "url", "wash")
    assert answer.out == (
        "http://127.0.0.1:9100/hook/wash\n"
        'curl http://127.0.0.1:9100/hook/wash -H "Authorization: Bearer $WEBHOOK_SECRET" '
        """-d '{"minutes": 1, "program": "wool"}'\n"""
    )
    assert "hush" not in answer.out + answer.err


def test_a_secret_that_the_shell_does_not_have_is_led_to(terminal: Terminal) -> None:
    terminal.write(".env", "WEBHOOK_PORT=9100\nWEBHOOK_SECRET=hush-hush-hush\n").chmod(0o600)
    terminal.done(*WASH)
    answer = terminal.run("webhook", "url", "wash")
    assert answer.err == (
        "note: $WEBHOOK_SECRET is not set in this shell. Its value is in ~/.ollim-bot/.env.\n"
    )
    assert "hush" not in answer.out


def test_a_picked_sample_has_the_shape_of_the_request(terminal: Terminal) -> None:
    switched_on(terminal).done(*BUILD, "--auth", "bearer")
    curl = terminal.json("webhook", "url", "build")["curl"]
    body = json.loads(curl.partition("-d ")[2].strip("'"))
    assert body == {
        "type": "workflow_run.completed",
        "action": "completed",
        "run": {"conclusion": "passed"},
        "repo": {"name": "text"},
    }


def test_a_sample_is_made_for_any_schema_and_any_place(terminal: Terminal) -> None:
    properties = {
        "a": {"type": ["integer", "null"]},
        "b": {"type": "array"},
        "c": {"type": "object"},
        "d": {"type": "number"},
        "e": {"type": "boolean"},
        "f": True,
        "g/h": {},
    }
    pick = {
        "a": "/x",
        "b": "/x/y",
        "c": "/x/y/z",
        "d": "/l/0",
        "e": "/e",
        "f": "/f",
        "g/h": "/g~1h",
    }
    made = json.dumps({"type": "object", "properties": properties})
    flags = [each for name, place in pick.items() for each in ("--pick", f"{name}={place}")]
    switched_on(terminal).done("webhook", "add", "x", "--id", "odd", "--fields", made, *flags)
    body = json.loads(terminal.json("webhook", "url", "odd")["curl"].partition("-d ")[2].strip("'"))
    assert body == {"x": {"y": {"z": {}}}, "l": {"0": 1.5}, "e": True, "f": "text", "g/h": "text"}


def test_one_that_others_sign_says_with_what(terminal: Terminal) -> None:
    switched_on(terminal).done(*BUILD)
    assert terminal.done("webhook", "url", "build") == (
        "http://127.0.0.1:9100/hook/build\n"
        "Callers sign with the value of GITHUB_HOOK_SECRET: github.\n"
    )


def test_the_address_comes_with_the_webhooks_that_its_secret_opens_too(terminal: Terminal) -> None:
    switched_on(terminal, BELL_SECRET="hush-hush-hush", GITHUB_HOOK_SECRET="other").done(*WASH)
    terminal.done(*BUILD)
    assert terminal.run("webhook", "url", "wash").err == ""
    terminal.done("webhook", "add", "The bell.", "--id", "bell", "--secret-env", "BELL_SECRET")
    terminal.done("webhook", "add", "The door.", "--id", "front-door")
    assert terminal.run("webhook", "url", "front-door").err == (
        "note: its secret opens bell and wash too. "
        "`--secret-env FRONT_DOOR_SECRET` gives it its own.\n"
    )
    assert terminal.json("webhook", "url", "bell")["shares_secret_with"] == ["front-door", "wash"]
    assert terminal.json("webhook", "url", "build")["shares_secret_with"] == []


def test_while_webhooks_are_off_there_is_no_address_and_a_new_one_says_so(
    terminal: Terminal,
) -> None:
    off = "note: webhooks are off until WEBHOOK_PORT and WEBHOOK_SECRET are set; put both"
    assert off in terminal.run(*WASH).err
    assert terminal.refused("webhook", "url", "wash").startswith("Webhooks are off until ")
    assert off in terminal.run("webhook", "list").err
    assert terminal.run("webhook", "list", "--json").err == ""
    terminal.environ["OLLIM_LOG"] = "loud"
    assert (terminal.run("webhook", "list").code, terminal.run("webhook", "list").err) == (0, "")


def test_a_new_one_whose_own_secret_is_missing_says_so(terminal: Terminal) -> None:
    home = "the data directory's .env"
    missing = f"note: nothing opens it until GITHUB_HOOK_SECRET is set; put it into {home}.\n"
    assert missing in switched_on(terminal).run(*BUILD).err
    edit = ("webhook", "edit", "build", "--secret-env", "GITHUB_HOOK_SECRET")
    assert missing in terminal.run(*edit).err
    switched_on(terminal, GITHUB_HOOK_SECRET="hush").done("webhook", "cancel", "build")
    assert missing not in terminal.run(*BUILD).err
    assert missing not in terminal.run(*edit).err
    terminal.environ["OLLIM_LOG"] = "loud"
    assert terminal.run(*edit).code == 0


def test_the_agent_adds_webhooks_within_its_limits(terminal: Terminal) -> None:
    switched_on(terminal, OLLIM_CALLED_BY="conversation")
    assert "goes beyond what the conversation itself may use" in terminal.refused(
        *BUILD, "--allowed-tool", "Bash(python3 *)"
    )
    assert "Webhook set" in terminal.done(*WASH)
    assert "wash" in terminal.done("webhook", "list")
    assert "is for the owner alone" in terminal.refused("webhook", "url", "wash", code=1)
