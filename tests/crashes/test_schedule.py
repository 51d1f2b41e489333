"""At whatever step the bot dies, a job comes once, ends once, and what did not happen is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from devtools.doubles.engine import CallsTool, Says, Step
from tests.crashes.matrix import Scenario, crash_at_every_step
from tests.crashes.restarted_schedule import OVER, STARTED, RestartedSchedule
from tests.kernel.schedule.owner_actions import pings
from tests.kernel.schedule.scene import NOW, ScheduleScene
from tests.kernel.schedule.test_heads_ups import parts
from tests.kernel.schedule.webhook_calls import HOOK, WASHING, accept, data_of

from ollim_bot.kernel.changes.item_answers import answer_item
from ollim_bot.kernel.store.answer_plan_rows import open_plans
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.answer_plans import AnswerPlan
from ollim_bot.kernel.values.chat import Author
from ollim_bot.kernel.values.ledger_check import check
from ollim_bot.kernel.values.occurrences import Answer, LedgerRow, Occurrence

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
SOON = 'run-at: "2026-02-24T10:15:02+00:00"'
PING, TELL = "mcp__discord__ping_user", "mcp__discord__report_updates"
REPORT = "The day is planned."
WASHED = "The washing is done after 40 min: towels"


def job(name: str, head: str, text: str) -> dict[str, str]:
    folder = "reminders" if "run-at" in head else "routines"
    return {f"{folder}/{name}.md": f"---\nid: {name}\n{head}\n---\n{text}\n"}


def routine(head: str, text: str = "Plan the day.", name: str = "plan") -> dict[str, str]:
    return job(name, f'cron: "16 10 * * *"\n{head}', text)


def missed(name: str, cron: str) -> dict[str, str]:
    return job(name, f'cron: "{cron}"\nlate: tell', f"look at {name}")


def scenario(
    verify: Callable[[RestartedSchedule], object],
    course: Mapping[str, Any],
    jobs: Mapping[str, str],
    agent: Sequence[Step] = (),
    crosses: Sequence[str] = (),
    outcomes: frozenset[object] = frozenset({None}),
    *,
    since: str = STARTED,
) -> Scenario[RestartedSchedule]:
    """`course` has further arguments of `RestartedSchedule`.

    Without `since`, the bot also crashes at all steps of its start and its stop.
    """

    async def begin(folder: Path) -> RestartedSchedule:
        return RestartedSchedule(folder, jobs=jobs, agent=agent, **course)

    async def verified(bot: RestartedSchedule) -> object:
        now = bot.clock.now()
        assert check(bot.at.rows, now, now) == []
        return verify(bot)

    until = OVER if since else None
    return Scenario(begin, verified, since, until, crosses, outcomes=outcomes)


def said(at: ScheduleScene) -> list[str]:
    return [one.text for one in at.log if one.author is not Author.PROGRAM and not one.is_cut_off]


def is_armed(_: RestartedSchedule) -> None: ...


def end_of(at: ScheduleScene, name: str) -> str:
    """The one end of the job. A run that had called a tool is not repeated, but told."""
    (end,) = at.ended(name)
    told = ["cut off by a restart" in text for text in at.pending]
    assert told.count(True) == (end.state == "interrupted"), at.states(name)
    return end.state


def reminded_once(bot: RestartedSchedule) -> object:
    at = bot.at
    assert (at.reminders, at.states("w1")[-1]) == ([], "delivered")
    assert said(at) == ["Drink water."]
    assert [each.text for each in at.log if each.card is not None] == ["Drink water."]
    assert len(at.items) == 1
    return end_of(at, "w1")


def ran_once(bot: RestartedSchedule) -> object:
    end = end_of(bot.at, "plan")
    assert said(bot.at) in ([["Planned."]] if end == "done" else [[], ["Planned."]])
    return end


def tells_what_it_did(bot: RestartedSchedule) -> object:
    """The one end has what the log and the updates have of the run, at whatever step it died."""
    end, (row,) = ran_once(bot), bot.at.ended("plan")
    has_reported = REPORT in bot.at.pending
    sent = [each.id for each in bot.at.log if each.author is Author.BACKGROUND]
    assert row.facts.get("pings", []) == sent
    assert row.facts.get("report") == (REPORT if has_reported else None)
    assert row.facts["tools"] == ([PING, TELL] if has_reported else [PING])
    assert row.facts["attempts"] == bot.at.states("plan").count("running")
    assert row.facts["session"] in {
        one.session_id for one in bot.at.store.query(lambda tx: tx.session_history.all())
    }
    assert ("silent_because" in row.facts) is (not sent)
    if end != "interrupted":
        return end
    did = "pinged and reported" if has_reported else "pinged" if sent else "begun to act"
    (told,) = [text for text in bot.at.pending if "was cut off" in text]
    assert told.startswith(f"“Plan the day.” was cut off by a restart after it had {did}, so")
    assert "cost_usd" not in row.facts, "it is not known"
    return did


def carded_once(bot: RestartedSchedule) -> None:
    assert len(bot.at.ended("plan")) == 1
    cards = [each.text for each in bot.at.log if each.card is not None]
    assert cards == ["Take the blue pill."]
    assert len(bot.at.items) == 1


def came_each_time(bot: RestartedSchedule) -> None:
    assert len([each for each in bot.at.log if each.card is not None]) == 2
    assert parts(bot.at, "w1") == {"": "done", "2": "done"}


def announced_once(bot: RestartedSchedule) -> None:
    assert bot.at.pings == ["in 30 min: Dentist"]


def told_of_missed_once(bot: RestartedSchedule) -> object:
    at = bot.at
    ended = [name for name in ("mail", "news") if at.ended(name)]
    for words in ("\n".join(at.told), "\n".join(at.pending)):
        times = [words.count(f"look at {name}") for name in ended]
        assert times == [1] * len(ended), words
    return tuple(ended)


def told_of_cut_off_once(bot: RestartedSchedule) -> None:
    texts = [*bot.at.told, *bot.at.pending]
    assert [text.count("was cut off") for text in texts] == [1, 1]
    assert len(bot.at.ended("mail")) == 1


def called_once(bot: RestartedSchedule) -> object:
    at = bot.at
    built, (washed,) = end_of(at, "build"), at.ended("washing")
    is_cut = built == "interrupted" and "Built." not in at.pings
    assert sorted(at.pings) == ([WASHED] if is_cut else ["Built.", WASHED])
    assert washed.state == "done"
    return built


def held_once(bot: RestartedSchedule) -> object:
    """It does not come in the quiet, and afterwards once."""
    at, (service,) = bot.at, bot.services
    came = [each for each in at.log if "Planned." in each.text]
    assert sum("Planned." in each for each in service.texts) == len(came)
    end = end_of(at, "plan")
    assert len(came) in ([1] if end == "done" else [0, 1])
    assert all(each.at >= NOW.replace(minute=17) for each in came)
    return end


def held_card_once(bot: RestartedSchedule) -> None:
    (service,) = bot.services
    assert sum("Planned." in each for each in service.texts) == 1
    (card,) = (each.card for each in bot.at.log if "Planned." in each.text)
    assert card is not None
    assert card.buttons[0].label == "Done"


def reminder_is_over(at: ScheduleScene) -> bool:
    return at.reminders == [] and bool(at.ended("w1"))


def routine_is_over(at: ScheduleScene) -> bool:
    return bool(at.ended("plan")) and at.talk.state.is_quiet


def has_come(at: ScheduleScene) -> bool:
    return at.states("plan")[-1:] == ["delivered"] and at.talk.state.is_quiet


def has_heartbeat(at: ScheduleScene) -> bool:
    return at.scheduler.heartbeat_age is not None


def all_is_told(at: ScheduleScene) -> bool:
    """Whether the owner and the agent were told all."""
    is_told = bool(at.told) and at.store.query(lambda tx: tx.notices.get()).untold == ()
    return is_told and has_heartbeat(at) and bool(at.ended("mail"))


def calls_are_over(at: ScheduleScene) -> bool:
    has_ended = bool(at.ended("build") and at.ended("washing"))
    return has_ended and data_of(at, "build") == data_of(at, "washing", "two") == {}


def is_morning(at: ScheduleScene) -> bool:
    is_sent = not at.store.query(lambda tx: tx.deliveries.open("discord", 1))
    is_held = at.store.query(lambda tx: tx.held.get()).waiting
    return bool(at.ended("plan")) and not is_held and is_sent


def cut_off(*states: str) -> Callable[[Transaction], None]:
    one = Occurrence.parse("routine:mail:2026-02-24T10:16:00Z")
    rows = [LedgerRow(NOW + MINUTE, state, one) for state in ("due", "running", *states)]
    return lambda tx: tx.ledger.append(*rows)


def accepted_calls(tx: Transaction) -> None:
    accept(tx, "build", "one", {"result": "passed", "seconds": 1}, NOW)
    accept(tx, "washing", "two", {"minutes": 40, "note": "towels"}, NOW)


def quiet_hours(tx: Transaction) -> None:
    tx.config.change(lambda now: now.with_value("quiet_hours", "10:00-10:17"))


WATER = job("w1", SOON, "Drink water.")
DENTIST = job("w1", 'cron: "46 10 * * *"\nbefore: [30m]\nplain: true', "Dentist.")
PILL = "Take the blue pill."
FREELY = "background: true\nupdate-main-session: freely"
BOTH = {**missed("mail", "0 11 * * *"), **missed("news", "0 13 * * *")}
CUT_OFF = missed("mail", "16 10 * * *")
HOOKS = {"webhooks/build.md": HOOK, "webhooks/washing.md": WASHING}

# A heartbeat of the schedule is at the moment of the routines.
AT_THE_MINUTE: dict[str, Any] = {"seconds": 30.5, "start": NOW.replace(second=30)}
REMINDER: dict[str, Any] = {"is_over": reminder_is_over, "seconds": 2.5}
ROUTINE = {**AT_THE_MINUTE, "is_over": routine_is_over}
MUST = {**AT_THE_MINUTE, "is_over": has_come}
HEADS_UP = {**AT_THE_MINUTE, "is_over": lambda at: bool(at.ended("w1"))}
NAG: dict[str, Any] = {"is_over": lambda at: len(at.ended("w1")) == 2, "seconds": 125}
NIGHT: dict[str, Any] = {
    "is_over": is_morning,
    "seconds": 125,
    "then": 35,
    "prepare": quiet_hours,
    "has_service": True,
}
CALLS: dict[str, Any] = {"is_over": calls_are_over, "seconds": 1, "prepare": accepted_calls}
FIRST_START = {**AT_THE_MINUTE, "is_over": has_heartbeat, "seconds": 5, "away": 60, "is_new": True}
MISSED: dict[str, Any] = {"is_over": all_is_told, "seconds": 3, "start": NOW + HOUR}


def answered_at_once(at: ScheduleScene) -> bool:
    """Answer what is open; whether the next moment is planned."""
    for item in at.items:
        cast("Any", at.store).run(partial(answer_item, key=item.key, answer=Answer.DONE, by="web"))
    return len(at.store.query(open_plans)) == 1 and not at.items


def follows_once(bot: RestartedSchedule) -> None:
    carded_once_and_answered(bot)
    (plan,) = bot.at.store.query(open_plans).values()
    assert plan.occurrence.key == "2026-02-27T10:16:00Z"
    assert bot.at.states("plan").count("planned") == 1


def carded_once_and_answered(bot: RestartedSchedule) -> None:
    assert [row.state for row in bot.at.ended("plan")] == ["done"]
    assert len([each for each in bot.at.log if each.card is not None]) == 1
    assert bot.at.items == []


def planned_before(tx: Transaction) -> None:
    one = Occurrence.parse("routine:plan:2026-02-24T10:16:00Z")
    tx.ledger.append(AnswerPlan(one, PILL, date(2026, 2, 21)).row(tx.now))


def after_done(start: str) -> dict[str, str]:
    head = f'after-done: 3 days\nat: "10:16"\nfrom: {start}\nmust: true\nplain: true'
    return job("plan", head, PILL)


ANSWERING: dict[str, Any] = {**MUST, "is_over": answered_at_once}

ZONE_IS_KNOWN = "after a step that changes zone"
SENT = ["after remove", "due_items, fork_messages", "ledger, mirrors, updates"]
BROUGHT = ["after remove", "due_items, messages"]
PINGED = ["budget, fork_messages, messages"]
ANSWERED = ["inbox, ledger, messages"]
HELD = ["held, ledger", "held, ledger, messages"]
TOLD = ["ledger, mirrors, notices, updates"]
CUT_OR_DONE = frozenset({"done", "interrupted"})

SCENARIOS = {
    "a reminder": scenario(
        reminded_once, REMINDER, WATER, [pings("Drink water.")], SENT, CUT_OR_DONE, since=""
    ),
    "a reminder that the agent keeps back": scenario(
        reminded_once, REMINDER, WATER, [Says("I say nothing.")], BROUGHT, frozenset({"done"})
    ),
    "a routine": scenario(
        ran_once, ROUTINE, routine("background: true"), [pings("Planned.")], PINGED, CUT_OR_DONE
    ),
    "a routine that pings and reports": scenario(
        tells_what_it_did,
        ROUTINE,
        routine("background: true"),
        [pings("Planned."), CallsTool(TELL, {"message": REPORT})],
        PINGED,
        frozenset({"done", "begun to act", "pinged", "pinged and reported"}),
    ),
    "a routine in the conversation": scenario(
        ran_once, ROUTINE, routine(""), [Says("Planned.")], ANSWERED, frozenset({"done"})
    ),
    "a plain routine": scenario(
        carded_once, MUST, routine("plain: true\nbackground: true", PILL), crosses=BROUGHT[1:]
    ),
    "a routine that must come, in the conversation": scenario(
        carded_once, MUST, routine("must: true", PILL), [Says(PILL)], ["due_items, inbox, ledger"]
    ),
    "a nag": scenario(
        came_each_time, NAG, job("w1", f"{SOON}\nnag: 2m x 1\nplain: true", "Drink water.")
    ),
    "what follows an answer": scenario(follows_once, ANSWERING, after_done("2026-02-24")),
    "what an answer has planned": scenario(
        carded_once, {**MUST, "prepare": planned_before}, after_done("2026-02-21")
    ),
    "a heads-up": scenario(announced_once, HEADS_UP, DENTIST, crosses=["ledger, messages"]),
    "a message that is held": scenario(
        held_once, NIGHT, routine(FREELY), [pings("Planned.")], HELD, CUT_OR_DONE
    ),
    "a card that is held": scenario(
        held_card_once,
        NIGHT,
        routine("background: true\nplain: true", "Planned."),
        crosses=["held, ledger", "digests, due_items, held, ledger, messages"],
    ),
    "calls of webhooks": scenario(
        called_once, CALLS, HOOKS, [pings("Built.")], ["webhook_deliveries"], CUT_OR_DONE, since=""
    ),
    "the very first start": scenario(
        is_armed, FIRST_START, routine("background: true"), crosses=["ledger", "zone"], since=""
    ),
    "what was missed": scenario(
        told_of_missed_once, MISSED, BOTH, crosses=TOLD, outcomes=frozenset({("mail",)}), since=""
    ),
    # Notices come ten minutes apart.
    "what was missed, with more before the next start": scenario(
        told_of_missed_once,
        {**MISSED, "away": 3 * 3600, "then": 600},
        BOTH,
        crosses=TOLD,
        outcomes=frozenset({("mail", "news")}),
        since=ZONE_IS_KNOWN,
    ),
    "what was cut off after it had acted": scenario(
        told_of_cut_off_once,
        {**MISSED, "prepare": cut_off("effect")},
        CUT_OFF,
        crosses=TOLD,
        since=ZONE_IS_KNOWN,
    ),
    "what was cut off for the third time": scenario(
        told_of_cut_off_once,
        {**MISSED, "prepare": cut_off(*["cut_off", "running"] * 2)},
        CUT_OFF,
        crosses=TOLD,
        since=ZONE_IS_KNOWN,
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
async def test_whenever_the_bot_dies_each_job_comes_once_and_ends_once(
    tmp_path: Path, name: str
) -> None:
    await crash_at_every_step(SCENARIOS[name], tmp_path)
