"""What tests of every step need."""

from tests.conversation.conftest import at_once

__all__ = ["at_once"]
