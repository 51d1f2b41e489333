"""The links of the pages work, and the commands, settings and files that they name exist."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.slash_commands import COMMANDS
from tests.terminal import Terminal

from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.values.runtime_config import CONFIG_KEYS

pytestmark = pytest.mark.same_fixtures

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "ollim_bot"
OTHERS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "bench/README.md", "chaos/README.md")
PAGES = [*sorted(DOCS.glob("*.md")), *(ROOT / name for name in OTHERS)]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]

_BLOCK = re.compile(r"^ *(`{3,})\w*\n(.*?)^ *\1$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"""\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)\"""")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_NEED = re.compile(r"# .+\n\n\*[^*]+\*")
_COMMAND = re.compile(r"^(?:\$ )?(?:\.venv/bin/)?ollim-bot (.*)$")
_SETTING = re.compile(r"\b(?:OLLIM|DISCORD|WEBHOOK|GOOGLE|ANTHROPIC|NTFY|DATABASE)_[A-Z_]*[A-Z]\b")
_KEY = re.compile(r"(?:/config|config (?:set|get|unset)) ([a-z_.]+)")
_FIRST_CELL = re.compile(r"^\| (`.*?`) \|", re.MULTILINE)
_WRONG_FLAG = "--no-such-flag"
_RIGHT_SO_FAR = (f"{_WRONG_FLAG}' is not understood", "are required", f"has no `{_WRONG_FLAG}`")


def prose(text: str) -> str:
    return _BLOCK.sub("", text)


def anchors(text: str) -> set[str]:
    """The anchors of the headings, as Markdown viewers make them."""
    headings = (re.sub(r"[^\w -]", "", one.lower()) for one in _HEADING.findall(prose(text)))
    return {heading.replace(" ", "-") for heading in headings}


def links(text: str) -> list[str]:
    found = (one or other for one, other in _LINK.findall(prose(text)))
    return [link for link in found if not link.startswith(("http:", "https:"))]


def leads_somewhere(page: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    there = page.parent / name if name else page
    return there.exists() and (not anchor or anchor in anchors(there.read_text()))


def commands(text: str) -> Iterator[str]:
    """The arguments of `ollim-bot` in code blocks and in the text, except for those with `…`."""
    lines = [line for _, block in _BLOCK.findall(text) for line in block.splitlines()]
    for line in [*lines, *_CODE.findall(prose(text))]:
        found = _COMMAND.match(line.strip())
        if found and "…" not in line:
            yield found[1]


def refusal(terminal: Terminal, command: str) -> str:
    """The error message for the command with a wrong flag, which keeps it from running."""
    words = shlex.split(command)
    return terminal.run(*words, *([] if words[0] in ("help", "version") else [_WRONG_FLAG])).err


def is_command(terminal: Terminal, command: str) -> bool:
    """Whether all its words are right. The text may leave out its verb or its last arguments."""
    said = refusal(terminal, command)
    return not said or any(part in said for part in _RIGHT_SO_FAR)


def first_cells(text: str) -> set[str]:
    """The code in the first cell of each table row."""
    return {code for cell in _FIRST_CELL.findall(text) for code in _CODE.findall(cell)}


def texts_in(files: Iterable[Path]) -> set[str]:
    """Every text constant of the code."""
    nodes = (node for path in files for node in ast.walk(ast.parse(path.read_text())))
    return {
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_link_leads_somewhere(name: str) -> None:
    page = ROOT / name
    assert [link for link in links(page.read_text()) if not leads_somewhere(page, link)] == []


def test_every_page_and_picture_can_be_found() -> None:
    found = {
        (page.parent / one.partition("#")[0]).resolve()
        for page in PAGES
        for one in links(page.read_text())
    }
    assert {*DOCS.glob("*.md"), *(DOCS / "images").iterdir()} <= found


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_begins_with_its_title_and_has_one(page: Path) -> None:
    text = page.read_text()
    assert text.startswith("# ")
    assert len(re.findall(r"^# ", prose(text), re.MULTILINE)) == 1


@pytest.mark.parametrize(
    "page", sorted({*DOCS.glob("*.md")} - {DOCS / "README.md"}), ids=lambda page: page.stem
)
def test_a_page_begins_with_a_need_in_a_persons_words(page: Path) -> None:
    assert _NEED.match(page.read_text())


@pytest.mark.parametrize("name", NAMES)
def test_every_row_of_a_table_is_one_line(name: str) -> None:
    assert re.findall(r"^ *\|.*[^|\s] *$", prose((ROOT / name).read_text()), re.MULTILINE) == []


# The changelog names commands of older versions.
@pytest.mark.parametrize("name", sorted({*NAMES} - {"CHANGELOG.md"}))
def test_every_command_can_be_given(name: str, tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    found = set(commands((ROOT / name).read_text()))
    if not find_spec("ollim_bot_standby"):
        found = {each for each in found if not each.startswith("standby ")}
    assert sorted(each for each in found if not is_command(terminal, each)) == []


def test_a_command_that_does_not_exist_is_found_out(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    page = "`ollim-bot runs show`, `ollim-bot … run`\n```\n$ ollim-bot runs --since 3d\n```\n"
    assert [*commands(page)] == ["runs --since 3d", "runs show"]
    assert all(is_command(terminal, each) for each in ("runs --since 3d", "runs show", "help web"))
    wrong = ("chores list", "runs shows", "runs --sinc 3d", "routine add --cron", "help nothing")
    assert [each for each in wrong if is_command(terminal, each)] == []


def test_every_setting_that_is_named_exists_and_is_explained() -> None:
    code = [SOURCE / "kernel/base/settings.py", SOURCE / "kernel/base/environment.py"]
    settings = {text for text in texts_in(code) if _SETTING.fullmatch(text)}
    named = {name for page in PAGES for name in _SETTING.findall(page.read_text())}
    assert named == settings == first_cells((DOCS / "settings.md").read_text())


def test_every_key_that_is_named_exists() -> None:
    named = {key for page in PAGES for key in _KEY.findall(page.read_text())}
    assert named
    assert named <= set(CONFIG_KEYS)


def test_every_command_of_the_chat_is_explained() -> None:
    text = (DOCS / "conversation.md").read_text()
    explained = {cell for cell in first_cells(text) if cell.startswith("/")}
    assert explained == {command.usage for command in COMMANDS}


def test_every_file_of_the_data_directory_is_named_and_real() -> None:
    page = first_cells((DOCS / "data-directory.md").read_text())
    named = {name.rstrip("/").removesuffix("/<name>/SKILL.md") for name in page}
    places = {shown(path) for path in paths_of(DataPaths(Path()))}
    assert places <= named
    code = [path.read_text() for path in SOURCE.rglob("*.py")]
    others = named - places
    assert {name for name in others if not any(f'"{name}"' in text for text in code)} == set()


def paths_of(paths: DataPaths) -> list[Path]:
    values = (getattr(paths, name) for name in vars(DataPaths) if not name.startswith("_"))
    return [value for value in values if isinstance(value, Path) and value != paths.root]


def shown(path: Path) -> str:
    """The files of `state/` have a separate table."""
    return path.name if path.parent.name == "state" else str(path)
