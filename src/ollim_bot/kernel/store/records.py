"""Single values by name, some of which people can read in files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from ollim_bot.kernel.store.codecs.plain import plain_codec
from ollim_bot.kernel.store.connection import Statements, look_up

if TYPE_CHECKING:
    from ollim_bot.kernel.base.ids import SessionId
    from ollim_bot.kernel.store.file_store import Codec
    from ollim_bot.kernel.values.breakdowns import Breakdowns
    from ollim_bot.kernel.values.cards import ButtonPrompts
    from ollim_bot.kernel.values.changes import BegunWrites
    from ollim_bot.kernel.values.digest import Digests, HeldMessages
    from ollim_bot.kernel.values.forks import Fork, ForkMessage
    from ollim_bot.kernel.values.inbox import FailedTurns
    from ollim_bot.kernel.values.initiative import SetByAgent
    from ollim_bot.kernel.values.notices import NoticeRecord
    from ollim_bot.kernel.values.overviews import OpenOverviews
    from ollim_bot.kernel.values.permissions import Grants
    from ollim_bot.kernel.values.pings import PingBudget
    from ollim_bot.kernel.values.presence import DailyRecord, PassedOver, Presence
    from ollim_bot.kernel.values.provider import ProviderMemory
    from ollim_bot.kernel.values.quiet import QuietChoice
    from ollim_bot.kernel.values.runtime_config import RuntimeConfig
    from ollim_bot.kernel.values.schedule import GivenNames, Skips
    from ollim_bot.kernel.values.sessions import ClearedConversation
    from ollim_bot.kernel.values.skills import AgentSkills
    from ollim_bot.kernel.values.surface_state import AddedLines, DiscordState, PushState, WebState
    from ollim_bot.kernel.values.task_cards import TaskMoves, TaskUndos
    from ollim_bot.kernel.values.tool_servers import ToolServerRecord
    from ollim_bot.kernel.values.travel import PlannedZone
    from ollim_bot.kernel.values.updates import PendingUpdates

T = TypeVar("T")
R = TypeVar("R")

GET_RECORD = "SELECT value FROM records WHERE name = ?"
PUT_RECORD = (
    "INSERT INTO records (name, value) VALUES (?, ?)"
    " ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)


class RecordSpec(Generic[T]):
    """One value; `place` names its class, or the codec that writes it, as in `look_up`.

    A place without a module is one of `codecs.records`.

    `file` is its mirror in `state/`, empty if it has none. `default` names the function that makes
    the value of a record that was never written, if that depends on the moment. As an attribute of
    `Records`, the spec gives the record of the transaction.
    """

    name: str

    def __init__(self, place: str, file: str = "", default: str = "") -> None:
        self.place = f"kernel.store.codecs.record_codecs{place}" if place[0] == ":" else place
        self.file = file
        self._default = default

    def __set_name__(self, owner: type[Records], name: str) -> None:
        self.name = name

    @cached_property
    def codec(self) -> Codec[T]:
        found = look_up(self.place)
        return cast("Codec[T]", plain_codec(found) if isinstance(found, type) else found)

    def missing(self, now: datetime) -> T:
        return look_up(self._default)(now) if self._default else self.codec.missing()

    def __get__(self, records: Records, owner: type[Records]) -> Record[T]:
        return Record(records._statements, self, records.now)


class Record(Generic[T]):
    """One value. `now` is the moment at which the transaction began."""

    def __init__(self, statements: Statements, spec: RecordSpec[T], now: datetime) -> None:
        self._statements = statements
        self._spec = spec
        self._now = now

    def get(self) -> T:
        stored = stored_record(self._statements, self._spec.name)
        if stored is None:
            return self._spec.missing(self._now)
        value, _ = self._spec.codec.decode(stored)
        return value

    def put(self, value: T) -> None:
        encoded = self._spec.codec.encode(value)
        if encoded != stored_record(self._statements, self._spec.name):
            store_record(self._statements, self._spec, encoded)

    def change(self, step: Callable[[T], T]) -> T:
        """Replace the value by `step(value)`, and return the new one."""
        value = step(self.get())
        self.put(value)
        return value

    def take(self, step: Callable[[T], tuple[T, R]]) -> R:
        """Replace the value by the first result of `step`, and return the second."""
        value, result = step(self.get())
        self.put(value)
        return result


class Records:
    """The single values, one per line."""

    session: RecordSpec[SessionId | None] = RecordSpec(":SESSION_ID", "sessions.json")
    updates: RecordSpec[PendingUpdates] = RecordSpec(":PENDING_UPDATES", "pending_updates.json")
    fork_messages: RecordSpec[tuple[ForkMessage, ...]] = RecordSpec(
        ":FORK_MESSAGES", "fork_messages.json"
    )
    fork: RecordSpec[Fork | None] = RecordSpec(":FORK", "fork.json")
    inquiries: RecordSpec[ButtonPrompts] = RecordSpec(":BUTTON_PROMPTS", "inquiries.json")
    budget: RecordSpec[PingBudget] = RecordSpec(
        ":PING_BUDGET", "ping_budget.json", default="kernel.values.pings:PingBudget.full"
    )
    config: RecordSpec[RuntimeConfig] = RecordSpec(
        "kernel.store.codecs.config_codec:RUNTIME_CONFIG", "config.json"
    )
    cleared: RecordSpec[ClearedConversation] = RecordSpec(
        "kernel.values.sessions:ClearedConversation"
    )
    cleared_grants: RecordSpec[Grants] = RecordSpec("kernel.values.permissions:Grants")
    cleared_fork: RecordSpec[Fork | None] = RecordSpec(":FORK")
    overviews: RecordSpec[OpenOverviews] = RecordSpec("kernel.values.overviews:OpenOverviews")
    presence: RecordSpec[Presence] = RecordSpec("kernel.values.presence:Presence")
    daily: RecordSpec[DailyRecord] = RecordSpec("kernel.values.presence:DailyRecord")
    passed_over: RecordSpec[PassedOver] = RecordSpec("kernel.values.presence:PassedOver")
    notices: RecordSpec[NoticeRecord] = RecordSpec("kernel.values.notices:NoticeRecord")
    failed_turns: RecordSpec[FailedTurns] = RecordSpec("kernel.values.inbox:FailedTurns")
    provider: RecordSpec[ProviderMemory] = RecordSpec("kernel.values.provider:ProviderMemory")
    names: RecordSpec[GivenNames] = RecordSpec("kernel.values.schedule:GivenNames")
    grants: RecordSpec[Grants] = RecordSpec("kernel.values.permissions:Grants")
    skips: RecordSpec[Skips] = RecordSpec("kernel.values.schedule:Skips")
    quiet: RecordSpec[QuietChoice] = RecordSpec("kernel.values.quiet:QuietChoice")
    zone: RecordSpec[PlannedZone] = RecordSpec("kernel.values.travel:PlannedZone")
    held: RecordSpec[HeldMessages] = RecordSpec(":HELD_MESSAGES")
    digests: RecordSpec[Digests] = RecordSpec("kernel.values.digest:Digests")
    initiative: RecordSpec[SetByAgent] = RecordSpec("kernel.values.initiative:SetByAgent")
    agent_skills: RecordSpec[AgentSkills] = RecordSpec("kernel.values.skills:AgentSkills")
    tool_servers: RecordSpec[ToolServerRecord] = RecordSpec(
        "kernel.values.tool_servers:ToolServerRecord"
    )
    task_undos: RecordSpec[TaskUndos] = RecordSpec("kernel.values.task_cards:TaskUndos")
    task_moves: RecordSpec[TaskMoves] = RecordSpec("kernel.values.task_cards:TaskMoves")
    breakdowns: RecordSpec[Breakdowns] = RecordSpec("kernel.values.breakdowns:Breakdowns")
    begun_writes: RecordSpec[BegunWrites] = RecordSpec("kernel.values.changes:BegunWrites")
    added_lines: RecordSpec[AddedLines] = RecordSpec("kernel.values.surface_state:AddedLines")
    discord: RecordSpec[DiscordState] = RecordSpec("kernel.values.surface_state:DiscordState")
    web: RecordSpec[WebState] = RecordSpec("kernel.values.surface_state:WebState")
    push: RecordSpec[PushState] = RecordSpec("kernel.values.surface_state:PushState")
    memory: RecordSpec[Mapping[str, object]] = RecordSpec("kernel.store.codecs.config_codec:MEMORY")

    def __init__(self, statements: Statements, now: datetime) -> None:
        self._statements = statements
        self.now = now


RECORDS: tuple[RecordSpec[object], ...] = tuple(
    spec for spec in vars(Records).values() if isinstance(spec, RecordSpec)
)
MIRRORED = tuple(spec for spec in RECORDS if spec.file)


def stored_record(statements: Statements, name: str) -> bytes | None:
    """The content of a record and of its mirror; None for a record without a file."""
    found = statements.row(GET_RECORD, name)
    return None if found is None else str(found[0]).encode()


def store_record(statements: Statements, spec: RecordSpec[T], encoded: bytes | None) -> None:
    """Replace the content of a record, and store the hash of its mirror."""
    if encoded is None:
        statements.write(spec.name, "DELETE FROM records WHERE name = ?", spec.name)
    else:
        statements.write(spec.name, PUT_RECORD, spec.name, encoded.decode())
    if spec.file:
        look_up("kernel.store.mirrors:note_content")(statements, spec.name, encoded)
