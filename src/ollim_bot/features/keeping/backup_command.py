"""`ollim-bot backup`: writes all that the bot knows into one file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from ollim_bot.features.keeping.backup import BackupReport, incomplete
from ollim_bot.kernel.base.errors import OllimError, WrongInput
from ollim_bot.kernel.base.plain_files import size_in_words
from ollim_bot.kernel.base.text import counted
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.framework import JSON, Given, argument, command, plain, print_json
from ollim_bot.surfaces.terminal.printing import show

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
    from ollim_bot.features.keeping.backup import write_backup

    place, target = caller.place(), None
    if "target" in given:
        typed = str(given["target"])
        target = caller.path(typed)
        if typed.endswith("/") and not target.is_dir():
            raise WrongInput(f"{typed} is not a folder. Make it first: mkdir {typed}")
    keep = str(given["keep"]) if "keep" in given else None
    if keep is not None and not (keep.isascii() and keep.isdigit() and int(keep)):
        wrong = f"--keep: {keep!r} is not right. It takes a number from 1 on, such as 7."
        raise WrongInput(wrong)
    report = write_backup(
        place.paths,
        caller.environ,
        lambda: caller.now().astimezone(place.zone),
        target=target,
        with_keys="with_keys" in given,
        keep=None if keep is None else int(keep),
    )
    if "json" in given:
        manifest = report.manifest
        print_json(
            {
                "path": str(report.path),
                "size": report.size,
                "made_at": manifest.made_at,
                "complete": report.is_complete,
                "with_keys": manifest.with_keys,
                "files": len(manifest.files),
                "bytes": manifest.content_bytes,
                "left_out": manifest.left_out,
                "links": manifest.links,
                "unread": [asdict(gap) for gap in manifest.unread],
                "removed": [str(path) for path in report.removed],
            }
        )
    else:
        for line in _lines(report, caller):
            show(plain(line))
    if not report.is_complete:
        raise OllimError(incomplete(report))


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
