"""Signing in and renewing, by Google's own libraries. Imported only where that happens."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from google.auth.exceptions import GoogleAuthError, RefreshError
from google.oauth2.credentials import Credentials
from google_auth_oauthlib.flow import Flow
from oauthlib.oauth2 import OAuth2Error
from requests import RequestException

from ollim_bot.features.google.wire import (
    NOT_UNDERSTOOD,
    Pause,
    Transient,
    ask_google,
    understood,
    with_retries,
)
from ollim_bot.kernel.base.errors import GoogleRefused, Unreachable
from ollim_bot.kernel.base.http_exchange import HttpResponse
from ollim_bot.kernel.base.settings import Secret

_SECONDS = 30.0
_INSECURE = "OAUTHLIB_INSECURE_TRANSPORT"
_NOT_FINISHED = "Google cannot be reached to finish the sign-in. Try again."


class Consent:
    """A sign-in that waits for its redirect, with its own state and its own verifier (PKCE)."""

    def __init__(self, client: Mapping[str, str], scopes: Sequence[str], redirect_uri: str) -> None:
        self._flow: Any = Flow.from_client_config(
            {"installed": client}, scopes=scopes, redirect_uri=redirect_uri
        )
        # Without `consent`, Google gives no second refresh token to an account that has one.
        with _loopback_allowed(client["auth_uri"]):
            found = self._flow.authorization_url(access_type="offline", prompt="consent")
        self.address, self.state = map(str, found)

    def redeem(self, code: str) -> dict[str, Any]:
        """Exchange the code for a token. Raises `GoogleRefused` or `Unreachable`.

        Returns Google's answer; what the owner unticked is not in its scope.
        """
        session = self._flow.oauth2session
        # Without scopes here, oauthlib accepts that fewer were granted than asked for. Proxies and
        # `.netrc` of the environment must not get the secret, nor another address.
        session.scope, session.trust_env, session.max_redirects = None, False, 0
        try:
            with _loopback_allowed(self._flow.client_config["token_uri"]):
                answer = dict(self._flow.fetch_token(code=code, timeout=_SECONDS))
        except OAuth2Error as refused:
            sentence = f"{refused.description or refused.error}".rstrip(".")
            raise GoogleRefused(400, str(refused.error), f"{sentence}.") from refused
        except (RequestException, ValueError) as failed:
            raise Unreachable(_NOT_FINISHED) from failed
        if not answer.get("refresh_token"):
            raise GoogleRefused(200, "", "the answer has no refresh token. Sign in once more.")
        return {**answer, "scope": " ".join(answer.get("scope", ()))}


def renew(client: Mapping[str, str], refresh: Secret, pause: Pause) -> dict[str, Any]:
    """Google's answer with a new access token. Raises `GoogleRefused`, also `invalid_grant`."""
    answer = HttpResponse(0, {}, b"")

    def request(
        url: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        **_: object,
    ) -> SimpleNamespace:
        """Google's interface for requests, on our own. What may pass is raised at once."""
        nonlocal answer
        answer = ask_google(method, url, headers or {}, body)
        if not 400 <= answer.status < 500 or answer.status == 429:
            understood(answer)
        return SimpleNamespace(status=answer.status, headers=answer.headers, data=answer.body)

    credentials = Credentials(
        None,
        refresh_token=refresh.reveal(),
        **{name: client[name] for name in ("client_id", "client_secret", "token_uri")},
    )
    try:
        with_retries(lambda: credentials.refresh(request), pause, is_repeatable=True)
        return understood(answer)
    except Transient as failed:
        # Tried often enough: the call that needs the token is not to try it all again.
        raise Unreachable(str(failed)) from failed
    except RefreshError as refused:
        understood(answer)
        raise Unreachable(NOT_UNDERSTOOD) from refused
    except (GoogleAuthError, ValueError) as wrong:
        raise Unreachable(NOT_UNDERSTOOD) from wrong


@contextmanager
def _loopback_allowed(address: str) -> Iterator[None]:
    """Let oauthlib talk to this machine without TLS; `address` was checked before."""
    if not address.startswith("https:"):
        os.environ[_INSECURE] = "1"
    try:
        yield
    finally:
        os.environ.pop(_INSECURE, None)
