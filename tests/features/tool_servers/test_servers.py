"""One connection for each approved server; what fails costs only itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.features.tool_servers.tool_server_scene import FIND, NOTES, ToolServerScene

from ollim_bot.kernel.values.tool_servers import ServerCondition, ServerSpec


@pytest.fixture
def scene(tmp_path: Path) -> ToolServerScene:
    return ToolServerScene(tmp_path)


async def approved(scene: ToolServerScene) -> None:
    scene.writes(NOTES)
    await scene.until(lambda: scene.state().present)
    scene.approves()
    await scene.until(lambda: scene.state().waiting)
    scene.approves()
    await scene.until(lambda: scene.offered)


async def test_nothing_is_started_before_the_owner_says_so(scene: ToolServerScene) -> None:
    async with scene.running():
        scene.writes(NOTES)
        await scene.until(lambda: scene.state().question)
        assert (scene.starts, scene.offered, scene.held.patterns()) == ([], {}, [])
        scene.approves()
        await scene.until(lambda: scene.state().waiting)
        assert scene.starts == ["notes"]
        assert scene.offered == {}
        scene.approves()
        await scene.until(lambda: scene.offered)
        assert scene.offered == {"notes": ["find"]}
        assert [str(each) for each in scene.held.patterns()] == ["mcp__notes__find"]
        assert scene.starts == ["notes"]


async def test_what_was_approved_on_one_machine_is_not_started_on_another(tmp_path: Path) -> None:
    desk = ToolServerScene(tmp_path, machine="desk")
    shelf = ToolServerScene(tmp_path, desk.store, machine="shelf")
    async with desk.running():
        await approved(desk)
        asked = desk.state().approved
    async with shelf.running():
        await shelf.until(lambda: shelf.state().question)
        assert (shelf.starts, shelf.offered, shelf.held.patterns()) == ([], {}, [])
        assert shelf.state().condition is ServerCondition.NEW
        assert shelf.state().present == asked
        # The owner was asked on the other machine, and is asked here too.
        on_shelf = shelf.state().question
        shelf.store.run(lambda tx: tx.tool_servers.change(lambda known: known.on("desk")))
        assert replace(shelf.state(), approved="").question != on_shelf
        shelf.store.run(lambda tx: tx.tool_servers.change(lambda known: known.on("shelf")))
        await approved(shelf)
    for machine in (desk, shelf):
        # None is asked again when the other machine has led.
        async with machine.running():
            await machine.until(lambda: machine.servers)  # noqa: B023
            assert machine.offered == {"notes": ["find"]}
            assert machine.state().question == ""


async def test_an_answer_is_fenced_as_the_text_of_a_stranger(scene: ToolServerScene) -> None:
    async with scene.running():
        await approved(scene)
        (find,) = scene.held.tools()["notes"]
        answer = await find.run({"text": "milk"})
        assert scene.servers["notes"].calls == [("find", {"text": "milk"})]
        head, opening, *_, closing = answer.text.splitlines()
        assert "what notes answered" in head
        assert opening.startswith("<untrusted-")
        assert closing == opening.replace("<", "</")
        assert answer.text.count("</untrusted") - answer.text.count("\\</untrusted") == 1
        refused = await find.run({"hang": True})
        assert refused.is_error
        assert refused.text == (
            "The tool server notes did not answer find within 60 s. Go on without it."
        )


async def test_another_command_line_is_off_at_once_and_its_program_ends(
    scene: ToolServerScene,
) -> None:
    async with scene.running():
        await approved(scene)
        scene.writes(replace(NOTES, command=("notes-server", "--evil")))
        await scene.until(lambda: not scene.offered)
        await scene.until(lambda: not scene.servers)
        assert scene.starts == ["notes"]
        assert scene.held.patterns() == []
        scene.writes(NOTES)
        await scene.until(lambda: scene.offered)


async def test_a_server_that_crashes_is_started_again_and_its_tools_stay(
    scene: ToolServerScene,
) -> None:
    async with scene.running():
        await approved(scene)
        scene.trouble = "could not be started."
        scene.servers["notes"].crash()
        await scene.until(lambda: scene.state().trouble)
        assert scene.offered == {"notes": ["find"]}
        (find,) = scene.held.tools()["notes"]
        assert (await find.run({})).text == (
            "The tool server notes does not work now. Go on without it."
        )
        await scene.clock.advance(3600)
        tries = len(scene.starts)
        assert 5 < tries < 20
        scene.trouble = ""
        await scene.clock.advance(600)
        await scene.until(lambda: scene.servers)
        assert not (await find.run({})).is_error
        await scene.clock.advance(60)
        await scene.until(lambda: not scene.state().trouble)


async def test_a_server_that_fails_harms_no_other(scene: ToolServerScene) -> None:
    scene.trouble = "could not be started."
    async with scene.running():
        scene.writes(NOTES, ServerSpec("web", ("web-server",)))
        await scene.until(lambda: len(scene.record.servers) == 2)
        scene.approves("notes")
        await scene.until(lambda: scene.state().trouble)
        scene.trouble = ""
        scene.approves("web")
        await scene.until(lambda: scene.state("web").waiting)


async def test_the_tools_are_there_at_the_next_start_before_any_server_is(
    scene: ToolServerScene,
) -> None:
    async with scene.running():
        await approved(scene)
    again = ToolServerScene(scene.paths.root, scene.store)
    await again.held.load()
    assert again.offered == {"notes": ["find"]}
    assert again.starts == []


async def test_a_removed_server_ends_and_a_wrong_file_ends_none(scene: ToolServerScene) -> None:
    async with scene.running():
        await approved(scene)
        scene.paths.mcp.write_text("{")
        await scene.until(lambda: scene.told)
        assert scene.told[0].startswith("mcp.json:1: it is not JSON.")
        assert scene.offered == {"notes": ["find"]}
        assert [*scene.servers] == ["notes"]
        scene.paths.mcp.unlink()
        await scene.until(lambda: not scene.servers)
        assert scene.offered == {}


async def test_a_new_secret_starts_the_server_again_without_a_question(
    scene: ToolServerScene,
) -> None:
    async with scene.running():
        await approved(scene)
        scene.writes(replace(NOTES, environment={"KEY": "new"}))
        await scene.until(lambda: len(scene.starts) == 2)
        await scene.until(lambda: scene.servers)
        assert scene.offered == {"notes": ["find"]}
        assert scene.state().question == ""


async def test_a_changed_script_switches_the_server_off_until_it_is_approved(
    scene: ToolServerScene,
) -> None:
    script = scene.paths.root / "tools" / "server.py"
    script.parent.mkdir()
    script.write_text("one")
    async with scene.running():
        scene.writes(ServerSpec("notes", ("python", "tools/server.py")))
        await scene.until(lambda: scene.state().present)
        scene.approves()
        await scene.until(lambda: scene.state().waiting)
        scene.approves()
        await scene.until(lambda: scene.offered)
        assert scene.held.places.folders == {str(script.parent)}
        script.write_text("another")
        await scene.until(lambda: not scene.offered)
        await scene.until(lambda: not scene.servers)
        assert scene.state().condition is ServerCondition.REWRITTEN
        assert scene.starts == ["notes"]
        scene.approves()
        await scene.until(lambda: scene.offered)
        await scene.until(lambda: scene.servers)


async def test_a_server_that_always_changes_is_listed_less_and_less_often(
    scene: ToolServerScene,
) -> None:
    async with scene.running():
        await approved(scene)
        server = scene.servers["notes"]
        for number in range(1000):
            server.change(replace(FIND, description=f"Finds a note. {number}"))
        await scene.clock.advance(120)
        assert 3 <= server.listings <= 8
