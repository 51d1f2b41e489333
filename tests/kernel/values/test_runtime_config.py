"""Settings that can be changed while the bot runs: right values are kept, wrong ones are named."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel.values.strategies import (
    config_values,
    json_values,
    runtime_configs,
    settled_configs,
)

from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.values.runtime_config import (
    CONFIG_KEYS,
    ConfigValue,
    RuntimeConfig,
    config_key,
    parse_config,
)

DEFAULTS: dict[str, ConfigValue] = {
    "model.main": None,
    "model.fork": None,
    "thinking.main": "off",
    "thinking.fork": "adaptive",
    "bg_fork_timeout": 1800,
    "bg_concurrency": 3,
    "fork_idle_timeout": 10,
    "permission_mode": "dontAsk",
    "approval_timeout": 600,
    "critical_daily_cap": 5,
    "daily_cost_cap": 5.0,
    "quiet_hours": None,
    "receipt_in_digest": False,
    "push_what": "asks",
    "push_content": "full",
    "desktop_notifications": "auto",
    "page_sound": True,
    "timezone": None,
    "nag_default": None,
    "travel_minutes": None,
    "webhook_per_minute": 60,
    "webhook_total_per_minute": 300,
    "auto_update": False,
    "auto_update_hour": 6,
    "auto_backup": False,
    "google_calendars": ("primary",),
    "google_task_list": "@default",
}
EACH_KEY = pytest.mark.parametrize("key", DEFAULTS)
HUGE = 10**400

# Wrong values for a key, from JSON or as typed by a person.
WRONG: dict[str, list[Any]] = {
    "model.main": ["", "two words", "-opus", "modèle", 4, True, ["opus"], {}, "x" * 300, "a\nb"],
    "thinking.main": ["", "on", "none", 0, -1, 1.5, True, None, "0", "-5", "1e3", 10**9, HUGE],
    "bg_fork_timeout": ["", "soon", 0, -1, 1.5, True, None, "0", "30m", "１２", 10**9, HUGE, []],
    "bg_concurrency": [0, 17, "0", "17", "many", None, True, 2.0, HUGE],
    "fork_idle_timeout": [0, -10, "0", "ten", None, False, HUGE],
    "permission_mode": ["", "plan", "ask", None, True, 1, ["dontAsk"]],
    "approval_timeout": [0, "0", "600s", None, HUGE],
    "critical_daily_cap": [-1, "-1", "none", None, 0.5, True, HUGE],
    "daily_cost_cap": ["", "free", "$2", "2,50", "1_000", "nan", "inf", 0, -1, "0", True, HUGE, []],
    "nag_default": ["", "10m", "10 x 4", "1m x 4", "25h x 2", "10m x 9", "10m x 0", 10, [], HUGE],
    "travel_minutes": ["", "soon", 0, 601, "0", "601", "30m", 1.5, True, [], HUGE],
    "quiet_hours": ["", "night", "10-7", "22:00", "24:00-07:00", "7:00-7:00", 22, True, [], HUGE],
    "push_what": ["", "some", True, None, []],
    "push_content": ["", "half", 1, None, []],
    "desktop_notifications": ["", "maybe", True, 1, None, []],
    "page_sound": ["", "loud", 1, None, []],
    "receipt_in_digest": ["", "evening", 1, None, []],
    "timezone": ["", "Berlin", "Europe", "../UTC", "UTC+1", 1, True, [], HUGE],
    "webhook_per_minute": [0, -1, "0", "many", None, True, HUGE],
    "webhook_total_per_minute": [0, "0", "none", None, 1.5, HUGE],
    "auto_update": ["", "maybe", 1, 0, None, [], "ja"],
    "auto_backup": ["", "maybe", 1, 0, None, [], "ja"],
    "auto_update_hour": [-1, 24, "24", "6am", None, True, HUGE],
    "google_calendars": ["", " , ", [], [""], ["primary", 3], {}, None, 5, True, ["a\nb"]],
    "google_task_list": ["", " ", "one, two", None, 5, True, ["@default"], "a\x00b"],
}
WRONG |= {"model.fork": WRONG["model.main"], "thinking.fork": WRONG["thinking.main"]}


def test_the_table_has_every_setting_with_its_default() -> None:
    config = RuntimeConfig()
    assert {key: config.value(key) for key in CONFIG_KEYS} == DEFAULTS
    assert set(config_values) == set(WRONG) == set(DEFAULTS)


def test_keys_and_fields_belong_together_one_to_one() -> None:
    attributes = [key.attribute for key in CONFIG_KEYS.values()]
    others = ("unread", "made_before_daily_limit")
    assert sorted([*attributes, *others]) == sorted(each.name for each in fields(RuntimeConfig))


@EACH_KEY
@settings(max_examples=40)
@given(data=st.data())
def test_a_right_value_is_taken_as_stored_and_as_typed(key: str, data: st.DataObject) -> None:
    value = data.draw(config_values[key])
    stored = json.loads(json.dumps(value))
    typed = RuntimeConfig().with_value(key, value).in_words(key)
    for right in (value, stored, typed, f"  {typed} "):
        assert RuntimeConfig().with_value(key, right).value(key) == value


@pytest.mark.parametrize(
    ("key", "typed", "expected"),
    [
        pytest.param("model.main", "none", None, id="no-model"),
        pytest.param("model.fork", "default", None, id="default-model"),
        pytest.param("model.main", "Opus", "opus", id="model-in-capitals"),
        pytest.param("thinking.main", "Adaptive", "adaptive", id="thinking-in-capitals"),
        pytest.param("thinking.fork", "4000", 4000, id="tokens"),
        pytest.param("bg_concurrency", "016", 16, id="leading-zero"),
        pytest.param("permission_mode", "acceptedits", "acceptEdits", id="mode-in-small-letters"),
        pytest.param("daily_cost_cap", "2.50", 2.5, id="dollars"),
        pytest.param("daily_cost_cap", 2, 2.0, id="whole-dollars"),
        pytest.param("daily_cost_cap", "None", None, id="no-cap"),
        pytest.param("auto_update", "ON", True, id="on"),
        pytest.param("auto_update", "no", False, id="no"),
        pytest.param(
            "google_calendars", "primary, team@x.org,", ("primary", "team@x.org"), id="two"
        ),
        pytest.param("google_calendars", ["a,b", "c"], ("a", "b", "c"), id="commas-in-a-list"),
    ],
)
def test_a_person_may_type_it_so(key: str, typed: object, expected: ConfigValue) -> None:
    assert RuntimeConfig().with_value(key, typed).value(key) == expected


def refusal_of(key: str, value: object) -> str:
    with pytest.raises(WrongInput) as refused:
        RuntimeConfig().with_value(key, value)
    return str(refused.value)


@EACH_KEY
def test_a_wrong_value_is_refused_with_the_key_and_what_it_takes(key: str) -> None:
    for value in WRONG[key]:
        sentence = refusal_of(key, value)
        assert sentence.startswith(f"{key}: "), value
        assert sentence.endswith(f"It takes {CONFIG_KEYS[key].takes}."), value
        assert len(sentence) < 200, value
        assert "\n" not in sentence, value


@EACH_KEY
def test_a_wrong_stored_value_is_named_ignored_and_kept(key: str) -> None:
    other = "auto_update" if key != "auto_update" else "bg_concurrency"
    right = True if other == "auto_update" else 9
    for value in WRONG[key]:
        config, problems = parse_config({key: value, other: right})
        assert len(problems) == 1, value
        assert key in problems[0], value
        assert CONFIG_KEYS[key].takes in problems[0], value
        assert config.value(key) == DEFAULTS[key], value
        assert config.value(other) == right, value
        assert config.unread == {key: value}


@EACH_KEY
def test_setting_a_value_settles_what_could_not_be_read(key: str) -> None:
    config, _ = parse_config({key: WRONG[key][-1], "of_tomorrow": 1})
    assert config.with_default(key).unread == {"of_tomorrow": 1}
    assert config.with_value(key, RuntimeConfig().in_words(key)).unread == {"of_tomorrow": 1}


def test_an_unknown_key_is_named_and_kept() -> None:
    config, (problem,) = parse_config({"of_tomorrow": [1]})
    assert "'of_tomorrow'" in problem
    assert config == RuntimeConfig(unread={"of_tomorrow": [1]})
    for refused in (RuntimeConfig().with_default, RuntimeConfig().value, config_key):
        with pytest.raises(WrongInput, match="There is no setting 'of_tomorrow'"):
            refused("of_tomorrow")


@given(settled_configs)
def test_what_is_stored_is_read_back_the_same(config: RuntimeConfig) -> None:
    stored = json.loads(json.dumps(config.changed()))
    assert parse_config(stored) == (config, [])


@given(settled_configs)
def test_only_what_differs_from_the_defaults_is_stored(config: RuntimeConfig) -> None:
    changed = config.changed()
    assert all(changed[key] != DEFAULTS[key] for key in changed)
    assert all(config.value(key) == DEFAULTS[key] for key in DEFAULTS.keys() - changed.keys())


@given(runtime_configs(), st.sampled_from([*DEFAULTS]))
def test_a_default_is_not_stored_and_changes_nothing_else(config: RuntimeConfig, key: str) -> None:
    reset = config.with_default(key)
    assert reset.changed() == {k: v for k, v in config.changed().items() if k != key}
    assert reset.unread == config.unread


@given(
    st.dictionaries(
        st.sampled_from([*DEFAULTS]) | st.text(max_size=5),
        json_values | st.just(HUGE) | st.sampled_from(WRONG["daily_cost_cap"]),
        max_size=8,
    )
)
def test_no_stored_object_is_too_odd_to_read(stored: dict[str, object]) -> None:
    """Valid values are used; the others are named and kept."""
    config, problems = parse_config(stored)
    assert len(problems) == len(config.unread)
    assert config.unread.items() <= stored.items()
    assert config.changed().keys() <= stored.keys() - config.unread.keys()


@pytest.mark.parametrize("cap", [None, 5.0, 2.5])
def test_a_directory_from_before_the_daily_limit_has_another_default(cap: float | None) -> None:
    config, problems = parse_config({"made_before_daily_limit": True, "daily_cost_cap": cap})
    assert problems == []
    assert config.daily_cost_cap == cap
    assert config.changed() == ({} if cap is None else {"daily_cost_cap": cap})
    assert config.with_default("daily_cost_cap").in_words("daily_cost_cap") == "none"
    assert RuntimeConfig().in_words("daily_cost_cap") == "5"
    assert parse_config({"daily_cost_cap": None})[0].changed() == {"daily_cost_cap": None}


@pytest.mark.parametrize("word", ["tokyo", "Asia/Tokio", "asia/tokyo"])
def test_a_wrong_time_zone_is_answered_with_the_nearest(word: str) -> None:
    with pytest.raises(WrongInput, match=r"Did you mean Asia/Tokyo\?"):
        RuntimeConfig().with_value("timezone", word)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1m x 4", "`1m x 4` is too often: the shortest pause is 2 minutes. Try `2m x 4`."),
        ("2d x 4", "`2d x 4` is too rare: the longest pause is 24 hours. Try `1d x 4`."),
        ("10m x 9", "`10m x 9` is not possible: it can come again 1 to 8 times. Try `10m x 8`."),
    ],
)
def test_a_pause_that_cannot_be_is_told_with_the_one_that_can(text: str, said: str) -> None:
    with pytest.raises(WrongInput, match=re.escape(said)) as wrong:
        RuntimeConfig().with_value("nag_default", text)
    right = str(wrong.value).partition("Try `")[2].partition("`")[0]
    assert RuntimeConfig().with_value("nag_default", right).nag_default == right
