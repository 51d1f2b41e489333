"""A conversation with a side conversation in it."""

from __future__ import annotations

from tests.e2e.conftest import Scene

from ollim_bot.offline.server import ModelRequest

CAT = "my cat is called Miso"


def sent(request: ModelRequest) -> list[object]:
    """The messages of a request without their cache marks, which differ in each request."""
    said = [one for one in _listed(request.body["messages"]) if one["role"] != "system"]
    return [{"role": one["role"], "content": _blocks(one["content"])} for one in said]


def _blocks(content: object) -> list[dict[str, object]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [
        {key: block[key] for key in block if key != "cache_control"} for block in _listed(content)
    ]


def _listed(value: object) -> list[dict[str, object]]:
    assert isinstance(value, list)
    return value


async def in_a_fork(scene: Scene) -> None:
    scene.model.answers("Noted.", "Rome, in May.")
    await scene.bot.ask(CAT)
    number = len(await scene.bot.answers())
    await scene.bot.command("/fork a trip to Rome")
    assert await scene.bot.answer(number + 1) == "Rome, in May."
