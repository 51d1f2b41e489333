"""The topics: what the server keeps of them, and who follows them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from devtools.localntfy.drafts import Draft
from devtools.localntfy.protocol import (
    KEEPALIVE,
    MESSAGE,
    OPEN,
    Changes,
    Message,
    new_id,
    since_invalid,
)

_MESSAGE_ID = re.compile(r"[A-Za-z0-9]{12}")


@dataclass(eq=False)
class Subscription:
    """What waits to be sent to one follower; None ends its stream. A mute one gets nothing."""

    topics: Sequence[str]
    queue: asyncio.Queue[Message | None] = field(default_factory=asyncio.Queue)
    is_mute: bool = False

    def put(self, message: Message | None) -> None:
        if not self.is_mute or message is None:
            self.queue.put_nowait(message)


class Topics:
    """`keep_seconds` is how long messages are kept; with 0, only followers get them.

    `published` has all that was ever accepted.
    """

    def __init__(self, now: Callable[[], datetime], keep_seconds: float, changes: Changes) -> None:
        self.keep_seconds = keep_seconds
        self.published: list[Message] = []
        self.followers: list[Subscription] = []
        self._now = now
        self._kept: list[Message] = []
        self._changes = changes

    def publish(self, draft: Draft) -> Message:
        return self._add(draft.topic, MESSAGE, draft)

    def tell(self, topic: str, event: str, sequence_id: str) -> Message:
        """Clear or delete: an event of its own, which is kept like a message."""
        return self._add(topic, event, Draft(topic, "", sequence_id))

    def forget(self) -> None:
        self._kept.clear()

    def kept(self, topics: Sequence[str], since: str) -> list[Message]:
        """What the server still has, oldest first.

        `since` is `all`, `none`, `latest`, a Unix time or a message id. After an id
        that the server no longer knows come all.
        """
        now = self._now().timestamp()
        self._kept = [each for each in self._kept if each.expires > now]
        ours = [each for each in self._kept if each.topic in topics]
        if since == "none":
            return []
        if since == "all":
            return ours
        if since == "latest":
            newest = {each.topic: each for each in ours}
            return [each for each in ours if newest[each.topic] is each]
        if since.isdigit() and len(since) != 12:
            return [each for each in ours if each.time >= int(since)]
        if not _MESSAGE_ID.fullmatch(since):
            raise since_invalid()
        places = [place for place, each in enumerate(ours) if each.id == since]
        return ours[places[0] + 1 :] if places else ours

    def opening(self, topics: Sequence[str]) -> Message:
        return self._event(topics, OPEN)

    def keepalive(self, topics: Sequence[str]) -> Message:
        return self._event(topics, KEEPALIVE)

    def follow(self, topics: Sequence[str]) -> Subscription:
        subscription = Subscription(topics)
        self.followers.append(subscription)
        self._changes.tell()
        return subscription

    def unfollow(self, subscription: Subscription) -> None:
        self.followers.remove(subscription)
        self._changes.tell()

    def _add(self, topic: str, event: str, draft: Draft) -> Message:
        at = int(self._now().timestamp())
        expires = int(at + self.keep_seconds) if self.keep_seconds else 0
        message = Message(
            new_id(), at, topic, event, draft.text, draft.sequence_id, expires, draft.details
        )
        self.published.append(message)
        if expires:
            self._kept.append(message)
        for each in self.followers:
            if topic in each.topics:
                each.put(message)
        self._changes.tell()
        return message

    def _event(self, topics: Sequence[str], event: str) -> Message:
        return Message(new_id(), int(self._now().timestamp()), ",".join(topics), event)
