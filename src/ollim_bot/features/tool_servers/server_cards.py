"""Asks the owner about new and changed tool servers by cards, and tells what does not work.

The text on a card is mostly the server's, so it is visible, short, and cannot pass for ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.text import counted, difference, fenced, one_line
from ollim_bot.kernel.conversation.buttons import Action, Uses, nothing
from ollim_bot.kernel.conversation.message_poster import MessagePoster
from ollim_bot.kernel.conversation.notice_poster import Notices
from ollim_bot.kernel.store.steps import leave_update
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.cards import Button, ButtonStyle, Card, CardLine
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.commands import CommandAnswer
from ollim_bot.kernel.values.taint import Untrusted
from ollim_bot.kernel.values.tool_servers import (
    SERVER_RECORD,
    ServerCondition,
    ServerState,
    ToolDefinition,
    whole_definition,
)
from ollim_bot.kernel.values.updates import PendingUpdate, PendingUpdates

_SERVER = "server"
_START, _TOOLS, _SHOW, _LATER, _LOOKS = "start", "tools", "show", "later", "looks"
_MOST_SHOWN = 12
# A longer text is many messages on any surface but the page.
_LONGEST_SHOWN = 12_000
_KEY_LENGTH = 16

_NEW = "`mcp.json` names this server. It has not been started:"
_CHANGED = "This is not the command line or address that you approved, so the server is off:"
_ASK_START = "Start it only if you wrote that yourself."
_REWRITTEN = "The script of this server is not as you approved it, so the server is off:"
_ASK_REWRITTEN = "Start it only if you changed the script yourself."
_SERVERS_TEXT = "The text in the box is the server's own."
_NOT_AS_APPROVED = "are not as you approved them, and are off until you approve them again."
_TOOLS_COME = "It is being started; its tools come in a moment."
_TOOLS_ON = "Done. The tools can be used from the next message on."
_LOOKS_NOTED = "Noted: it only looks, and what it is asked may leave. It still needs **Approve**."
_CARE = (
    "After somebody else's words I call these only with your word, and not in the background. "
    "Press **It only looks** where that is not needed, and what the tool is asked may leave."
)
_CHANGED_SINCE = "This has changed since; a newer card shows it."


class ServerCards:
    """Follows the record of the tool servers. Each question is asked once."""

    def __init__(self, store: Store, poster: MessagePoster, notices: Notices, clock: Clock) -> None:
        self._store = store
        self._poster = poster
        self._notices = notices
        self._clock = clock
        self._told: set[str] = set()
        self.actions: Mapping[str, Action] = {
            f"{_SERVER}:{_START}": self._deciding(lambda s, _: s.started(), _TOOLS_COME, Uses.ALL),
            f"{_SERVER}:{_TOOLS}": self._deciding(lambda s, _: s.approving(), _TOOLS_ON, Uses.ALL),
            f"{_SERVER}:{_LOOKS}": self._deciding(_looking, _LOOKS_NOTED, Uses.ITSELF),
            f"{_SERVER}:{_SHOW}": Action(self._show, Uses.NOTHING),
            f"{_SERVER}:{_LATER}": Action(nothing, Uses.ALL),
        }

    async def run(self) -> None:
        """Ask and tell until cancelled."""
        with self._store.changes(SERVER_RECORD) as changed:
            while True:
                changed.clear()
                await self._follow()
                await changed.wait()

    async def _follow(self) -> None:
        servers = (await self._store.read(lambda tx: tx.tool_servers.get())).servers
        for name, state in servers.items():
            if state.question and state.question != state.asked:
                await self._store.transact(partial(self._ask, name))
        over = {_update(name) for name, state in servers.items() if not state.change}
        if any(each.id in over for each in (await self._store.read(_pending)).entries):
            await self._store.transact(lambda tx: tx.updates.put(_pending(tx).without(over)))
        troubles = {name: state.trouble for name, state in servers.items() if state.trouble}
        for name, trouble in troubles.items():
            await self._notices.tell(
                f"The tool server {name} {trouble} All else goes on without it. "
                f"`ollim-bot mcp test {name}` shows whether it works again.",
                key=_key(name),
            )
        for name in self._told - set(troubles):
            await self._notices.forget(_key(name))
        self._told = set(troubles)

    def _ask(self, name: str, tx: Transaction) -> None:
        record = tx.tool_servers.get()
        state = record.of(name)
        if not state.question or state.question == state.asked:
            return
        message_id = MessageId(f"server-{name}-{state.question[:_KEY_LENGTH]}")
        card = server_card(name, state)
        source = Untrusted(f"tool server {name}", f"what {name} says about its tools")
        message = ChatMessage(message_id, tx.now, Author.PROGRAM, "", card=card, untrusted=source)
        self._poster.hold_or_add(tx, message, key=f"server {name}")
        if state.change:
            told = f"The owner's tool server {name} {state.change}. The owner is asked about it."
            leave_update(tx, PendingUpdate(tx.now, told, _update(name)))
        tx.tool_servers.put(record.holding(name, state.having_asked()))

    async def _show(self, surface: str, __: ChatMessage, button: Button) -> CommandAnswer:
        """Show the definitions that wait, whole."""
        _, name, key = button.data.split(":")
        record = await self._store.read(lambda tx: tx.tool_servers.get())
        state = record.of(name)
        if not state.question or state.question[:_KEY_LENGTH] != key:
            return CommandAnswer(_CHANGED_SINCE, is_error=True)
        lines = [line for each in state.waiting for line in (*whole_definition(each), "")]
        shown = _block(lines)
        if surface != "web" and len(shown) > _LONGEST_SHOWN:
            return CommandAnswer(
                f"That is too long for here. The page shows it, and in a terminal `ollim-bot mcp "
                f"list {name}`."
            )
        return CommandAnswer(shown)

    def _deciding(
        self, step: Callable[[ServerState, Button], ServerState], done: str, uses: Uses
    ) -> Action:
        """Carry out the decision, if the card shows what is true now."""

        async def run(_: str, __: ChatMessage, button: Button) -> CommandAnswer:
            name, key = button.data.split(":")[1:3]

            def decide(tx: Transaction) -> bool:
                record = tx.tool_servers.get()
                state = record.of(name)
                if not state.question or state.question[:_KEY_LENGTH] != key:
                    return False
                tx.tool_servers.put(record.holding(name, step(state, button)))
                return True

            is_done = await self._store.transact(decide)
            return CommandAnswer(done if is_done else _CHANGED_SINCE, is_error=not is_done)

        return Action(run, uses)


def _looking(state: ServerState, button: Button) -> ServerState:
    tool = state.waiting[int(button.data.rpartition(":")[2])]
    return replace(state, looking=(*state.looking, tool.name))


def server_card(name: str, state: ServerState) -> Card:
    """What the owner decides about a server: whether to start it, or which tools to approve."""
    if state.condition is ServerCondition.WAITING:
        verb, kind = "Approve", _TOOLS
        title, described = f"Tools of {name}", _tools(name, state)
    else:
        verb, kind = "Start it", _START
        is_new = state.condition is ServerCondition.NEW
        is_rewritten = state.condition is ServerCondition.REWRITTEN
        title = f"Tool server {'added' if is_new else 'changed'}: {name}"
        command = one_line(state.shown, 1000)
        head = _REWRITTEN if is_rewritten else _NEW if is_new else _CHANGED
        asked = _ASK_REWRITTEN if is_rewritten else _ASK_START
        described = f"{head}\n{_block([command])}\n{asked}"
    key = f"{name}:{state.question[:_KEY_LENGTH]}"
    changes = [*state.changes()][:_MOST_SHOWN] if kind == _TOOLS else []
    looking = [
        Button("It only looks", _SERVER, f"{_LOOKS}:{key}:{place}", line=place + 1)
        for place, (_, new) in enumerate(changes)
        if not (new.hints and new.hints.looks)
    ]
    described += f" {_CARE}" if looking else ""
    shown = (Button("Show all", _SERVER, f"{_SHOW}:{key}"),) if kind == _TOOLS else ()
    buttons = (
        *looking,
        Button("Not now", _SERVER, f"{_LATER}:{key}"),
        *shown,
        Button(verb, _SERVER, f"{kind}:{key}", ButtonStyle.PRIMARY),
    )
    lines = tuple(CardLine(_said(old, new)) for old, new in changes)
    return Card(title, described, buttons=buttons, lines=lines)


def _said(old: ToolDefinition | None, new: ToolDefinition) -> str:
    """The tool, and what its server says that it does, if that is new or says something."""
    if new.hints is None or (old is None and not new.hints.reads_only):
        return new.name
    unasked = "; I call it without your word" if new.hints.looks else ""
    return f"{new.name}: the server says that it {new.hints.in_words}{unasked}"


def _tools(name: str, state: ServerState) -> str:
    changes = [*state.changes()]
    lines = [line for old, new in changes[:_MOST_SHOWN] for line in _tool(old, new)]
    number = counted(len(changes), "tool")
    has_changed = any(old is not None for old, _ in changes)
    asked = f"{number} {_NOT_AS_APPROVED}" if has_changed else f"May I use {number}?"
    more = len(changes) - _MOST_SHOWN
    further = f"{counted(more, 'further tool')}. " if more > 0 else ""
    return (
        f"{asked} {_SERVERS_TEXT}\n{_block(lines)}\n{further}**Show all** shows each description "
        f"and all arguments, and so does `ollim-bot mcp list {name}`: all of it goes to the agent."
    )


def _tool(old: ToolDefinition | None, new: ToolDefinition) -> Iterator[str]:
    if old is None:
        yield one_line(f"{new.name}: {new.description}", 200)
        return
    yield f"{new.name} has changed:"
    lines, _ = difference(old.description, new.description)
    yield from lines
    if old.schema != new.schema:
        yield "its arguments are others"


def _block(lines: list[str]) -> str:
    return "\n".join(["```", fenced("\n".join(lines)), "```"])


def _key(name: str) -> str:
    return f"tool server {name}"


def _update(name: str) -> str:
    return f"server changed {name}"


def _pending(tx: Transaction) -> PendingUpdates:
    return tx.updates.get()
