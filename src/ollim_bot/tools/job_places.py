"""Which job, skill or profile files a path leads to, however it is spelled."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ollim_bot.domain.job_files import SKILL_FILE, JobFile, JobFolder
from ollim_bot.domain.profile import ProfileFile

_OF_JOBS = (JobFolder.ROUTINES, JobFolder.REMINDERS, JobFolder.WEBHOOKS)


def job_files(root: Path, path: str) -> tuple[JobFile, ...]:
    """Also those that are links to where it leads. None for a path to anything else."""
    found = (file for place in _places(root, path) for file in _files_at(root, place))
    return tuple(dict.fromkeys(found))


def profile_files(root: Path, path: str) -> tuple[ProfileFile, ...]:
    """The same for the files of the profile."""
    places = _places(root, path)
    return tuple(each for each in ProfileFile if any(_is_profile(root, each, at) for at in places))


def _places(root: Path, path: str) -> tuple[str, ...]:
    whole = os.path.join(root, path)
    # The engine leaves out `..` before it follows links; a disk does so after.
    places = (os.path.realpath(os.path.normpath(whole)), os.path.realpath(whole))
    return tuple(dict.fromkeys(places))


def _is_profile(root: Path, file: ProfileFile, place: str) -> bool:
    folder, name = os.path.split(place)
    # Some disks do not tell capitals from small letters, which shows only when the file is there.
    is_named_so = name.casefold() == file.casefold() and _is_same_folder(folder, root)
    return is_named_so or _leads_to(os.path.join(root, file), place)


def _files_at(root: Path, place: str) -> Iterator[JobFile]:
    folder, name = os.path.split(place)
    for jobs in _OF_JOBS:
        if _is_job_name(name) and _is_same_folder(folder, root / jobs):
            yield JobFile(jobs, name)
        yield from (JobFile(jobs, each) for each in _other_names(root / jobs, place))
    above, skill = os.path.split(folder)
    if name.casefold() == SKILL_FILE.casefold() and _is_same_folder(above, root / JobFolder.SKILLS):
        yield JobFile(JobFolder.SKILLS, f"{skill}/{name}")
    for each in _listed(root / JobFolder.SKILLS):
        if _leads_to(os.path.join(each.path, SKILL_FILE), place):
            yield JobFile(JobFolder.SKILLS, f"{each.name}/{SKILL_FILE}")


def _is_job_name(name: str) -> bool:
    return name.casefold().endswith(".md") and not name.startswith(".")


def _is_same_folder(one: str, other: Path) -> bool:
    """By the disk, which knows whether capitals matter to it; by name where there is none yet."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return one.casefold() == os.path.realpath(other).casefold()


def _other_names(folder: Path, place: str) -> Iterator[str]:
    """Names in a folder that are links to a file elsewhere, of either kind."""
    number = _number_of_linked(place)
    for entry in _listed(folder):
        is_candidate = entry.is_symlink() or entry.inode() == number
        if is_candidate and _is_job_name(entry.name) and _leads_to(entry.path, place):
            yield entry.name


def _number_of_linked(place: str) -> int | None:
    try:
        status = os.stat(place)
    except OSError:
        return None
    return status.st_ino if status.st_nlink > 1 else None


def _leads_to(path: str, place: str) -> bool:
    if os.path.realpath(path) == place:
        return True
    try:
        return os.path.samefile(path, place)
    except OSError:
        return False


def _listed(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:
        return
