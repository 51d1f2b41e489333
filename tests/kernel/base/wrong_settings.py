"""Wrong values of settings, and the message about each."""

from __future__ import annotations

import pytest

SECRET = "s3cr3t-valuE"

WRONG_VALUES = [
    *(
        (
            "OLLIM_WEB_PORT",
            value,
            f"{value!r} is not a port. Right: a number such as 8421, or 0 for off.",
        )
        for value in ("http", "65536", "-1", "8421.0", "٨٤٢١", "8 421")
    ),
    (
        "OLLIM_LOG",
        "loud",
        "'loud' is not one of the choices. Right: debug or info or warning or error.",
    ),
    ("OLLIM_LOG_FORMAT", "xml", "'xml' is not one of the choices. Right: text or json."),
    ("OLLIM_MODEL", "gpt", "'gpt' is not one of the choices. Right: auto or offline."),
    pytest.param(
        "DISCORD_OWNER_ID",
        "ada#1234",
        "'ada#1234' is not a Discord user id. Right: a number, such as 80351110224678912.",
        id="owner",
    ),
    (
        "DISCORD_TOKEN",
        f"Bot {SECRET}",
        "the value has a space or a strange letter in it. Right: the bare key or token.",
    ),
    (
        "ANTHROPIC_API_KEY",
        f'"{SECRET}"',
        "the value stands in quotes. Right: the same without them.",
    ),
    (
        "WEBHOOK_SECRET",
        f"{SECRET}\n{SECRET}",
        "the value is more than one line of UTF-8 text. Right: the value alone.",
    ),
    (
        "ANTHROPIC_BASE_URL",
        f"https://ada:{SECRET}@example.org",
        "the value is not a plain web address. Right: http://127.0.0.1:9000/api.",
    ),
    (
        "DISCORD_API_URL",
        "my-server:9000",
        "the value is not a plain web address. Right: http://127.0.0.1:9000/api.",
    ),
    (
        "GOOGLE_API_URL",
        "http://127.0.0.1.example.org",
        "the value is neither https nor on this machine. Right: https://google.example.org.",
    ),
    (
        "ANTHROPIC_MODEL",
        "my model",
        "'my model' is not the name of a model. Right: sonnet, or a full model id.",
    ),
    (
        "OLLIM_WEB_HOSTS",
        "https://box",
        "'https://box' is not a list of host names. Right: ollim.example.org, my-server.",
    ),
    (
        "OLLIM_WEB_HOSTS",
        ",",
        "',' is not a list of host names. Right: ollim.example.org, my-server.",
    ),
    (
        "OLLIM_USER_NAME",
        "a" * 81,
        f"'{'a' * 60}' is too long. Right: up to 80 characters, such as Ada.",
    ),
    (
        "OLLIM_BOT_NAME",
        "O\x1bllim",
        r"'O\x1bllim' is more than one line of UTF-8 text. Right: the value alone.",
    ),
    (
        "OLLIM_DATA_DIR",
        "~ada/data",
        "'~ada/data' starts with a home that is not known. Right: /srv/ollim-bot.",
    ),
    (
        "OLLIM_TIMEZONE",
        "Mars/Olympus",
        "'Mars/Olympus' is not a time zone. Right: Europe/Berlin, or UTC.",
    ),
    (
        "OLLIM_TIMEZONE",
        "Europe/Berln",
        "'Europe/Berln' is not a time zone. Did you mean Europe/Berlin?",
    ),
    ("OLLIM_TIMEZONE", "new york", "'new york' is not a time zone. Did you mean America/New_York?"),
]
