"""`ollim-bot web`: the way to the local page."""

from __future__ import annotations

from collections.abc import Sequence

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.data import open_data, writable
from ollim_bot.cli.verbs import Given, Verb, no_flags, run_verb
from ollim_bot.errors import WrongInput
from ollim_bot.surfaces.web.secret import address, web_secret

_OFF = "The page is off: OLLIM_WEB_PORT is 0. Set it to a port, such as 8421, and restart the bot."


def run(words: Sequence[str], caller: Caller) -> None:
    run_verb("web", _VERBS, words, caller)


def _url(_: Given, caller: Caller) -> None:
    port = caller.settings().web_port
    if port is None:
        raise WrongInput(_OFF)
    with writable(open_data(caller)) as data:
        print(address(port, web_secret(data.paths)))


_VERBS = {
    "url": Verb(
        "the address of the page, with its secret",
        "ollim-bot web url",
        no_flags,
        _url,
        needs_words=False,
    ),
}
