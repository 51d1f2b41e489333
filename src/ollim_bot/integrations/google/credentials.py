"""The OAuth client that the owner made at Google, in `state/credentials.json`."""

from __future__ import annotations

import json
from typing import Any

from ollim_bot.errors import SignInNeeded
from ollim_bot.integrations.google.token import OAuthClient
from ollim_bot.integrations.google.wire import is_safe_address
from ollim_bot.paths import DataPaths
from ollim_bot.plain_files import SizeLimit, read_file
from ollim_bot.settings import Secret

_AUTH_URI = "https://accounts.google.com/o/oauth2/auth"
_TOKEN_URI = "https://oauth2.googleapis.com/token"
_STEPS = """\
Google needs an OAuth client of your own, which you make once:
1. https://console.cloud.google.com/projectcreate makes a project; any name will do.
2. https://console.cloud.google.com/apis/library has the Google Tasks API, the Google Calendar API \
and the Gmail API; enable those you want.
3. https://console.cloud.google.com/auth/overview asks for a name and your address; choose \
External. Then open Audience there and publish the app, or Google ends the connection every 7 days.
4. https://console.cloud.google.com/auth/clients creates the client; choose Desktop app, and \
download its JSON file.
5. Save that file as {path}, and begin again."""


def read_client(paths: DataPaths) -> OAuthClient:
    """The client. Raises `SignInNeeded` that says what is wrong, or how to get one."""
    path = paths.credentials
    try:
        content = read_file(path, SizeLimit.NOTE)
    except FileNotFoundError:
        raise SignInNeeded(_STEPS.format(path=path)) from None
    except OSError as refused:
        raise SignInNeeded(f"{path} cannot be read: {refused.strerror}.") from refused
    try:
        return _client(json.loads(content))
    except _WrongClient as wrong:
        raise SignInNeeded(f"{path} {wrong}") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise SignInNeeded(
            f"{path} is not the file that Google gives. Right: the JSON file that "
            "https://console.cloud.google.com/auth/clients offers for a client of type Desktop app."
        ) from None


class _WrongClient(Exception):
    """Completes a sentence that begins with the file."""


def _client(fields: dict[str, Any]) -> OAuthClient:
    if "web" in fields:
        raise _WrongClient(
            "is a client of type Web application. Right: one of type Desktop app, from "
            "https://console.cloud.google.com/auth/clients."
        )
    if "type" in fields:
        kind = str(fields["type"]).replace("_", " ")
        raise _WrongClient(f"is a key of another kind ({kind}). Right: an OAuth client.")
    installed = fields["installed"]
    client = OAuthClient(
        str(installed["client_id"]),
        Secret(str(installed["client_secret"])),
        str(installed.get("auth_uri") or _AUTH_URI),
        str(installed.get("token_uri") or _TOKEN_URI),
    )
    if not (is_safe_address(client.auth_uri) and is_safe_address(client.token_uri)):
        raise _WrongClient("names an address that is not https. Right: as Google gave the file.")
    return client
