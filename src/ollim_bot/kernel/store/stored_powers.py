"""What the state of a data directory lets the agent do unasked, and how a restore takes it out.

A mirror that a person changed counts at the next start, so the mirrors are read like the database.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from ollim_bot.kernel.base.plain_files import SizeLimit, read_file
from ollim_bot.kernel.store.codecs.config_codec import RuntimeConfigCodec
from ollim_bot.kernel.store.codecs.plain import decode_plain
from ollim_bot.kernel.store.connection import SqliteStatements, Statements, connect_for_reading
from ollim_bot.kernel.store.database_errors import translated
from ollim_bot.kernel.store.file_store import FormatIsNewer, Malformed, render_json
from ollim_bot.kernel.store.files import PRIVATE, OsDisk, write_atomically
from ollim_bot.kernel.store.questions import DATABASE
from ollim_bot.kernel.store.records import RECORDS, RecordSpec, store_record, stored_record
from ollim_bot.kernel.values.permissions import Grants
from ollim_bot.kernel.values.runtime_config import PermissionMode, RuntimeConfig
from ollim_bot.kernel.values.tool_servers import ServerState, ToolServerRecord

T = TypeVar("T")

_SPECS: Mapping[str, RecordSpec[object]] = {spec.name: spec for spec in RECORDS}
_CONFIG, _INQUIRIES, _SERVERS = (_SPECS[name] for name in ("config", "inquiries", "tool_servers"))
_GRANTS = (_SPECS["grants"], _SPECS["cleared_grants"])
_UNASKED = (PermissionMode.ACCEPT_EDITS, PermissionMode.BYPASS)
# Rows with a job as a note, of which a start or a button makes a file, by table and key.
_NOTES = {"due_items": "key", "job_ops": "id"}
_TOOLS = "allowed_tools"
_DEEPEST = 40


@dataclass(frozen=True, slots=True)
class StoredPowers:
    """`mode` is empty if the agent has to ask; `tools` are those of jobs that wait in notes."""

    mode: str = ""
    grants: frozenset[str] = frozenset()
    servers: Mapping[str, ServerState] = field(default_factory=dict)
    tools: frozenset[str] = frozenset()

    def servers_beyond(self, other: StoredPowers) -> Iterator[str]:
        """The servers that are approved here, and not in the same way there."""
        for name, state in sorted(self.servers.items()):
            there = other.servers.get(name, ServerState())
            if (state.approved, state.tools) != (there.approved, there.tools):
                yield name


def stored_powers(state: Path) -> StoredPowers:
    """The powers in the folder `state/`; what cannot be read gives none. Raises `StorageError`."""
    found: set[str] = set()

    def note_tool(tool: str) -> bool:
        found.add(tool)
        return True

    with _opened(state, connect_for_reading) as statements:
        configs = [_config(each) for each in _contents(statements, state, _CONFIG)]
        for content in _contents(statements, state, _INQUIRIES):
            _with_tools(content, note_tool)
        for _, _, content in _notes(statements):
            _with_tools(content, note_tool)
        grants = [_decoded(Grants, statements, spec) for spec in _GRANTS]
        servers = _decoded(ToolServerRecord, statements, _SERVERS).servers
    modes = (config.permission_mode for config in configs)
    return StoredPowers(
        next((mode for mode in modes if mode in _UNASKED), ""),
        frozenset(text for each in grants for text in each.texts),
        {name: one for name, one in servers.items() if one.approved},
        frozenset(found),
    )


def reset_approvals(state: Path, present: Path | None) -> None:
    """Put the approvals of servers of the folder `present` in place of those of `state`."""
    kept = _kept(present, (_SERVERS,))
    with _opened(state, sqlite3.connect) as statements:
        if statements is not None:
            store_record(statements, _SERVERS, kept[_SERVERS.name])


def reset_permissions(state: Path, present: Path | None, may_use: Callable[[str], bool]) -> None:
    """Put the mode and the grants of `present` in place of those of `state`.

    Jobs that wait in notes keep only the tools that they `may_use`.
    """
    mode = "" if present is None else stored_powers(present).mode
    kept = _kept(present, _GRANTS)

    def config(content: bytes) -> bytes | None:
        value = replace(_config(content), permission_mode=mode or PermissionMode.DONT_ASK.value)
        return RuntimeConfigCodec().encode(value)

    def inquiries(content: bytes) -> bytes | None:
        return _with_tools(content, may_use)

    with _opened(state, sqlite3.connect) as statements:
        for spec, change in ((_CONFIG, config), (_INQUIRIES, inquiries)):
            _change(statements, state, spec, change)
        if statements is None:
            return
        for spec in _GRANTS:
            store_record(statements, spec, kept[spec.name])
        for table in ("changes", "known_files"):
            # An Undo of a strange backup could put any text in place.
            if statements.row("SELECT 1 FROM sqlite_master WHERE name = ?", table):
                statements.write(table, f"DELETE FROM {table}")
        for table, key, content in _notes(statements):
            statements.write(
                table,
                f"UPDATE {table} SET value = ? WHERE {_NOTES[table]} = ?",
                _with_tools(content, may_use).decode(),
                key,
            )


@contextmanager
def _opened(
    state: Path, connect: Callable[[Path], sqlite3.Connection]
) -> Iterator[Statements | None]:
    """One transaction on the database; None if there is no database."""
    path = state / DATABASE
    if not path.is_file():
        yield None
        return
    try:
        with closing(connect(path)) as connection:
            connection.isolation_level = None
            connection.execute("BEGIN")
            yield SqliteStatements(connection, path)
            connection.execute("COMMIT")
    except sqlite3.Error as refused:
        raise translated(path, refused) from refused


def _contents(
    statements: Statements | None, state: Path, spec: RecordSpec[object]
) -> Iterator[bytes]:
    """The record and its mirror, as far as they are there."""
    if statements is not None and (stored := stored_record(statements, spec.name)) is not None:
        yield stored
    with suppress(OSError):
        yield read_file(state / spec.file, SizeLimit.STATE)


def _change(
    statements: Statements | None,
    state: Path,
    spec: RecordSpec[object],
    change: Callable[[bytes], bytes | None],
) -> None:
    """Change the record and its mirror, which stay the same as each other if they were."""
    if statements is not None and (stored := stored_record(statements, spec.name)) is not None:
        store_record(statements, spec, change(stored))
    path = state / spec.file
    if path.exists():
        content = change(read_file(path, SizeLimit.STATE))
        path.unlink()
        if content is not None:
            write_atomically(OsDisk(), path, content, PRIVATE)


def _notes(statements: Statements | None) -> Iterator[tuple[str, str, bytes]]:
    """The table, key and content of each row that may hold a job."""
    if statements is None:
        return
    for table, key in _NOTES.items():
        found = statements.row("SELECT 1 FROM sqlite_master WHERE name = ?", table)
        # An older database has no due items.
        for row in statements.rows(f"SELECT {key}, value FROM {table}") if found else ():
            yield table, row[0], str(row[1]).encode()


def _kept(present: Path | None, specs: tuple[RecordSpec[object], ...]) -> dict[str, bytes | None]:
    kept: dict[str, bytes | None] = {spec.name: None for spec in specs}
    if present is not None:
        with _opened(present, connect_for_reading) as statements:
            if statements is not None:
                kept = {spec.name: stored_record(statements, spec.name) for spec in specs}
    return kept


def _decoded(kind: type[T], statements: Statements | None, spec: RecordSpec[object]) -> T:
    stored = None if statements is None else stored_record(statements, spec.name)
    try:
        return kind() if stored is None else decode_plain(kind, stored)
    except Malformed:
        return kind()


def _config(content: bytes) -> RuntimeConfig:
    try:
        return RuntimeConfigCodec().decode(content)[0]
    except (Malformed, FormatIsNewer):
        return RuntimeConfig()


def _with_tools(content: bytes, may_use: Callable[[str], bool]) -> bytes:
    """The JSON text with only the tools that a job `may_use`, also in texts that are JSON."""
    try:
        value = json.loads(content)
        kept = _filtered(value, may_use, _DEEPEST)
    except (ValueError, RecursionError):
        return content
    return content if kept == value else render_json(kept)


def _filtered(value: object, may_use: Callable[[str], bool], depth: int) -> object:
    if depth == 0:
        return None
    match value:
        case dict():
            return {
                name: [tool for tool in each if may_use(str(tool))]
                if name == _TOOLS and isinstance(each, list | dict)
                else _filtered(each, may_use, depth - 1)
                for name, each in value.items()
            }
        case list():
            return [_filtered(each, may_use, depth - 1) for each in value]
        case str() if value.lstrip().startswith(("{", "[")):
            return _with_tools(value.encode("utf-8", "surrogatepass"), may_use).decode(
                "utf-8", "surrogatepass"
            )
    return value
