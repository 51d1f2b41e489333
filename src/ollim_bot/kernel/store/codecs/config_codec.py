"""The settings, and small facts, as JSON."""

from __future__ import annotations

from collections.abc import Mapping

from ollim_bot.kernel.store.codecs.plain import ValueCodec
from ollim_bot.kernel.store.file_store import FORMAT, parse_json, render_json, versioned
from ollim_bot.kernel.values.runtime_config import (
    MADE_BEFORE_DAILY_LIMIT,
    RuntimeConfig,
    parse_config,
)


class RuntimeConfigCodec:
    """Only the values that differ from the defaults; a wrong one is reported, ignored and kept."""

    def missing(self) -> RuntimeConfig:
        return RuntimeConfig()

    def decode(self, raw: bytes) -> tuple[RuntimeConfig, tuple[str, ...]]:
        config, problems = parse_config(versioned(parse_json(raw)))
        return config, tuple(problems)

    def encode(self, value: RuntimeConfig) -> bytes | None:
        mark = {MADE_BEFORE_DAILY_LIMIT: True} if value.made_before_daily_limit else {}
        stored = dict(value.unread) | value.changed() | mark
        return render_json({"version": FORMAT} | stored, indent=1) if stored else None


RUNTIME_CONFIG = RuntimeConfigCodec()

# Small facts by name, of any JSON type.
MEMORY: ValueCodec[Mapping[str, object]] = ValueCodec(
    dict,
    lambda raw: versioned(parse_json(raw)),
    lambda facts: render_json({"version": FORMAT} | dict(facts), indent=1),
)
