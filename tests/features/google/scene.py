"""An account at the local Google, and the bot's client for it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import Message
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode, urljoin, urlsplit

from devtools.doubles.clock import ManualClock
from devtools.localgoogle.oauth import SCOPES
from devtools.localgoogle.server import LocalGoogle, in_thread

from ollim_bot.features.google.google_client import GoogleClient
from ollim_bot.features.google.tokens import GoogleToken, GoogleTokenStore, read_client
from ollim_bot.kernel.base.http_exchange import HttpLimits
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.settings import GoogleAddresses

START = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)


@dataclass
class GoogleScene:
    """`pauses` records the pauses of the client, which never really waits."""

    google: LocalGoogle
    paths: DataPaths
    clock: ManualClock
    pauses: list[float] = field(default_factory=list)

    @property
    def addresses(self) -> GoogleAddresses:
        url = self.google.url
        return GoogleAddresses(url, f"{url}/token", f"{url}/auth")

    @property
    def tokens(self) -> GoogleTokenStore:
        return GoogleTokenStore(self.paths, self.clock.now, self.addresses, self.pauses.append)

    def client(self, limits: HttpLimits | None = None) -> GoogleClient:
        return GoogleClient(
            self.tokens, self.addresses.api, pause=self.pauses.append, limits=limits
        )

    def connect(self, scopes: Sequence[str] = tuple(SCOPES)) -> GoogleToken:
        """Store the token that a login would store, without the consent page."""
        sign_ins = self.google.sign_ins
        self.write_credentials()
        now, client = self.clock.now(), read_client(self.paths)
        token = GoogleToken.granted(client, sign_ins.grant(scopes), now, sign_ins.account)
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


class Browser:
    """Answers Google's consent page as a browser would, and follows its redirect."""

    def __init__(self, untick: Sequence[str] = (), *, declines: bool = False) -> None:
        self._untick = untick
        self._declines = declines

    def open(self, address: str) -> str:
        """Answer the consent page, and return the address that it redirects to."""
        status, _, page = _fetched("GET", address)
        assert status == 200, page
        (request,) = re.findall(r'name="request" value="(\w+)"', page)
        scopes = re.findall(r'name="scope" value="([^"]+)" checked', page)
        ticked = [scope for scope in scopes if not scope.endswith(tuple(self._untick))]
        answer = "deny" if self._declines else "allow"
        form = urlencode({"request": request, "answer": answer, "scope": ticked}, doseq=True)
        status, headers, page = _fetched("POST", urljoin(address, "/auth/consent"), form)
        assert status == 302, page
        return headers["Location"]

    def follow(self, address: str) -> str:
        """Answer the consent page, follow the redirect, and return the text of the last page."""
        return _fetched("GET", self.open(address))[2]


def _fetched(method: str, address: str, form: str = "") -> tuple[int, Message, str]:
    parts = urlsplit(address)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    headers = {"Content-Type": "application/x-www-form-urlencoded"} if form else {}
    connection.request(method, f"{parts.path}?{parts.query}", form or None, headers)
    with closing(connection):
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
