"""Signing in and renewing, by Google's own libraries. Imported only where that happens."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode, urljoin

from google.auth.exceptions import GoogleAuthError, RefreshError
from google.oauth2.credentials import Credentials
from google_auth_oauthlib.flow import Flow
from oauthlib.oauth2 import OAuth2Error
from requests import RequestException

from ollim_bot.errors import GoogleRefused, Unreachable
from ollim_bot.http_exchange import HttpResponse
from ollim_bot.integrations.google.token import GoogleToken, OAuthClient, with_answer
from ollim_bot.integrations.google.wire import (
    Pause,
    Transient,
    ask_google,
    is_safe_address,
    json_object,
    understood,
    with_retries,
)
from ollim_bot.settings import GoogleAddresses, Secret

_SECONDS = 30.0
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}
_INSECURE = "OAUTHLIB_INSECURE_TRANSPORT"
_NOT_UNDERSTOOD = "Google's answer could not be understood. Try again later."
_NOT_FINISHED = "Google cannot be reached to finish the sign-in. Try again."


class Consent:
    """A sign-in that waits for its redirect, with its own state and its own verifier (PKCE)."""

    def __init__(
        self,
        client: OAuthClient,
        scopes: tuple[str, ...],
        redirect_uri: str,
        addresses: GoogleAddresses,
    ) -> None:
        config = {
            "client_id": client.id,
            "client_secret": client.secret.reveal(),
            "auth_uri": addresses.auth or client.auth_uri,
            "token_uri": addresses.token or client.token_uri,
        }
        for name in ("auth_uri", "token_uri"):
            if not is_safe_address(config[name]):
                raise GoogleRefused(0, "", f"{name} of the client is not an https address.")
        self._client = client
        self._flow: Any = Flow.from_client_config(
            {"installed": config}, scopes=scopes, redirect_uri=redirect_uri
        )
        # Without `consent`, Google gives no second refresh token to an account that has one.
        with _loopback_allowed(config["auth_uri"]):
            found = self._flow.authorization_url(access_type="offline", prompt="consent")
        self.address, self.state = map(str, found)

    def redeem(self, code: str, now: datetime) -> GoogleToken:
        """Exchange the code for a token. Raises `GoogleRefused` or `Unreachable`.

        What the owner unticked is not among the token's scopes.
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
        try:
            empty = GoogleToken(Secret(""), now, Secret(""), (), self._client)
            token = with_answer(empty, {**answer, "scope": " ".join(answer.get("scope", ()))}, now)
        except (KeyError, ValueError) as wrong:
            raise Unreachable(_NOT_UNDERSTOOD) from wrong
        if not token.refresh.reveal():
            raise GoogleRefused(200, "", "the answer has no refresh token. Sign in once more.")
        return token


def renew(
    token: GoogleToken, now: datetime, addresses: GoogleAddresses, pause: Pause
) -> GoogleToken:
    """A token with a new access token. Raises `GoogleRefused`, also `invalid_grant`."""
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
        refresh_token=token.refresh.reveal(),
        token_uri=addresses.token or token.client.token_uri,
        client_id=token.client.id,
        client_secret=token.client.secret.reveal(),
    )
    try:
        with_retries(lambda: credentials.refresh(request), pause, is_repeatable=True)
        return with_answer(token, json_object(answer), now)
    except Transient as failed:
        # Tried often enough: the call that needs the token is not to try it all again.
        raise Unreachable(str(failed)) from failed
    except RefreshError as refused:
        understood(answer)
        raise Unreachable(_NOT_UNDERSTOOD) from refused
    except (GoogleAuthError, KeyError, ValueError) as wrong:
        raise Unreachable(_NOT_UNDERSTOOD) from wrong


def revoke(token: GoogleToken, addresses: GoogleAddresses) -> None:
    """End the connection at Google. Raises `GoogleRefused` or `Unreachable`."""
    address = urljoin(addresses.token or token.client.token_uri, "revoke")
    form = urlencode({"token": token.refresh.reveal()}).encode()
    understood(ask_google("POST", address, _FORM, form))


@contextmanager
def _loopback_allowed(address: str) -> Iterator[None]:
    """Let oauthlib talk to this machine without TLS; `address` was checked before."""
    if address.startswith("https:"):
        yield
        return
    os.environ[_INSECURE] = "1"
    try:
        yield
    finally:
        os.environ.pop(_INSECURE, None)
