"""Checks the data of a call against the schema of its webhook."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from ollim_bot.features.webhooks.hook_requests import (
    RawRequest,
    call_of,
    claimed_ways,
    is_wanted,
    mended,
    picked,
    proof_in,
    read_object,
)
from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import StorageError
from ollim_bot.kernel.base.logs import log_fields
from ollim_bot.kernel.base.text import shortened
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.hook_jobs import Acceptance, WebhookAuth, WebhookCall, WebhookSpec
from ollim_bot.kernel.values.runtime_config import RuntimeConfig
from ollim_bot.kernel.values.webhook_data import complete_schema

_LARGEST_FIELDS = 10 * 1024
_DEEPEST = 20
_LARGEST_NUMBER = 2**63
_MOST_PROBLEMS = 100

_Path = tuple[str | int, ...]


def problems_of(hook: WebhookSpec, fields: Mapping[str, object]) -> list[str]:
    """Everything that is wrong with the picked fields; empty if they fit.

    Each problem begins with the path of its value, as a JSON pointer.
    """
    # Whether lists and objects are nested deeper. The depth is no burden on the stack.
    level: list[Any] = [fields]
    for _ in range(_DEEPEST + 1):
        parts = [each for each in level if isinstance(each, list | dict)]
        values = (each.values() if isinstance(each, dict) else each for each in parts)
        level = [part for each in values for part in each]
    if parts:
        return [_line((), f"is nested more than {_DEEPEST} deep")]
    written = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    size = len(written.encode("utf-8", "surrogatepass"))
    if size > _LARGEST_FIELDS:
        return [_line((), f"has {size} bytes; at most {_LARGEST_FIELDS} are allowed")]
    # The validator cannot compute with numbers that no float can hold.
    found = list(_large_numbers(fields, ()))
    if not found:
        errors = _validator(json.dumps(hook.fields)).iter_errors(fields)
        found = list(dict.fromkeys(line for error in errors for line in _lines(error)))
    more = len(found) - _MOST_PROBLEMS
    return found if more <= 0 else [*found[:_MOST_PROBLEMS], f"and {more} more"]


@lru_cache(maxsize=4096)
def _validator(fields: str) -> Draft202012Validator:
    """The validator of a schema, given as JSON text. Making one takes longer than using it."""
    return Draft202012Validator(complete_schema(json.loads(fields)))


def _large_numbers(value: object, path: _Path) -> Iterator[str]:
    match value:
        case int() | float():
            if not math.isfinite(value) or abs(value) > _LARGEST_NUMBER:
                yield _line(path, "is too large a number")
        case list():
            for number, each in enumerate(value):
                yield from _large_numbers(each, (*path, number))
        case dict():
            for name, each in value.items():
                yield from _large_numbers(each, (*path, name))


def _lines(error: ValidationError) -> list[str]:
    """The problem in words; one line for each value that is missing or not expected."""
    path: _Path = tuple(error.absolute_path)
    expected: Any = error.validator_value
    found: Any = error.instance
    match error.validator:
        case "required":
            missing = [name for name in expected if name not in found]
            return [_line((*path, name), "is missing") for name in missing]
        case "additionalProperties" if expected is False:
            known = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
            others = [name for name in found if name not in known]
            return [_line((*path, name), "is not one of the fields") for name in others]
        case "type":
            wanted = expected if isinstance(expected, str) else " or ".join(expected)
            return [_line(path, f"is not of the type {wanted}")]
        case "enum":
            choices = ", ".join(json.dumps(each, ensure_ascii=False) for each in expected)
            return [_line(path, f"is not one of {choices}")]
        case "maxLength":
            return [_line(path, f"is longer than {expected} characters")]
        case "anyOf" | "oneOf":
            return [_line(path, "does not fit any one of the accepted forms")]
    return [_line(path, error.message)]


def _line(path: Sequence[str | int], words: str) -> str:
    steps = (str(step).replace("~", "~0").replace("/", "~1") for step in path)
    return shortened(f"/{'/'.join(steps)}: {words}", 200)


_MINUTE = 60.0
# To hash or to check a larger body may take long, in which others are answered.
_QUICK_BODY = 4 * 1024
# One commit takes no longer for many calls than for one, but a step must not hold up the others.
_MOST_IN_A_COMMIT = 100

_logger = logging.getLogger(__name__)


class BodyTooLarge(Exception):
    pass


class BodyTooSlow(Exception):
    pass


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """`retry_after` is in seconds; None if another try is of no use."""

    status: int
    body: Mapping[str, object]
    retry_after: int | None = None


UNAUTHORIZED = HookAnswer(401, {"error": "unauthorized"})
NOT_FOUND = HookAnswer(404, {"error": "not found"})
DISABLED = HookAnswer(404, {"error": "disabled"})
TOO_SLOW = HookAnswer(408, {"error": "too slow"})
TOO_LARGE = HookAnswer(413, {"error": "too large"})
INVALID_JSON = HookAnswer(400, {"error": "invalid json"})
IGNORED = HookAnswer(200, {"status": "ignored"})
NO_ROOM = HookAnswer(503, {"error": "cannot be stored now"}, 60)


# One text for all of them, which the log writes once a minute.
_REFUSED = "A webhook call without a valid secret or signature was refused"


class CallAcceptor:
    """Accepts calls. Calls that wait at the same time share one commit."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: deque[tuple[WebhookCall, asyncio.Future[Acceptance]]] = deque()
        self._committing: asyncio.Task[None] | None = None

    async def accept(self, call: WebhookCall) -> Acceptance:
        """When this returns, the call is on disk. Raises `StorageError` if it is not."""
        outcome: asyncio.Future[Acceptance] = asyncio.get_running_loop().create_future()
        self._waiting.append((call, outcome))
        if self._committing is None:
            self._committing = asyncio.create_task(self._commit_waiting())
        return await outcome

    @property
    def has_room(self) -> bool:
        """False on a full disk: what room is left there is for the ends of runs."""
        return self._store.is_writable

    async def close(self) -> None:
        """Wait for the commit that goes on."""
        if self._committing is not None:
            await asyncio.wait({self._committing})

    async def _commit_waiting(self) -> None:
        try:
            while self._waiting:
                number = min(len(self._waiting), _MOST_IN_A_COMMIT)
                batch = [self._waiting.popleft() for _ in range(number)]
                found = await self._commit([call for call, _ in batch])
                for (_, outcome), end in zip(batch, found, strict=True):
                    if outcome.done():
                        continue
                    if isinstance(end, Exception):
                        outcome.set_exception(end)
                    else:
                        outcome.set_result(end)
        finally:
            self._committing = None

    async def _commit(self, calls: Sequence[WebhookCall]) -> Sequence[Acceptance | Exception]:
        def step(tx: Transaction) -> list[Acceptance]:
            tx.webhook_deliveries.forget_old(tx.now)
            return [tx.webhook_deliveries.accept(call, tx.now) for call in calls]

        try:
            return await self._store.transact(step)
        except Exception as error:  # noqa: BLE001 - each waiting request gets the error
            return [error] * len(calls)


@dataclass
class CallRates:
    """Counts the calls of the last minute, of each hook and of all together."""

    _all: deque[float] = field(default_factory=deque)
    _of_hook: dict[str, deque[float]] = field(default_factory=dict)

    def wait_for(self, hook: str, now: float, config: RuntimeConfig) -> int:
        """Count a call, and return 0; or the seconds to wait if the hook or all had too many.

        `now` is on the monotonic clock.
        """
        own = self._of_hook.setdefault(hook, deque())
        wait = max(
            _wait(self._all, now, config.webhook_total_per_minute),
            _wait(own, now, config.webhook_per_minute),
        )
        if wait <= 0:
            self._all.append(now)
            own.append(now)
        return math.ceil(wait)


def _wait(times: deque[float], now: float, most: int) -> float:
    while times and times[0] <= now - _MINUTE:
        times.popleft()
    return 0 if len(times) < most else times[len(times) - most] + _MINUTE - now


class WebhookReception:
    """`find` gives the hook with an id. `secret_of` gives the secret with a name, or with None the
    common one; None if it is not set.
    """

    def __init__(
        self,
        find: Callable[[str], WebhookSpec | None],
        secret_of: Callable[[str | None], bytes | None],
        calls: CallAcceptor,
        clock: Clock,
    ) -> None:
        self.config = RuntimeConfig()
        self._find = find
        self._secret_of = secret_of
        self._calls = calls
        self._clock = clock
        self._rates = CallRates()
        # Used where no secret is set, so that such a hook takes as long as others to refuse a call.
        self._unknown_secret = secrets.token_bytes(32)

    async def answer(
        self,
        hook_id: str,
        headers: Mapping[bytes, Sequence[bytes]],
        read: Callable[[], Awaitable[bytes]],
        trust: Callable[[], None],
    ) -> HookAnswer:
        """The answer to a request. The body is read only if that can matter.

        `trust` is called once the request has proven itself. `read` raises `BodyTooLarge` or
        `BodyTooSlow`. Without a proof, the answer does not depend on whether the hook exists.
        """
        hook, request = self._find(hook_id), RawRequest(headers, b"")
        way = None
        claimed = claimed_ways(request, self._clock.now())
        if all(each is WebhookAuth.BEARER for each in claimed):
            way = await self._proof(hook, request) if claimed else None
            if way is None:
                _logger.warning(_REFUSED)
                return UNAUTHORIZED
            if hook is None:
                return NOT_FOUND
        try:
            request = RawRequest(headers, await read())
        except BodyTooLarge:
            return TOO_LARGE
        except BodyTooSlow:
            return TOO_SLOW
        way = way or await self._proof(hook, request)
        if way is None:
            _logger.warning(_REFUSED)
            return UNAUTHORIZED
        trust()
        if hook is None:
            return NOT_FOUND
        return await self._answer_proven(hook, way, request) if hook.spec.enabled else DISABLED

    async def _proof(self, hook: WebhookSpec | None, request: RawRequest) -> WebhookAuth | None:
        ways = tuple(WebhookAuth) if hook is None else hook.auth
        secret = self._secret_of(None if hook is None else hook.secret_env) or self._unknown_secret
        now = self._clock.now()
        if len(request.body) <= _QUICK_BODY:
            return proof_in(request, secret, ways, now)
        return await asyncio.to_thread(proof_in, request, secret, ways, now)

    async def _answer_proven(
        self, hook: WebhookSpec, way: WebhookAuth, request: RawRequest
    ) -> HookAnswer:
        data = read_object(request.body)
        if data is None:
            return INVALID_JSON
        if not is_wanted(hook, request.event, data):
            return IGNORED
        fields = picked(hook, data)
        if len(request.body) <= _QUICK_BODY:
            problems = problems_of(hook, fields)
        else:
            problems = await asyncio.to_thread(problems_of, hook, fields)
        if problems:
            return HookAnswer(400, {"error": "validation failed", "details": problems})
        if wait := self._rates.wait_for(hook.spec.id, self._clock.monotonic(), self.config):
            return HookAnswer(429, {"error": "too many requests"}, wait)
        call = call_of(hook, way, request, data, mended(fields), secrets.token_hex(8))
        if not self._calls.has_room:
            return NO_ROOM
        try:
            accepted = await self._calls.accept(call)
        except StorageError as refused:
            _logger.warning("A call of the webhook %s was not stored: %s", call.hook, refused)
            return NO_ROOM
        run = accepted.occurrence.id
        with log_fields(run=run):
            _logger.info("A webhook call %s", "was accepted" if accepted.is_new else "came again")
        if not accepted.is_new:
            return HookAnswer(200, {"status": "duplicate", "run": run})
        return HookAnswer(202, {"status": "accepted", "run": run})
