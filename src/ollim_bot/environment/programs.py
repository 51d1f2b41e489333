"""Finds programs, and what Python starts with, where the folder that is current says nothing.

An entry of a search path that is empty or relative leads into whatever folder is current: that of
the agent is the data directory, into which it writes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

# Each holds one folder or file that Python reads when it starts.
_PYTHON_PLACES = ("PYTHONHOME", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX", "PYTHONSTARTUP")


def search_path(path: str) -> str:
    """Without the entries that depend on the current folder."""
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if os.path.isabs(entry))


def program_path(name: str, path: str) -> str | None:
    """Where the program of that name is; one that is a path already is taken as it is."""
    if os.path.isabs(name):
        return name
    found = (os.path.join(folder, name) for folder in search_path(path).split(os.pathsep) if folder)
    return next((each for each in found if os.path.isfile(each) and os.access(each, os.X_OK)), None)


def python_places(environ: Mapping[str, str], cwd: str) -> dict[str, str]:
    """What of the environment names places for Python, as it was meant in the folder `cwd`."""
    places = {
        name: os.path.join(cwd, environ[name]) for name in _PYTHON_PLACES if environ.get(name)
    }
    if "PYTHONPATH" in environ:
        entries = filter(None, environ["PYTHONPATH"].split(os.pathsep))
        places["PYTHONPATH"] = os.pathsep.join(os.path.join(cwd, entry) for entry in entries)
    return places


def own_command() -> list[str]:
    """Starts this program anew, with nothing of the current folder on Python's path."""
    # -I would leave out where `pip install --user` puts things.
    isolation = "-I" if sys.flags.isolated else "-P"
    return [sys.executable, isolation, "-m", "ollim_bot"]
