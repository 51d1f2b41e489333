"""Tools in background runs are allowed or refused; the owner is never asked."""

from __future__ import annotations

from tests.background.real_scene import RealScene, calls, says
from tests.background.scene import routine

from ollim_bot.domain.occurrences import OccurrenceState
from ollim_bot.offline.messages import CallTool, ModelRequest, Reply
from ollim_bot.tools.registry import DEFAULT_BG_TOOLS


async def test_what_is_not_available_is_refused_and_the_run_goes_on(in_process: RealScene) -> None:
    (in_process.root / "note.md").write_text("buy milk")
    in_process.model.then(
        Reply(
            (
                CallTool("Write", {"file_path": "note.md", "content": "broken"}),
                CallTool("WebFetch", {"url": "https://example.com/", "prompt": "x"}),
                CallTool("Bash", {"command": "ls"}),
                CallTool("mcp__discord__enter_fork", {"topic": "x"}),
                CallTool("mcp__discord__update_names", {"bot_name": "x"}),
                CallTool("Read", {"file_path": "note.md"}),
                CallTool("mcp__discord__list_reminders", {}),
            )
        )
    )
    scene = in_process.scene
    assert await scene.run(routine()) is OccurrenceState.DONE
    write, fetch, bash, fork, names, read, listed = in_process.results()
    assert "`Write` is not available in background runs. " in write
    assert "`WebFetch` is not available in background runs. " in fetch
    assert "`Bash` is not available in background runs with these arguments. " in bash
    assert "`mcp__discord__enter_fork` is not available in background runs. " in fork
    assert "`mcp__discord__update_names` is not available in background runs. " in names
    assert "buy milk" in read
    assert listed == "There are no reminders."
    assert scene.end.facts["tools"] == ["Read", "mcp__discord__list_reminders"]
    assert (in_process.root / "note.md").read_text() == "buy milk"
    assert (scene.surface.posts, scene.said) == ([], [])


async def test_what_the_job_allows_is_done(in_process: RealScene) -> None:
    in_process.model.then(calls("Write", file_path="notes/new.md", content="new"), says("Done."))
    job = routine(allowed_tools=("Write(./notes/**.md)",))
    assert await in_process.scene.run(job) is OccurrenceState.DONE
    assert (in_process.root / "notes/new.md").read_text() == "new"
    assert "`Write(./notes/**.md)`" in str(in_process.model.requests[0].messages)


async def test_what_the_owner_takes_away_meanwhile_is_gone(in_process: RealScene) -> None:
    """The permission is removed between two calls of the same run."""
    scene = in_process.scene
    scene.allowed = (*DEFAULT_BG_TOOLS, "Write(./notes/**.md)")

    def is_after_the_first(request: ModelRequest) -> bool:
        if request.tool_results:
            scene.allowed = DEFAULT_BG_TOOLS
        return len(in_process.model.requests) == 2

    in_process.model.then(calls("Write", file_path="notes/one.md", content="1"))
    second = calls("Write", file_path="notes/two.md", content="2")
    in_process.model.when(is_after_the_first, second)
    assert await scene.run(routine()) is OccurrenceState.DONE
    assert (in_process.root / "notes/one.md").exists()
    assert not (in_process.root / "notes/two.md").exists()
    assert "`Write` is not available in background runs. " in in_process.results()[1]
