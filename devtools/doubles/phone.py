"""A way to a phone that needs no server: the test decides when the button is pressed."""

from __future__ import annotations

from datetime import UTC, datetime
from threading import Event
from time import monotonic

from ollim_bot.domain.phone import PairingStatus, PhoneCode, PhoneOffer
from ollim_bot.errors import OllimError, WrongInput

OFFER = PhoneOffer(
    "https://push.example.net",
    ("The words of your reminders leave this machine.", "Who knows the topic can answer them."),
    "Push.example.net is run by others. They can read what comes.",
    ("Install the app.", "Scan the code.", "Press the button of the test."),
)
CODE = PhoneCode("ollim-topic", "ollim-replies", ("###", "# #", "###"))
# No test waits so long, and a thread that is forgotten ends.
_LONGEST = 20.0
SINCE = datetime(2026, 11, 15, 12, tzinfo=UTC)


class FakePhoneLink:
    """Doubles `PhoneLink`. `pressed` ends the waiting with success, `late` without: `has_ended`.

    `refusal` is raised by every step. `calls` are the names of the steps.
    """

    def __init__(self) -> None:
        self.pressed, self.late, self.has_ended = Event(), Event(), Event()
        self.phone: PairingStatus | None = None
        self.refusal: OllimError | None = None
        self.calls: list[str] = []

    def offer(self) -> PhoneOffer:
        return OFFER

    def server_address(self, typed: str) -> str:
        if not typed.startswith("https://"):
            raise WrongInput("This is no address. Right: https://push.example.org.")
        return typed.rstrip("/")

    def begin(self, server: str) -> PhoneCode:
        self._note("begin")
        self._server = server
        return CODE

    def wait(self, code: PhoneCode, is_cancelled: Event) -> str | None:
        assert code == CODE
        self._note("wait")
        ends_at = monotonic() + _LONGEST
        while not (is_cancelled.is_set() or self.late.is_set()) and monotonic() < ends_at:
            if self.pressed.wait(0.005):
                self.phone = PairingStatus(self._server, SINCE)
                return "Your phone is paired."
        if monotonic() < ends_at:
            self.has_ended.set()
        return None

    def paired(self) -> PairingStatus | None:
        return self.phone

    def code(self) -> PhoneCode | None:
        return CODE if self.phone else None

    def send_test(self) -> str:
        self._note("test")
        return "A test was sent."

    def remove(self) -> str:
        self._note("remove")
        self.phone = None
        return "The phone is forgotten."

    def _note(self, step: str) -> None:
        self.calls.append(step)
        if self.refusal is not None:
            raise self.refusal
