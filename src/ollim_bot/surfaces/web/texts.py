"""Sentences of the page's server for a person."""

from __future__ import annotations

NO_KEY = "This page needs its key. Run `ollim-bot web url` and open the address that it prints."
USED_ADDRESS = (
    "That address was used already, or is too old. Run `ollim-bot web url` and open the new one."
)
WRONG_HOST = (
    "This page does not go by that name. Open it as 127.0.0.1, or add the name to OLLIM_WEB_HOSTS."
)
WRONG_ORIGIN = "This came from another site, so nothing was done. Use the page itself."
NOT_FOUND = "There is nothing here. The page is at `/`."
NO_MESSAGE = "That message is not there any more."
NO_BUTTON = "That button is not there any more."
NO_ATTACHMENT = "That file is not there any more. Files are kept for 30 days."
NO_PAGE = "The page is missing from this installation. Install ollim-bot again."
FAILED = "The bot could not do that. Its log says why."
NOT_UNDERSTOOD = "That was not understood. Reload the page."
NO_FORM = "That was not a message. Reload the page."
NOTHING_SAID = "Write something, or add a file."
TOO_SLOW = "The connection was too slow. Send it again."
TOO_MANY_TABS = "The page is open too often. Close some of its tabs."


def too_many_files(most: int) -> str:
    return f"Those are too many files. A message takes {most}."


def file_too_large(name: str, most: int) -> str:
    return f"{name} is too large. A file may have {_size(most)}."


def not_saved(name: str, reason: str) -> str:
    return f"{name} could not be saved: {reason}. Nothing was sent."


def text_too_long(most: int) -> str:
    return f"That text is too long. A message may have {most:,} characters; send more as a file."


def body_too_large(most: int) -> str:
    return f"That is too large. Up to {_size(most)} are right here."


def wrong_method(allowed: str) -> str:
    return f"That cannot be done here. Right: {allowed}."


def port_taken(port: int) -> str:
    return (
        f"The page cannot use port {port}: another program has it. "
        "Stop that one, or set OLLIM_WEB_PORT to another port."
    )


def port_refused(port: int, reason: str) -> str:
    return f"The page cannot use port {port}: {reason}. Set OLLIM_WEB_PORT to another port."


def _size(count: int) -> str:
    megabytes, rest = divmod(count, 1024 * 1024)
    return f"{megabytes} MB" if megabytes and not rest else f"{count / 1024:.3g} kB"
