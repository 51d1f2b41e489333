from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.features.webhooks.scene import HookScene, new_scene, serving


@pytest.fixture
async def scene() -> AsyncIterator[HookScene]:
    async with serving(new_scene()) as found:
        yield found
