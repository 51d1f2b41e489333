"""`search_docs`, `read_doc`: the documentation, found by its words."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tools.server.tool_scene import ToolScene, make_tool_scene

from ollim_bot.ports import ToolAnswer
from ollim_bot.tools.context import docs_folder

PAGES = {
    "settings": "# Settings\n\nAll of them.\n\n## Time zone\n\nWhere you are.\n",
    "web": "# The page\n\nIt opens in a browser.\n\n## Keys\n\nThe zone of keys.\n",
    "loose": "Words without a heading about the zone.\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for name, content in PAGES.items():
        (folder / f"{name}.md").write_text(content)
    (folder / "secret.txt").write_text("zone")
    (tmp_path / "outside.md").write_text("zone")
    return folder


def reader(folder: Path) -> ToolScene:
    scene = make_tool_scene(folder)
    scene.context.docs = folder
    return scene


async def search(folder: Path, query: str) -> str:
    return await reader(folder).works("search_docs", query=query)


async def read(folder: Path, page: str) -> ToolAnswer:
    return await reader(folder).call("read_doc", page=page)


async def test_a_search_finds_sections_the_best_first(folder: Path) -> None:
    """A page without a match does not hide the others."""
    found = await search(folder, "Which time ZONE?")
    assert found.split("\n\n") == [
        "settings — Time zone\nWhere you are.",
        "web — Keys\nThe zone of keys.",
    ]


@pytest.mark.parametrize("query", ["xylophone", "", "?!"])
async def test_a_search_that_finds_nothing_names_the_pages(folder: Path, query: str) -> None:
    assert "There are these pages: loose, settings, web." in await search(folder, query)


async def test_a_search_answers_briefly(folder: Path) -> None:
    (folder / "long.md").write_text("\n".join(f"# Zone {n}\n\n{'zone ' * 99}" for n in range(50)))
    found = (await search(folder, "zone")).split("\n\n")
    assert len(found) == 8
    assert all(len(one) < 300 for one in found)


@pytest.mark.parametrize("name", ["settings", "settings.md", " settings "])
async def test_a_page_is_read_whole(folder: Path, name: str) -> None:
    assert await read(folder, name) == ToolAnswer(PAGES["settings"])


@pytest.mark.parametrize("name", ["../outside", "secret", "secret.txt", "", "/etc/passwd"])
async def test_no_other_file_is_read(folder: Path, name: str) -> None:
    answer = await read(folder, name)
    assert answer.is_error
    assert "There are: loose, settings, web." in answer.text


async def test_the_shipped_pages_are_there_and_none_is_too_long_to_be_read() -> None:
    pages = sorted(path.stem for path in docs_folder().glob("*.md"))
    assert {"cli", "settings", "web"} <= set(pages)
    for page in pages:
        answer = await read(docs_folder(), page)
        assert not answer.is_error
        assert len(answer.text) < 40_000
    assert "settings — " in await search(docs_folder(), "settings")


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("stop the answer", "conversation — Commands"),
        ("how do I connect Discord", "discord — Connecting it to Discord"),
    ],
)
async def test_small_words_do_not_hide_what_is_meant(query: str, first: str) -> None:
    assert (await search(docs_folder(), query)).startswith(first)
    assert "settings — All settings" in await search(docs_folder(), "change the time zone")


async def test_a_heading_of_small_words_is_not_what_is_meant(folder: Path) -> None:
    (folder / "a.md").write_text("# How do I and why do I\n\nNothing.\n")
    assert (await search(folder, "how do I and why zone")).startswith("settings — Time zone")
    assert (await search(folder, "how do I")).startswith("a — How do I")


async def test_part_of_a_word_is_no_word(folder: Path) -> None:
    (folder / "long.md").write_text("# Keyboard\n\nA keystroke.\n")
    assert "long — " not in await search(folder, "key")
    assert "web — Keys" in await search(folder, "key")


async def test_a_comment_in_code_is_no_heading(folder: Path) -> None:
    (folder / "code.md").write_text("# Code\n\n```\n# xylophone\n```\n\nAfter it.\n")
    assert await search(folder, "xylophone") == "code — Code\n``` # xylophone ``` After it."
