"""The state in which the tests begin, and with them all that they start, on every machine.

A run in the background ignores signals, one without a terminal may have no standard input, and each
machine has its own limits, zone, language and settings.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path

# How programs and packages are found, and the settings of the tests. All else is unset.
_KEPT = ("PATH", "CI", "HYPOTHESIS_PROFILE", "SSL_CERT_FILE", "SSL_CERT_DIR")
_KEPT_BEGINNINGS = ("OLLIM_BOT_TEST_", "PIP_", "PLAYWRIGHT_", "PYTEST_")
_SET = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
_UMASK, _OPEN_FILES = 0o022, 4096
# For the first line of a script, which can have no space; the path of this checkout may.
PYTHON = os.path.realpath(sys.executable)


def begin_in_defined_state() -> None:
    """Bring this process into the state that its children inherit."""
    _reset_signals()
    _open_standard_streams()
    os.umask(_UMASK)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if most == resource.RLIM_INFINITY else min(_OPEN_FILES, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    for name in set(os.environ).difference(_KEPT):
        if not name.startswith(_KEPT_BEGINNINGS):
            del os.environ[name]
    os.environ.update(_SET)
    time.tzset()


def use_folders(*, home: Path, temporary: Path) -> None:
    """Use these empty folders, so that no settings or credentials of a person are found."""
    os.environ["HOME"] = str(home)
    tempfile.tempdir = os.environ["TMPDIR"] = str(temporary)


def _reset_signals() -> None:
    """Set all signals to what a program finds that is started in a terminal."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    # Python itself ignores these two.
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _open_standard_streams() -> None:
    """Open those that are closed: else the next file takes their number."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
