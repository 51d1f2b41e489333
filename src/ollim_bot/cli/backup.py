"""`ollim-bot backup`: writes all that the bot knows into one file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.framework import JSON, Given, argument, command, plain, print_json
from ollim_bot.cli.terminal import show
from ollim_bot.domain.text import counted
from ollim_bot.errors import OllimError, WrongInput
from ollim_bot.plain_files import size_in_words
from ollim_bot.upkeep.backup import BackupReport, incomplete

_NAMED = 6


@command(
    "backup",
    "save everything the bot knows in one file, also while it runs",
    "/media/stick --keep 5",
    argument(
        "target",
        nargs="?",
        metavar="FILE|DIRECTORY",
        help="a new file, or a folder for one; a folder beside the data directory if omitted",
    ),
    argument("--with-keys", action="store_true", help="with .env, tokens and secret addresses"),
    argument("--keep", metavar="N", help="then remove all but the N newest of these backups there"),
    JSON,
)
def run(given: Given, caller: Caller) -> None:
    from ollim_bot.upkeep.backup import write_backup

    place = caller.place()
    report = write_backup(
        place.paths,
        caller.environ,
        lambda: caller.now().astimezone(place.zone),
        target=_target(given, caller),
        with_keys="with_keys" in given,
        keep=_number(given["keep"]) if "keep" in given else None,
    )
    if "json" in given:
        print_json(as_object(report))
    else:
        for line in _lines(report, caller):
            show(plain(line))
    if not report.is_complete:
        raise OllimError(incomplete(report))


def _target(given: Given, caller: Caller) -> Path | None:
    if "target" not in given:
        return None
    text = str(given["target"])
    path = caller.path(text)
    if text.endswith("/") and not path.is_dir():
        raise WrongInput(f"{text} is not a folder. Make it first: mkdir {text}")
    return path


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise WrongInput(f"--keep: {text!r} is not right. It takes a number from 1 on, such as 7.")
    return int(text)


def _lines(report: BackupReport, caller: Caller) -> Iterator[str]:
    manifest = report.manifest
    what = f"{counted(len(manifest.files), 'file')}, {size_in_words(max(report.size, 1000))}"
    yield f"{'Backup' if report.is_complete else 'Backup with gaps'}: {caller.shown(report.path)}"
    yield f"It has {what}. Only you can read it."
    if manifest.with_keys:
        yield "Your keys are in it: keep it where nobody else can read it."
    elif manifest.left_out:
        named = _named(manifest.left_out)
        yield f"Left out, because they are keys: {named}. `--with-keys` takes them along."
    if manifest.links:
        yield f"Left out, because they are links or pipes: {_named(manifest.links)}."
    if report.removed:
        yield f"Removed: {_named([path.name for path in report.removed])}."


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def as_object(report: BackupReport) -> dict[str, object]:
    manifest = report.manifest
    return {
        "path": str(report.path),
        "size": report.size,
        "made_at": manifest.made_at,
        "complete": report.is_complete,
        "with_keys": manifest.with_keys,
        "files": len(manifest.files),
        "bytes": manifest.content_bytes,
        "left_out": list(manifest.left_out),
        "links": list(manifest.links),
        "unread": [{"path": gap.path, "reason": gap.reason} for gap in manifest.unread],
        "removed": [str(path) for path in report.removed],
    }
