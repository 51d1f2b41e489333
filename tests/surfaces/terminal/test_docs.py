"""The pages about the command line show what the commands really say, in the order of the pages."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import groupby
from pathlib import Path

import pytest
from tests.terminal import Terminal, is_here

from ollim_bot.features.jobs.job_arguments import ID, MESSAGE
from ollim_bot.features.jobs.reminder_command import ReminderNoun
from ollim_bot.features.jobs.routine_command import RoutineNoun
from ollim_bot.features.webhooks.webhook_command import WebhookNoun
from ollim_bot.kernel.base.instance import single_instance

DOCS = Path(__file__).parents[3] / "docs"
PAGE = "".join((DOCS / name).read_text() for name in ("cli.md", "json.md"))


def examples() -> Iterator[tuple[list[str], str]]:
    """Each command of the page, and the output that the page shows for it."""
    for block in re.findall(r"^```console\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE):
        for command, answer in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            yield shlex.split(command)[1:], answer


@pytest.mark.real_engine
def test_every_example_is_real(terminal: Terminal) -> None:
    terminal.environ |= {"WEBHOOK_PORT": "9100", "WEBHOOK_SECRET": "a-long-random-text"}
    terminal.keep(lambda tx: tx.channels.join("discord", ""))
    # The bot runs during all commands, except for the one that starts it.
    for is_command, group in groupby(examples(), lambda example: bool(example[0])):
        with single_instance(terminal.paths.bot_pid) if is_command else nullcontext():
            for words, shown in group:
                if not is_here("".join(words[:1])):
                    continue
                answer = terminal.run(*words)
                told = (answer.out + answer.err).replace(str(terminal.home), "/home/ada")
                assert told == shown


def test_every_flag_of_a_job_is_explained() -> None:
    explained = set(re.findall(r"^\| (`-.*?`) \| (?:the text|`([\w-]+)`) \|", PAGE, re.MULTILINE))
    names = {name.strip("`") for row, _ in explained for name in row.split(", ")}
    own = (*RoutineNoun.flags, *ReminderNoun.flags, *WebhookNoun.flags)
    flags = (MESSAGE, *ReminderNoun().common, ID, *own)
    assert names == {name for flag in flags for name in flag.names}
