"""What the page shows of a phone, without a server."""

from __future__ import annotations

from datetime import UTC, datetime

from ollim_bot.kernel.values.push import PhoneCode, PhoneOffer

OFFER = PhoneOffer(
    "https://push.example.net",
    ("The words of your reminders leave this machine.", "Who knows the topic can answer them."),
    "Push.example.net is run by others. They can read what comes.",
    ("Install the app.", "Scan the code.", "Press the button of the test."),
)
CODE = PhoneCode("ollim-topic", "ollim-replies", ("###", "# #", "###"))
SINCE = datetime(2026, 11, 15, 12, tzinfo=UTC)
