"""The small records: presence, notices, providers, choices of the owner, releases, ids."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.values.strategies import instants

from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.values.chat import as_number, numbered_id
from ollim_bot.kernel.values.notices import MOST_TOLD, Notice, NoticeRecord
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.permissions import Grants, Pattern
from ollim_bot.kernel.values.presence import Presence, Version, changes_between, newest_tag
from ollim_bot.kernel.values.provider import (
    NO_LOGIN,
    OFFLINE,
    ModelAccess,
    Provider,
    ProviderKind,
    ProviderMemory,
    choose_provider,
    names_provider,
)
from ollim_bot.kernel.values.schedule import Skips
from ollim_bot.kernel.values.surface_state import MOST_DRAFTS, DiscordState
from ollim_bot.kernel.values.usage import Price

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


CHANGELOG = """# Changelog

What changes.

## 0.13.0 (2026-12-01)

- new

## 0.12.1

- mended

## 0.12.0

- old
"""


@pytest.mark.parametrize(
    "text", ["v0.13", "0.13.0rc1", "v01.2.3", "v1.2.3.4", "nightly", "", "v1.2.3\n", "v1.2.٣"]
)
def test_what_is_not_a_plain_version_is_none(text: str) -> None:
    assert Version.of(text) is None


def test_versions_are_compared_by_number_and_other_tags_do_not_count() -> None:
    tags = ["v0.9.9", "v0.10.0", "0.99.0", "vintage", "v0.11.0-beta", "v0.10.0^{}"]
    assert newest_tag(tags) == Version(0, 10, 0)
    assert newest_tag(["latest"]) is None
    assert Version(0, 10, 0).tag == "v0.10.0"


def test_the_changelog_between_two_versions_has_the_later_ones_alone() -> None:
    between = changes_between(CHANGELOG, Version(0, 12, 0), Version(0, 13, 0))
    assert between == "## 0.13.0 (2026-12-01)\n\n- new\n\n## 0.12.1\n\n- mended"
    assert changes_between(CHANGELOG, Version(0, 12, 0), Version(0, 12, 1)) == (
        "## 0.12.1\n\n- mended"
    )
    assert changes_between("", Version(0, 12, 0), Version(0, 13, 0)) == ""


BASE = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:11434/v1"}

KEY = {"ANTHROPIC_API_KEY": "sk-any"}

TOKEN = {"ANTHROPIC_AUTH_TOKEN": "any"}

ONLY_A_MODEL = {"ANTHROPIC_MODEL": "opus"}

EMPTY = {"ANTHROPIC_BASE_URL": "", "ANTHROPIC_API_KEY": "", "ANTHROPIC_AUTH_TOKEN": ""}

AT_A_PLACE = Provider(
    ProviderKind.CLAUDE, "The model server on this machine", access=ModelAccess.OWN_SERVER
)

BY_KEY = Provider(ProviderKind.CLAUDE, "Claude (API key)", access=ModelAccess.KEY)

HAS_KEY, HAS_TOKEN = "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"

BY_LOGIN = Provider(ProviderKind.CLAUDE, "Claude")

SETTINGS = {
    "nothing": ({}, None),
    "empty": (EMPTY, None),
    "a model": (ONLY_A_MODEL, None),
    "a key": (KEY, replace(BY_KEY, key_name=HAS_KEY)),
    "a token": (TOKEN, replace(BY_KEY, key_name=HAS_TOKEN)),
    "a key and a token": (KEY | TOKEN, replace(BY_KEY, key_name=HAS_TOKEN)),
    "a place": (BASE, AT_A_PLACE),
    "a place and a key": (BASE | KEY, replace(AT_A_PLACE, key_name=HAS_KEY)),
    "a place and a token": (BASE | TOKEN, replace(AT_A_PLACE, key_name=HAS_TOKEN)),
    "all": (BASE | KEY | TOKEN | ONLY_A_MODEL, replace(AT_A_PLACE, key_name=HAS_TOKEN)),
}

USED = (None, ProviderKind.OFFLINE, ProviderKind.CLAUDE)


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_choice_is_as_agreed(settings: str) -> None:
    anthropic, named = SETTINGS[settings]
    assert names_provider(anthropic) == (named is not None)
    for wants_offline, is_logged_in, last_used in product((False, True), (False, True), USED):
        case = f"{wants_offline=} {is_logged_in=} {last_used=}"
        by_login = BY_LOGIN if is_logged_in else None
        without_any = NO_LOGIN if last_used is ProviderKind.CLAUDE else OFFLINE
        wanted = OFFLINE if wants_offline else named or by_login or without_any

        chosen = choose_provider(
            anthropic, wants_offline=wants_offline, is_logged_in=is_logged_in, last_used=last_used
        )
        assert chosen == wanted, case
        assert bool(chosen.problem) == (chosen == NO_LOGIN), case
        if last_used is ProviderKind.CLAUDE and not wants_offline:
            assert not chosen.is_offline, case


@pytest.mark.parametrize(
    ("provider", "sentence"),
    [
        (OFFLINE, "The built-in offline model answers. `ollim-bot setup` connects Claude."),
        (BY_KEY, "Claude (API key) answers."),
        (AT_A_PLACE, "The model server on this machine answers."),
        (NO_LOGIN, f"No model answers. {NO_LOGIN.problem}"),
    ],
)
def test_the_start_says_which_model_answers(provider: Provider, sentence: str) -> None:
    assert provider.who_answers == sentence


def test_a_place_without_a_host_is_named_as_it_stands() -> None:
    chosen = choose_provider(
        {"ANTHROPIC_BASE_URL": "unix-socket"},
        wants_offline=False,
        is_logged_in=False,
        last_used=None,
    )
    assert chosen.name == "unix-socket"


@pytest.mark.parametrize(
    ("anthropic", "price"),
    [
        (BASE, Price.UNKNOWN),
        ({"ANTHROPIC_BASE_URL": "https://api.anthropic.com"}, Price.LISTED),
        (KEY, Price.LISTED),
        ({}, Price.FREE),
    ],
)
def test_only_claude_itself_is_paid_by_its_price_list(
    anthropic: dict[str, str], price: Price
) -> None:
    chosen = choose_provider(anthropic, wants_offline=False, is_logged_in=False, last_used=None)
    assert chosen.price is price


AT = datetime(2026, 2, 24, 10, 15, tzinfo=UTC)

MILLISECOND = timedelta(milliseconds=1)

these_times = st.datetimes(datetime(2000, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))


@pytest.mark.parametrize(
    "name", ["", "m1", "-1", "1.5", " 1", "1_000", "٣", "²", str(2**63), "9" * 5000]
)
def test_other_ids_are_no_numbers(name: str) -> None:
    assert as_number(name) is None


@given(these_times, st.integers())
def test_a_numbered_id_is_a_number_that_a_fork_may_use(now: datetime, chance: int) -> None:
    assert as_number(numbered_id(now, chance)) is not None


@given(these_times, st.integers(), st.integers())
def test_numbered_ids_are_in_the_order_of_time(now: datetime, first: int, second: int) -> None:
    earlier, later = numbered_id(now, first), numbered_id(now + 2 * MILLISECOND, second)
    assert int(earlier) < int(later)
    assert len(earlier) <= len(later)


@given(st.sets(st.integers(0, 2**20 - 1), max_size=50))
def test_numbered_ids_of_one_moment_are_as_different_as_chance(chances: set[int]) -> None:
    assert len({numbered_id(AT, chance) for chance in chances}) == len(chances)
