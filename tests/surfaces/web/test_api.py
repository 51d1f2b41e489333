"""What the page asks for over HTTP, and what it is told when something is wrong."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from uuid import uuid4

import pytest
from devtools.doubles.clock import A_FRACTION, ManualClock
from devtools.doubles.reception import FakeReception
from devtools.doubles.repeating_store import RepeatingStore
from tests.surfaces.web.browser import Browser, raw, served, signed_in_browser
from tests.surfaces.web.scene import SUNDAY, InMemoryReadMark, Scene, running

from ollim_bot.kernel.base.errors import WriteFailed, WrongInput
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.values.chat import Author
from ollim_bot.kernel.values.commands import CommandAnswer
from ollim_bot.kernel.values.taint import CarefulTime
from ollim_bot.surfaces.web import frames
from ollim_bot.surfaces.web.access import WebLimits
from ollim_bot.surfaces.web.api import ReadMark, RememberedMark
from ollim_bot.surfaces.web.frames import Json, RequestRefused


async def test_a_message_is_acknowledged_with_what_was_kept_of_it(
    scene: Scene, browser: Browser
) -> None:
    message_id = str(uuid4())
    reply = await browser.send("hello *you*", message_id=message_id)
    assert reply.status == 200
    shown = reply.json["message"]
    assert datetime.fromisoformat(shown.pop("at")) == SUNDAY + A_FRACTION
    assert shown == {
        "id": message_id,
        "began": None,
        "author": "owner",
        "html": "<p>hello <em>you</em></p>\n",
        "text": "hello *you*",
        "is_typed": True,
        "reply_to": None,
        "attachments": [],
        "turn": None,
        "is_cut_off": False,
        "footer": "",
        "job": "",
        "run": "",
        "in_fork": False,
        "card": None,
    }
    [incoming] = scene.reception.received
    assert (incoming.id, incoming.surface, incoming.text) == (message_id, "web", "hello *you*")


async def test_sending_twice_is_harmless(scene: Scene, browser: Browser) -> None:
    message_id = str(uuid4())
    first = await browser.send("hello", message_id=message_id)
    second = await browser.send("hello", message_id=message_id)
    assert (second.status, second.json) == (200, first.json)
    assert len(scene.reception.received) == 1


async def test_a_reply_names_what_it_replies_to(scene: Scene, browser: Browser) -> None:
    said = await scene.reception.say("A long story. " * 20, Author.BACKGROUND)
    shown = (await browser.send("why?", reply_to=said.id)).json["message"]
    quote = shown["reply_to"]
    assert (quote["id"], quote["author"]) == (said.id, "background")
    assert quote["excerpt"].startswith("A long story. A long story.")
    assert quote["excerpt"].endswith("A long…")
    assert len(quote["excerpt"]) <= 120
    assert scene.reception.received[0].reply_to == said.id


async def test_a_reply_to_what_is_gone_is_a_plain_message(scene: Scene, browser: Browser) -> None:
    shown = (await browser.send("why?", reply_to="m99")).json["message"]
    assert shown["reply_to"] is None
    assert scene.reception.received[0].reply_to is None


@pytest.mark.same_fixtures
@pytest.mark.parametrize(
    "message_id",
    [
        "x",
        "../../etc/passwd",
        "m1",
        "{6f1fbd4e-3c02-4b4e-9d5e-111111111111}",
        "6f1fbd4e" * 4,
        "ü" * 36,
    ],
)
async def test_an_id_that_is_none_is_refused(
    scene: Scene, browser: Browser, message_id: str
) -> None:
    reply = await browser.send("hello", message_id=message_id)
    assert (reply.status, reply.error) == (400, frames.NO_FORM)
    assert scene.reception.received == []


@pytest.mark.parametrize("text", ["", "  \n "])
async def test_an_empty_message_is_refused(browser: Browser, text: str) -> None:
    reply = await browser.send(text)
    assert (reply.status, reply.error) == (400, frames.NOTHING_SAID)


async def test_what_the_bot_cannot_keep_is_said_in_its_words(
    scene: Scene, browser: Browser
) -> None:
    scene.reception.refusal = WriteFailed(Path("state/inbox.jsonl"), "the disk is full.")
    reply = await browser.send("hello")
    assert (reply.status, reply.error) == (503, "state/inbox.jsonl: the disk is full.")
    scene.reception.refusal = WrongInput("Nobody can read x.heic.")
    reply = await browser.send("hello")
    assert (reply.status, reply.error) == (400, "Nobody can read x.heic.")


async def test_a_history_that_cannot_be_read_is_told(scene: Scene, browser: Browser) -> None:
    scene.reception.refusal = WriteFailed(Path("state/messages.jsonl"), "cannot be read.")
    reply = await browser.get("/api/messages")
    assert (reply.status, reply.error) == (503, "state/messages.jsonl: cannot be read.")


async def test_a_fault_of_ours_is_told_plainly_and_logged(
    scene: Scene, browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    scene.reception.refusal = LookupError("the details")
    reply = await browser.send("hello")
    assert (reply.status, reply.error) == (500, frames.FAILED)
    assert "the details" in caplog.text
    assert "the details" not in reply.body.decode()


async def test_a_command_is_answered_in_text_and_html(scene: Scene, browser: Browser) -> None:
    scene.reception.answers["/model"] = CommandAnswer("The model is `sonnet` now.")
    reply = await browser.post("/api/commands", {"line": "/model sonnet"})
    assert reply.json == {
        "text": "The model is `sonnet` now.",
        "html": "<p>The model is <code>sonnet</code> now.</p>\n",
        "is_error": False,
        "is_shown": False,
    }
    assert scene.reception.lines == [("web", "/model sonnet")]


async def test_a_wrong_command_is_an_answer_too(scene: Scene, browser: Browser) -> None:
    scene.reception.answers["/fly"] = CommandAnswer("There is no `/fly`.", is_error=True)
    reply = await browser.post("/api/commands", {"line": "/fly"})
    assert (reply.status, reply.json["is_error"]) == (200, True)


async def test_a_command_without_words_to_say_has_no_html(scene: Scene, browser: Browser) -> None:
    scene.reception.answers["/clear"] = CommandAnswer()
    reply = await browser.post("/api/commands", {"line": "/clear"})
    assert reply.json == {"text": "", "html": "", "is_error": False, "is_shown": False}


async def test_the_status_says_that_it_is_careful_and_a_press_with_its_key_ends_it(
    scene: Scene, browser: Browser
) -> None:
    assert frames.status_json(scene.reception.status)["careful"] is None
    await scene.reception.change(careful=CarefulTime("careful: mail", "0a1b"))
    assert frames.status_json(scene.reception.status)["careful"] == {
        "words": "careful: mail",
        "key": "0a1b",
    }
    older = await browser.post("/api/go-on", {"key": "ffff"})
    assert (older.status, older.json["is_error"]) == (200, True)
    assert scene.reception.status.careful is not None
    ended = await browser.post("/api/go-on", {"key": "0a1b"})
    assert not ended.json["is_error"]
    assert "not careful any more" in ended.json["html"]
    assert scene.reception.status.careful is None


async def test_an_interrupt_says_whether_there_was_something_to_stop(
    scene: Scene, browser: Browser
) -> None:
    assert (await browser.post("/api/interrupt", {})).json == {"stopped": False}
    turn = scene.reception.begin()
    assert (await browser.post("/api/interrupt", {})).json == {"stopped": True}
    assert turn.is_over


async def test_completions_are_those_of_the_core(browser: Browser) -> None:
    reply = await browser.get("/api/completions?command=model&argument=name&typed=so")
    assert reply.json == {"values": ["sonnet"]}
    assert (await browser.get("/api/completions")).json == {"values": []}


@pytest.mark.parametrize(
    ("query", "ids", "has_more"),
    [
        pytest.param("?limit=2", ["m4", "m5"], True, id="newest"),
        pytest.param("?before=m4&limit=2", ["m2", "m3"], True, id="before"),
        pytest.param("?before=m3&limit=2", ["m1", "m2"], False, id="to the beginning"),
        pytest.param("?before=m1", [], False, id="nothing before"),
        pytest.param("", ["m1", "m2", "m3", "m4", "m5"], False, id="plain"),
        pytest.param("?limit=0", ["m5"], True, id="none is one"),
        pytest.param("?limit=-3", ["m1", "m2", "m3", "m4", "m5"], False, id="no number"),
        pytest.param("?limit=99999999999", ["m1", "m2", "m3", "m4", "m5"], False, id="too many"),
    ],
)
async def test_earlier_messages_come_in_pages(
    scene: Scene, browser: Browser, query: str, ids: list[str], has_more: bool
) -> None:
    for number in range(5):
        await scene.reception.say(f"number {number}")
    answer = (await browser.get(f"/api/messages{query}")).json
    assert [message["id"] for message in answer["messages"]] == ids
    assert answer["has_more"] is has_more


async def test_a_page_has_a_hundred_messages_at_most(scene: Scene, browser: Browser) -> None:
    for number in range(110):
        await scene.reception.say(f"number {number}")
    answer = (await browser.get("/api/messages?limit=500")).json
    assert (len(answer["messages"]), answer["has_more"]) == (100, True)


async def test_what_was_read_is_kept(scene: Scene, browser: Browser) -> None:
    said = await scene.reception.say("hello")
    assert (await browser.post("/api/read", {"id": said.id})).status == 200
    assert scene.mark.value == said.id


async def test_a_message_that_is_not_there_cannot_be_read(scene: Scene, browser: Browser) -> None:
    scene.mark.value = MessageId("gone")
    reply = await browser.post("/api/read", {"id": "m99"})
    assert (reply.status, reply.error) == (404, frames.NO_MESSAGE)
    said = await scene.reception.say("hello")
    await browser.post("/api/read", {"id": said.id})
    assert scene.mark.value == said.id


@pytest.mark.same_fixtures
@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b"1", b'"/clear"', b"null", b"\xff\xfe", b"[" * 60_000, b"{}"),
        *(b'{"line": 3, "id": 3}', b'{"line": "", "id": ""}', b'{"line": null, "id": null}'),
    ],
)
@pytest.mark.parametrize("path", ["/api/commands", "/api/read", "/api/go-on"])
async def test_what_cannot_be_understood_is_refused_plainly(
    scene: Scene, browser: Browser, path: str, body: bytes
) -> None:
    reply = await browser.ask("POST", path, data=body)
    assert (reply.status, reply.error) == (400, frames.NOT_UNDERSTOOD)
    assert scene.reception.lines == []


@pytest.mark.parametrize("path", ["/api/commands", "/api/read", "/api/interrupt"])
async def test_a_body_that_is_too_large_is_refused_with_the_limit(
    browser: Browser, path: str
) -> None:
    reply = await browser.ask("POST", path, data=b'{"line": "' + b"x" * 70_000 + b'"}')
    assert reply.status == 413
    assert "64 KB" in reply.error


async def test_a_body_that_never_comes_is_not_waited_for(tmp_path: Path) -> None:
    async with served(tmp_path, limits=WebLimits(body_seconds=0.05)) as (scene, browser):
        head = (
            f"POST /api/commands HTTP/1.1\r\nHost: 127.0.0.1:{scene.surface.port}\r\n"
            f"Origin: {scene.url}\r\nAuthorization: Bearer {browser.session}\r\n"
            "Content-Length: 100\r\nConnection: close\r\n\r\n{"
        )
        answer = await raw(scene, head)
    assert answer.startswith(b"HTTP/1.1 408")
    assert frames.TOO_SLOW.encode() in answer


@pytest.mark.same_fixtures
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/api", 404),
        ("GET", "/api/", 404),
        ("GET", "/index.html", 404),
        ("POST", "/nothing", 404),
        ("PUT", "/api/messages", 405),
        ("DELETE", "/", 405),
        ("OPTIONS", "/", 405),
        ("GET", "/api/commands", 405),
        ("GET", "/api/clicks", 405),
        ("GET", "/api/go-on", 405),
        ("GET", "/api/interrupt", 405),
        ("GET", "/api/read", 405),
        ("POST", "/api/completions", 405),
        ("GET", "/api/socket", 401),
        ("GET", "/api/attachments/m1/-1", 404),
        ("GET", "/api/attachments/m1/9999", 404),
        ("GET", "/api/attachments/m1/x", 404),
        ("GET", "/api/attachments/m1/0", 404),
    ],
)
async def test_what_is_not_there_is_refused_plainly(
    browser: Browser, method: str, path: str, status: int
) -> None:
    reply = await browser.ask(method, path, headers={"Origin": browser.origin})
    assert reply.status == status
    assert reply.error.endswith(".")
    assert ("Allow" in reply.headers) is (status == 405)


async def test_head_is_get_without_the_body(scene: Scene, browser: Browser) -> None:
    await scene.reception.say("hello")
    for path in ("/", "/api/messages", "/static/main.js"):
        get, head = await browser.get(path), await browser.ask("HEAD", path)
        assert (get.status, head.status, head.body) == (200, 200, b"")
        assert head.headers["Content-Length"] == get.headers["Content-Length"]


async def test_a_search_answers_with_the_words_around_its_match(
    scene: Scene, browser: Browser
) -> None:
    for number in range(60):
        await scene.reception.say(f"message {number}", Author.BACKGROUND)
    said = await scene.reception.say("The *old* dentist is on Friday.")
    await scene.reception.say("Something else.")
    [result] = (await browser.get("/api/search?words=dent")).json["results"]
    assert datetime.fromisoformat(result.pop("at")) == SUNDAY + A_FRACTION
    assert result == {
        "id": said.id,
        "author": "assistant",
        "job": "",
        "parts": [
            {"text": "The old ", "is_match": False},
            {"text": "dentist", "is_match": True},
            {"text": " is on Friday.", "is_match": False},
        ],
    }
    around = (await browser.get(f"/api/messages/around?id={said.id}")).json["messages"]
    assert [each["text"] for each in around] == [
        *(f"message {number}" for number in range(35, 60)),
        "The *old* dentist is on Friday.",
        "Something else.",
    ]


async def test_a_search_that_cannot_be_made_says_why(browser: Browser) -> None:
    reply = await browser.get("/api/search?words=%3F")
    assert (reply.status, reply.json) == (400, {"error": "Say a word to look for."})
    reply = await browser.get("/api/messages/around?id=none")
    assert (reply.status, reply.json) == (404, {"error": frames.NO_MESSAGE})


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(SUNDAY)


@pytest.fixture
def reception(clock: ManualClock, tmp_path: Path) -> FakeReception:
    return FakeReception(clock, tmp_path)


def test_it_is_remembered() -> None:
    store = RepeatingStore(lambda: SUNDAY)
    mark = RememberedMark(store)
    assert mark.read() is None
    mark.write(MessageId("m1"))
    assert RememberedMark(store).read() == "m1"


async def test_it_goes_forward_only_and_tells_each_step_once(
    reception: FakeReception, clock: ManualClock
) -> None:
    told: list[Json] = []
    kept = InMemoryReadMark()
    mark = ReadMark(kept, reception, told.append)
    await mark.load()
    ids = []
    for text in ("one", "two", "three"):
        ids.append((await reception.say(text)).id)
        await clock.advance(1)
    for message_id in (ids[1], ids[1], ids[0], ids[2]):
        await mark.move(message_id)
    assert [frame["id"] for frame in told] == [ids[1], ids[2]]
    assert mark.last == kept.value == ids[2]


async def test_messages_of_one_moment_can_be_read_one_by_one(reception: FakeReception) -> None:
    mark = ReadMark(InMemoryReadMark(), reception, lambda _: None)
    first, second = await reception.say("one"), await reception.say("two")
    await mark.move(first.id)
    await mark.move(second.id)
    assert mark.last == second.id


async def test_a_mark_at_a_message_that_is_gone_does_not_hold_up(reception: FakeReception) -> None:
    kept = InMemoryReadMark()
    kept.value = MessageId("gone")
    mark = ReadMark(kept, reception, lambda _: None)
    await mark.load()
    said = await reception.say("one")
    await mark.move(said.id)
    assert kept.value == said.id
    with pytest.raises(RequestRefused):
        await mark.move(MessageId("m99"))


async def test_it_is_there_after_a_restart(tmp_path: Path) -> None:
    async with served(tmp_path) as (scene, browser):
        said = await scene.reception.say("one")
        await browser.post("/api/read", {"id": said.id})
    async with running(scene), signed_in_browser(scene) as browser, browser.tab() as (_, hello):
        assert hello["read"] == said.id
