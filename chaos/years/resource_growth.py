"""Checks that memory, open files and the files that a start reads do not grow over the months."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_LARGEST_FILE = 300_000
_USUAL_OBJECT_SPREAD = 600
_USUAL_OPEN_FILE_SPREAD = 30


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    objects: Counter[str]
    open_files: int
    state_file_sizes: Counter[str]


def measure_resources(data: Path) -> ResourceUsage:
    gc.collect()
    kinds = (type(each) for each in gc.get_objects())
    ours = Counter(
        kind.__qualname__ for kind in kinds if str(kind.__module__).startswith("ollim_bot.")
    )
    open_files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    state_file_sizes = Counter(
        {path.name: path.stat().st_size for path in (data / "state").glob("*.json")}
    )
    return ResourceUsage(ours, open_files, state_file_sizes)


def growth_problems(usages: Sequence[ResourceUsage]) -> list[str]:
    """One sentence for each resource that grew too much; `usages` are in order of time."""
    found = []
    for name in sorted(set().union(*(each.objects for each in usages))):
        counts = [each.objects[name] for each in usages]
        if max(counts) - min(counts) > _USUAL_OBJECT_SPREAD and counts[-1] == max(counts):
            found.append(f"there are more and more of {name} in memory: {counts}")
    for usage in usages:
        for name, length in usage.state_file_sizes.items():
            if length > _LARGEST_FILE:
                found.append(f"{name} has grown to {length} bytes")
    spread = [each.open_files for each in usages]
    if spread and max(spread) - min(spread) > _USUAL_OPEN_FILE_SPREAD:
        found.append(f"more and more files are open: {spread}")
    return found
