"""A file that is not a whole backup of ours is refused with a sentence, and nothing is written."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.features.keeping.backups import Home, archive_of, manifest_of, tar_of

from ollim_bot.features.keeping.backup import BackupReader, BadBackup
from ollim_bot.features.keeping.restore import restore_into
from ollim_bot.kernel.base.errors import OllimError

GOOD = ("data/USER.md", b"hello")


def of_type(
    kind: bytes, name: str = "data/USER.md", target: str = "/etc/passwd"
) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def with_pax(**fields: str) -> bytes:
    info = tarfile.TarInfo(GOOD[0])
    info.size, info.pax_headers = (
        len(GOOD[1]),
        {name.replace("_", "."): v for name, v in fields.items()},
    )
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        content = json.dumps(manifest_of([GOOD])).encode()
        head = tarfile.TarInfo("manifest.json")
        head.size = len(content)
        tar.addfile(head, io.BytesIO(content))
        tar.addfile(info, io.BytesIO(GOOD[1]))
    return gzip.compress(raw.getvalue(), 1)


def without_end(content: bytes) -> bytes:
    return gzip.compress(gzip.decompress(content)[: -20 * 512], 1)


def changed(content: bytes, old: bytes, new: bytes) -> bytes:
    raw = gzip.decompress(content)
    assert old in raw
    return gzip.compress(raw.replace(old, new), 1)


def named(*names: str) -> bytes:
    """A backup whose manifest names these files; the archive has them."""
    return archive_of(*((name, b"x") for name in names))


def good_with(**fields: object) -> bytes:
    """A backup with one file, and a manifest that says more of it."""
    return archive_of(GOOD, manifest=manifest_of([GOOD], with_keys=True, **fields))


DENIED = "although its manifest says"
HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "parent": (lambda: named("data/../../x"), "no place in a backup"),
    "parent at the end": (lambda: named("data/.."), "no place in a backup"),
    "absolute": (lambda: named("/etc/cron.d/x"), "no place in a backup"),
    "absolute below data": (lambda: named("data//etc/x"), "no place in a backup"),
    "beside the data": (lambda: named("elsewhere/x"), "no place in a backup"),
    "the folder itself": (lambda: named("data"), "no place in a backup"),
    "dot": (lambda: named("data/./x"), "no place in a backup"),
    "NUL": (
        lambda: archive_of(GOOD, manifest=manifest_of([GOOD, ("data/a\0b", b"")])),
        "no place in a backup",
    ),
    "hook of git": (lambda: named("data/.git/hooks/post-commit"), "which no backup has"),
    "hook of git in capitals": (lambda: named("data/.GIT/hooks/x"), "which no backup has"),
    "memory of the engine": (lambda: named("transcripts/memory/MEMORY.md"), "which no backup has"),
    "what a restore left off": (lambda: named("data/state/left-off/x"), "which no backup has"),
    ".env that its manifest denies": (lambda: named("data/.env"), DENIED),
    ".Env that its manifest denies": (lambda: named("data/.Env"), DENIED),
    "servers that its manifest denies": (lambda: named("data/mcp.json"), DENIED),
    "hooks that its manifest denies": (lambda: named("data/.claude/settings.json"), DENIED),
    "token that its manifest denies": (lambda: named("data/state/web_token"), DENIED),
    "file that was left out": (lambda: good_with(left_out=["USER.md"]), DENIED),
    "file that was a link": (lambda: good_with(links=["USER.md"]), DENIED),
    "file that was not read": (
        lambda: good_with(unread=[{"path": GOOD[0], "reason": "no"}]),
        DENIED,
    ),
    "lock of the bot": (lambda: named("data/state/bot.pid"), "which no backup has"),
    "log of the database": (lambda: named("data/state/ollim.db-wal"), "which no backup has"),
    "name twice": (lambda: named("data/x", "data/x"), "twice"),
    "member twice": (lambda: archive_of(GOOD, GOOD, manifest=manifest_of([GOOD])), "does not name"),
    "file and folder": (lambda: named("data/x", "data/x/y"), "both as a file and as a folder"),
    "link": (
        lambda: archive_of(of_type(tarfile.SYMTYPE), manifest=manifest_of([GOOD])),
        "not a plain file",
    ),
    "hard link": (
        lambda: archive_of(of_type(tarfile.LNKTYPE), manifest=manifest_of([GOOD])),
        "not a plain file",
    ),
    "device": (
        lambda: archive_of(of_type(tarfile.CHRTYPE), manifest=manifest_of([GOOD])),
        "not a plain file",
    ),
    "pipe": (
        lambda: archive_of(of_type(tarfile.FIFOTYPE), manifest=manifest_of([GOOD])),
        "not a plain file",
    ),
    "folder": (
        lambda: archive_of(of_type(tarfile.DIRTYPE), manifest=manifest_of([GOOD])),
        "not a plain file",
    ),
    "sparse file": (
        lambda: archive_of(of_type(tarfile.GNUTYPE_SPARSE), manifest=manifest_of([GOOD])),
        "not a plain file",
    ),
    "sparse file by its header": (lambda: with_pax(GNU_sparse_realsize="99"), "not a plain file"),
    "long header": (lambda: with_pax(comment="x" * 100_000), "a header is too long"),
    "other path by its header": (lambda: with_pax(path="../x"), "does not name"),
    "more than the manifest names": (
        lambda: archive_of(GOOD, ("data/more", b"x"), manifest=manifest_of([GOOD])),
        "does not name",
    ),
    "less than the manifest names": (
        lambda: archive_of(manifest=manifest_of([GOOD])),
        "lacks 'data/USER.md'",
    ),
    "longer file": (
        lambda: archive_of((GOOD[0], b"hello you"), manifest=manifest_of([GOOD])),
        "another size",
    ),
    "other content": (
        lambda: archive_of((GOOD[0], b"hallo"), manifest=manifest_of([GOOD])),
        "is not what it was",
    ),
    "something after the end": (
        lambda: archive_of(GOOD) + gzip.compress(b"more" * 100),
        "goes on after its end",
    ),
    "bomb after the end": (
        lambda: archive_of(GOOD) + gzip.compress(bytes(50_000_000)),
        "goes on after its end",
    ),
    "garbage after the end": (lambda: archive_of(GOOD) + b"garbage", "is damaged"),
    "no end": (lambda: without_end(archive_of(GOOD)), "cut off"),
    "cut off in the middle": (lambda: archive_of(GOOD)[:-30], "cut off"),
    "empty": (lambda: b"", "cut off"),
    "not compressed": (lambda: tar_of([GOOD]), "not a backup"),
    "another program's": (lambda: gzip.compress(tar_of([GOOD])), "manifest.json is not first"),
    "another program's manifest": (
        lambda: archive_of(GOOD, manifest={"files": []}),
        "not a backup of ollim-bot",
    ),
    "manifest that is no JSON": (
        lambda: gzip.compress(tar_of([("manifest.json", b"{")])),
        "no JSON",
    ),
    "manifest that is a bomb": (
        lambda: gzip.compress(tar_of([("manifest.json", b"[" * 1_000_000)])),
        "no JSON",
    ),
    "newer format": (
        lambda: archive_of(GOOD, manifest=manifest_of([GOOD], format=2)),
        "Update ollim-bot first",
    ),
    "newer database": (
        lambda: archive_of(GOOD, manifest=manifest_of([GOOD], schema=9999)),
        "Update ollim-bot first",
    ),
    "negative size": (
        lambda: archive_of(GOOD, manifest=manifest_of([], files=[{"path": "data/x", "size": -1}])),
        "makes no sense",
    ),
    "no files": (lambda: archive_of(GOOD, manifest=manifest_of([], files=7)), "makes no sense"),
    "moment without a zone": (
        lambda: archive_of(GOOD, manifest=manifest_of([GOOD], made_at="2026-11-16T09:00")),
        "makes no sense",
    ),
    "header without its sum": (
        lambda: changed(archive_of(GOOD), b"data/USER.md\0", b"data/USER.nd\0"),
        "lacks 'data/USER.md'",
    ),
    "database that is none": (lambda: named("data/state/ollim.db"), "is damaged"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_it_is_refused_and_nothing_is_written(tmp_path: Path, what: str) -> None:
    make, reason = HOSTILE[what]
    file = tmp_path / "backup.tar.gz"
    file.write_bytes(make())
    with pytest.raises(OllimError, match=reason) as refused:
        restore_into(file, tmp_path / "new")
    assert "\n" not in str(refused.value)
    assert refused.value.exit_code == 1
    assert os.listdir(tmp_path) == ["backup.tar.gz"]


def test_the_same_archive_without_a_fault_is_restored(tmp_path: Path) -> None:
    file = tmp_path / "backup.tar.gz"
    file.write_bytes(archive_of(GOOD))
    restore_into(file, tmp_path / "new")
    assert (tmp_path / "new" / "USER.md").read_bytes() == b"hello"


def test_more_than_the_disk_has_is_refused_before_it_is_written(tmp_path: Path) -> None:
    entry = {"path": "data/x", "size": 2**60, "sha256": "", "mode": 0, "mtime": 0}
    file = tmp_path / "backup.tar.gz"
    file.write_bytes(archive_of(manifest=manifest_of([], files=[entry])))
    with pytest.raises(OllimError, match=r"needs .* MB, and there are"):
        restore_into(file, tmp_path / "new")
    assert os.listdir(tmp_path) == ["backup.tar.gz"]


@pytest.mark.parametrize("place", ["gone.tar.gz", "folder", "pipe"])
def test_what_is_no_file_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadBackup, match="Name a backup"):
        restore_into(tmp_path / place, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_large_file_takes_little_memory(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.paths.downloads.mkdir(parents=True)
    (home.paths.downloads / "large").write_bytes(bytes(40_000_000))
    tracemalloc.start()
    try:
        report = home.back_up()
        restore_into(report.path, tmp_path / "new")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 12_000_000
    assert (tmp_path / "new" / "downloads" / "large").stat().st_size == 40_000_000


WHOLE = archive_of(GOOD, ("data/notes/a.md", b"x" * 5000), ("transcripts/s.jsonl", b"{}\n"))


@settings(max_examples=150)
@given(st.data())
def test_no_damage_gives_other_content_or_another_error(data: st.DataObject) -> None:
    """Bytes are changed, removed or added anywhere, in the compressed file or below it."""
    is_below = data.draw(st.booleans())
    content = bytearray(gzip.decompress(WHOLE) if is_below else WHOLE)
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, min(len(content), start + 600)))
    content[start:end] = data.draw(st.binary(max_size=20))
    hostile = gzip.compress(bytes(content), 1) if is_below else bytes(content)
    written: dict[str, io.BytesIO] = {}

    class Kept(io.BytesIO):
        def close(self) -> None:
            pass

    try:
        backup = BackupReader(Path("x"), io.BytesIO(hostile))
        backup.extract(lambda entry: written.setdefault(entry.path, Kept()))
    except BadBackup:
        return
    assert {name: each.getvalue() for name, each in written.items()} == {
        "data/USER.md": b"hello",
        "data/notes/a.md": b"x" * 5000,
        "transcripts/s.jsonl": b"{}\n",
    }
