"""The installation page is right about the sample image and all paths that are written to."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from fnmatch import fnmatch
from pathlib import Path

from tests.install.removal_paths import listed_paths
from tests.terminal import Terminal
from tests.wheels import ROOT

from ollim_bot.kernel.base.settings import Settings
from ollim_bot.kernel.engine.transcripts import config_folder
from ollim_bot.surfaces.web.access import HEALTH

PAGE = (ROOT / "docs" / "install.md").read_text()
SAMPLE = (ROOT / "docs" / "Dockerfile").read_text()
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)


def instructions() -> list[tuple[str, str]]:
    """Each instruction of the sample with its arguments, without comments."""
    lines = [line for line in SAMPLE.splitlines() if not line.startswith("#")]
    whole = "\n".join(lines).replace("\\\n", " ")
    return [
        (word, rest.strip())
        for word, _, rest in (line.partition(" ") for line in whole.splitlines() if line)
    ]


def values(name: str) -> list[str]:
    return [rest for word, rest in instructions() if word == name]


def test_the_image_is_made_of_files_that_exist_and_no_key_is_among_them() -> None:
    for words in map(str.split, values("COPY")):
        if not words[0].startswith("--from"):
            assert all((ROOT / source).exists() for source in words[:-1])
            assert not {".", "./", ".env"} & {*words[:-1]}
    assert "requirements.lock" in values("RUN")[0]
    assert not [each for each in (*values("ENV"), *values("ARG")) if SECRET.search(each)]


def test_the_image_has_all_that_its_build_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    copied = {source for words in values("COPY") for source in words.split()[:-1]}
    shipped = [*project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"], "src"]
    needed = {project["project"]["readme"], *project["project"]["license-files"], *shipped}
    assert needed | {"pyproject.toml", "requirements.lock"} <= copied
    assert "hatchling==" in (ROOT / "requirements.lock").read_text()
    for image in values("FROM"):
        minor = re.match(r"python:3\.(\d+)-slim", image)
        assert minor
        assert int(minor[1]) >= 11


def test_the_image_runs_the_bot_itself_as_an_ordinary_user_and_asks_whether_it_lives(
    tmp_path: Path,
) -> None:
    order = [word for word, _ in instructions()]
    (user,), (volume,), (command,) = values("USER"), values("VOLUME"), values("CMD")
    assert f"useradd --create-home --uid 1000 {user}" in values("RUN")[1]
    assert user != "root"
    assert order.index("USER") < order.index("CMD")
    assert volume == f"/home/{user}"
    assert json.loads(command) == ["ollim-bot"]
    assert values("STOPSIGNAL") == ["SIGTERM"]
    (asked,) = re.findall(r"http://127\.0\.0\.1:(\d+)(/\w+)", values("HEALTHCHECK")[0])
    usual = Settings.from_env({"HOME": str(tmp_path)}, cwd=tmp_path).web_port
    assert asked == (str(usual), HEALTH)


def test_the_commands_for_the_container_are_those_of_the_program(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    calls = re.findall(r"^docker exec .*?\bollim (ollim-bot .*)$", PAGE, re.MULTILINE)
    assert calls
    for call in calls:
        assert terminal.run(*shlex.split(call)[1:], "--help").code == 0
    assert f"--volume ollim:{values('VOLUME')[0]} " in PAGE


def test_every_place_that_the_code_names_is_listed_for_removal(tmp_path: Path) -> None:
    home, places = Path.home(), listed_paths()
    data = Settings.from_env({"HOME": str(home)}, cwd=tmp_path).paths
    named = [
        data.root,
        data.backups(),
        data.root.with_name(f"{data.root.name}.before-restore-2026-11-16"),
        config_folder({"HOME": str(home)}),
        *(
            home / folder
            for folder in folders_in(ROOT / "src" / "ollim_bot" / "features" / "install")
        ),
    ]
    for place in named:
        shown = f"~/{place.relative_to(home)}"
        assert any(fnmatch(shown, listed) for listed in places), shown


def folders_in(package: Path) -> list[str]:
    """The folders in the home for a supervisor's files, such as `Library/Logs`."""
    text = "\n".join(path.read_text() for path in package.rglob("*.py"))
    found = re.findall(r'\b(?:folder="([^"]+)|log_file="([^"]+)/[^"/]+)"', text)
    assert found
    return [folder or of_log for folder, of_log in found]
