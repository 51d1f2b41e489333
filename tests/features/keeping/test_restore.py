"""A restore brings back everything, overwrites nothing, and survives a kill."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from tests.features.keeping.backups import NOW, SESSION, Home, everything_below

from ollim_bot.features.keeping.restore import place_transcripts, refuse_cut_off, restore_into
from ollim_bot.kernel.base.errors import AlreadyRunning, OllimError, WriteFailed
from ollim_bot.kernel.base.instance import single_instance
from ollim_bot.kernel.engine.transcripts import Transcripts
from ollim_bot.kernel.store.heartbeat import HeartbeatFile

ROOT = Path(__file__).resolve().parents[3]
HOUR = timedelta(hours=1)
ASIDE = ".ollim-bot.before-restore-20261116T100000Z"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").prepare()


def texts_of(home: Home) -> list[str]:
    database = home.open()
    try:
        return [each.message.text for each in database.query(lambda tx: tx.messages.page(50))]
    finally:
        database.close()


def test_all_of_it_comes_back_and_what_was_there_stays(home: Home) -> None:
    home.write("skills/mail/run.sh", "#!/bin/sh\n").chmod(0o755)
    old = home.write("downloads/a.pdf", "old")
    os.utime(old, (1_000_000_000, 1_000_000_000))
    file = home.back_up().path
    before = everything_below(home.paths.root)
    home.now += HOUR
    home.say("later words")
    home.write("USER.md", "later")
    home.write("routines/1a2b3c4d.md", "changed")
    left = everything_below(home.paths.root)
    report = home.restore(file)
    assert report.aside == home.folder / ASIDE
    assert report.keys == (".env", "state/token.json")
    assert report.said == ("later words",)
    assert everything_below(report.aside) == left
    after = everything_below(home.paths.root)
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed <= {"state/ollim.db", "state/heartbeat"}
    assert before.keys() - after.keys() == {"state/ballast"} & before.keys()
    assert texts_of(home) == ["the first words"]
    assert (home.paths.root / "skills/mail/run.sh").stat().st_mode & 0o777 == 0o700
    assert old.stat().st_mtime == 1_000_000_000
    assert HeartbeatFile(home.paths).read() == home.now
    assert home.problems == []


@pytest.mark.real_process
def test_the_history_comes_back_without_what_could_run(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").prepare(has_history=True)
    git = ["git", "-C", str(home.paths.root)]
    subprocess.run([*git, "remote", "add", "origin", "https://me:secret@example.org/x"], check=True)
    before = subprocess.check_output([*git, "log", "--format=%H"])
    file = home.back_up(with_keys=True).path
    home.restore(file)
    assert subprocess.check_output([*git, "log", "--format=%H"]) == before
    assert subprocess.check_output([*git, "status", "--porcelain"]) == b""
    assert b"secret" not in (home.paths.root / ".git" / "config").read_bytes()
    assert not (home.paths.root / "history.bundle").exists()


def test_the_records_of_the_engine_go_where_the_new_folder_is(home: Home, tmp_path: Path) -> None:
    home.record(SESSION, "of a subagent", f"{SESSION}/subagents/agent-1.jsonl")
    file = home.back_up().path
    other = Home(tmp_path / "elsewhere" / "another home")
    other.folder.mkdir(parents=True)
    other.restore(file)
    found = Transcripts(other.environment).find(SESSION)
    assert found is not None
    assert found.read_text() == "remembered\n"
    assert found.parent.name.endswith("another-home--ollim-bot")
    assert (found.with_suffix("") / "subagents" / "agent-1.jsonl").read_text() == "of a subagent"
    assert not (other.paths.state / "restored_transcripts").exists()


def test_a_record_that_has_grown_since_is_kept_beside_it(home: Home) -> None:
    record = home.record(SESSION, "remembered\n")
    file = home.back_up().path
    record.write_text("remembered\nand more\n")
    home.now += HOUR
    home.restore(file)
    assert record.read_text() == "remembered\n"
    kept = record.with_name(f"{record.name}.before-restore-20261116T100000Z")
    assert kept.read_text() == "remembered\nand more\n"
    assert Transcripts(home.environment).find(SESSION) == record


def test_records_that_could_not_be_put_back_wait_for_the_next_start(home: Home) -> None:
    file = home.back_up().path
    shutil.rmtree(home.folder / ".claude")
    (home.folder / ".claude").write_text("not a folder")
    (note,) = home.restore(file).notes
    assert "the next start tries again" in note
    (home.folder / ".claude").unlink()
    assert place_transcripts(home.paths, home.environment, home.now) == ()
    found = Transcripts(home.environment).find(SESSION)
    assert found is not None
    assert found.read_text() == "remembered\n"
    assert place_transcripts(home.paths, home.environment, home.now) == ()


@pytest.mark.real_time
def test_a_running_bot_is_not_disturbed(home: Home) -> None:
    file = home.back_up().path
    before = everything_below(home.folder)
    with single_instance(home.paths.bot_pid), pytest.raises(AlreadyRunning):
        home.restore(file)
    assert everything_below(home.folder) == before
    assert sorted(os.listdir(home.folder)) == [".claude", ".ollim-bot", ".ollim-bot-backups"]


def test_a_damaged_backup_leaves_all_as_it_is(home: Home) -> None:
    file = home.back_up().path
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)
    before = everything_below(home.folder)
    with pytest.raises(OllimError):
        home.restore(file)
    assert everything_below(home.folder) == before
    assert sorted(os.listdir(home.folder)) == [".claude", ".ollim-bot", ".ollim-bot-backups"]


def test_through_a_link_the_folder_itself_is_exchanged(home: Home, tmp_path: Path) -> None:
    file = home.back_up().path
    shutil.move(home.paths.root, tmp_path / "real")
    home.paths.root.symlink_to(tmp_path / "real")
    home.write("USER.md", "later")
    report = home.restore(file)
    assert home.paths.root.is_symlink()
    assert report.aside is not None
    assert report.aside.parent == tmp_path
    assert home.paths.user.read_text() != "later"


def test_a_start_between_two_steps_makes_no_new_directory(home: Home) -> None:
    """The state after a kill on a file system that cannot exchange two names atomically."""
    refuse_cut_off(home.paths)
    home.paths.root.rename(home.folder / ASIDE)
    refuse_cut_off(home.paths)
    (home.folder / "..ollim-bot.restoring-x" / ".ollim-bot").mkdir(parents=True)
    with pytest.raises(OllimError, match="A restore was cut off") as refused:
        refuse_cut_off(home.paths)
    assert f"mv {home.folder / ASIDE} {home.paths.root}" in str(refused.value)
    file = home.folder / ".ollim-bot-backups"
    assert not file.exists()


def limited(what: str, file: Path, limit: int) -> subprocess.CompletedProcess[str]:
    """Run the program with a limit on the size of each file that it writes."""

    def limit_size() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    script = f"import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); {what}"
    return subprocess.run(
        [sys.executable, "-c", script, str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        preexec_fn=limit_size,
    )


_MAIN = (
    "import sys; from ollim_bot.surfaces.terminal.main import main\n"
    "sys.exit(main({words}, environ={environ}))"
)


@pytest.mark.real_process
def test_a_full_disk_leaves_nothing_half_and_is_told(home: Home) -> None:
    """No file may become larger: neither the backup nor the restored database has room."""
    whole = home.back_up(home.folder / "whole.tar.gz").path
    home.write("downloads/noise", "").write_bytes(os.urandom(700_000))
    before = everything_below(home.folder)
    environ = {"HOME": str(home.folder), "OLLIM_TIMEZONE": "UTC", "PATH": os.environ["PATH"]}
    for words, limit in (
        (["backup", str(home.folder)], 600_000),
        (["restore", str(whole)], 99_000),
    ):
        done = limited(_MAIN.format(words=words, environ=environ), whole, limit)
        assert done.returncode == 1, done.stderr
        assert "could not be written: File too large" in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert everything_below(home.folder) == before
        assert sorted(os.listdir(home.folder)) == [".claude", ".ollim-bot", "whole.tar.gz"]


@pytest.mark.real_process
def test_a_kill_at_any_moment_leaves_the_old_or_the_new_directory(tmp_path: Path) -> None:
    first = Home(tmp_path / "first").prepare(has_history=True)
    first.write("USER.md", "then")
    first.back_up(tmp_path / "backup.tar.gz")
    done = subprocess.run(
        [sys.executable, "-m", "tests.features.keeping.killed_restore", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    moments = done.stdout.split()
    assert len(moments) > 20
    seen, left_before = set(), list[str]()
    for moment in moments:
        home = Home(tmp_path / moment, NOW + 2 * HOUR)
        seen.add(home.paths.user.read_text())
        left = sorted(os.listdir(home.folder))
        check_whole(home)
        if left == left_before:
            continue
        left_before = left
        home.restore(tmp_path / "backup.tar.gz")
        assert home.paths.user.read_text() == "then"
        check_whole(home)
        assert not any("restoring" in name for name in os.listdir(home.folder))
    assert seen == {"then", "later"}


def check_whole(home: Home) -> None:
    """The directory is the old or the new one, and the bot can start with it."""
    assert texts_of(home) == ["the first words"]
    place_transcripts(home.paths, home.environment, home.now)
    found = Transcripts(home.environment).find(SESSION)
    assert found is not None
    assert found.read_text() == "remembered\n"


def test_keys_that_are_nowhere_are_named(home: Home) -> None:
    restored = restore_into(home.back_up().path, home.folder / "again")
    assert restored.missing == (".env", "state/token.json")
    with pytest.raises(WriteFailed):
        restore_into(home.back_up().path, home.folder / "again")
