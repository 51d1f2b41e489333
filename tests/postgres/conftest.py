"""An empty place on the server for each test."""

from __future__ import annotations

import pytest
from tests.kernel.conversation.conftest import inline_executor
from tests.postgres_server import new_address

from ollim_bot_standby.postgres.connection import Address

__all__ = ["inline_executor"]


@pytest.fixture
def address() -> Address:
    return new_address()
