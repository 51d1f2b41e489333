"""How many examples hypothesis tries, relative to the profile that is chosen in `conftest.py`."""

from __future__ import annotations

from hypothesis import settings


def examples(share: float) -> int:
    assert settings.default is not None
    return max(1, round(settings.default.max_examples * share))
