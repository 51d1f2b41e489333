"""What must not grow from month to month: what is in memory, and what a start has to read."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# What a start reads as a whole; the logs that only grow are read from their ends.
_READ_WHOLE = ("*.json", "inbox.jsonl", "outbox.jsonl")
_LARGEST = 300_000
_USUAL_SPREAD = 600
_MOST_OPEN = 30


@dataclass(frozen=True, slots=True)
class Size:
    objects: Counter[str]
    tasks_and_files: int
    state: Counter[str]


def sized(data: Path) -> Size:
    gc.collect()
    kinds = (type(each) for each in gc.get_objects())
    ours = Counter(
        kind.__qualname__ for kind in kinds if str(kind.__module__).startswith("ollim_bot.")
    )
    open_files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    state = Counter(
        {
            path.name: path.stat().st_size
            for kind in _READ_WHOLE
            for path in (data / "state").glob(kind)
        }
    )
    return Size(ours, open_files, state)


def outgrown(sizes: Sequence[Size]) -> list[str]:
    """A sentence for each thing of which there was too much."""
    found = []
    for name in sorted(set().union(*(each.objects for each in sizes))):
        counts = [each.objects[name] for each in sizes]
        if max(counts) - min(counts) > _USUAL_SPREAD and counts[-1] == max(counts):
            found.append(f"there are more and more of {name} in memory: {counts}")
    for size in sizes:
        for name, length in size.state.items():
            if length > _LARGEST:
                found.append(f"{name} has grown to {length} bytes")
    spread = [each.tasks_and_files for each in sizes]
    if spread and max(spread) - min(spread) > _MOST_OPEN:
        found.append(f"more and more files are open: {spread}")
    return found
