"""The parts of Google that commands use: the client, tasks and calendars."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ollim_bot.integrations.google.client import GoogleClient
from ollim_bot.integrations.google.token_store import GoogleTokenStore
from ollim_bot.plain_files import SizeLimit, read_file

if TYPE_CHECKING:
    from ollim_bot.cli.caller import Caller
    from ollim_bot.cli.data import Data
    from ollim_bot.domain.runtime_config import RuntimeConfig
    from ollim_bot.integrations.google.calendars import GoogleCalendars
    from ollim_bot.ports import TaskList


def google_client(caller: Caller) -> GoogleClient:
    """A client that asks for a token only when it is used. Raises `BadSettings`."""
    return _client_and_tokens(caller)[0]


def google_tasks(caller: Caller, data: Data) -> TaskList | None:
    """The tasks at Google; None if the owner did not connect them."""
    from ollim_bot.integrations.google.tasks import DEFAULT_LIST, connected_tasks

    client, tokens = _client_and_tokens(caller)
    # To understand the whole configuration takes longer than all the rest of the command.
    is_set = b"google_task_list" in _stored_config(data)
    list_id = _config(data).google_task_list if is_set else DEFAULT_LIST
    return connected_tasks(tokens, client, list_id)


def google_calendars(caller: Caller, data: Data) -> GoogleCalendars:
    from ollim_bot.integrations.google.calendars import GoogleCalendars

    client, tokens = _client_and_tokens(caller)
    ids = _config(data).google_calendars
    return GoogleCalendars(data.paths, tokens, client, caller.place().zone, ids)


def _client_and_tokens(caller: Caller) -> tuple[GoogleClient, GoogleTokenStore]:
    addresses = caller.google_addresses()
    tokens = GoogleTokenStore(caller.place().paths, caller.now, addresses)
    return GoogleClient(tokens, addresses.api), tokens


def _stored_config(data: Data) -> bytes:
    """The mirror of the configuration, which is faster to open than the database."""
    try:
        return read_file(data.paths.config, SizeLimit.STATE)
    except OSError:
        return b""


def _config(data: Data) -> RuntimeConfig:
    from ollim_bot.store.codecs.records import RuntimeConfigCodec

    return data.stored(data.paths.config, RuntimeConfigCodec())
