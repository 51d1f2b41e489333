"""Fetches the files of a commit from a git repository of others, which can do nothing here."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from threading import Timer
from time import monotonic

from ollim_bot.errors import OllimError
from ollim_bot.plain_files import size_in_words

LARGEST_ARCHIVE = 20_000_000
_LONGEST_GIT = 60.0
_ACCOUNT = re.compile(r"(?<=://)[^/@\s]*@")
# Nothing of the owner's or of the repository's configuration may run a program or ask a question.
_GIT_VARIABLES = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
    "GIT_LFS_SKIP_SMUDGE": "1",
}
_GIT = ("git", "-c", f"core.hooksPath={os.devnull}", "-c", "core.fsmonitor=false")


class FetchFailed(OllimError):
    """`str()` says why nothing was fetched."""


def without_account(url: str) -> str:
    """The address without a name and a password."""
    return _ACCOUNT.sub("", url)


def git_archive(url: str, wanted: str) -> tuple[bytes, str]:
    """The files of the commit `wanted`, or of the newest, as a ZIP file, and the commit.

    No working tree is made: hooks, filters, links and submodules of the repository do nothing.
    """
    deadline = monotonic() + _LONGEST_GIT
    with tempfile.TemporaryDirectory(prefix="ollim-skill-") as folder:

        def git(*words: str) -> tuple[int, bytes]:
            return _run_git(words, folder, deadline)

        git("init", "--quiet", "--bare", "--template=")
        shallow = ("fetch", "--quiet", "--depth", "1", "--no-tags", "--", url)
        code, said = git(*shallow, wanted or "HEAD")
        if code and wanted:
            # Many servers do not give out a single commit.
            code, said = git("fetch", "--quiet", "--", url, "+refs/*:refs/fetched/*")
        if code:
            raise FetchFailed(f"git could not fetch {without_account(url)}: {_last_line(said)}")
        code, said = git("rev-parse", "--verify", f"{wanted or 'FETCH_HEAD'}^{{commit}}")
        if code:
            raise FetchFailed(f"There is no commit {wanted} in {without_account(url)}.")
        commit = said.decode("ascii", "replace").strip()
        code, data = git("archive", "--format=zip", commit)
        if code:
            raise FetchFailed(f"git could not read the commit: {_last_line(data)}")
        return data, commit


def _run_git(words: Sequence[str], folder: str, deadline: float) -> tuple[int, bytes]:
    """The exit code and the output, at most as much as an archive may have."""
    try:
        process = subprocess.Popen(
            (*_GIT, "-C", folder, *words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **_GIT_VARIABLES},
            start_new_session=True,
        )
    except OSError as refused:
        raise FetchFailed(f"git could not be started: {refused.strerror}.") from refused
    alarm = Timer(max(0.0, deadline - monotonic()), _kill, (process,))
    alarm.start()
    with process:
        try:
            assert process.stdout is not None
            output = process.stdout.read(LARGEST_ARCHIVE + 1)
            code = process.wait() if len(output) <= LARGEST_ARCHIVE else 0
        finally:
            alarm.cancel()
            _kill(process)
    if len(output) > LARGEST_ARCHIVE:
        raise FetchFailed(f"It is larger than {size_in_words(LARGEST_ARCHIVE)}.")
    if monotonic() >= deadline:
        raise FetchFailed(f"git took longer than {_LONGEST_GIT:.0f} seconds.")
    return code, output


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _last_line(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
