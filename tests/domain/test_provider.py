"""Which model answers, for every combination of what is known."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from ollim_bot.domain.provider import (
    NO_LOGIN,
    OFFLINE,
    ModelAccess,
    Provider,
    ProviderKind,
    choose_provider,
    names_provider,
)
from ollim_bot.domain.usage import Price

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
