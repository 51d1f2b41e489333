"""Collects the garbage of earlier tests, so that its warnings do not fail a later test."""

from __future__ import annotations

import gc
import sys


def collect_garbage_of_earlier_tests() -> None:
    hook = sys.unraisablehook
    sys.unraisablehook = lambda _: None
    try:
        gc.collect()
    finally:
        sys.unraisablehook = hook
