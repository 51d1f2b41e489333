"""The owner's tool servers: what `mcp.json` names, what the owner has approved, what is offered.

The model only ever reads definitions that the owner has approved. A command line or an address
that the owner has not approved is neither started nor asked.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from urllib.parse import urlsplit

from ollim_bot.kernel.base.text import counted, shortened, visible
from ollim_bot.kernel.values.server_messages import LONGEST_DESCRIPTION, LONGEST_SCHEMA
from ollim_bot.kernel.values.tool_patterns import OWN_SERVERS, server_of

HIDDEN = "…"

_SECRET_WORDS = frozenset(
    (
        *("auth", "authorization", "bearer", "cookie", "cookies", "cred", "creds", "credential"),
        *("credentials", "dsn", "jwt", "key", "keys", "apikey", "oauth", "pass", "passphrase"),
        *("passwd", "password", "passwords", "pat", "pin", "psk", "pw", "pwd", "sas", "secret"),
        *("secrets", "session", "sig", "signature", "token", "tokens", "accesskey", "authtoken"),
        *("accesstoken", "secretkey", "apitoken", "userpass"),
    )
)
_WORDS_IN_NAME = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# Whose value is a header or a variable of its own.
_OF_PAIRS = frozenset({"-H", "--header", "-e", "--env"})
_SHORT_SECRETS = frozenset({"-p", "-k", "-u", "-t"})
_NAMED = re.compile(r"(?P<head>(?P<name>-{0,2}[A-Za-z_][\w.-]*)\s*(?:=|:\s))(?P<value>.+)", re.S)
# A short option with its value in the same word; so short a value is rather more options.
_GLUED = re.compile(r"(?P<flag>-[A-Za-z])(?P<equals>=?)(?P<value>[^-=].{2,})", re.S)
_GLUING = _OF_PAIRS | _SHORT_SECRETS
# A command line in one word that begins with a variable.
_VARIABLE_FIRST = re.compile(r"[A-Za-z_]\w*=\S*\s")
_PAIR = re.compile(r"""(['"]?[A-Za-z_][\w.-]*['"]?\s*[=:]\s*)(.+)""", re.S)
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)
_PIECES = re.compile(r"[A-Za-z0-9]+")
_PLAIN_SEGMENT = re.compile(r"[A-Za-z]{1,20}(?:[-_.][A-Za-z]{1,20})*|[A-Za-z0-9_.@-]{0,11}")
_LONG_PIECE = 16
_LONGEST_NUMBER = 15


def shown_command(words: Sequence[str], hidden: Callable[[str], None] = lambda _: None) -> str:
    """The command line; `hidden` is called with each part that is left out."""
    shown = _shown_words(words, _Hider(hidden))
    return " ".join(word if HIDDEN in word else shlex.quote(word) for word in shown)


def shown_address(url: str, hidden: Callable[[str], None] = lambda _: None) -> str:
    """The address; `hidden` is called with each part that is left out."""
    return _Hider(hidden).address(url)


def _shown_words(words: Sequence[str], hide: _Hider) -> Iterator[str]:
    flag = ""
    for word in words:
        glued = _GLUED.fullmatch(word)
        if glued and glued["flag"] in _GLUING and word[1:].lower() not in _SECRET_WORDS:
            yield f"{glued['flag']}{glued['equals']}{hide.word(glued['value'], glued['flag'])}"
        else:
            yield hide.word(word, flag)
        flag = word if word.startswith("-") and "=" not in word else ""


class _Hider:
    def __init__(self, hidden: Callable[[str], None]) -> None:
        self._hidden = hidden

    def whole(self, text: str) -> str:
        if text:
            self._hidden(text)
        return HIDDEN if text else ""

    def word(self, word: str, flag: str) -> str:
        """A word of a command line behind `flag`, which is empty if the word stands alone."""
        if flag in _OF_PAIRS:
            return self._pair(word)
        if flag and _is_secret_name(flag) and not word.startswith("--"):
            return self.whole(word)
        if flag in _SHORT_SECRETS and not word.isdecimal() and not word.startswith("-"):
            return self.whole(word)
        if _ADDRESS.match(word):
            return self.address(word)
        if word.lstrip().startswith(("{", "[")):
            # Text in another notation, such as JSON: a key could be anywhere in it.
            return self.whole(word)
        named = _NAMED.fullmatch(word)
        if _VARIABLE_FIRST.match(word):
            named = None
        if named and (named["name"] in _OF_PAIRS or _is_secret_name(named["name"])):
            is_pair = named["name"] in _OF_PAIRS
            value = named["value"]
            return f"{named['head']}{self._pair(value) if is_pair else self.whole(value)}"
        if any(map(str.isspace, word.strip())):
            # A command line in one word, such as that of `sh -c`.
            try:
                words = shlex.split(word)
            except ValueError:
                words = word.split()
            return " ".join(_shown_words(words, self))
        if named:
            return f"{named['head']}{self.word(named['value'], '')}"
        return "/".join(
            self.whole(part)
            if _UUID.search(part) or any(map(_is_random_piece, _PIECES.findall(part)))
            else part
            for part in word.split("/")
        )

    def address(self, url: str) -> str:
        try:
            parts = urlsplit(url)
            port = f":{parts.port}" if parts.port is not None else ""
        except ValueError:
            return self.whole(url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
        user = f"{self.whole(parts.netloc.rpartition('@')[0])}@" if "@" in parts.netloc else ""
        path = "/".join(
            each if _PLAIN_SEGMENT.fullmatch(each) else self.whole(each)
            for each in parts.path.split("/")
        )
        values = (each.partition("=") for each in parts.query.split("&") if each)
        query = "&".join(
            f"{name}={self.whole(value)}" if equals else self.whole(name)
            for name, equals, value in values
        )
        fragment = self.whole(parts.fragment)
        behind = (f"?{query}" if query else "") + (f"#{fragment}" if fragment else "")
        return f"{parts.scheme}://{user}{host}{port}{path}{behind}"

    def _pair(self, word: str) -> str:
        pair = _PAIR.fullmatch(word)
        return f"{pair[1]}{self.whole(pair[2])}" if pair else self.whole(word)


def _is_secret_name(name: str) -> bool:
    return any(each.lower() in _SECRET_WORDS for each in _WORDS_IN_NAME.findall(name))


def _is_random_piece(piece: str) -> bool:
    if len(piece) < _LONG_PIECE:
        return False
    digits = sum(map(str.isdecimal, piece))
    if digits == len(piece):
        return digits > _LONGEST_NUMBER
    capitals = sum(map(str.isupper, piece))
    return digits >= 3 or (capitals >= 4 and capitals < len(piece) and capitals * 4 > len(piece))


# The name of the stored record.
SERVER_RECORD = "tool_servers"
_LONGEST_SERVER_NAME = 32
_SERVER_NAME = re.compile(r"[a-z0-9-]+(?:_[a-z0-9-]+)*")
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ARGUMENT_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# The model's service refuses a whole request over a schema that begins with one of these.
_NOT_AT_THE_TOP = ("anyOf", "oneOf", "allOf", "$ref")


def name_problem(name: str) -> str | None:
    """Why a server cannot have this name, to complete “the name”."""
    if name in OWN_SERVERS:
        return "is that of a server of the program; choose another"
    if not _SERVER_NAME.fullmatch(name) or len(name) > _LONGEST_SERVER_NAME:
        return (
            "takes small letters, digits, `-` and single `_`, "
            f"{_LONGEST_SERVER_NAME} characters at most"
        )
    return None


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """A server of `mcp.json`: a program with its arguments, or an address.

    Any part of it may be secret but names. `script` identifies the content of the scripts that the
    command names, empty if there are none.
    """

    name: str
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    script: str = ""

    @property
    def pin(self) -> str:
        """Identifies what is started or asked. A new value of a variable does not change it."""
        headers = sorted(map(str.lower, self.headers))
        return _hash([*self.command], self.url, sorted(self.environment), headers)

    @property
    def in_words(self) -> str:
        """The command line or the address, with the names of variables and without secrets."""
        if self.url:
            return shown_address(self.url)
        variables = (f"{name}={HIDDEN}" for name in sorted(self.environment))
        return " ".join([*variables, shown_command(self.command)])

    @property
    def secrets(self) -> Sequence[str]:
        """All parts that `in_words` leaves out."""
        found = [*self.environment.values(), *self.headers.values()]
        shown_command(self.command, found.append)
        if self.url:
            shown_address(self.url, found.append)
        return found


@dataclass(frozen=True, slots=True)
class NamedPlaces:
    """What `mcp.json` names below the data directory: single files, and whole folders."""

    files: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()

    def __or__(self, other: NamedPlaces) -> NamedPlaces:
        return NamedPlaces(self.files | other.files, self.folders | other.folders)


@dataclass(frozen=True, slots=True)
class ToolHints:
    """What a server says of a tool; the defaults are those of the protocol."""

    reads_only: bool = False
    open_world: bool = True

    @property
    def looks(self) -> bool:
        return self.reads_only and not self.open_world

    @property
    def in_words(self) -> str:
        """Completes “the server says that it”."""
        if not self.reads_only:
            return "may change things"
        return f"only looks, and {'asks others' if self.open_world else 'asks nobody else'}"


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as it is shown to the owner, pinned, and offered to the agent.

    A long description is cut for all three. `schema` is JSON with sorted keys. `hints` are not
    offered; they are None in an approval of a version that did not know them.
    """

    name: str
    description: str
    schema: str
    hints: ToolHints | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "description", shortened(self.description, LONGEST_DESCRIPTION))

    def covers(self, found: ToolDefinition) -> bool:
        """Whether the approval of this definition holds for the one that the server says now."""
        return self == (found if self.hints else replace(found, hints=None))

    @property
    def problem(self) -> str | None:
        """Why the model cannot be offered the tool, to complete “it has”."""
        if not _TOOL_NAME.fullmatch(self.name):
            return "a name with other signs than letters, digits, `_` and `-`, or a very long one"
        if len(self.schema) > LONGEST_SCHEMA:
            return f"a schema of more than {LONGEST_SCHEMA} characters"
        schema = json.loads(self.schema)
        properties = schema.get("properties", {})
        if schema.get("type") != "object" or not isinstance(properties, dict):
            return "a schema that is not that of an object"
        if any(key in schema for key in _NOT_AT_THE_TOP):
            return f"a schema with {', '.join(_NOT_AT_THE_TOP)} at its top"
        if not all(_ARGUMENT_NAME.fullmatch(name) for name in properties):
            return "an argument whose name has other signs than letters, digits, `_`, `.` and `-`"
        return None


def whole_definition(tool: ToolDefinition) -> Iterator[str]:
    """All that the agent is offered of a tool, visible, as lines for the owner to read.

    Behind the name stands what the server says of it.
    """
    claim = tool.hints.in_words if tool.hints and tool.hints.reads_only else ""
    yield visible(tool.name) + (f" (the server says that it {claim})" if claim else "")
    yield from (f"  {line}" for line in visible(tool.description).splitlines())
    schema = json.dumps(json.loads(tool.schema), ensure_ascii=False, indent=2)
    yield from (f"    {line}" for line in visible(schema).splitlines())


@dataclass(frozen=True, slots=True)
class PinnedTool:
    """A definition that the owner has approved; `is_off` once the server says another.

    `only_looks` is the owner's own word: True says also that what the tool is asked may leave.
    """

    definition: ToolDefinition
    is_off: bool = False
    only_looks: bool | None = None

    @property
    def looks(self) -> bool:
        """Whether a careful session may call it without the owner's word."""
        if self.only_looks is not None:
            return self.only_looks
        return self.definition.hints is not None and self.definition.hints.looks

    @property
    def in_words(self) -> str:
        return "looks" if self.looks else "asks"


class ServerCondition(StrEnum):
    GONE = "not in mcp.json"
    NEW = "not approved yet"
    CHANGED = "its command line or address has changed"
    REWRITTEN = "its script has changed"
    WAITING = "has tools to approve"
    READY = "approved"


@dataclass(frozen=True, slots=True)
class ServerState:
    """All that is known of one server.

    `present` is the pin of its entry in `mcp.json`, empty without one, and `shown` that entry in
    words; `approved` is the pin that the owner lets be started. `script` and `approved_script` are
    the same for the content of its scripts; the latter is None for a server that was approved
    before scripts were pinned. `machine` is as in the record. `waiting` are definitions that the
    owner has not approved, and `looking` the names of those of which they have said already that
    they only look. `asked` is the last question put to the owner, which is not repeated. `trouble`
    says why the server does not work now.
    """

    present: str = ""
    shown: str = ""
    approved: str = ""
    tools: tuple[PinnedTool, ...] = ()
    waiting: tuple[ToolDefinition, ...] = ()
    asked: str = ""
    trouble: str = ""
    script: str = ""
    approved_script: str | None = None
    machine: str = ""
    looking: tuple[str, ...] = ()

    @property
    def may_start(self) -> bool:
        is_known = bool(self.present) and self.present == self.approved
        return is_known and self.approved_script in (None, self.script)

    @property
    def usable(self) -> tuple[PinnedTool, ...]:
        return tuple(each for each in self.tools if self.may_start and not each.is_off)

    @property
    def offered(self) -> tuple[ToolDefinition, ...]:
        return tuple(each.definition for each in self.usable)

    @property
    def condition(self) -> ServerCondition:
        if not self.present:
            return ServerCondition.GONE
        if self.present != self.approved:
            return ServerCondition.CHANGED if self.approved else ServerCondition.NEW
        if not self.may_start:
            return ServerCondition.REWRITTEN
        return ServerCondition.WAITING if self.waiting else ServerCondition.READY

    @property
    def question(self) -> str:
        """Identifies what the owner has to decide; empty if there is nothing."""
        if not self.present or self.condition is ServerCondition.READY:
            return ""
        if self.condition is ServerCondition.REWRITTEN:
            return _hash(self._place, self.script)
        waiting = self.waiting if self.may_start else ()
        return _hash(self._place, [_form(each) for each in waiting])

    @property
    def change(self) -> str:
        """What is off since the owner approved it, and why; empty if nothing is."""
        condition = self.condition
        if condition in (ServerCondition.CHANGED, ServerCondition.REWRITTEN):
            return f"is off: {condition.value}"
        off = sum(each.is_off for each in self.tools) if self.may_start and self.waiting else 0
        verb = "is" if off == 1 else "are"
        return f"has {counted(off, 'tool')} off that {verb} not as they approved" if off else ""

    @property
    def _place(self) -> str:
        """The entry, and where it would be started: each machine has a question of its own."""
        return f"{self.present} {self.machine}".rstrip()

    def written(self, spec: ServerSpec | None) -> ServerState:
        """After the entry in `mcp.json` was read; None if there is none."""
        if spec is None:
            return replace(self, present="", shown="", trouble="", script="")
        state = replace(self, present=spec.pin, shown=spec.in_words, script=spec.script)
        if state.approved == spec.pin and state.approved_script is None:
            # An approval from before scripts were pinned holds for the script that is there.
            state = replace(state, approved_script=spec.script)
        if (spec.pin, spec.script) == (self.present, self.script):
            return state
        return replace(state, waiting=(), looking=(), trouble="")

    def started(self) -> ServerState:
        """After the owner let the present command line or address be started."""
        return replace(self, approved=self.present, approved_script=self.script)

    def listed(self, found: Sequence[ToolDefinition], *, anew: bool = False) -> ServerState:
        """After the server named its tools: a changed one is off until it is approved again.

        With `anew`, tools that were approved without hints wait too.
        """
        usable = {each.name: each for each in found if each.problem is None}
        # A tool that is not there has not changed.
        tools = tuple(
            replace(each, is_off=each.is_off or not pinned.covers(usable.get(pinned.name, pinned)))
            for each in self.tools
            for pinned in (each.definition,)
        )
        holding = [each.definition for each in tools if not each.is_off]
        names = {each.name for each in holding if each.hints or not anew}
        waiting = tuple(each for each in usable.values() if each.name not in names)
        same = {each.name for each in waiting if each in self.waiting}
        looking = tuple(name for name in self.looking if name in same)
        return replace(self, tools=tools, waiting=waiting, looking=looking)

    def having_asked(self) -> ServerState:
        return replace(self, asked=self.question)

    def failed(self, trouble: str) -> ServerState:
        """After the server did not start, or stopped; without trouble, after it recovered."""
        return replace(self, trouble=trouble)

    def approving(self) -> ServerState:
        """After the owner approved all tools that wait."""
        names = {each.name for each in self.waiting}
        kept = (each for each in self.tools if each.definition.name not in names)
        added = (
            PinnedTool(each, only_looks=each.name in self.looking or None) for each in self.waiting
        )
        return replace(self, tools=(*kept, *added), waiting=(), looking=())

    def told(self, *, looking: Collection[str] = (), asking: Collection[str] = ()) -> ServerState:
        """After the owner said of approved tools what they do."""
        words = {**dict.fromkeys(looking, True), **dict.fromkeys(asking, False)}
        tools = (
            replace(each, only_looks=words.get(each.definition.name, each.only_looks))
            for each in self.tools
        )
        return replace(self, tools=tuple(tools))

    def changes(self) -> Iterator[tuple[ToolDefinition | None, ToolDefinition]]:
        """Each definition that waits, after the approved one of that name, if there was one."""
        pinned = {each.definition.name: each.definition for each in self.tools}
        return ((pinned.get(each.name), each) for each in self.waiting)


@dataclass(frozen=True, slots=True)
class ToolServerRecord:
    """Every server that `mcp.json` names, or has named since it was approved.

    Where machines share a database, `machine` is the id of the one that the `servers` are of, and
    `elsewhere` has those of the others; it is empty otherwise.
    """

    servers: Mapping[str, ServerState] = field(default_factory=dict)
    machine: str = ""
    elsewhere: Mapping[str, Mapping[str, ServerState]] = field(default_factory=dict)

    def of(self, name: str) -> ServerState:
        return self.servers.get(name, ServerState())

    def holding(self, name: str, state: ServerState) -> ToolServerRecord:
        """With this state of the server; one that is not named and not approved is forgotten."""
        others = {each: known for each, known in self.servers.items() if each != name}
        if not state.present and not state.approved:
            return replace(self, servers=others)
        return replace(self, servers={**others, name: replace(state, machine=self.machine)})

    def on(self, machine: str) -> ToolServerRecord:
        """As it is on this machine: what was approved on another one is not approved here.

        An empty id is that of an installation with a database of its own.
        """
        if machine == self.machine:
            return self
        if not machine:
            return ToolServerRecord(
                {name: replace(state, machine="") for name, state in self.servers.items()}
            )
        known = {**self.elsewhere, self.machine: self.servers}
        others = {each: held for each, held in known.items() if each not in ("", machine)}
        return ToolServerRecord(known.get(machine, {}), machine, others)

    def written(self, specs: Mapping[str, ServerSpec]) -> ToolServerRecord:
        """After `mcp.json` was read."""
        record = self
        for name in sorted({*self.servers, *specs}):
            record = record.holding(name, record.of(name).written(specs.get(name)))
        return record

    def without(self, name: str) -> ToolServerRecord:
        return self.holding(name, ServerState())

    def patterns(self) -> tuple[str, ...]:
        """What the owner's approval lets the conversation call: each tool in full."""
        return tuple(
            f"mcp__{name}__{tool.name}"
            for name, state in sorted(self.servers.items())
            for tool in state.offered
        )

    def looks(self, full_name: str) -> bool:
        """Whether `mcp__server__tool` is an approved tool that only looks."""
        server = server_of(full_name)
        return server is not None and any(
            each.looks and full_name == f"mcp__{server}__{each.definition.name}"
            for each in self.of(server).usable
        )


def in_words(state: ServerState) -> str:
    """`approved, 3 tools`; with the trouble, if there is one."""
    number = len(state.offered)
    parts = [state.condition.value]
    if number:
        parts.append(counted(number, "tool"))
    if off := sum(each.is_off for each in state.tools):
        parts.append(f"{counted(off, 'tool')} off")
    trouble = f"; it {state.trouble.rstrip('.')}" if state.trouble else ""
    return ", ".join(parts) + trouble


def _form(definition: ToolDefinition) -> list[str]:
    """Without the hints of a server that says nothing: an older question is the same then."""
    said = definition.hints or ToolHints()
    claim = [] if said == ToolHints() else [repr(said)]
    return [definition.name, definition.description, definition.schema, *claim]


def _hash(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
