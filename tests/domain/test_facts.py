"""Small facts: each change keeps all the others, and nothing that stands there can do harm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.domain.strategies import instants, json_values, session_ids, texts

from ollim_bot.domain.chat import MessageId
from ollim_bot.domain.facts import MOST_DRAFTS, MOST_TOLD, Facts, Move
from ollim_bot.domain.jobs import JobKind
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.sessions import SessionId
from ollim_bot.domain.tool_policy import Pattern

NOW = datetime(2026, 2, 24, 10, 15, tzinfo=UTC)
NAMES = (
    *("provider", "parked", "moving", "user_name", "bot_name"),
    *("web_read", "heartbeat", "told", "last_told_at", "granted", "skips"),
    *("discord_last_seen", "discord_commands", "discord_drafts"),
)

kinds = st.sampled_from(["offline", "claude", "ollama"])
names = st.text(min_size=1)
refs = st.integers(0, 10**20 - 1).map(str)
patterns = st.sampled_from(["Bash(git status *)", "Write(./notes/**)", "Skill"]).map(Pattern.of)
anything = st.dictionaries(st.sampled_from([*NAMES, "seen_on_discord"]), json_values)

scheduled_occurrences = st.builds(
    Occurrence.scheduled,
    st.sampled_from([JobKind.ROUTINE, JobKind.REMINDER]),
    st.sampled_from(["plan", "w1"]),
    instants,
)

Change = Callable[[Facts], Facts]
changes: st.SearchStrategy[Change] = st.one_of(
    st.builds(
        lambda kind, current: lambda facts: facts.moving_to(kind, current),
        kinds,
        st.none() | session_ids,
    ),
    st.just(Facts.moved),
    st.builds(
        lambda user, bot: lambda facts: facts.named(user_name=user, bot_name=bot),
        st.none() | names,
        st.none() | names,
    ),
    st.builds(lambda read: lambda facts: facts.read_up_to(MessageId(read)), names),
    st.builds(lambda now: lambda facts: facts.beaten(now), instants),
    st.builds(
        lambda keys, now: lambda facts: facts.having_told(keys, now), st.lists(texts), instants
    ),
    st.builds(lambda key: lambda facts: facts.without_told(key), texts),
    st.builds(lambda one: lambda facts: facts.granting(one), patterns),
    st.just(Facts.without_grants),
    st.builds(
        lambda one, now: lambda facts: facts.skipping(one, now), scheduled_occurrences, instants
    ),
    st.builds(lambda job: lambda facts: facts.without_skip(job), texts),
    st.builds(lambda ref: lambda facts: facts.seen_on_discord(ref), refs),
    st.builds(lambda mark: lambda facts: facts.with_discord_commands(mark), names),
    st.builds(lambda ref: lambda facts: facts.with_draft(ref), refs),
    st.builds(lambda ref: lambda facts: facts.without_draft(ref), refs),
)


def seen(facts: Facts) -> Mapping[str, object]:
    return {name: getattr(facts, name) for name in NAMES}


@given(anything, changes)
def test_whatever_stands_there_can_be_read_and_changed(
    raw: dict[str, object], change: Change
) -> None:
    seen(Facts(raw))
    seen(change(Facts(raw)))


@given(st.dictionaries(st.text("xyz", min_size=1), json_values), st.lists(changes))
def test_facts_that_nobody_here_knows_are_kept(
    unknown: dict[str, object], steps: list[Change]
) -> None:
    facts = Facts(unknown)
    for step in steps:
        facts = step(facts)
    assert {name: facts.raw.get(name) for name in unknown} == unknown


@given(st.lists(changes), names, instants)
def test_each_fact_is_what_it_was_last_set_to(
    steps: list[Change], name: str, now: datetime
) -> None:
    facts = Facts({})
    for step in steps:
        facts = step(facts)
    assert facts.named(user_name=name, bot_name=None).user_name == name
    assert facts.named(user_name=name, bot_name=None).bot_name is None
    assert facts.read_up_to(MessageId(name)).web_read == name
    assert facts.beaten(now).heartbeat == now
    told = facts.having_told([name], now)
    assert told.told[name] == told.last_told_at == now
    assert name not in told.without_told(name).told
    assert told.without_told(name).last_told_at == now
    assert facts.with_discord_commands(name).discord_commands == name


@given(st.lists(st.tuples(st.integers(0, 300).map(str), instants), max_size=400))
def test_only_the_newest_of_what_was_told_are_remembered(
    tellings: list[tuple[str, datetime]],
) -> None:
    facts = Facts({})
    for key, now in tellings:
        facts = facts.having_told([key], now)
    newest = list(dict.fromkeys(key for key, _ in reversed(tellings)))[:MOST_TOLD]
    assert list(facts.told) == newest[::-1]


@given(st.lists(changes), scheduled_occurrences)
def test_a_skip_holds_for_its_moment_alone_until_it_is_taken_back(
    steps: list[Change], occurrence: Occurrence
) -> None:
    facts = Facts({})
    for step in steps:
        facts = step(facts)
    skipping = facts.skipping(occurrence, NOW)
    moment = occurrence.scheduled_at
    assert moment is not None
    kind, job = occurrence.kind, occurrence.job_id
    assert skipping.is_skipped(occurrence)
    assert not skipping.is_skipped(Occurrence.scheduled(kind, job, moment + timedelta(minutes=1)))
    assert not skipping.is_skipped(Occurrence.scheduled(kind, "other", moment))
    assert not skipping.is_skipped(Occurrence.by_hand(kind, job, moment))
    assert not skipping.without_skip(f"{kind}:{job}").is_skipped(occurrence)


def test_a_skip_whose_moment_never_came_is_forgotten() -> None:
    old = Occurrence.scheduled(JobKind.ROUTINE, "plan", NOW)
    new = Occurrence.scheduled(JobKind.ROUTINE, "other", NOW + timedelta(days=31))
    facts = Facts({}).skipping(old, NOW)
    assert facts.skipping(new, NOW + timedelta(days=29)).is_skipped(old)
    assert not facts.skipping(new, NOW + timedelta(days=30)).is_skipped(old)


def test_of_more_than_two_hundred_the_first_is_forgotten() -> None:
    facts = Facts({}).having_told(map(str, range(MOST_TOLD)), NOW)
    assert "0" in facts.told
    facts = facts.having_told(["new"], NOW - timedelta(days=400))
    assert "0" not in facts.told
    assert list(facts.told)[-1] == "new"
    assert len(facts.told) == MOST_TOLD


@given(st.lists(refs, min_size=1))
def test_what_was_seen_on_discord_goes_forward_only(seen_refs: list[str]) -> None:
    facts = Facts({})
    for ref in seen_refs:
        facts = facts.seen_on_discord(ref)
    last = facts.discord_last_seen
    assert last is not None
    assert int(last) == max(map(int, seen_refs))


def test_what_is_no_id_of_discord_was_never_seen_there() -> None:
    assert Facts({}).seen_on_discord("soon").discord_last_seen is None
    assert Facts({"discord_last_seen": "soon"}).discord_last_seen is None
    assert Facts({"discord_last_seen": "soon"}).seen_on_discord("7").discord_last_seen == "7"


@given(st.lists(changes), refs, refs)
def test_a_draft_is_remembered_until_it_is_taken_away(
    steps: list[Change], one: str, other: str
) -> None:
    facts = Facts({})
    for step in steps:
        facts = step(facts)
    both = facts.with_draft(other).with_draft(one).with_draft(one)
    assert both.discord_drafts.count(one) == 1
    assert both.discord_drafts[-1] == one
    assert other in both.discord_drafts
    assert one not in both.without_draft(one).discord_drafts
    assert (other in both.without_draft(one).discord_drafts) == (other != one)


def test_of_too_many_drafts_the_oldest_are_forgotten() -> None:
    facts = Facts({})
    for number in range(MOST_DRAFTS + 1):
        facts = facts.with_draft(str(number))
    assert facts.discord_drafts == tuple(str(number) for number in range(1, MOST_DRAFTS + 1))


def test_a_provider_takes_a_session_that_nobody_is_known_to_own() -> None:
    facts = Facts({}).moving_to("claude", SessionId("s1"))
    assert (facts.provider, facts.moving, dict(facts.parked)) == ("claude", None, {})


def test_but_the_offline_model_does_not() -> None:
    facts = Facts({}).moving_to("offline", SessionId("s1"))
    assert facts.moving == Move("offline", None)
    assert facts.moved().parked == {"claude": "s1"}
    assert Facts({}).moving_to("offline", None).provider == "offline"


@pytest.mark.parametrize("session", [None, SessionId("c1")])
def test_a_provider_that_never_answered_was_not_used(session: SessionId | None) -> None:
    tried = Facts({}).moving_to("claude", None)
    assert tried.last_used == "offline"
    back = tried.moving_to("offline", session).moved()
    assert back.last_used == "offline"
    assert back.moving_to("claude", SessionId("o1")).moved().last_used == "offline"


@pytest.mark.parametrize("session", [None, SessionId("c1")])
def test_one_that_has_answered_was_used(session: SessionId | None) -> None:
    used = Facts({"provider": "offline"}).moving_to("claude", None).moved().answered()
    assert used.last_used == "claude"
    assert used.moving_to("claude", session).last_used == "claude"
    assert used.moving_to("offline", SessionId("c1")).moved().last_used == "claude"


def test_a_session_that_nobody_owns_counts_as_an_answer_of_a_real_provider() -> None:
    assert Facts({}).moving_to("claude", SessionId("s1")).last_used == "claude"
    assert Facts({"provider": "claude"}).last_used == "claude"


def test_a_change_parks_the_session_and_names_the_next() -> None:
    facts = Facts({"provider": "claude", "parked": {"offline": "o1", "ollama": "l1"}})
    begun = facts.moving_to("offline", SessionId("s1"))
    assert begun.moving == Move("offline", SessionId("o1"))
    assert begun.parked == {"claude": "s1", "ollama": "l1"}
    assert begun.provider == "claude"
    assert begun.moved().provider == "offline"
    assert begun.moved().moving is None


def test_a_session_that_was_cleared_is_not_parked_nor_an_earlier_one_in_its_place() -> None:
    facts = Facts({"provider": "claude", "parked": {"claude": "older"}})
    begun = facts.moving_to("offline", None)
    assert dict(begun.parked) == {}
    assert begun.moving == Move("offline", None)


@given(st.lists(kinds, min_size=1), st.data())
def test_no_provider_ever_gets_the_session_of_another(
    order: list[str], data: st.DataObject
) -> None:
    """Each makes sessions of its own name, and finds its last one again."""
    facts, session, last = Facts({}), None, dict[str, SessionId | None]()
    for number, kind in enumerate(order):
        facts = facts.moving_to(kind, session)
        if facts.moving is not None:
            session, facts = facts.moving.next, facts.moved()
        assert facts.provider == kind
        assert session == last.get(kind)
        if data.draw(st.booleans()):
            session = data.draw(st.sampled_from([SessionId(f"{kind}-{number}"), None]))
        last[kind] = session


@given(anything, kinds, kinds)
def test_a_change_that_was_begun_is_finished_before_another(
    raw: dict[str, object], first: str, second: str
) -> None:
    begun = Facts(raw).moving_to(first, SessionId("s1"))
    if begun.moving is not None:
        assert begun.moving_to(second, SessionId("s2")) == begun


@given(st.lists(patterns))
def test_what_was_granted_is_known_once_each_until_all_of_it_is_taken_back(
    granted: list[Pattern],
) -> None:
    facts = Facts({"user_name": "Ada"})
    for each in granted:
        facts = facts.granting(each)
    assert set(facts.granted) == set(granted)
    assert len(facts.granted) == len(set(granted))
    assert facts.granted[-1:] == tuple(granted[-1:])
    assert facts.without_grants().raw == {"user_name": "Ada"}


def test_a_wrong_grant_allows_nothing_and_hides_none_of_the_others() -> None:
    stored = ["Bash(*)", 7, "Skill", "", None, "Write(./state/**)"]
    assert Facts({"granted": stored}).granted == (Pattern("Skill"),)
    for wrong in ("Skill", {"Skill": 1}, 7, None):
        assert Facts({"granted": wrong}).granted == ()
