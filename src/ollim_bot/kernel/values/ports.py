"""The seams of the program. Read this file first.

`AgentEngine` and `AgentSession` are the model. `ChatService` is what a surface asks of the core;
`ChatSurface` and `Channel` are what the core asks of a surface. The storage seams come last; time
is the `Clock` of `kernel/base/clock.py`. Each seam has a double and a contract suite in
`devtools/doubles`.

The storage seams are synchronous and safe to use from any thread and any process at once. They may
wait for a disk or for another process, so code on the event loop calls them through
`asyncio.to_thread`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol, TypeVar

from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.text import PROGRAM
from ollim_bot.kernel.values.usage import Price

# Only annotations name these: a command of the CLI imports this file, and should start fast.
if TYPE_CHECKING:
    from ollim_bot.kernel.base.ids import MessageId, SessionId, TurnId
    from ollim_bot.kernel.values.chat import Attachment, ChatMessage
    from ollim_bot.kernel.values.commands import CommandAnswer, CommandSpec
    from ollim_bot.kernel.values.events import AgentEvent
    from ollim_bot.kernel.values.hook_jobs import WebhookSpec
    from ollim_bot.kernel.values.inbox import InputId
    from ollim_bot.kernel.values.jobs import JobText, Reminder, RepositoryReport, Routine, StoredJob
    from ollim_bot.kernel.values.runs import Subagents
    from ollim_bot.kernel.values.runtime_config import Thinking
    from ollim_bot.kernel.values.taint import CarefulTime, Untrusted
    from ollim_bot.kernel.values.tasks import DeletedTask, Task, TaskChange
    from ollim_bot.kernel.values.usage import Usage
    from ollim_bot.kernel.values.views import Views

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Image:
    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Prompt:
    """The engine takes `text` literally: it runs no command and opens no file that `text` names.

    `id`, a UUID, marks the prompt in the engine's record of the session, where
    `AgentEngine.trace` finds it. A turn whose id is already in the record fails at once.
    """

    text: str
    images: tuple[Image, ...] = ()
    id: str | None = None


class OfferedSkill(NamedTuple):
    """The engine reads a skill once, at its start, so another `version` needs a new process."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class SessionSpec:
    """`resume` continues a session; without it a new one begins, with the id `begin` if given.

    A new session starts with the history of `branch_of`, if given, and leaves that session
    untouched. `occurrence` is the id of the background run that the session is for; it is empty in
    the conversation. The agent is offered `subagents` and `skills`, and no others. A session that
    `is_bare` reads no settings of the owner and leaves no record, so it cannot be resumed.
    """

    system_prompt: str
    working_directory: Path
    resume: SessionId | None = None
    begin: SessionId | None = None
    branch_of: SessionId | None = None
    model: str | None = None
    thinking: Thinking = "off"
    readable: tuple[Path, ...] = ()
    occurrence: str = ""
    subagents: Subagents | None = None
    skills: tuple[OfferedSkill, ...] = ()
    is_bare: bool = False


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """`schema` is the JSON Schema of the arguments, which are checked before `run` is called."""

    name: str
    description: str
    schema: Mapping[str, object]
    run: Callable[[Mapping[str, object]], Awaitable[ToolAnswer]]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """`subagent` is the name of the subagent that makes the call; empty for the agent itself."""

    tool: str
    arguments: Mapping[str, object]
    subagent: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call that is not made; the model is told `reason`."""

    reason: str


# Called before each tool call; None lets the call through.
Gate = Callable[[ToolCall], Awaitable[Refusal | None]]
# Called with the text of each result, also of a failed call, before the agent reads the result.
AfterCall = Callable[[ToolCall, str], Awaitable[None]]


async def _nothing(*_: object) -> None:
    return None


async def _no_commands(_: ToolCall) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Toolset:
    """What the agent may do in one session.

    `servers` may change between turns: a turn has those that are there when it begins.

    The engine calls `gate` before every call, of our tools and of its own; if `gate` raises, the
    call is refused. The engine calls `after_call` with every result; if `after_call` raises, the
    turn stops there. Both are called for subagents too. The engine calls `may_end` when a turn is
    about to end; a text sends the agent back to work with that reason. `commands_of` gives the
    command lines that an allowed call brings along: each is run like a call of `Bash`, past the
    same `gate`, and the agent is given the results.
    """

    servers: Mapping[str, Sequence[Tool]] = field(default_factory=dict)
    builtin: tuple[str, ...] = ()
    gate: Gate = _nothing
    may_end: Callable[[], Awaitable[str | None]] = _nothing
    after_call: AfterCall = _nothing
    commands_of: Callable[[ToolCall], Awaitable[Sequence[str]]] = _no_commands


class AgentSession(Protocol):
    """One conversation of the engine, which runs one turn at a time."""

    @property
    def id(self) -> SessionId | None:
        """None until the engine has named the session."""

    @property
    def usage(self) -> Usage:
        """What the session has used since it was opened, also in a turn that was cut off."""

    def turn(self, prompt: Prompt) -> AsyncIterator[AgentEvent]:
        """Ends with exactly one `TurnEnded`, also when the engine dies."""

    def command(self, line: str) -> AsyncIterator[AgentEvent]:
        """Runs a command of the engine itself, such as `/compact keep names`."""

    async def interrupt(self) -> None:
        """End the running turn soon; does nothing when no turn runs."""

    async def reconfigure(
        self,
        *,
        model: str | None,
        thinking: Thinking,
        system_prompt: str,
        skills: tuple[OfferedSkill, ...],
    ) -> None:
        """Takes effect from the next turn on, in the same session. Equal values cost nothing."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What the engine's own record of a session says of a prompt.

    `is_taken`: the engine has received it. `answer` is the text of the answer so far, or all of it
    if `is_complete`. `ended` has the labels of the calls of tools whose results it has,
    without those that failed or were interrupted.
    """

    is_taken: bool
    is_complete: bool = False
    answer: str = ""
    ended: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredSession:
    """`first_prompt` is the prompt as sent, with the time and the rest before the owner's words."""

    id: SessionId
    changed_at: datetime
    first_prompt: str
    size: int


class AgentEngine(Protocol):
    def open(self, spec: SessionSpec, tools: Toolset) -> AbstractAsyncContextManager[AgentSession]:
        """Raises `SessionLost` if the engine does not know the session to resume any more."""

    async def knows(self, session: SessionId) -> bool:
        """Whether the session can be resumed or branched off from."""

    async def trace(self, session: SessionId, prompt: str) -> Trace:
        """Says after a crash how far a prompt got. An unknown session has taken nothing."""

    async def sessions(self, working_directory: Path, limit: int) -> Sequence[StoredSession]:
        """The sessions that can be resumed, newest first."""


# Raises `OSError` or `ValueError` for a file that is gone, or that the owner may not see.
OpenAttachment = Callable[["Attachment"], BinaryIO]


@dataclass(frozen=True, slots=True)
class IncomingFile:
    """A file that a surface has fetched. The chat service moves it away and owns it then."""

    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class IncomingMessage:
    """A message as a surface received it.

    The sender makes `id`, so that a repeated send is recognised. `quote` is the text of the message
    that is replied to, where only the surface knows that text. `button` is the label of a pressed
    button; `text` is then the prompt stored behind the button. `untrusted` is set where the owner
    sends a text without having written it, `untrusted_quote` where that is true of the quote, or of
    the `subject` that a button of the program is about.
    """

    id: InputId
    surface: str
    text: str
    reply_to: MessageId | None = None
    quote: str = ""
    files: tuple[IncomingFile, ...] = ()
    button: str = ""
    refs: Mapping[str, str] = field(default_factory=dict)
    untrusted: Untrusted | None = None
    untrusted_quote: Untrusted | None = None
    subject: str = ""


@dataclass(frozen=True, slots=True)
class OpenFork:
    """The fork that the owner is in. `card` is the message whose buttons lead out of it."""

    topic: str
    card: MessageId


@dataclass(frozen=True, slots=True)
class Status:
    """What a surface shows about the bot itself. `provider` is in words: `offline model`.

    `trouble` is a sentence about another surface that does not work now. `program` is how the owner
    calls the program in a terminal. `quiet_until` is set while it is quiet. `zone` is the owner's,
    in which all times are shown. `has_jobs`: a reminder or routine was set.
    `has_sound`: the page may play a sound for what asks something, unless it is quiet. `careful` is
    set while the conversation has read words of others.
    """

    provider: str
    is_offline: bool
    model: str
    is_busy: bool
    user_name: str
    bot_name: str
    version: str
    fork: OpenFork | None = None
    trouble: str = ""
    price: Price = Price.LISTED
    program: str = PROGRAM
    quiet_until: datetime | None = None
    zone: str = "UTC"
    has_jobs: bool = False
    has_sound: bool = True
    careful: CarefulTime | None = None


@dataclass(frozen=True, slots=True)
class TurnStart:
    """A turn that begins to run, and the inputs that it answers."""

    turn: TurnId
    at: datetime
    inputs: tuple[InputId, ...]


class LogChange(NamedTuple):
    """A message that was added or edited. `change` grows with every such change of the log."""

    message: ChatMessage
    change: int


class ChatService(Protocol):
    """What a surface asks of the core."""

    async def receive(self, message: IncomingMessage) -> ChatMessage:
        """When it returns, the message is on disk and will be answered, so it can be acknowledged.

        Sending the same id again changes nothing. Raises `OllimError` if the message cannot be
        stored.
        """

    async def edit(self, input_id: InputId, text: str) -> bool:
        """True if the message had not been taken yet; the edited text is then answered."""

    async def withdraw(self, input_id: InputId) -> bool:
        """True if the message had not been taken yet; it is then not answered."""

    async def command(self, surface: str, line: str) -> CommandAnswer:
        """Runs `/model sonnet` as typed. Returns when it is done; never raises `OllimError`."""

    async def click(
        self, surface: str, message_id: MessageId, custom_id: str, words: str = ""
    ) -> CommandAnswer:
        """Presses a button of a card. Returns when the click is on disk or done.

        `words` answer the question of a button that asks.
        A button that was used or has expired answers with a sentence and does nothing.
        """

    async def go_on(self, key: str) -> CommandAnswer:
        """End the careful time that was shown with this key, as the owner's next words would.

        One that is over, or that has more reasons by now, is left as it is.
        """

    async def interrupt(self) -> bool:
        """Stop the running turn and drop nothing else. True if a turn was running."""

    async def completions(self, command: str, argument: str, typed: str) -> Sequence[str]:
        """Values that begin with `typed`, or else contain it; at most 25."""

    async def history(self, limit: int, before: MessageId | None = None) -> Sequence[ChatMessage]:
        """The newest messages, oldest first; with `before`, the newest that precede that one."""

    async def message(self, message_id: MessageId) -> ChatMessage | None:
        """One message of the log, of any age; None if there is none."""

    async def search(self, words: str, limit: int) -> Sequence[ChatMessage]:
        """The messages of the log that have these words, the best first.

        Raises `WrongInput` if there is no word to look for.
        """

    async def around(self, message_id: MessageId, limit: int) -> Sequence[ChatMessage]:
        """The message with as many before and after it as `limit`, oldest first; or none."""

    async def place_of(self, message_id: MessageId) -> int | None:
        """The position of the message in the order of the log; None if it is not there."""

    async def by_ref(self, surface: str, ref: str) -> ChatMessage | None:
        """The message that has this id on a surface; None if it is unknown."""

    async def by_refs(self, surface: str, newest: int) -> Mapping[str, ChatMessage]:
        """The newest messages of the log that a surface shows, by their ids there."""

    async def caught_up(self, surface: str) -> None:
        """Returns when every open delivery to the surface has arrived or was given up."""

    async def last_change(self) -> int:
        """The number of the newest change of the log."""

    async def changes_since(self, change: int, limit: int) -> Sequence[LogChange] | None:
        """The messages added or edited after that change, in the order of the changes.

        None if there are more than `limit`, or if the log never had that change.
        """

    async def trouble(self, sentence: str) -> None:
        """Show on the other surfaces what does not work on this one.

        An empty sentence says that it works again: waiting deliveries then go on at once. What the
        owner has to know for good is sent as a message, not here.
        """

    @property
    def views(self) -> Views: ...

    @property
    def commands(self) -> Sequence[CommandSpec]: ...

    @property
    def status(self) -> Status: ...


class Surface(Protocol):
    """A place where the owner and the bot talk.

    `present` and `changed` return within a moment and never raise: a surface itself keeps, and
    shows later, what it cannot show now.
    """

    name: str

    async def run(self, service: ChatService) -> None:
        """Serve until cancelled. When it raises, it is started again after a pause."""

    async def present(self, start: TurnStart, events: AsyncIterator[AgentEvent]) -> None:
        """Show a turn while it runs. The events end with a `TurnEnded`."""

    async def changed(self, status: Status) -> None:
        """Show the new status."""


class ChatSurface(Surface, Protocol):
    """A surface of our own: it follows the log and confirms nothing."""

    async def post(self, message: ChatMessage, change: int = 0) -> None:
        """Show a message of the log, new or edited. Returns within a moment and never raises.

        The answer of a presented turn comes here too, with its `turn`, and replaces what was shown
        of that turn. `change` is 0 while the disk is too full to store the message.
        """


@dataclass(frozen=True, slots=True)
class MessagePart:
    """One part of a message, as a channel sends it; `index` counts from 0.

    The nonce, of 24 characters, is the same for each try of the same part, so that a service that
    remembers it answers with the message it has.
    """

    content: ChatMessage
    index: int
    nonce: str


class Channel(Surface, Protocol):
    """A surface that another party's service runs; it confirms each message with an id of its own.

    Each call should end within a minute; a longer one is cancelled. `deliver`, `find` and `edit`
    raise `Unreachable` if the service certainly did nothing but may do so later, and
    `DeliveryUncertain` if the outcome is unknown. `deliver` and `edit` raise `DeliveryFailed` with
    the reason if the service refuses for good; `find`, if it can never be found out.
    """

    async def connected(self) -> str:
        """Returns the account there, once the service has been reached for the first time."""

    def concerns(self, message: ChatMessage) -> bool:
        """Whether the message is sent there; the same on each call."""

    def parts(self, message: ChatMessage) -> Sequence[ChatMessage]:
        """The message in parts that the service accepts, at least one; the same on each call."""

    async def take_drafts(
        self, message: ChatMessage, parts: Sequence[ChatMessage]
    ) -> Sequence[str]:
        """Stop drawing and return the ids of the drafts to edit the first parts into.

        Repeated calls give the same ids until `ended` is called.
        """

    async def deliver(self, part: MessagePart) -> str:
        """Send the part; returns the id that the service gave it."""

    async def find(self, part: MessagePart, since: datetime, others: Collection[str]) -> str | None:
        """Look up whether the part has arrived; returns its id, or None if it certainly has not.

        `since` is the earliest time at which it may have been sent, by our clock, which may be
        wrong by hours: the newest messages must be searched in any case. `others` are ids of other
        messages, which may have the same text.
        """

    async def edit(self, ref: str, content: ChatMessage) -> None:
        """Edit the message with this id to show the part `content`; its files stay as they are."""

    def discard(self, refs: Sequence[str]) -> None:
        """Delete these drafts soon: they could not be edited. Never raises."""

    def ended(self, message: ChatMessage, refs: Sequence[str]) -> None:
        """The delivery has ended, with its arrived parts under `refs`. Never raises."""


class AttachmentStore(Protocol):
    """Files that came with messages, by content: images apart from all others."""

    def keep(self, input_id: InputId, file: IncomingFile) -> Attachment:
        """Move the file to its permanent place; raises `WrongInput` with what is wrong with it."""

    async def image(self, attachment: Attachment) -> tuple[str, bytes]:
        """Media type and bytes of an image as the model takes it; raises `WrongInput`.

        It takes seconds at most for any image, and ends at once when it is cancelled.
        """

    def clean(self, now: datetime) -> int:
        """Remove the files that are older than 30 days; returns how many."""


class JobRepository(Protocol[T]):
    """Documents in a folder, each with its own id; people may edit them at any time."""

    def report(self) -> RepositoryReport[T]: ...

    def all(self) -> Sequence[StoredJob[T]]:
        """Every correct document, by file name. Wrong documents never hide the others."""

    def get(self, item_id: str) -> StoredJob[T]:
        """Raises `NotFound`, `DuplicateId`, or `BadJob` if its document is wrong."""

    def add(self, item: T) -> Path:
        """Write a new document. It never replaces an existing file."""

    def amend(self, item_id: str, changes: Mapping[str, object], body: str | None = None) -> T:
        """Change the named fields in the present file; None removes a field.

        Everything else that a person wrote stays unchanged. Raises `BadJob` if the result would be
        wrong.
        """

    def text_of(self, item_id: str) -> JobText:
        """The file as it is, even if it is wrong. Raises `NotFound`, `DuplicateId` or `BadJob`."""

    def rewrite(self, item_id: str, text: str, version: str) -> T:
        """Put `text` in place of the file, which still has this version.

        Raises `ChangedMeanwhile` if it has another, and `BadJob` if `text` is wrong.
        """

    def remove(self, item_id: str) -> Path: ...


@dataclass(frozen=True, slots=True)
class JobRepositories:
    """All job files. `others` are those of the kinds that only their own package knows by name."""

    routines: JobRepository[Routine]
    reminders: JobRepository[Reminder]
    webhooks: JobRepository[WebhookSpec]
    others: Mapping[JobKind, JobRepository[Any]] = field(default_factory=dict)

    def of(self, kind: JobKind) -> JobRepository[Any]:
        return self.by_kind[kind]

    @property
    def by_kind(self) -> Mapping[JobKind, JobRepository[Any]]:
        return {
            JobKind.ROUTINE: self.routines,
            JobKind.REMINDER: self.reminders,
            JobKind.WEBHOOK: self.webhooks,
            **self.others,
        }


class TaskList(Protocol):
    """The owner's tasks. What is done or open already stays so, without an error.

    Raises `TaskNotFound`, `WrongInput`, `StorageError`, `Unreachable` or `SignInNeeded`.
    """

    def tasks(self, list_name: str = "", *, with_done: bool = False) -> Sequence[Task]: ...
    def get(self, task_id: str) -> Task: ...
    def add(
        self, title: str, due: date | None = None, notes: str = "", list_name: str = ""
    ) -> Task: ...
    def complete(self, task_id: str) -> Task: ...
    def reopen(self, task_id: str) -> Task: ...
    def update(self, task_id: str, change: TaskChange) -> Task: ...
    def deletion(self, task_id: str) -> DeletedTask:
        """What `delete` would return; nothing changes."""

    def delete(self, task_id: str) -> DeletedTask: ...
    def restore(self, deleted: DeletedTask) -> Task: ...
    def add_steps(self, steps: Sequence[str], task_id: str = "", title: str = "") -> Sequence[Task]:
        """Make the steps parts of a task, in one write; returns the task and then the steps.

        Without an id, the open task with that title is meant; one is made if there is none. A step
        that the task has already is not added again, so that a repeated call adds nothing.
        """

    def remove_open(self, task_ids: Sequence[str]) -> Sequence[str]:
        """Delete in this order, in one write, those that are there, open and without parts.

        Returns their ids.
        """

    def lists(self) -> Mapping[str, str]:
        """The names of the lists, each with its title where it is kept."""


class Journal(Protocol):
    """The history of the files that people and the agent share."""

    def note(self, path: Path, message: str, source: str = "") -> None:
        """Record that `path` was written or removed. Returns at once and never raises.

        `source` is what the new words come from, as `kernel.values.about_me` has it; empty if
        unknown.
        """


class Disk(Protocol):
    """The file system: every change of a data file is made of these steps.

    After a power cut, only content given to `sync` and names in a folder given to `sync_folder` are
    certain to remain.
    """

    def read(self, path: Path, most: int) -> bytes:
        """Raises `OSError`, also for anything but a regular file and for more bytes than `most`."""

    def write(self, path: Path, data: bytes, mode: int) -> None:
        """Make a new file with all of `data`, in place of one that a crash left behind.

        The file is new because `link` may have given the old one a second name before the crash.
        """

    def append(self, path: Path, data: bytes, mode: int, *, sync: bool) -> None:
        """Add all of `data` at the end, or nothing; with `sync`, the content is synced too."""

    def sync(self, path: Path) -> None: ...

    def replace(self, source: Path, target: Path) -> None: ...

    def link(self, source: Path, target: Path) -> None:
        """Give the file a second name; raises `FileExistsError` if it is taken."""

    def remove(self, path: Path) -> None: ...

    def sync_folder(self, folder: Path) -> None: ...
