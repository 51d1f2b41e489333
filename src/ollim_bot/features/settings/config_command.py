"""`ollim-bot config`: what can be changed while the bot runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ollim_bot.kernel.store.codecs.config_codec import RuntimeConfigCodec
from ollim_bot.kernel.values.runtime_config import CONFIG_KEYS, RuntimeConfig
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.completions import Completion, time_zones
from ollim_bot.surfaces.terminal.framework import (
    JSON,
    Given,
    Noun,
    argument,
    columns,
    plain,
    print_json,
)
from ollim_bot.surfaces.terminal.printing import no_such, show
from ollim_bot.surfaces.terminal.terminal_data import Data, note, open_data, writable

if TYPE_CHECKING:
    from ollim_bot.kernel.store.transaction import Transaction

_ZONE = "timezone"

_CONFIG = Noun("config")
run = _CONFIG.run


def _keys(*_: object) -> Iterator[Completion]:
    for key, known in CONFIG_KEYS.items():
        yield Completion(key, known.about)


def _values(_: Caller, given: Sequence[str]) -> Iterator[Completion]:
    key = given[0].replace("-", "_")
    if key in CONFIG_KEYS:
        yield from map(Completion, CONFIG_KEYS[key].words())
    if key == "timezone":
        yield from time_zones()


_KEY = argument("key", metavar="KEY", help="as `ollim-bot config list` shows it", completions=_keys)


@_CONFIG.verb("all settings", "", JSON)
def _list(given: Given, caller: Caller) -> None:
    problems: list[str] = []
    config = _config(open_data(caller), problems.append)
    if "json" in given:
        settings = [_setting(config, key) for key in CONFIG_KEYS]
        print_json({"settings": settings, "problems": problems})
        return
    show(columns([_row(config, key) for key in CONFIG_KEYS]))
    if config.changed():
        show("* differs from the default")
    for problem in problems:
        note(problem)


@_CONFIG.verb("the value of one", "model.main", _KEY, JSON)
def _get(given: Given, caller: Caller) -> None:
    key = _known_key(given)
    config = _config(open_data(caller), note)
    if "json" in given:
        print_json(_setting(config, key))
    else:
        show(plain(config.in_words(key)))


@_CONFIG.verb(
    "change one", "model.main sonnet", _KEY, argument("value", metavar="VALUE", completions=_values)
)
def _set(given: Given, caller: Caller) -> None:
    key = _known_key(given)
    # A wrong value must not create a data directory.
    RuntimeConfig().with_value(key, given["value"])
    if key == _ZONE:
        show(_zone_changed(caller, given["value"]))
        return
    old, new = _changed(caller, key, lambda config: config.with_value(key, given["value"]))
    show(f"{key} is {new} already." if old == new else f"{key} is now {new} (it was {old}).")


@_CONFIG.verb("back to its default", "model.main", _KEY)
def _unset(given: Given, caller: Caller) -> None:
    key = _known_key(given)
    if key == _ZONE:
        show(_zone_changed(caller, None))
        return
    old, new = _changed(caller, key, lambda config: config.with_default(key))
    before = "already" if old == new else f"again (it was {old})"
    show(f"{key} has its default {before}: {new}.")


def _zone_changed(caller: Caller, value: str | None) -> str:
    """The answer, with what moves."""
    from ollim_bot.kernel.store.steps import set_by_owner
    from ollim_bot.kernel.values.changes import Changer
    from ollim_bot.kernel.values.travel import zone_answer

    default = caller.default_zone()
    with writable(open_data(caller)) as data, data.database() as database:
        jobs, _ = data.scheduled_jobs()

        def step(tx: Transaction) -> str:
            config = set_by_owner(tx, Changer.COMMAND, _ZONE, value)
            return zone_answer(jobs, data.now, config.timezone, default, tx.ledger.has)

        return plain(database.run(step))


def _changed(
    caller: Caller, key: str, step: Callable[[RuntimeConfig], RuntimeConfig]
) -> tuple[str, str]:
    """The value before and after."""
    from ollim_bot.kernel.store.change_rows import note_settings
    from ollim_bot.kernel.values.changes import Changer

    def both(tx: Transaction) -> tuple[str, str]:
        config = tx.config.get()
        new = tx.config.change(step)
        note_settings(tx.changes, config, new, Changer.COMMAND, tx.now)
        return plain(config.in_words(key)), plain(new.in_words(key))

    with writable(open_data(caller)) as data, data.database() as database:
        return database.run(both)


def _config(data: Data, on_problem: Callable[[str], None]) -> RuntimeConfig:
    """The configuration in the database, or in its file if there is no database yet."""
    found = data.read(lambda tx: tx.config.get())
    if found is not None:
        return found
    return data.stored(data.paths.config, RuntimeConfigCodec(), on_problem)


def _known_key(given: Given) -> str:
    word = str(given["key"])
    key = word.replace("-", "_")
    if key not in CONFIG_KEYS:
        sentence = f"There is no setting `{word}`."
        raise no_such(sentence, key, CONFIG_KEYS, "ollim-bot config list")
    return key


def _row(config: RuntimeConfig, key: str) -> tuple[str, str, str]:
    value, about = plain(config.shown(key)), CONFIG_KEYS[key].about
    if key not in config.changed():
        return f"  {key}", value, about
    return f"* {key}", value, f"{about}; default: {config.defaults.shown(key)}"


def _setting(config: RuntimeConfig, key: str) -> dict[str, object]:
    return {
        "key": key,
        "value": config.value(key),
        "default": config.defaults.value(key),
        "takes": CONFIG_KEYS[key].takes,
        "about": CONFIG_KEYS[key].about,
    }
