"""`ollim-bot web`: the address of the local page."""

from __future__ import annotations

from ollim_bot.kernel.base.errors import OllimError, WrongInput
from ollim_bot.kernel.base.instance import running_pid
from ollim_bot.kernel.base.settings import Secret
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.framework import Given, Noun, argument
from ollim_bot.surfaces.terminal.terminal_data import note, open_data, writable
from ollim_bot.surfaces.web.secret import (
    address,
    bot_key,
    entry_code,
    is_equal,
    kept_secret,
    mac,
    new_web_secret,
)

_OFF = "The page is off: OLLIM_WEB_PORT is 0. Set it to a port, such as 8421, and restart the bot."
_NOT_RUNNING = (
    "The bot is not running, so its page cannot be opened. Start it with `ollim-bot`, then run "
    "`ollim-bot web url`."
)
_SILENT = (
    "The bot is running, but its page does not answer at port {port}. Look into its log, or run "
    "`ollim-bot doctor`."
)
_OTHER_PROGRAM = (
    "Another program answers at port {port}, not this bot. Stop that one, or set OLLIM_WEB_PORT to "
    "another port, and restart the bot."
)
_REVOKED = "Every browser needs a new address now."

_TERMINAL = "terminal"

_WEB = Noun("web")
run = _WEB.run


@_WEB.verb(
    "an address that opens the page in one browser, within 15 minutes",
    "--new",
    argument(
        "--new", action="store_true", help="end every browser's access first, and every address"
    ),
)
def _url(given: Given, caller: Caller) -> None:
    port = caller.settings().web_port
    if port is None:
        raise WrongInput(_OFF)
    data = open_data(caller)
    is_new = given.get("new", False)
    if is_new:
        with writable(data) as writing:
            secret: Secret | None = new_web_secret(writing.paths)
        note(_REVOKED)
    else:
        secret = kept_secret(data.paths)
    if secret is None or running_pid(data.paths.bot_pid) is None:
        if not is_new:
            raise OllimError(_NOT_RUNNING)
        note(_NOT_RUNNING)
        return
    print(address(port, entry_code(secret, _challenge(port, secret))))


def _challenge(port: int, secret: Secret) -> str:
    """Ask the running bot for a challenge; another program at the port is refused."""
    import json
    import secrets

    from ollim_bot.kernel.base.http_exchange import HttpLimits, NotHttp, ResponseTooLarge, exchange

    nonce = secrets.token_hex(16)
    here = f"http://127.0.0.1:{port}"
    headers = {"Origin": here, "Content-Type": "application/json"}
    body = json.dumps({"browser": _TERMINAL, "nonce": nonce}).encode()
    limits = HttpLimits(step=5.0, whole=10.0, largest=4096)
    try:
        answer = json.loads(
            exchange("POST", f"{here}/api/challenge", headers, body, limits=limits).body
        )
    except (ValueError, NotHttp, ResponseTooLarge):
        answer = None
    except OSError:
        raise OllimError(_SILENT.format(port=port)) from None
    values = answer if isinstance(answer, dict) else {}
    challenge, proof = str(values.get("challenge")), str(values.get("proof"))
    if not is_equal(proof, mac(bot_key(secret, _TERMINAL), "challenge", challenge, nonce)):
        raise OllimError(_OTHER_PROGRAM.format(port=port))
    return challenge
