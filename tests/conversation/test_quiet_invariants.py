"""During quiet nothing is shown, and all that was held comes once, in order, afterwards."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import ScriptedEngine
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conversation.delivery_scene import ping, run_of
from tests.conversation.scene import NOW, InlineExecutor, Scene, scene

from ollim_bot.domain.pings import Charge, PingAllowed, PingBudget, PingVerdict
from ollim_bot.domain.quiet import is_quiet
from ollim_bot.domain.runs import RunKind
from ollim_bot.store.steps import quiet_settings

MINUTE = 60.0
HOURS = ("off", "10:20-10:40", "10:00-11:30", "22:00-10:30")

actions = st.lists(
    st.one_of(
        st.tuples(st.just("passes"), st.integers(1, 40)),
        st.tuples(st.sampled_from(["ping", "notice"]), st.just(0)),
        st.tuples(st.just("quiet"), st.integers(1, 60)),
        st.tuples(st.just("off"), st.just(0)),
        st.tuples(st.just("hours"), st.integers(0, len(HOURS) - 1)),
    ),
    max_size=14,
)


def for_a_token(budget: PingBudget) -> tuple[PingBudget, PingVerdict]:
    return budget, PingAllowed(Charge.TOKEN)


def is_quiet_now(at: Scene) -> bool:
    return is_quiet(at.store.query(quiet_settings), at.clock.now())


async def perform(at: Scene, action: str, number: int, count: int) -> None:
    match action:
        case "passes":
            for _ in range(number):
                await at.clock.advance(MINUTE)
        case "ping":
            await at.talk.poster.send(ping(count), run_of(RunKind.BACKGROUND), for_a_token)
        case "notice":
            await at.talk.notices.tell(f"notice {count}")
        case "quiet":
            await at.chat.command("web", f"/quiet {number}m")
        case "off":
            await at.chat.command("web", "/quiet off")
        case "hours":
            await at.chat.command("web", f"/config quiet_hours {HOURS[number]}")
    await at.clock.advance(3)


async def check_history(history: list[tuple[str, int]]) -> None:
    asyncio.get_running_loop().set_default_executor(InlineExecutor())
    async with scene(ScriptedEngine(), clock=ManualClock(NOW)) as at:
        expected, shown = list[str](), 0
        for count, (action, number) in enumerate(history):
            was_quiet = is_quiet_now(at)
            await perform(at, action, number, count)
            if action in ("ping", "notice"):
                expected.append(f"{action} {count}")
            if was_quiet and is_quiet_now(at) and action != "passes":
                assert len(at.log) == shown, (action, count)
            shown = len(at.log)
        await at.chat.command("web", "/config quiet_hours off")
        await at.chat.command("web", "/quiet off")
        await at.clock.advance(15 * MINUTE)
        said = re.findall(r"(?:ping|notice) \d+", "\n".join(each.text for each in at.log))
        assert sorted(said) == sorted(expected)
        for each in at.log:
            for kind in ("ping", "notice"):
                of_one = [int(number) for number in re.findall(rf"{kind} (\d+)", each.text)]
                assert of_one == sorted(of_one)
            assert each.text.startswith("While it was quiet") == each.id.startswith("digest-")


@settings(max_examples=25, deadline=None)
@given(actions)
def test_nothing_is_shown_in_the_quiet_and_all_of_it_comes_once_in_order(
    history: list[tuple[str, int]],
) -> None:
    asyncio.run(check_history(history))


@pytest.mark.usefixtures("inline_executor")
async def test_what_a_digest_has_brought_is_not_sent_again() -> None:
    message = replace(ping(), occurrence="routine:plan:2026-02-24T10:15:00Z")
    async with scene(ScriptedEngine(), clock=ManualClock(NOW)) as at:
        await at.chat.command("web", "/quiet 1h")
        for _ in range(2):
            await at.talk.poster.send(message, run_of(RunKind.BACKGROUND), for_a_token)
        await at.chat.command("web", "/quiet off")
        await at.until(lambda: at.log)
        await at.talk.poster.send(message, run_of(RunKind.BACKGROUND), for_a_token)
        assert [each.text for each in at.log] == ["While it was quiet:\n- 10:15 · ping 7"]
        assert [row.state for row in at.stores.ledger.read().entries] == ["held", "released"]
