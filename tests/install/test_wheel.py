"""The packages have all that the program needs and nothing else, and the program runs from them."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

import pytest
from markdown_it import MarkdownIt
from tests.wheels import ROOT, build_sdist, build_wheel
from trove_classifiers import classifiers

from ollim_bot import __version__
from ollim_bot.features.install.releases import LOCK_FILE, POSTGRES_LOCK

pytestmark = pytest.mark.real_process

SOURCE, DOCS = ROOT / "src" / "ollim_bot", ROOT / "docs"
STANDBY = "ollim_bot_standby"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
METADATA = f"ollim_bot-{__version__}.dist-info"
KINDS = {".css", ".html", ".js", ".lock", ".md", ".png", ".py", ".sha256", ".svg", ".typed", ""}
# The hashes of all that is needed are 80 KB of it, and cannot be packed.
LARGEST = 2_600_000

# The installed package comes first on the path, before the source tree of this environment.
RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import ollim_bot
from ollim_bot.surfaces.terminal.main import main
from ollim_bot.kernel.tools.tool_context import docs_folder
codes = []
for words in (["version"], ["help"], ["config", "list"], ["doctor"]):
    print(">", *words, flush=True)
    codes.append(main(words))
print(">", ollim_bot.__file__, docs_folder(), *codes)
"""


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the wheel, where an installer would put them."""
    place = tmp_path_factory.mktemp("site-packages")
    with ZipFile(wheel) as archive:
        archive.extractall(place)
    return place


@pytest.fixture(scope="module")
def metadata(installed: Path) -> Message:
    return message_from_bytes((installed / METADATA / "METADATA").read_bytes())


def files_below(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix != ".pyc":
            yield path.relative_to(folder).as_posix()


def test_the_wheel_has_the_program_its_texts_its_page_and_its_docs_and_nothing_else(
    wheel: Path, installed: Path
) -> None:
    program = set(files_below(SOURCE))
    docs = {f"docs/{name}" for name in files_below(DOCS)}
    shipped = set(files_below(installed / "ollim_bot"))
    assert shipped == program | docs | {"CHANGELOG.md", LOCK_FILE, POSTGRES_LOCK}
    for name in (LOCK_FILE, POSTGRES_LOCK):
        assert (installed / "ollim_bot" / name).read_bytes() == (ROOT / name).read_bytes()
    assert {"py.typed", "surfaces/web/static/index.html", "kernel/texts/IDENTITY.md"} <= shipped
    assert {Path(name).suffix for name in shipped} <= KINDS
    assert {*files_below(installed / STANDBY)} == {*files_below(SOURCE.parent / STANDBY)}
    assert {path.name for path in installed.iterdir()} - {STANDBY} == {"ollim_bot", METADATA}
    assert wheel.stat().st_size < LARGEST


def test_every_picture_in_the_wheel_is_shown_by_one_of_its_pages(installed: Path) -> None:
    docs = installed / "ollim_bot" / "docs"
    shown = {name for page in docs.glob("*.md") for name in linked_pictures(page.read_text())}
    assert {path.name for path in (docs / "images").iterdir()} == shown


def linked_pictures(text: str) -> list[str]:
    return re.findall(r"images/([\w.-]+)", text)


def test_the_metadata_says_what_an_installer_and_a_person_ask(metadata: Message) -> None:
    assert metadata["Name"] == "ollim-bot"
    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"
    needed = metadata.get_all("Requires-Dist", [])
    always = [each for each in needed if "extra ==" not in each]
    assert sorted(always) == sorted(each.replace(".py", "-py") for each in PROJECT["dependencies"])
    assert sorted(metadata.get_all("Provides-Extra", [])) == ["postgres", "standby"]
    assert set(metadata.get_all("Classifier", [])) <= classifiers
    assert metadata["Description-Content-Type"] == "text/markdown"
    page = MarkdownIt().enable("table").render(str(metadata.get_payload()))
    assert "<h1>ollim-bot</h1>" in page
    assert "<table>" in page


def test_the_licence_and_the_command_are_in_the_wheel(installed: Path) -> None:
    here = installed / METADATA
    assert (here / "licenses" / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    points = (here / "entry_points.txt").read_text()
    assert points == "[console_scripts]\nollim-bot = ollim_bot.surfaces.terminal.main:run\n"


def test_the_program_runs_from_the_wheel_alone(installed: Path, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-I", "-c", RUN, str(installed)],
        env={"HOME": str(tmp_path), "OLLIM_MODEL": "offline", "PATH": "/usr/bin:/bin"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    _, version, help_page, config, doctor, end = re.split(r"^> ", ran.stdout, flags=re.MULTILINE)
    package = installed / "ollim_bot"
    assert version == f"version\nollim-bot {__version__}\n"
    assert "usage: ollim-bot [COMMAND]" in help_page
    assert "model.main" in config
    assert "FAIL" not in doctor
    assert "SUMMARY: " in doctor
    assert end.split() == [str(package / "__init__.py"), str(package / "docs"), *"0000"]
    assert (package / "docs" / "README.md").read_text() == (DOCS / "README.md").read_text()


def test_the_source_package_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(build_sdist(tmp_path / "sdist")) as archive:
        # The filter is unknown before Python 3.11.4, and new versions warn without it.
        if hasattr(tarfile, "data_filter"):
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(tmp_path)
    tree = tmp_path / f"ollim_bot-{__version__}"
    with ZipFile(wheel) as ours, ZipFile(build_wheel(tmp_path / "wheel", tree)) as theirs:
        assert contents(theirs) == contents(ours)


def contents(archive: ZipFile) -> dict[str, bytes]:
    return {name: archive.read(name) for name in archive.namelist()}
