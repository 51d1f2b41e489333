"""The small records: presence, notices, providers, choices of the owner, surfaces."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.domain.strategies import instants

from ollim_bot.domain.ids import SessionId
from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.notices import MOST_TOLD, Notice, NoticeRecord
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.permissions import Grants, Pattern
from ollim_bot.domain.presence import Presence
from ollim_bot.domain.provider import ProviderMemory
from ollim_bot.domain.schedule import Skips
from ollim_bot.domain.surface_state import MOST_DRAFTS, DiscordState

NOW = datetime(2026, 2, 24, 10, 15, tzinfo=UTC)

kinds = st.sampled_from(["offline", "claude", "ollama"])
refs = st.integers(0, 10**20 - 1).map(str)
patterns = st.sampled_from(["Bash(git status *)", "Write(./notes/**)", "Skill"]).map(Pattern.of)
scheduled_occurrences = st.builds(
    Occurrence.scheduled,
    st.sampled_from([JobKind.ROUTINE, JobKind.REMINDER]),
    st.sampled_from(["plan", "w1"]),
    instants,
)


def notice(key: str) -> Notice:
    return Notice(f"id of {key}", key, f"About {key}.")


def test_a_start_without_an_end_before_it_was_a_crash() -> None:
    later = NOW + timedelta(hours=2)
    crashed = Presence().begun(NOW, None).begun(later, NOW + timedelta(hours=1))
    assert crashed.cut_off_at == NOW + timedelta(hours=1)
    assert crashed.greeted().cut_off_at is None
    assert Presence().begun(NOW, None).ended(for_restart=False).begun(later, NOW).cut_off_at is None


def test_why_the_bot_ended_is_known_until_it_is_stopped() -> None:
    ended = Presence().begun(NOW, None, "1.0").failed("The disk is full.", NOW)
    started = ended.begun(NOW, None, "1.1")
    assert (started.failure, started.failed_at, started.version) == (
        "The disk is full.",
        NOW,
        "1.1",
    )
    assert started.ended(for_restart=True) == Presence(None, True, started.cut_off_at, "1.1")


@given(st.lists(st.tuples(st.integers(0, 300).map(str), instants), max_size=400))
def test_only_the_newest_of_what_was_told_are_remembered(
    tellings: list[tuple[str, datetime]],
) -> None:
    record = NoticeRecord()
    for key, now in tellings:
        record = record.having_told([notice(key)], now)
    newest = list(dict.fromkeys(key for key, _ in reversed(tellings)))[:MOST_TOLD]
    assert list(record.told) == newest[::-1]


def test_what_was_told_waits_no_more_and_is_known_until_it_is_forgotten() -> None:
    waiting = NoticeRecord().with_new(notice("a")).with_new(notice("b"))
    told = waiting.having_told([notice("a")], NOW)
    assert [each.key for each in told.untold] == ["b"]
    assert told.knows("a")
    assert told.knows("b")
    assert not told.without("a").knows("a")
    assert told.last_told_at == NOW
    assert told.keys("") == ["a", "b"]


@given(scheduled_occurrences)
def test_a_skip_holds_for_its_moment_alone_until_it_is_taken_back(occurrence: Occurrence) -> None:
    skips, moment = Skips().with_moment(occurrence, NOW), occurrence.scheduled_at
    assert moment is not None
    kind, job = occurrence.kind, occurrence.job_id
    later = Occurrence.scheduled(kind, job, moment + timedelta(minutes=1))
    assert skips.has(occurrence)
    assert not skips.has(later)
    assert not skips.has(Occurrence.scheduled(kind, "other", moment))
    assert not skips.has(Occurrence.by_hand(kind, job, moment))
    assert not skips.without_job(f"{kind}:{job}").has(occurrence)
    assert not skips.without_moment(occurrence).has(occurrence)
    assert skips.without_moment(later) == skips


def test_a_skip_whose_moment_never_came_is_forgotten() -> None:
    old = Occurrence.scheduled(JobKind.ROUTINE, "plan", NOW)
    new = Occurrence.scheduled(JobKind.ROUTINE, "other", NOW + timedelta(days=31))
    skips = Skips().with_moment(old, NOW)
    assert skips.with_moment(new, NOW + timedelta(days=29)).has(old)
    assert not skips.with_moment(new, NOW + timedelta(days=30)).has(old)


@given(st.lists(refs, min_size=1))
def test_what_was_seen_on_discord_goes_forward_only(seen: list[str]) -> None:
    state = DiscordState()
    for ref in seen:
        state = state.seen(ref)
    assert state.last_seen is not None
    assert int(state.last_seen) == max(map(int, seen))
    assert DiscordState().seen("soon").last_seen is None


def test_everything_until_a_moment_can_count_as_seen() -> None:
    """The ids of Discord count milliseconds: one of a later second is not seen."""
    assert DiscordState().seen_until(NOW).last_seen is None, "nothing was ever seen"
    seen = DiscordState(last_seen="1").seen_until(NOW).last_seen
    assert seen is not None
    assert int(seen) >> 22 == NOW.timestamp() * 1000 - 1420070400000
    later = DiscordState(last_seen=str(int(seen) + 1))
    assert later.seen_until(NOW) == later


@given(refs, refs)
def test_a_draft_is_remembered_until_it_is_taken_away(one: str, other: str) -> None:
    both = DiscordState().with_draft(other).with_draft(one).with_draft(one)
    assert both.drafts.count(one) == 1
    assert both.drafts[-1] == one
    assert one not in both.without_draft(one).drafts
    assert (other in both.without_draft(one).drafts) == (other != one)


def test_of_too_many_drafts_the_oldest_are_forgotten() -> None:
    state = DiscordState()
    for number in range(MOST_DRAFTS + 1):
        state = state.with_draft(str(number))
    assert state.drafts == tuple(str(number) for number in range(1, MOST_DRAFTS + 1))


def test_a_provider_takes_a_session_of_unknown_owner_but_the_offline_model_does_not() -> None:
    session = SessionId("s1")
    assert ProviderMemory().moved_to("claude", session) == (ProviderMemory("claude"), session)
    offline, following = ProviderMemory().moved_to("offline", session)
    assert (offline.current, offline.parked, following) == ("offline", {"claude": "s1"}, None)


@pytest.mark.parametrize("session", [None, SessionId("c1")])
def test_a_provider_that_never_answered_was_not_used(session: SessionId | None) -> None:
    tried, _ = ProviderMemory().moved_to("claude", None)
    assert tried.last_used == "offline"
    back, _ = tried.moved_to("offline", session)
    assert back.last_used == "offline"
    assert back.moved_to("claude", SessionId("o1"))[0].last_used == "offline"


@pytest.mark.parametrize("session", [None, SessionId("c1")])
def test_one_that_has_answered_was_used(session: SessionId | None) -> None:
    used = ProviderMemory("offline").moved_to("claude", None)[0].answered()
    assert used.last_used == "claude"
    assert used.moved_to("claude", session)[0].last_used == "claude"
    assert used.moved_to("offline", SessionId("c1"))[0].last_used == "claude"


def test_a_change_parks_the_session_and_goes_on_with_the_parked_one() -> None:
    parked = {"offline": SessionId("o1"), "ollama": SessionId("l1")}
    after, session = ProviderMemory("claude", parked).moved_to("offline", SessionId("s1"))
    assert after == ProviderMemory(
        "offline", {"claude": SessionId("s1"), "ollama": SessionId("l1")}
    )
    assert session == "o1"


def test_a_session_that_was_cleared_is_not_parked_nor_an_earlier_one_in_its_place() -> None:
    memory = ProviderMemory("claude", {"claude": SessionId("older")})
    assert memory.moved_to("offline", None) == (ProviderMemory("offline"), None)


@given(st.lists(kinds, min_size=1), st.data())
def test_no_provider_ever_gets_the_session_of_another(
    order: list[str], data: st.DataObject
) -> None:
    """Each provider names its own sessions, and finds its last one again."""
    memory, session, last = ProviderMemory(), None, dict[str, SessionId | None]()
    for number, kind in enumerate(order):
        memory, session = memory.moved_to(kind, session)
        assert memory.current == kind
        assert session == last.get(kind)
        if data.draw(st.booleans()):
            session = data.draw(st.sampled_from([SessionId(f"{kind}-{number}"), None]))
        last[kind] = session


@given(st.lists(patterns))
def test_what_was_granted_is_known_once_each(granted: list[Pattern]) -> None:
    grants = Grants()
    for each in granted:
        grants = grants.granting(each)
    assert set(grants.patterns) == set(granted)
    assert len(grants.patterns) == len(set(granted))
    assert grants.patterns[-1:] == tuple(granted[-1:])


def test_a_wrong_grant_allows_nothing_and_hides_none_of_the_others() -> None:
    assert Grants(("Bash(*)", "Skill", "", "Write(./state/**)")).patterns == (Pattern("Skill"),)
