"""`/config`, `/model`, `/thinking`: settings, effective from the next answer on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ollim_bot.domain.near_words import nearest
from ollim_bot.domain.runtime_config import CONFIG_KEYS, RuntimeConfig
from ollim_bot.errors import WrongInput
from ollim_bot.ports import Store

_KNOWN_MODELS = ("opus", "sonnet", "haiku", "default", "none")


class SettingCommands:
    def __init__(self, config: Store[RuntimeConfig]) -> None:
        self._config = config

    async def config(self, arguments: Mapping[str, str]) -> str:
        if "key" not in arguments:
            config = await asyncio.to_thread(self._config.read)
            return "\n".join(_line(config, key) for key in CONFIG_KEYS)
        key = _known(arguments["key"])
        if "value" not in arguments:
            config = await asyncio.to_thread(self._config.read)
            return f"{_line(config, key)}\nIt takes {CONFIG_KEYS[key].takes}."
        return await self._set(key, arguments["value"])

    async def model(self, arguments: Mapping[str, str]) -> str:
        if "name" not in arguments:
            config = await asyncio.to_thread(self._config.read)
            takes = CONFIG_KEYS["model.main"].takes
            return f"Model: {config.in_words('model.main')}. It takes {takes}."
        told = await self._set("model.main", arguments["name"])
        is_known = arguments["name"].lower() in _KNOWN_MODELS
        return told if is_known else f"{told} It is taken as a full model id."

    async def thinking(self, arguments: Mapping[str, str]) -> str:
        if "mode" not in arguments:
            config = await asyncio.to_thread(self._config.read)
            takes = CONFIG_KEYS["thinking.main"].takes
            return f"Thinking: {config.thinking_main}. It takes {takes}."
        return await self._set("thinking.main", arguments["mode"])

    async def _set(self, key: str, value: str) -> str:
        def step(config: RuntimeConfig) -> tuple[RuntimeConfig, tuple[str, str]]:
            changed = config.with_value(key, value)
            return changed, (config.in_words(key), changed.in_words(key))

        old, new = await asyncio.to_thread(self._config.transact, step)
        if old == new:
            return f"{key} is {new} already."
        return f"{key} is now {new} (it was {old})."


def _line(config: RuntimeConfig, key: str) -> str:
    mark = " (changed)" if key in config.changed() else ""
    return f"`{key}` {config.in_words(key)}{mark}"


def _known(word: str) -> str:
    key = word.replace("-", "_")
    if key in CONFIG_KEYS:
        return key
    meant = nearest(key, CONFIG_KEYS)
    hint = f"Did you mean `{meant}`?" if meant else "`/config` shows them all."
    raise WrongInput(f"There is no setting `{word}`. {hint}")
