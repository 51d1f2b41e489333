"""The tools of reminders: their answers match the files, and a chain ends."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel.store.files.data_directory import DataDirectory, QuickDisk
from tests.kernel.tools.server.tool_scene import (
    BACKGROUND,
    BERLIN,
    EVERYWHERE,
    NOW,
    NOWHERE,
    MakeToolScene,
    ToolScene,
    make_tool_scene,
)
from tests.kernel.values.strategies import reminders
from tests.stores import Stores, memory_stores

from ollim_bot.kernel.base.errors import BadJob, DuplicateId, WrongInput
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import Nag, later
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.chat import Author
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.due_items import DueItem
from ollim_bot.kernel.values.initiative import MOST_CHECKS, SetByAgent
from ollim_bot.kernel.values.jobs import Chain, ItemKind, JobSpec, Reminder, Routine
from ollim_bot.kernel.values.occurrences import Answer, Occurrence
from ollim_bot.kernel.values.runs import RunKind, taint_of_job
from ollim_bot.kernel.values.taint import Taint

TOMORROW = datetime(2026, 11, 17, 9, tzinfo=BERLIN)


@pytest.fixture
def data(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    return DataDirectory(tmp_path_factory.mktemp("real") / "data")


@pytest.mark.parametrize("kind", EVERYWHERE)
async def test_everywhere_it_answers_with_id_file_and_moment_in_words(
    tool_scene: MakeToolScene, kind: RunKind
) -> None:
    at = tool_scene(kind)
    answer = await at.works("add_reminder", prompt="Call mum", run_at="tomorrow 9am")
    (one,) = at.stores.reminders.all()
    assert re.fullmatch("[0-9a-f]{8}", one.item.spec.id)
    words = "tomorrow 9:00 (in 1 d)"
    first, _, _ = answer.partition("\n")
    assert first == f"Reminder {one.item.spec.id} set: {words}. File: {one.path}"
    assert one.item.due(BERLIN) == TOMORROW


async def test_it_says_when_others_come_at_the_same_moment(tool_scene: MakeToolScene) -> None:
    at = tool_scene(RunKind.MAIN)
    for _ in range(2):
        answer = await at.works("add_reminder", prompt="Call mum", run_at="tomorrow 9am")
        assert "\n" not in answer
    answer = await at.works("add_reminder", prompt="Call dad", run_at="tomorrow 9am")
    assert answer.splitlines()[1:] == ["That is when 2 others run."]


def at_night(tx: Transaction) -> None:
    tx.config.change(lambda config: config.with_value("quiet_hours", "22:00-07:00"))


async def test_for_a_quiet_moment_it_is_set_at_once_and_the_owner_may_move_it(
    tool_scene: MakeToolScene,
) -> None:
    at = tool_scene(RunKind.MAIN)
    at.stores.state.run(at_night)
    answer = await at.works("add_reminder", prompt="Call mum", run_at="today 23:30")
    (one,) = at.stores.reminders.all()
    assert one.item.due(BERLIN) == NOW.replace(hour=23, minute=30)
    assert "today 23:30 (in 14 h 30 min), in your quiet hours. File:" in answer
    assert "The owner has a button that moves it to 7:00." in answer
    ((offer, _),) = at.poster.sent.values()
    assert offer.author is Author.PROGRAM
    assert offer.card is not None
    assert offer.card.title == "Call mum: today 23:30 (in 14 h 30 min), in your quiet hours"
    (button,) = offer.card.buttons
    end = datetime(2026, 11, 17, 7, tzinfo=BERLIN)
    assert (button.label, button.action) == ("Move to 7:00", "move")
    assert button.data == f"reminder:{one.item.spec.id}:{int(end.timestamp())}"


async def test_a_run_in_the_background_offers_the_owner_nothing(tool_scene: MakeToolScene) -> None:
    at = tool_scene(RunKind.BACKGROUND)
    at.stores.state.run(at_night)
    answer = await at.works("add_reminder", prompt="Call mum", run_at="today 23:30")
    assert "in your quiet hours. File:" in answer
    assert at.poster.sent == {}


async def test_it_says_when_the_pings_would_not_suffice(tool_scene: MakeToolScene) -> None:
    at, many = tool_scene(RunKind.MAIN), {"max_chain": 1, "run_at": "tomorrow 9am"}
    answers = [await at.works("add_reminder", prompt="Call mum", **many) for _ in range(6)]
    assert "budget" not in answers[4]
    assert answers[5].endswith("The ping budget would run dry tomorrow.")


async def test_a_timer_is_in_its_file_and_in_the_answer(data: DataDirectory) -> None:
    at = make_tool_scene(data.paths.root, RunKind.MAIN, stores=data.open(QuickDisk()))
    timer = {"prompt": "Brot für Jürgen", "delay_minutes": 25, "timer": True}
    file = (await at.works("add_reminder", **timer)).splitlines()[0].rpartition("File: ")[2]
    text = (data.paths.root / file).read_text()
    assert "set-at: 2026-11-16T09:00:00+01:00" in text.replace('"', "")
    assert "run-at: 2026-11-16T09:25:01+01:00" in text.replace('"', "")
    (one,) = at.stores.reminders.all()
    assert one.item.spec.plain


@pytest.mark.parametrize(
    ("prompt", "is_plain"), [("Call mum", True), ("Look up the trains to Bern.", False)]
)
async def test_what_is_not_said_the_words_decide_and_it_must_come(
    tool_scene: MakeToolScene, prompt: str, is_plain: bool
) -> None:
    at = tool_scene(RunKind.MAIN)
    await at.works("add_reminder", prompt=f" {prompt} ", delay_minutes=90)
    (one,) = at.stores.reminders.all()
    spec = JobSpec(id=one.item.spec.id, message=prompt, background=True, plain=is_plain)
    assert one.item == Reminder(spec, later(at.clock.now(), timedelta(minutes=90)))
    assert one.item.must


async def test_everything_that_is_said_is_kept(tool_scene: MakeToolScene) -> None:
    at = tool_scene(RunKind.MAIN)
    await at.works(
        "add_reminder",
        prompt="Has Ann answered?\nLook at the mail.",
        run_at="2026-11-17T09:00",
        description="Ann's\nanswer",
        foreground=True,
        max_chain=3,
        must=True,
    )
    (one,) = at.stores.reminders.all()
    assert one.item.spec == JobSpec(
        id=one.item.spec.id,
        message="Has Ann answered?\nLook at the mail.",
        description="Ann's answer",
        background=False,
        must=True,
    )
    assert one.item.chain == Chain(3)
    assert one.item.must


SOON: dict[str, object] = {"delay_minutes": 5}


@pytest.mark.same_fixtures
@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({}, "in one way: `delay_minutes`, or `run_at`"),
        ({"delay_minutes": 5, "run_at": "tomorrow 9am"}, "in one way"),
        ({"run_at": "2026-11-15T09:00"}, "1 d ago"),
        ({"run_at": "yesterday"}, "does not lie ahead"),
        ({"run_at": "soonish"}, "tomorrow 9am"),
        ({"run_at": "tomorrow at 3"}, "tomorrow"),
        ({"delay_minutes": 0}, "more than 0"),
        ({"delay_minutes": -5}, "more than 0"),
        ({"delay_minutes": 1e300}, "ten years"),
        ({**SOON, "prompt": " "}, "needs words"),
        ({**SOON, "nag": "often"}, "nag:"),
        ({**SOON, "before": ["soon"]}, "before:"),
        ({**SOON, "nag": "10m x 4", "max_chain": 2}, "cannot be combined with max-chain"),
        ({**SOON, "max_chain": 5000}, "max-chain"),
    ],
)
async def test_what_cannot_be_is_refused_with_the_reason(
    data: DataDirectory, said: dict[str, object], reason: str
) -> None:
    at = make_tool_scene(data.paths.root, stores=data.open(QuickDisk()))
    with pytest.raises((WrongInput, BadJob), match=re.escape(reason)):
        await at.call("add_reminder", **{"prompt": "Call mum", **said})
    assert at.stores.reminders.all() == []


async def test_an_empty_moment_beside_a_delay_is_none(tool_scene: MakeToolScene) -> None:
    at = tool_scene()
    await at.works("add_reminder", prompt="Call mum", delay_minutes=5, run_at="")
    assert len(at.stores.reminders.all()) == 1


@given(st.floats(0.001, 100_000), st.integers(0, 999_999))
async def test_a_delay_ends_on_a_second_and_never_early(minutes: float, microsecond: int) -> None:
    at = make_tool_scene(NOWHERE)
    at.clock.jump(microsecond / 1e6)
    await at.works("add_reminder", prompt="Call mum", delay_minutes=minutes)
    (one,) = at.stores.reminders.all()
    late = one.item.due(BERLIN) - (at.clock.now() + timedelta(minutes=minutes))
    assert one.item.run_at.microsecond == 0
    assert timedelta(0) <= late < timedelta(seconds=1)


async def test_with_real_files_the_answer_names_the_file_below_the_data_directory(
    data: DataDirectory,
) -> None:
    at = make_tool_scene(data.paths.root, stores=data.open(QuickDisk()))
    answer = await at.works("add_reminder", prompt="Call mum", delay_minutes=20, max_chain=2)
    file = answer.splitlines()[0].rpartition("File: ")[2]
    assert file.startswith("reminders/")
    assert "Call mum" in (data.paths.root / file).read_text()
    listed = await at.works("list_reminders")
    assert f"({file})" in listed
    assert str(data.paths.root) not in listed


async def test_the_list_has_id_moment_description_and_file_the_next_one_first(
    tool_scene: MakeToolScene,
) -> None:
    at = tool_scene()
    assert await at.works("list_reminders") == "There are no reminders."
    late = Reminder(JobSpec(id="b", message="Water\nthe plants"), datetime(2026, 11, 17, 9))
    soon = Reminder(JobSpec(id="c", message="m", description="Call mum"), NOW + timedelta(hours=1))
    paused = Reminder(JobSpec(id="d", message="Run", enabled=False), datetime(2026, 11, 18, 9))
    for reminder in (late, soon, paused):
        at.stores.reminders.add(reminder)
    assert (await at.works("list_reminders")).splitlines() == [
        "- c · today 10:00 (in 1 h) · Call mum (reminders/c.md)",
        "- b · tomorrow 9:00 (in 1 d) · Water the plants (reminders/b.md)",
        "- d · Wed 18 Nov 09:00 (in 2 d) · paused · Run (reminders/d.md)",
    ]


async def test_the_next_one_comes_first_also_in_the_hour_that_comes_twice(
    tool_scene: MakeToolScene,
) -> None:
    at = tool_scene()
    # 2:30 and then, when the clocks have gone back, 2:15.
    first = datetime(2027, 10, 31, 0, 30, tzinfo=UTC)
    second = first + timedelta(minutes=45)
    for reminder_id, moment in (("b", second), ("a", first)):
        at.stores.reminders.add(Reminder(JobSpec(id=reminder_id, message="m"), moment))
    listed = await at.works("list_reminders")
    assert [line[2] for line in listed.splitlines()] == ["a", "b"]


async def test_a_file_that_cannot_be_understood_is_named_in_the_list(data: DataDirectory) -> None:
    at = make_tool_scene(data.paths.root, stores=data.open(QuickDisk()))
    await at.works("add_reminder", prompt="Call mum", delay_minutes=20)
    (data.paths.reminders / "bad.md").write_text("---\nid: bad\nrun-at: soonish\n---\nHm\n")
    listed = await at.works("list_reminders")
    assert "Call mum" in listed
    assert "bad.md" in listed


@pytest.mark.parametrize("kind", EVERYWHERE)
async def test_a_cancelled_reminder_is_gone(tool_scene: MakeToolScene, kind: RunKind) -> None:
    at = tool_scene(kind)
    at.stores.reminders.add(Reminder(JobSpec(id="c", message="Call mum"), TOMORROW))
    assert await at.works("cancel_reminder", reminder_id=" c ") == "Cancelled: Call mum."
    assert at.stores.reminders.all() == []
    reason = await at.is_refused("cancel_reminder", reminder_id="c")
    assert reason == "There is no reminder c. `list_reminders` shows them all."


async def test_a_reminder_is_cancelled_by_its_words_if_only_one_fits(
    tool_scene: MakeToolScene,
) -> None:
    at = tool_scene(RunKind.MAIN)
    for name, words in (("c", "Call mum"), ("d", "Call dad")):
        at.stores.reminders.add(Reminder(JobSpec(id=name, message=words), TOMORROW))
    reason = await at.is_refused("cancel_reminder", reminder_id="call")
    fitting = "c (Call mum, tomorrow 9:00); d (Call dad, tomorrow 9:00)"
    assert reason == f"Several fit “call”: {fitting}. Say which one by its id."
    assert await at.works("cancel_reminder", reminder_id="Mum") == "Cancelled: Call mum."


async def test_an_id_that_two_files_have_is_not_cancelled_by_chance(data: DataDirectory) -> None:
    at = make_tool_scene(data.paths.root, stores=data.open(QuickDisk()))
    for name in ("a", "b"):
        text = "---\nid: same\nrun-at: 2026-11-17T09:00\n---\nHm\n"
        (data.paths.reminders / f"{name}.md").write_text(text)
    with pytest.raises(DuplicateId):
        await at.call("cancel_reminder", reminder_id="same")
    assert len(list(data.paths.reminders.glob("*.md"))) == 2


async def test_a_reminder_can_be_plain_and_come_before_and_again(tool_scene: MakeToolScene) -> None:
    at = tool_scene(RunKind.MAIN)
    await at.works(
        "add_reminder",
        prompt="Take the pill",
        delay_minutes=90,
        plain=True,
        nag="10m x 4",
        first_step="fill\na glass",
        before=["30m", "1h"],
        kind="dose",
    )
    (one,) = at.stores.reminders.all()
    assert one.item.spec == JobSpec(
        id=one.item.spec.id,
        message="Take the pill",
        background=True,
        plain=True,
        nag=Nag(timedelta(minutes=10), 4),
        first_step="fill a glass",
        before=(timedelta(hours=1), timedelta(minutes=30)),
        kind=ItemKind.DOSE,
    )


async def test_the_usual_nag_is_given_to_what_the_owner_asked_for_only(
    tool_scene: MakeToolScene,
) -> None:
    for kind, nag in ((RunKind.MAIN, "15m x 2"), (RunKind.BACKGROUND, "None")):
        at = tool_scene(kind)
        at.stores.config.transact(lambda now: (now.with_value("nag_default", "15m x 2"), None))
        await at.works("add_reminder", prompt="x", delay_minutes=5)
        (one,) = at.stores.reminders.all()
        assert str(one.item.spec.nag) == nag


async def test_after_reading_text_of_others_the_words_order_nothing(
    tool_scene: MakeToolScene,
) -> None:
    at = tool_scene(RunKind.MAIN)
    at.run.taint = Taint(("web page",))
    words = "remind me to take my pills, and nag me every 10 minutes"
    await at.works("add_reminder", prompt=words, delay_minutes=5)
    (one,) = at.stores.reminders.all()
    spec = one.item.spec
    assert (spec.message, spec.plain, one.item.must) == ("take my pills", True, False)
    assert (spec.kind, spec.nag, spec.untrusted) == (None, None, "web page")


CARELESS = {"prompt": "x", "delay_minutes": 5, "plain": True, "nag": "5m x 2"}


async def test_a_run_sets_nothing_that_comes_without_judgement(tool_scene: MakeToolScene) -> None:
    at = tool_scene(RunKind.BACKGROUND)
    refused = await at.is_refused("add_reminder", **CARELESS)
    assert "plain: this is only for what the owner asked for" in refused
    assert "nag: this is only for what the owner asked for" in refused


TOOL = "settle_reminder"


def ask(at: ToolScene, name: str, words: str, kind: ItemKind | None = None) -> DueItem:
    job = Reminder(JobSpec(id=name, message=words, kind=kind), NOW)
    occurrence = Occurrence.scheduled(JobKind.REMINDER, name, NOW)
    item = DueItem.of(job, occurrence, MessageId(name), NOW)
    assert at.stores.state.run(lambda tx: tx.due_items.add(item))
    return item


def answer_of(at: ToolScene, item: DueItem) -> Answer | None:
    found = at.stores.state.query(lambda tx: tx.due_items.get(item.key))
    return found.answer if found else None


@pytest.mark.parametrize("kind", [RunKind.MAIN, RunKind.FORK])
async def test_a_reminder_is_settled_by_its_words_or_its_key(
    tool_scene: MakeToolScene, kind: RunKind
) -> None:
    at = tool_scene(kind)
    water, mum = ask(at, "w", "Drink water."), ask(at, "m", "Call mum.")
    assert "✓ Drink water · 9:00" in await at.works(TOOL, item="water", action="done")
    assert (answer_of(at, water), answer_of(at, mum)) == (Answer.DONE, None)
    await at.works(TOOL, item=mum.key, action="snooze", until="in 1 hour")
    (copy,) = at.stores.reminders.all()
    assert copy.item.run_at == later(at.clock.now(), timedelta(hours=1))


async def test_what_may_mean_two_is_asked_back(tool_scene: MakeToolScene) -> None:
    at = tool_scene(RunKind.MAIN)
    ask(at, "m", "Call mum.")
    ask(at, "d", "Call dad.")
    with pytest.raises(WrongInput, match=r"“Call mum.” .*, “Call dad.” "):
        await at.call(TOOL, item="call", action="done")
    await at.works(TOOL, item="mum", action="done")
    await at.works(TOOL, item="dad", action="done")
    with pytest.raises(WrongInput, match=r"“Call mum.” .*, “Call dad.” "):
        await at.call(TOOL, item="call", action="undo")


async def test_a_dose_that_is_done_is_taken(tool_scene: MakeToolScene) -> None:
    at = tool_scene(RunKind.MAIN)
    pill = ask(at, "p", "Pill", ItemKind.DOSE)
    await at.works(TOOL, item="Pill", action="done")
    assert answer_of(at, pill) is Answer.TAKEN
    with pytest.raises(WrongInput, match="No reminder waits"):
        await at.call(TOOL, item="Pill", action="done")


@pytest.mark.parametrize(
    ("action", "kind", "answer"),
    [
        ("done", None, Answer.DONE),
        ("not_today", None, Answer.MOVED),
        ("let_go", None, Answer.LET_GO),
        ("not_today", ItemKind.DOSE, Answer.NOT_TAKEN),
        ("let_go", ItemKind.DOSE, Answer.NOT_TAKEN),
    ],
)
async def test_each_action_is_that_of_its_button_and_can_be_undone(
    tool_scene: MakeToolScene, action: str, kind: ItemKind | None, answer: Answer
) -> None:
    at = tool_scene(RunKind.MAIN)
    item = ask(at, "p", "Pill", kind)
    await at.works(TOOL, item="pill", action=action)
    assert answer_of(at, item) is answer
    moved = [each.item.run_at for each in at.stores.reminders.all()]
    assert moved == ([NOW + timedelta(days=1)] if answer is Answer.MOVED else [])
    assert "Open again" in await at.works(TOOL, item="pill", action="undo")
    assert answer_of(at, item) is None
    assert not at.stores.reminders.all()
    assert not at.stores.state.query(lambda tx: tx.updates.get()).entries
    with pytest.raises(WrongInput, match="can be taken back any more"):
        await at.call(TOOL, item="pill", action="undo")


async def test_putting_off_needs_a_moment_and_a_background_run_settles_nothing(
    tool_scene: MakeToolScene,
) -> None:
    at = tool_scene(RunKind.MAIN)
    pill = ask(at, "p", "Pill")
    with pytest.raises(WrongInput, match="until when"):
        await at.call(TOOL, item="Pill", action="snooze")
    alone = tool_scene(RunKind.BACKGROUND)
    await alone.is_refused(TOOL, item="Pill", action="done")
    assert answer_of(at, pill) is None


PLAN = Routine(JobSpec(id="plan", message="Plan.", background=True), Cron.parse("0 9 * * *"))


def run_of(root: Path, stores: Stores, number: int = 1, *, allow_ping: bool = True) -> ToolScene:
    at = make_tool_scene(root, job=PLAN, stores=stores, allow_ping=allow_ping)
    at.context.run.occurrence = f"routine:plan:2026-11-16T08:0{number}:00Z"
    return at


def only(stores: Stores) -> Reminder:
    (one,) = stores.reminders.all()
    return one.item


async def set_one(at: ToolScene, **more: object) -> str:
    answer = await at.call("add_reminder", prompt="Call mum", delay_minutes=5, **more)
    return answer.text if answer.is_error else ""


async def test_it_is_marked_and_says_what_it_costs(tmp_path: Path) -> None:
    stores = memory_stores(NOW)
    at = run_of(tmp_path, stores)
    answer = await at.works("add_reminder", prompt="Call mum", delay_minutes=5)
    assert "it takes a ping of the budget when it is due" in answer
    assert (only(stores).spec.set_by, only(stores).must) == ("routine:plan", False)
    assert "set by routine:plan" in await at.works("list_reminders")


async def test_the_fourth_of_a_run_and_the_eleventh_of_a_day_are_refused(tmp_path: Path) -> None:
    stores = memory_stores(NOW)
    said = [await set_one(run_of(tmp_path, stores, n)) for n in range(1, 5) for _ in range(4)]
    assert [bool(each) for each in said[:4]] == [False, False, False, True]
    assert "Leave the rest with `report_updates`, or end without it." in said[3]
    assert len(stores.reminders.all()) == 10
    assert said[-1].startswith("All runs of a job set 10 jobs a day at most")


@pytest.mark.parametrize("said", [{"must": True}, {"foreground": True}])
async def test_an_order_or_a_turn_of_the_conversation_is_not_its_to_set(
    tmp_path: Path, said: dict[str, object]
) -> None:
    stores = memory_stores(NOW)
    assert await set_one(run_of(tmp_path, stores), **said)
    assert stores.reminders.all() == []
    assert stores.state.query(lambda tx: tx.initiative.get()) == SetByAgent()


async def test_in_the_conversation_it_is_what_the_owner_asked_for(
    tool_scene: MakeToolScene,
) -> None:
    for kind in (RunKind.MAIN, RunKind.FORK):
        at = tool_scene(kind)
        for _ in range(12):
            assert await set_one(at) == ""
        assert {one.item.spec.set_by for one in at.stores.reminders.all()} == {None}
        assert at.stores.state.query(lambda tx: tx.initiative.get()) == SetByAgent()
    assert RunKind.MAIN not in BACKGROUND


async def test_a_run_by_hand_is_bounded_too(tmp_path: Path) -> None:
    stores = memory_stores(NOW)
    at = run_of(tmp_path, stores)
    at.context.run = replace(at.context.run, occurrence="routine:plan:2026-11-16T08:01:00Z:manual")
    assert [bool(await set_one(at)) for _ in range(4)] == [False, False, False, True]


CHECK = Reminder(JobSpec(id="root", message="Has Ann answered?", background=True), NOW, Chain(2))


@pytest.mark.parametrize("kind", EVERYWHERE)
async def test_the_next_check_is_set_in_whatever_run_a_check_happens(
    tool_scene: MakeToolScene, kind: RunKind
) -> None:
    at = tool_scene(kind, job=CHECK)
    answer = await at.works("follow_up_chain", minutes_from_now=30)
    (one,) = at.stores.reminders.all()
    assert answer == f"Next check set: today 9:30 (in 30 min). File: {one.path}"
    assert one.item.chain == Chain(2, 1, "root")
    assert one.item.run_at == later(at.clock.now(), timedelta(minutes=30))
    assert at.run.follow_up == one.item.spec.id


@settings(max_examples=12)
@given(reminders, st.integers(1, 20))
async def test_a_follow_up_inherits_everything_but_its_name_its_moment_and_its_depth(
    job: Reminder, left: int
) -> None:
    is_bounded = job.spec.set_by is not None or job.spec.untrusted is not None
    depth = min(job.chain.depth, MOST_CHECKS - 2) if is_bounded else job.chain.depth
    chain = Chain(depth + left, depth, job.chain.parent)
    job = replace(job, chain=chain)
    at = make_tool_scene(NOWHERE, job=job)
    await at.works("follow_up_chain", minutes_from_now=30)
    (one,) = at.stores.reminders.all()
    assert replace(one.item.spec, id=job.spec.id) == job.spec
    assert one.item.chain == Chain(chain.max, chain.depth + 1, chain.parent or job.spec.id)
    assert one.item.due(BERLIN) == later(at.clock.now(), timedelta(minutes=30))


async def test_a_second_call_takes_the_place_of_the_first(tool_scene: MakeToolScene) -> None:
    at = tool_scene(job=CHECK)
    await at.works("follow_up_chain", minutes_from_now=30)
    await at.works("follow_up_chain", minutes_from_now=60)
    (one,) = at.stores.reminders.all()
    assert one.item.run_at == later(at.clock.now(), timedelta(hours=1))
    assert one.item.chain.depth == 1
    assert at.run.follow_up == one.item.spec.id


async def test_a_second_call_that_is_wrong_leaves_the_first(tool_scene: MakeToolScene) -> None:
    at = tool_scene(job=CHECK)
    await at.works("follow_up_chain", minutes_from_now=30)
    with pytest.raises(WrongInput, match="more than 0"):
        await at.call("follow_up_chain", minutes_from_now=0)
    (one,) = at.stores.reminders.all()
    assert one.item.run_at == later(at.clock.now(), timedelta(minutes=30))


async def test_a_second_call_does_not_mind_that_the_first_was_cancelled(
    tool_scene: MakeToolScene,
) -> None:
    at = tool_scene(job=CHECK)
    await at.works("follow_up_chain", minutes_from_now=30)
    at.stores.reminders.remove(str(at.run.follow_up))
    await at.works("follow_up_chain", minutes_from_now=60)
    assert len(at.stores.reminders.all()) == 1


async def test_a_chain_has_one_check_more_than_follow_ups_and_ends_with_advice(
    tool_scene: MakeToolScene,
) -> None:
    answers = []
    for depth in range(4):
        job = replace(CHECK, chain=Chain(2, depth))
        answers.append(await tool_scene(job=job).call("follow_up_chain", minutes_from_now=5))
    assert [answer.is_error for answer in answers] == [False, False, True, True]
    assert "last check" in answers[2].text
    assert "ping the owner" in answers[2].text


@pytest.mark.parametrize(
    "job",
    [
        None,
        replace(CHECK, chain=Chain()),
        Routine(JobSpec(id="r", message="Plan the day"), Cron.parse("0 9 * * *")),
    ],
)
async def test_where_there_is_no_chain_a_reminder_is_the_way(
    tool_scene: MakeToolScene, job: Reminder | Routine | None
) -> None:
    at = tool_scene(job=job)
    reason = await at.is_refused("follow_up_chain", minutes_from_now=5)
    assert "Use `add_reminder`" in reason
    assert at.stores.reminders.all() == []


BY_RUN = replace(CHECK, spec=replace(CHECK.spec, set_by="routine:plan"))


@pytest.mark.parametrize(
    ("job", "read", "asked", "minutes"),
    [(BY_RUN, (), 0.0001, 5), (CHECK, ("mail",), 1, 5), (CHECK, (), 0.001, 1), (BY_RUN, (), 5, 5)],
)
async def test_a_pause_that_is_too_short_is_raised_and_the_answer_says_so(
    tool_scene: MakeToolScene, job: Reminder, read: tuple[str, ...], asked: float, minutes: int
) -> None:
    at = tool_scene(job=job)
    at.run.taint = Taint(read) if read else taint_of_job(job)
    answer = await at.works("follow_up_chain", minutes_from_now=asked)
    (one,) = at.stores.reminders.all()
    assert one.item.run_at == later(at.clock.now(), timedelta(minutes=minutes))
    is_said = f"The shortest pause here is {minutes} min, so it was raised" in answer
    assert is_said is (asked < minutes)
