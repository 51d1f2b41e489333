"""watchfiles with its defaults: how soon it reports a file, and what it costs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from statistics import median

from watchfiles import watch

LIMIT = 30.0


def heard_after(folder: Path, write: Callable[[int], object], rounds: int) -> float:
    """The median of the seconds from a write in the folder until it is reported."""
    times = []
    with _listening(folder) as heard:
        for number in range(rounds):
            began = time.perf_counter()
            write(number)
            heard.get(timeout=LIMIT)
            times.append(time.perf_counter() - began)
            _until_quiet(heard)
    return median(times)


def idle_share(folder: Path, seconds: float) -> float:
    """CPU seconds of this process per second of watching while nothing happens."""
    with _listening(folder):
        time.sleep(0.5)
        began = time.process_time()
        time.sleep(seconds)
        return (time.process_time() - began) / seconds


@contextmanager
def _listening(folder: Path) -> Iterator[Queue[int]]:
    heard: Queue[int] = Queue()
    stop = threading.Event()

    def listen() -> None:
        signs = watch(folder, stop_event=stop, rust_timeout=250, yield_on_timeout=True)
        for number, burst in enumerate(signs):
            # The first event says that the watching has begun.
            if burst or number == 0:
                heard.put(len(burst))

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        heard.get(timeout=LIMIT)
        yield heard
    finally:
        stop.set()
        thread.join(LIMIT)


def _until_quiet(heard: Queue[int]) -> None:
    """One write can be reported twice."""
    time.sleep(0.2)
    while not heard.empty():
        heard.get()
