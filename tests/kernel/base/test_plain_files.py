"""Only regular files of a sensible size are read; others neither block nor fill the memory."""

from __future__ import annotations

import os
import socket
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from ollim_bot.kernel.base.plain_files import (
    NotAFile,
    TooLarge,
    open_file,
    read_file,
    unsuitable_file,
)

HUGE = 1_500_000_000


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def make_device(path: Path) -> None:
    """A link to an endless device, since only root can make a device."""
    path.symlink_to("/dev/zero")


NO_FILES: list[Callable[[Path], None]] = [Path.mkdir, os.mkfifo, make_socket, make_device]


@pytest.mark.parametrize("make", NO_FILES)
def test_what_is_no_file_is_neither_read_nor_written(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "it"
    make(path)
    with pytest.raises(NotAFile):
        read_file(path, 100)
    for flags in (os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_CREAT):
        with pytest.raises(NotAFile):
            open_file(path, flags, 0o600)
    assert isinstance(unsuitable_file(path, 100), NotAFile)


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    path.touch()
    os.truncate(path, HUGE)
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge, match="larger than 1 MB"):
            read_file(path, 1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    assert isinstance(unsuitable_file(path, 1_000_000), TooLarge)


@pytest.mark.parametrize("size", [0, 1, 99, 100])
def test_a_file_is_read_whole_up_to_its_limit(tmp_path: Path, size: int) -> None:
    path = tmp_path / "it"
    path.write_bytes(b"x" * size)
    assert read_file(path, 100) == b"x" * size
    assert unsuitable_file(path, 100) is None
    path.write_bytes(b"x" * 101)
    with pytest.raises(TooLarge):
        read_file(path, 100)


def test_what_says_it_is_empty_and_is_not_is_taken_in_no_further_than_its_limit() -> None:
    """Files of the kernel have the size 0."""
    with pytest.raises(TooLarge):
        read_file("/proc/self/status", 100)
    assert b"VmRSS" in read_file("/proc/self/status", 100_000)


def test_a_link_to_a_file_is_one_unless_no_link_may_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("file")
    assert read_file(tmp_path / "link", 100) == b"text"
    with pytest.raises(NotAFile):
        open_file(tmp_path / "link", os.O_RDONLY | os.O_NOFOLLOW)
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "none", 100)


def test_a_pipe_that_takes_the_place_of_a_file_at_any_moment_is_not_waited_at(
    tmp_path: Path,
) -> None:
    path, pipe, is_over = tmp_path / "it", tmp_path / "pipe", threading.Event()

    def swap() -> None:
        while not is_over.is_set():
            (tmp_path / "text").write_text("text")
            os.replace(tmp_path / "text", path)
            os.mkfifo(pipe)
            os.replace(pipe, path)

    path.touch()
    swapping = threading.Thread(target=swap, daemon=True)
    swapping.start()
    seen: set[bytes | None] = set()
    try:
        for _ in range(3000):
            try:
                seen.add(read_file(path, 100))
            except NotAFile:
                seen.add(None)
    finally:
        is_over.set()
        swapping.join(10)
    assert seen <= {b"", b"text", None}
    assert None in seen
