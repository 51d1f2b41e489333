"""A connected account at a local Google, as the bot's own client sees it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from devtools.localgoogle.oauth import SCOPES
from devtools.localgoogle.server import LocalGoogle, in_thread

from ollim_bot.integrations.google.client import GoogleClient
from ollim_bot.integrations.google.token import GoogleToken, OAuthClient, with_answer
from ollim_bot.integrations.google.tokens import GoogleTokens
from ollim_bot.integrations.google.wire import TimeLimits
from ollim_bot.paths import DataPaths
from ollim_bot.settings import GoogleAddresses, Secret
from ollim_bot.testing.clock import ManualClock

START = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)


@dataclass
class GoogleScene:
    """`pauses` are those that the client asked for; none is waited for."""

    google: LocalGoogle
    paths: DataPaths
    clock: ManualClock
    pauses: list[float] = field(default_factory=list)

    @property
    def addresses(self) -> GoogleAddresses:
        url = self.google.url
        return GoogleAddresses(url, f"{url}/token", f"{url}/auth")

    @property
    def tokens(self) -> GoogleTokens:
        return GoogleTokens(self.paths, self.clock.now, self.addresses, self.pauses.append)

    def client(self, limits: TimeLimits | None = None) -> GoogleClient:
        return GoogleClient(
            self.tokens, self.addresses.api, pause=self.pauses.append, limits=limits
        )

    def connect(self, scopes: Sequence[str] = tuple(SCOPES)) -> GoogleToken:
        """Connect without a consent page, as a login would."""
        sign_ins = self.google.sign_ins
        self.write_credentials()
        client = OAuthClient(
            sign_ins.client_id,
            Secret(sign_ins.client_secret),
            "https://accounts.google.com/o/oauth2/auth",
            "https://oauth2.googleapis.com/token",
        )
        now = self.clock.now()
        empty = GoogleToken(Secret(""), now, Secret(""), (), client, sign_ins.account)
        token = with_answer(empty, sign_ins.grant(scopes), now)
        self.tokens.keep(token)
        return token

    def write_credentials(self) -> None:
        self.paths.credentials.write_text(json.dumps(self.google.credentials))
        self.paths.credentials.chmod(0o600)


@contextmanager
def google_scene(root: Path, clock: ManualClock | None = None) -> Iterator[GoogleScene]:
    """A local Google with a data directory that is not connected to it yet."""
    clock = clock or ManualClock(START)
    paths = DataPaths(root)
    paths.locks.mkdir(parents=True, mode=0o700, exist_ok=True)
    with in_thread(LocalGoogle(now=clock.now)) as google:
        yield GoogleScene(google, paths, clock)
