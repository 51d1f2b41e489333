"""A record that was laid out on another machine is resumed and branched off from there."""

from __future__ import annotations

import asyncio
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.kernel.engine.conftest import scene
from tests.kernel.engine.scene import Scene, ask, engine_at, provider, spoken
from tests.kernel.engine.shared import COUNTER
from tests.kernel.store.scene import NOW, StoreScene
from tests.patience import patience

from ollim_bot.kernel.engine.transcripts import Transcripts
from ollim_bot.kernel.values.ports import Toolset
from ollim_bot.offline.server import CallTool, ModelRequest, Reply, Say
from ollim_bot_standby.records import RecordFolder, RecordStore

__all__ = ["scene"]


def is_of_subagent(request: ModelRequest) -> bool:
    return "COUNT" in request.last_user_text


@pytest.mark.real_engine
async def test_a_session_with_a_subagent_is_resumed_and_branched_off_from_elsewhere(
    scene: Scene, tmp_path: Path
) -> None:
    task = {"description": "count", "prompt": "COUNT", "subagent_type": "counter"}
    scene.model.when(is_of_subagent, Reply((Say("Four."),)))
    scene.model.then(Reply((CallTool("Agent", task),))).answers("There are four.")
    async with scene.session(Toolset(builtin=("Agent",)), subagents=COUNTER) as session:
        await ask(session, "count my cats")
        name = session.id
    assert name is not None

    home = tmp_path / "another home"
    data = home / "somewhere else" / "data"
    data.mkdir(parents=True)
    there = Transcripts(provider(home, ""))
    with closing(StoreScene(tmp_path / "rows").open()) as rows:
        store = RecordStore(rows)
        for file, path in Transcripts(provider(scene.home, "")).files_of({name}):
            store.store(file, path)
        assert RecordFolder(there, data, lambda: NOW).lay_out(rows) == ()
    found = [file for file, _ in there.files_of({name})]
    assert any("subagents/" in file for file in found), found

    spec = replace(scene.spec, working_directory=data)
    engine = engine_at(home, scene.url)
    scene.model.answers("Also here.", "In the branch, too.")
    for more in ({"resume": name}, {"branch_of": name}):
        async with (
            asyncio.timeout(patience()),
            engine.open(replace(spec, **more), Toolset()) as session,  # type: ignore[arg-type]
        ):
            await ask(session, "how many?")
        assert spoken(scene.model.requests[-1])[:2] == ["count my cats", "There are four."]
    assert [each.id for each in await engine.sessions(data, 9) if each.id == name]
