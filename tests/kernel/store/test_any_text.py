"""Any text of the owner is stored in the database unchanged."""

from __future__ import annotations

import pytest
from tests.kernel.store.scene import NOW, StoreScene

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.inbox import Accepted, InputId, OwnerMessage


@pytest.mark.parametrize(
    "text",
    [
        "half a pair \ud83d here",
        "\udcff",
        "a\x00b",
        "lines \u2028 and \u2029 and \x85 and \r\n and \n",
        "\ufeffmarked",
        "x" * 1_000_000,
        "😀" * 250_000,
        '{"row": "ended"}\n',
        "",
    ],
    ids=lambda text: ascii(text[:12]),
)
def test_any_text_comes_back_from_disk_as_it_was(scene: StoreScene, text: str) -> None:
    said = OwnerMessage(InputId("m1"), "web", NOW, text, quote=text)
    shown = ChatMessage(MessageId("m1"), NOW, Author.OWNER, text)

    def accept(tx: Transaction) -> None:
        tx.inbox.append(Accepted(NOW, said))
        tx.messages.add(shown)

    database = scene.open()
    database.run(accept)
    database.close()
    again = scene.open()
    assert again.query(lambda tx: tx.inbox.get()).accepted == (said,)
    assert again.query(lambda tx: tx.messages.get(shown.id)) == shown
