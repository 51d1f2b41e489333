"""Jobs that are called: what opens them, and their data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from ollim_bot.kernel.base.job_kinds import JobKind as JobKind
from ollim_bot.kernel.values.jobs import Job, list_names
from ollim_bot.kernel.values.webhook_data import has_free_text, task_text

if TYPE_CHECKING:
    from ollim_bot.kernel.values.occurrences import Occurrence

# For so long the same call is known again.
KEPT_FOR = timedelta(days=7)
# Not a variable such as LANG, which strangers can guess, and none of the engine's login.
_HOOK_SECRET = (
    r"(?ai)(?!(?:anthropic|aws|azure|claude|discord|google|ollim)_)[a-z_][a-z0-9_]*secret"
)


def is_hook_secret(variable: str) -> bool:
    """Whether an environment variable may hold the secret of a webhook, by its name.

    The agent's processes do not get such variables.
    """
    return re.fullmatch(_HOOK_SECRET, variable) is not None


class WebhookAuth(StrEnum):
    """How a request proves that its sender knows the secret."""

    BEARER = "bearer"
    GITHUB = "github"
    STANDARD = "standard"
    STRIPE = "stripe"


@dataclass(frozen=True, slots=True)
class CalledJob(Job):
    """A job that runs when something calls it, with data of the caller's.

    `fields` is the JSON Schema of the data, as written. It never has to be delivered, as its text
    is not the owner's.
    """

    fields: Mapping[str, object]

    def __post_init__(self) -> None:
        is_template = "{{" in self.spec.message
        object.__setattr__(self, "spec", replace(self.spec, is_template=is_template))

    @property
    def brings(self) -> str:
        return f"{self.kind} request"

    @property
    def brings_free_text(self) -> bool:
        return has_free_text(self.fields)

    @property
    def why_not_by_hand(self) -> str:
        return f"A {self.kind} runs when it is called."

    def task(self, data: Mapping[str, object]) -> str:
        """The message with the values in their places that leave a stranger no words to choose."""
        return task_text(self.spec.message, self.fields, data)

    def facts(
        self,
        port: int | None,  # noqa: ARG002
        show: Callable[[str], str] = str,
    ) -> Iterator[tuple[str, str]]:
        """What it takes, who may call it, and what it does, each with its name, for the owner.

        `port` is that of webhooks; `show` makes names from the file safe to display.
        """
        yield from self._facts_of_runs(show)

    def _facts_of_runs(self, show: Callable[[str], str]) -> Iterator[tuple[str, str]]:
        properties = self.fields.get("properties")
        names = [*properties] if isinstance(properties, Mapping) else []
        yield "takes", list_names(names, show, "and") if names else "no data"
        pings = "may write to you" if self.spec.allow_ping else "cannot write to you"
        run = f"a background run reads the data as untrusted text, and {pings}"
        plainly = "its text comes to you with the data in it, without a model"
        yield "then", plainly if self.is_plain else run


COMMON_SECRET = "WEBHOOK_SECRET"


SWITCHED_OFF = "off until WEBHOOK_PORT and WEBHOOK_SECRET are set"


def hook_address(hook_id: str, port: int) -> str:
    return f"http://127.0.0.1:{port}/hook/{hook_id}"


@dataclass(frozen=True, slots=True)
class WebhookSpec(CalledJob):
    """`spec.id` is the segment of its URL.

    `secret_env` names the variable with its own secret, which is then the only one. `pick` gives
    for a field the JSON pointer of its value in the request. `on` are the events that count; none
    means all. `auth` are the accepted proofs. `is_plain` has the program deliver the text with the
    fields in it, without any model.
    """

    kind: ClassVar[JobKind] = JobKind.WEBHOOK

    secret_env: str | None = None
    pick: Mapping[str, str] = field(default_factory=dict)
    on: tuple[str, ...] = ()
    auth: tuple[WebhookAuth, ...] = tuple(WebhookAuth)
    is_plain: bool = False

    @property
    def why_not_by_hand(self) -> str:
        by_command = "`ollim-bot webhook test` calls it with your data."
        return f"A webhook runs when it is called. {by_command}"

    @property
    def secret_name(self) -> str:
        """The name of the setting with the secret that opens the webhook."""
        return self.secret_env or COMMON_SECRET

    def facts(
        self, port: int | None, show: Callable[[str], str] = str
    ) -> Iterator[tuple[str, str]]:
        path = show(f"/hook/{self.spec.id}")
        is_off = f"{path}, {SWITCHED_OFF}"
        yield "address", is_off if port is None else show(hook_address(self.spec.id, port))
        ways = (
            "" if self.auth == tuple(WebhookAuth) else f", as {list_names(self.auth, show, 'or')}"
        )
        yield "opened by", f"the secret {show(self.secret_name)}{ways}"
        if self.on:
            yield "only on", list_names(self.on, show, "or")
        yield from self._facts_of_runs(show)


@dataclass(frozen=True, slots=True)
class AcceptedCall:
    """When a call came, and the data that its run is given. The data is untrusted."""

    occurrence: Occurrence
    at: datetime
    fields: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class WebhookCall:
    """A call that may be accepted. `key` is the same for the same call, and for no other.

    `name` stands in the occurrence's id; `token`, which is new for each request, makes the id
    unique where the name is used up.
    """

    hook: str
    title: str
    key: str
    name: str
    token: str
    fields: Mapping[str, object]
    kind: JobKind = JobKind.WEBHOOK


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The occurrence of a call; `is_new` is False for the same call again."""

    occurrence: Occurrence
    is_new: bool
