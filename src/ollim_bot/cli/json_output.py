"""Answers as JSON, for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime

from ollim_bot.cli.verbs import Flags


def json_flag(parser: Flags) -> None:
    parser.add_argument("--json", action="store_true", help="answer in JSON, for programs")


def print_json(value: Mapping[str, object]) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2, default=_written))


def _written(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
