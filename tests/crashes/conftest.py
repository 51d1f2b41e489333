"""The fixture of the conversation that the crash matrix uses too."""

from tests.kernel.conversation.conftest import inline_executor

__all__ = ["inline_executor"]
