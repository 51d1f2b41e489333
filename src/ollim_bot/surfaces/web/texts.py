"""Sentences of the page's server for a person."""

from __future__ import annotations

NO_KEY = "This page needs its key. Run `ollim-bot web url` and open the address that it prints."
USED_ADDRESS = (
    "That address was used already, or is too old. Run `ollim-bot web url` and open the new one."
)
WRONG_HOST = (
    "The page does not answer to that name. "
    "Open it as 127.0.0.1, or add the name to OLLIM_WEB_HOSTS."
)
WRONG_ORIGIN = "Another site sent this, so the bot did nothing. Use the page itself."
NOT_FOUND = "There is nothing here. The page is at `/`."
NO_MESSAGE = "That message is gone."
NO_BUTTON = "That button is gone."
NO_ATTACHMENT = "That file is gone. The bot keeps files for 30 days."
NO_PAGE = "The page is missing from this installation. Install ollim-bot again."
FAILED = "The bot could not do that. Its log says why."
NOT_UNDERSTOOD = "The bot did not understand the page. Reload it."
NO_FORM = "The bot expected a message and got something else. Reload the page."
NOTHING_SAID = "Write something, or add a file."
TOO_SLOW = "The connection was too slow. Send it again."
TOO_MANY_TABS = "The page is open in too many tabs. Close some of them."


def too_many_files(most: int) -> str:
    return f"A message takes up to {most} files."


def file_too_large(name: str, most: int) -> str:
    return f"{name} is too large. Files can be up to {_size(most)}."


def not_saved(name: str, reason: str) -> str:
    return f"{name} could not be saved: {reason}. Nothing was sent."


def text_too_long(most: int) -> str:
    return f"That message is too long. Send up to {most:,} characters, or a file."


def body_too_large(most: int) -> str:
    return f"That is too much at once. The limit is {_size(most)}."


def wrong_method(allowed: str) -> str:
    return f"This address takes only {allowed}."


def port_taken(port: int) -> str:
    return (
        f"The page cannot use port {port}: another program has it. "
        "Stop that one, or set OLLIM_WEB_PORT to another port."
    )


def port_refused(port: int, reason: str) -> str:
    return f"The page cannot use port {port}: {reason}. Set OLLIM_WEB_PORT to another port."


def _size(count: int) -> str:
    megabytes, rest = divmod(count, 1024 * 1024)
    return f"{megabytes} MB" if megabytes and not rest else f"{count / 1024:.3g} KB"
