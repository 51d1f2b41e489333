"""Signing in at the local Google: consent, codes, access and refresh tokens, revocation."""

from __future__ import annotations

import base64
import hashlib
import html
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from urllib.parse import urlencode, urlsplit

from devtools.localgoogle.protocol import GoogleError, Json, OAuthError

SCOPES = {
    "https://www.googleapis.com/auth/tasks": "See, edit, create and delete your tasks",
    "https://www.googleapis.com/auth/calendar.events": "See and edit events on your calendars",
    "https://www.googleapis.com/auth/calendar.calendarlist.readonly": "See your calendars",
    "https://www.googleapis.com/auth/gmail.readonly": "See your email messages",
}
_REQUIRED = ("client_id", "redirect_uri", "response_type", "scope", "state")
_KNOWN = frozenset(
    {
        *_REQUIRED,
        *("access_type", "prompt", "login_hint", "include_granted_scopes"),
        *("code_challenge", "code_challenge_method"),
    }
)
_CODE_LASTS = timedelta(minutes=10)
_REVOKED = OAuthError("invalid_grant", "Token has been expired or revoked.")


@dataclass(frozen=True, slots=True)
class ConsentRequest:
    """What the consent page asks its reader."""

    id: str
    redirect_uri: str
    state: str
    scopes: tuple[str, ...]
    challenge: str


@dataclass(slots=True)
class _Code:
    request: ConsentRequest
    scopes: tuple[str, ...]
    ends_at: datetime
    is_used: bool = False


@dataclass(frozen=True, slots=True)
class _Token:
    scopes: tuple[str, ...]
    ends_at: datetime | None
    family: str


@dataclass
class SignIns:
    """The account, its one client, and the tokens given out.

    With `refresh_lasts`, the app is in "Testing": its refresh tokens end, and each answer with one
    says when. With `rotates`, each refresh gives a new refresh token and ends the old one. `now` is
    the only clock. `refreshes` counts the successful ones.
    """

    now: Callable[[], datetime]
    account: str = "ada@example.com"
    client_id: str = "1234-local.apps.googleusercontent.com"
    client_secret: str = field(default_factory=lambda: f"GOCSPX-{secrets.token_urlsafe(21)}")
    access_lasts: timedelta = timedelta(seconds=3599)
    refresh_lasts: timedelta | None = None
    rotates: bool = False
    refreshes: int = 0
    _requests: dict[str, ConsentRequest] = field(default_factory=dict)
    _codes: dict[str, _Code] = field(default_factory=dict)
    _access: dict[str, _Token] = field(default_factory=dict)
    _refresh: dict[str, _Token] = field(default_factory=dict)

    @property
    def secrets(self) -> list[str]:
        """Everything given out that must stay secret."""
        return [self.client_secret, *self._codes, *self._access, *self._refresh]

    def ask_consent(self, params: Mapping[str, str]) -> ConsentRequest:
        """Check what the consent page is called with. Raises `OAuthError`."""
        unknown = sorted(params.keys() - _KNOWN)
        missing = [name for name in _REQUIRED if not params.get(name)]
        if unknown or missing:
            raise OAuthError("invalid_request", f"Wrong parameters: {unknown + missing}")
        if params["client_id"] != self.client_id:
            raise OAuthError("invalid_client", "The OAuth client was not found.", 401)
        where = urlsplit(params["redirect_uri"])
        if where.scheme != "http" or where.hostname not in ("127.0.0.1", "localhost", "::1"):
            raise OAuthError("redirect_uri_mismatch", "A desktop client redirects to loopback.")
        if params["response_type"] != "code" or params.get("code_challenge_method") != "S256":
            raise OAuthError("invalid_request", "Only codes with an S256 challenge are given.")
        if params.get("access_type") != "offline" or params.get("prompt") != "consent":
            raise OAuthError("invalid_request", "Without both, there is no new refresh token.")
        scopes = tuple(params["scope"].split())
        if not scopes or not SCOPES.keys() >= set(scopes):
            raise OAuthError("invalid_scope", "Some requested scopes were invalid.")
        request = ConsentRequest(
            secrets.token_hex(8),
            params["redirect_uri"],
            params["state"],
            scopes,
            params.get("code_challenge", ""),
        )
        self._requests[request.id] = request
        return request

    def consent(self, request_id: str, ticked: Sequence[str] | None) -> str:
        """The address to redirect to; `ticked` is None if the person refuses."""
        request = self._requests.pop(request_id, None)
        if request is None:
            raise OAuthError("invalid_request", "This page was answered before.")
        if ticked is None:
            return _redirect(request, {"error": "access_denied"})
        scopes = tuple(scope for scope in request.scopes if scope in ticked)
        code = f"4/0A{secrets.token_urlsafe(40)}"
        self._codes[code] = _Code(request, scopes, self.now() + _CODE_LASTS)
        return _redirect(request, {"code": code, "scope": " ".join(scopes)})

    def token(self, form: Mapping[str, str]) -> Json:
        """Answer the token endpoint. Raises `OAuthError`."""
        grants: dict[str, tuple[set[str], Callable[[Mapping[str, str]], Json]]] = {
            "authorization_code": ({"code", "code_verifier", "redirect_uri"}, self._by_code),
            "refresh_token": ({"refresh_token"}, self._by_refresh_token),
        }
        if form.get("grant_type") not in grants:
            raise OAuthError("unsupported_grant_type", "Invalid grant_type.")
        names, answer = grants[form["grant_type"]]
        expected = {"grant_type", "client_id", "client_secret", *names}
        if set(form) != expected:
            raise OAuthError("invalid_request", f"Wrong fields: {sorted(set(form) ^ expected)}")
        if (form["client_id"], form["client_secret"]) != (self.client_id, self.client_secret):
            raise OAuthError("invalid_client", "The OAuth client was not found.", 401)
        return answer(form)

    def revoke(self, token: str) -> None:
        """End the token with all that belong to its sign-in. Raises `OAuthError`."""
        known = self._refresh.get(token) or self._access.get(token)
        if known is None:
            raise OAuthError("invalid_token", "Token expired or revoked")
        self._end(known.family)

    def revoke_everything(self) -> None:
        """As when the person removes the app's access in their account."""
        self._access.clear()
        self._refresh.clear()

    def expire_access(self) -> None:
        """End the access tokens early, unknown to their holder; refresh tokens stay."""
        self._access.clear()

    def require(self, authorization: str, scopes: Sequence[str]) -> None:
        """Refuse a call whose bearer has none of these scopes. Raises `GoogleError`."""
        kind, _, value = authorization.partition(" ")
        token = self._access.get(value) if kind == "Bearer" else None
        if token is None or self._has_ended(token):
            message = "Request had invalid authentication credentials."
            headers = {"WWW-Authenticate": 'Bearer realm="https://accounts.google.com/"'}
            raise GoogleError(401, "authError", message, headers)
        if not set(scopes) & set(token.scopes):
            message = "Request had insufficient authentication scopes."
            raise GoogleError(403, "insufficientPermissions", message)

    def grant(self, scopes: Sequence[str] = tuple(SCOPES)) -> Json:
        """Sign in without a page; the answer is that of the token endpoint."""
        return self._granted(tuple(scopes), secrets.token_hex(8), is_first=True)

    def _by_code(self, form: Mapping[str, str]) -> Json:
        code = self._codes.get(form["code"])
        if code is None or code.is_used or code.ends_at <= self.now():
            raise OAuthError("invalid_grant", "Malformed auth code.")
        code.is_used = True
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if code.request.challenge != challenge:
            raise OAuthError("invalid_grant", "Invalid code verifier.")
        if form["redirect_uri"] != code.request.redirect_uri:
            raise OAuthError("redirect_uri_mismatch", "Bad Request")
        return self._granted(code.scopes, secrets.token_hex(8), is_first=True)

    def _by_refresh_token(self, form: Mapping[str, str]) -> Json:
        token = self._refresh.get(form["refresh_token"])
        if token is None or self._has_ended(token):
            raise _REVOKED
        self.refreshes += 1
        if self.rotates:
            del self._refresh[form["refresh_token"]]
        return self._granted(token.scopes, token.family, is_first=self.rotates)

    def _granted(self, scopes: tuple[str, ...], family: str, *, is_first: bool) -> Json:
        now = self.now()
        access = f"ya29.{secrets.token_urlsafe(40)}"
        self._access[access] = _Token(scopes, now + self.access_lasts, family)
        answer: Json = {
            "access_token": access,
            "expires_in": int(self.access_lasts.total_seconds()),
            "scope": " ".join(scopes),
            "token_type": "Bearer",
        }
        if is_first:
            refresh = f"1//{secrets.token_urlsafe(48)}"
            ends_at = now + self.refresh_lasts if self.refresh_lasts else None
            self._refresh[refresh] = _Token(scopes, ends_at, family)
            answer["refresh_token"] = refresh
            if self.refresh_lasts:
                answer["refresh_token_expires_in"] = int(self.refresh_lasts.total_seconds()) - 1
        return answer

    def _has_ended(self, token: _Token) -> bool:
        return token.ends_at is not None and token.ends_at <= self.now()

    def _end(self, family: str) -> None:
        for tokens in (self._access, self._refresh):
            for value in [value for value, each in tokens.items() if each.family == family]:
                del tokens[value]


def _redirect(request: ConsentRequest, answer: Mapping[str, str]) -> str:
    return f"{request.redirect_uri}?{urlencode({'state': request.state, **answer})}"


def consent_page(request: ConsentRequest, account: str) -> str:
    """A page with a form, as a person sees it: one tick for each scope, and two buttons."""
    ticks = "".join(
        f'<p><label><input type="checkbox" name="scope" value="{scope}" checked> '
        f"{html.escape(SCOPES[scope])}</label></p>"
        for scope in request.scopes
    )
    return (
        "<!doctype html><title>Sign in</title><h1>ollim-bot wants access to your Account</h1>"
        f"<p>{html.escape(account)}</p>"
        f'<form method="post" action="/auth/consent">'
        f'<input type="hidden" name="request" value="{request.id}">{ticks}'
        '<button name="answer" value="deny">Cancel</button> '
        '<button name="answer" value="allow">Continue</button></form>'
    )
