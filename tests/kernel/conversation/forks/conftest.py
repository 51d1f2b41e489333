"""The fixtures of the conversation that tests of forks use too."""

from tests.kernel.conversation.conftest import inline_executor

__all__ = ["inline_executor"]
