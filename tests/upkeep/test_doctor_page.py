"""What the doctor says of the page: its port is free, ours, or taken by another program."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest
from tests.ports import unused_port
from tests.upkeep.doctor_table import told
from tests.web.scene import make_scene, running

from ollim_bot.upkeep.checks.network import HttpAnswer, ask, hosts, page, why_not_free
from ollim_bot.upkeep.doctor import DoctorFinding, Level, passed


def found(
    port: int | None, *, is_running: bool = False, has_discord: bool = False
) -> DoctorFinding:
    (finding,) = told("page", page(port, ask, is_running=is_running, has_discord=has_discord))
    return replace(finding, name="")


def test_a_free_port_is_right_and_still_free_afterwards() -> None:
    port = unused_port()
    assert found(port) == passed(f"port {port} is free")
    assert why_not_free(port) == ""


def test_names_that_are_of_no_use_to_the_page_are_told() -> None:
    assert list(hosts(["ollim.example.org"], 8421)) == []
    (without_page,) = hosts(["ollim.example.org"], None)
    assert without_page.detail == "OLLIM_WEB_HOSTS has no effect, since the page is off"
    (everywhere,) = hosts(["0.0.0.0", "x.org"], 8421)
    assert everywhere.detail == "OLLIM_WEB_HOSTS: 0.0.0.0 is no name of a machine"


def test_a_running_bot_without_its_page_is_a_failure() -> None:
    assert found(unused_port(), is_running=True).level is Level.FAIL


async def test_the_running_bot_answers_for_its_page(tmp_path: Path) -> None:
    async with running(make_scene(tmp_path)) as scene:
        port = scene.surface.port
        finding = await asyncio.to_thread(found, port, is_running=True)
        assert finding == passed(f"the bot answers at port {port}")
        other = await asyncio.to_thread(found, port)
    assert (other.level, other.detail) == (Level.FAIL, f"another ollim-bot has port {port}")


@pytest.mark.parametrize("words", [b"", b"220 mail\r\n", b"HTTP/1.1 200 OK\r\n\r\n{}"])
def test_a_port_of_another_program_is_a_failure_whatever_it_says(words: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]

        def answer() -> None:
            visitor, _ = server.accept()
            with visitor:
                visitor.recv(4096)
                visitor.sendall(words)

        thread = Thread(target=answer, daemon=True)
        thread.start()
        finding = found(port, is_running=True)
        thread.join(10)
    assert (finding.level, finding.detail) == (Level.FAIL, f"another program has port {port}")
    assert "OLLIM_WEB_PORT" in finding.next


def test_a_port_that_may_not_be_used_is_a_failure() -> None:
    def refused(_: str, __: Mapping[str, str]) -> HttpAnswer:
        raise ConnectionRefusedError

    (finding,) = page(
        80, refused, is_running=False, has_discord=False, refusal=lambda _: "Permission denied"
    )
    assert (finding.level, finding.detail) == (
        Level.FAIL,
        "port 80 cannot be used: Permission denied",
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert why_not_free(server.getsockname()[1]) == "Address already in use"


@pytest.mark.parametrize(
    ("is_running", "detail"),
    [
        (True, "the bot runs, but nothing answers at port 8421"),
        (False, "another program has port 8421"),
    ],
)
def test_who_does_not_answer_in_time_is_the_bot_itself_if_it_runs(
    is_running: bool, detail: str
) -> None:
    def never(_: str, __: Mapping[str, str]) -> HttpAnswer:
        raise TimeoutError

    (finding,) = page(8421, never, is_running=is_running, has_discord=False)
    assert (finding.level, finding.detail) == (Level.FAIL, detail)


@pytest.mark.parametrize(
    ("age", "level"), [(None, Level.PASS), (3.5, Level.PASS), (600, Level.WARN), ("x", Level.PASS)]
)
def test_a_schedule_that_stands_still_is_noticed(age: object, level: Level) -> None:
    health = {"status": "ok", "heartbeat_age": age}
    (finding,) = page(
        8421, lambda *_: HttpAnswer(200, health, "ollim-bot"), is_running=True, has_discord=False
    )
    assert finding.level is level


def test_the_page_may_be_off_where_there_is_discord() -> None:
    assert found(None, has_discord=True).level is Level.OFF
    assert found(None).level is Level.FAIL
