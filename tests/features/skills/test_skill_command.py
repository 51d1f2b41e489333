"""`ollim-bot skill`: what is added from elsewhere, what is refused, and what is noticed later."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.terminal import Terminal

from ollim_bot.features.skills.skill_packages import candidate

HEAD = "---\nname: mail\ndescription: Reads mail.\n"
SKILL = f"{HEAD}---\nRead it.\n"
ACTING = (
    f"{HEAD}model: opus\nhooks:\n  Stop:\n    - hooks:\n        - command: x\n"
    "allowed-tools: Bash(ollim-bot gmail *)\n---\nSee https://Example.com/x. !`ollim-bot today`\n"
)
LINK = (stat.S_IFLNK | 0o777) << 16


def packed(files: Mapping[str, str | bytes], links: Mapping[str, str] | None = None) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
        for name, target in (links or {}).items():
            info = zipfile.ZipInfo(name)
            info.external_attr = LINK
            archive.writestr(info, target)
    return data.getvalue()


def twice() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("SKILL.md", SKILL)
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("SKILL.md", SKILL)
    return data.getvalue()


def git(folder: Path, *words: str) -> str:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GIT_CONFIG_GLOBAL": os.devnull,
        **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"), "a@b"),
        **dict.fromkeys(("GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"), "a@b"),
    }
    done = subprocess.run(
        ("git", "-C", str(folder), *words), env=environment, capture_output=True, check=True
    )
    return done.stdout.decode().strip()


def repository(folder: Path, files: Mapping[str, str], link: tuple[str, str] | None = None) -> str:
    """Make a repository with these files; returns its commit."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    if link is not None:
        (folder / link[0]).symlink_to(link[1])
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "x")
    return git(folder, "rev-parse", "HEAD")


@pytest.mark.real_process
@pytest.mark.parametrize("form", ["folder", "zip", "git"])
def test_a_skill_is_added_without_what_acts_by_itself(
    terminal: Terminal, tmp_path: Path, form: str
) -> None:
    source, commit = tmp_path / "from", ""
    files = {"SKILL.md": ACTING, "scripts/go.sh": "#!/bin/sh\n", ".github/x.yml": "x"}
    commit = repository(source, files)
    named = {"folder": str(source), "zip": str(tmp_path / "x.zip"), "git": f"file://{source}"}[form]
    archive = packed({f"mail-main/{name}": text for name, text in files.items()})
    (tmp_path / "x.zip").write_bytes(archive)
    refused = terminal.run("skill", "add", named)
    assert refused.code == 2
    assert "There is no terminal to ask you in" in refused.err
    for line in (
        "tools      Bash(ollim-bot gmail *) (for jobs",
        "scripts    scripts/go.sh (run only if",
        "addresses  example.com",
        "taken out  model, hooks, !`ollim-bot today`",
    ):
        assert line in refused.out
    assert not (terminal.paths.root / "skills" / "mail").exists()

    address = f"{named}@{commit[:10]}" if form == "git" else named
    assert "Added the skill mail." in terminal.run("skill", "add", address, "--yes").out
    folder = terminal.paths.root / "skills" / "mail"
    text = (folder / "SKILL.md").read_text()
    assert text.startswith(f"{HEAD}allowed-tools: Bash(ollim-bot gmail *)\n---\n")
    assert text.endswith("`ollim-bot today`\n")
    assert "!`" not in text
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert names == {"SKILL.md", "scripts/go.sh"}
    lock = json.loads((terminal.paths.root / "skills" / "skills.lock").read_text())["skills"][
        "mail"
    ]
    assert lock["commit"] == (commit if form == "git" else "")
    assert lock["origin"] == named
    assert set(lock["files"]) == names
    assert "There is a skill mail already" in terminal.run("skill", "add", named, "--yes").err


@pytest.mark.parametrize(
    "opening", ["```!!", "``` !!", "~~~ !!!", "```\t!!", "!```!", "``!`!", "~~~!~!", "text ```!"]
)
def test_no_way_to_write_a_command_survives_the_adding(tmp_path: Path, opening: str) -> None:
    fence = "~~~" if "~" in opening else "```"
    body = f"Read it!\n\n{opening}\nollim-bot today\n{fence}\n"
    archive = tmp_path / "x.zip"
    archive.write_bytes(packed({"SKILL.md": f"{HEAD}---\n{body}"}))
    added = candidate(str(archive), archive)
    assert added.removed
    assert not added.skill.commands
    assert added.files["SKILL.md"].data.decode() == f"{HEAD}---\n{body}".replace("!", "").replace(
        "Read it", "Read it!"
    )


@pytest.mark.real_process
def test_each_later_difference_is_named(terminal: Terminal, tmp_path: Path) -> None:
    source = tmp_path / "from"
    source.mkdir()
    (source / "SKILL.md").write_text(SKILL)
    (source / "more.md").write_text("x")
    terminal.done("skill", "add", "from", "--yes")
    assert terminal.run("skill", "check").out == "1 added skill, as added.\n"
    # As the page about the data directory says.
    assert "skills/skills.lock" in terminal.git("ls-files")
    (subject,) = terminal.git("log", "-1", "--format=%s", "skills/skills.lock")
    assert subject == "2 changes: add skill mail, lock skill mail"
    folder = terminal.paths.root / "skills" / "mail"
    (folder / "SKILL.md").write_text(f"{SKILL}More.\n")
    (folder / "more.md").unlink()
    (folder / "new.md").write_text("x")
    found = terminal.run("skill", "check")
    assert found.code == 1
    assert found.err.splitlines() == [
        "skills/mail/SKILL.md was changed since the skill was added.",
        "skills/mail/more.md is gone since the skill was added.",
        "skills/mail/new.md was not there when the skill was added.",
    ]
    assert terminal.run("skill", "remove", "mail").code == 2
    assert folder.exists()
    assert terminal.run("skill", "remove", "mail", "--yes").out == "Removed the skill mail.\n"
    assert not folder.exists()
    assert terminal.run("skill", "check").out == "No added skills.\n"
    assert terminal.run("skill", "remove", "mail", "--yes").err == "There is no skill mail.\n"


def test_skills_are_listed_with_those_that_do_not_load(terminal: Terminal) -> None:
    assert terminal.run("skill").out.startswith("No skills.")
    for name, text in (("mail", SKILL), ("tax", f"{HEAD}hooks: x\n---\n")):
        (terminal.paths.root / "skills" / name).mkdir(parents=True)
        (terminal.paths.root / "skills" / name / "SKILL.md").write_text(text)
    mail, tax = terminal.run("skill", "list").out.splitlines()
    assert mail == "mail  Reads mail."
    assert tax.startswith("tax   does not load: skills/tax/SKILL.md:2: name: must be the name of")
    rows = json.loads(terminal.run("skill", "list", "--json").out)["skills"]
    assert [(row["name"], row["loads"]) for row in rows] == [("mail", True), ("tax", False)]
    assert "Read it." in terminal.run("skill", "show", "mail").out
    assert "There is no skill mial." in terminal.run("skill", "show", "mial").err


def plain(folder: Path) -> None:
    (folder / "SKILL.md").write_text(SKILL)


def with_link(folder: Path) -> None:
    plain(folder)
    (folder / "link.md").symlink_to("/etc/passwd")


def with_linked_folder(folder: Path) -> None:
    plain(folder)
    (folder / "more").symlink_to("/etc")


def with_hard_link(folder: Path) -> None:
    plain(folder)
    os.link(folder / "SKILL.md", folder / "again.md")


def with_pipe(folder: Path) -> None:
    plain(folder)
    os.mkfifo(folder / "pipe")


def with_much(folder: Path) -> None:
    plain(folder)
    for number in range(201):
        (folder / f"{number}.md").write_text("x")


def with_two(folder: Path) -> None:
    for name in ("a", "b"):
        (folder / name).mkdir()
        plain(folder / name)


def huge(folder: Path) -> None:
    plain(folder)
    with open(folder / "big.bin", "wb") as file:
        file.truncate(2_000_000)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (with_link, "link.md is a link or a special file"),
        (with_linked_folder, "more is a link or a special file"),
        (with_hard_link, "is a link or a special file"),
        (with_pipe, "pipe is a link or a special file"),
        (with_much, "It has more than 200 files."),
        (with_two, "It has several skills: a, b."),
        (huge, "big.bin is larger than 1 MB."),
        (lambda folder: (folder / "README.md").write_text("x"), "There is no SKILL.md in it."),
    ],
)
def test_a_hostile_folder_is_refused_and_leaves_nothing(
    terminal: Terminal, tmp_path: Path, make: Callable[[Path], None], reason: str
) -> None:
    source = tmp_path / "from"
    source.mkdir()
    make(source)
    refused = terminal.run("skill", "add", str(source), "--yes")
    assert refused.code == 1
    assert reason in refused.err
    assert not (terminal.paths.root / "skills").exists()


def named(name: str) -> str:
    return SKILL.replace("name: mail", f"name: {name}")


ARCHIVES: Mapping[str, tuple[bytes, str]] = {
    "up": (packed({"SKILL.md": SKILL, "../x.md": "x"}), "'../x.md' leads out of the folder."),
    "deep up": (packed({"SKILL.md": SKILL, "a/../../x": "x"}), "leads out of the folder."),
    "absolute": (packed({"SKILL.md": SKILL, "/etc/x": "x"}), "'/etc/x' leads out of the folder."),
    "backslash": (packed({"SKILL.md": SKILL, "a\\..\\x": "x"}), "not every disk can store"),
    "drive": (packed({"SKILL.md": SKILL, "C:/x": "x"}), "not every disk can store"),
    "escape": (packed({"SKILL.md": SKILL, "a\x1b[2J": "x"}), "not every disk can store"),
    "case": (packed({"SKILL.md": SKILL, "a.md": "x", "A.md": "y"}), "a.md and A.md are the same"),
    "unicode": (packed({"SKILL.md": SKILL, "\xe9": "x", "e\u0301": "y"}), "are the same name"),
    "file and folder": (packed({"SKILL.md": SKILL, "a": "x", "A/b": "y"}), "a and A/ are the same"),
    "twice": (twice(), "stands in it twice"),
    "link": (packed({"SKILL.md": SKILL}, {"x.md": "/etc/passwd"}), "x.md is a link"),
    "linked skill": (packed({}, {"SKILL.md": "/etc/passwd"}), "SKILL.md is a link"),
    "bomb": (packed({"SKILL.md": SKILL, "big": b"\0" * 3_000_000}), "big is larger than 1 MB"),
    "bombs": (
        packed({"SKILL.md": SKILL, **{f"{n}": b"\0" * 900_000 for n in range(7)}}),
        "It is larger than 5 MB in all.",
    ),
    "misnamed": (packed({"SKILL.md": named("../evil")}), "name: takes letters, digits"),
    "device": (packed({"SKILL.md": named("a b")}), "name: takes letters, digits"),
    "no name": (packed({"SKILL.md": "---\ndescription: x\n---\nx"}), "name: takes letters"),
    "every command": (
        packed({"SKILL.md": SKILL.replace("---\nR", "allowed-tools: Bash\n---\nR")}),
        "`Bash` would allow every command",
    ),
    "unclear": (packed({"SKILL.md": "---\n{name: mail, hooks: {}}\n---\nx"}), "SKILL.md"),
    "bytes": (packed({"SKILL.md": b"\xff"}), "SKILL.md is not UTF-8 text."),
    "no archive": (b"PK\x03\x04 no archive", "This is no ZIP file"),
    "cut off": (packed({"SKILL.md": SKILL})[:-30], "This is no ZIP file"),
}


@pytest.mark.parametrize("case", ARCHIVES)
def test_a_hostile_archive_is_refused_and_leaves_nothing(
    terminal: Terminal, tmp_path: Path, case: str
) -> None:
    data, reason = ARCHIVES[case]
    (tmp_path / "x.zip").write_bytes(data)
    refused = terminal.run("skill", "add", str(tmp_path / "x.zip"), "--yes")
    assert refused.code == 1
    assert reason in refused.err
    assert not (terminal.paths.root / "skills").exists()
    assert not (tmp_path.parent / "x.md").exists()


@pytest.mark.real_process
def test_a_hostile_repository_runs_nothing_and_is_refused(
    terminal: Terminal, tmp_path: Path
) -> None:
    ran, source = tmp_path / "ran", tmp_path / "from"
    attributes = "* filter=evil export-subst\n"
    repository(source, {"SKILL.md": SKILL, ".gitattributes": attributes}, ("x.md", "/etc/passwd"))
    git(source, "config", "filter.evil.smudge", f"touch {ran}")
    for hook in ("post-checkout", "post-merge", "reference-transaction"):
        path = source / ".git" / "hooks" / hook
        path.write_text(f"#!/bin/sh\ntouch {ran}\n")
        path.chmod(0o755)
    refused = terminal.run("skill", "add", f"file://{source}", "--yes")
    assert "x.md is a link or a special file" in refused.err
    assert (
        "There is no commit abcdef1" in terminal.run("skill", "add", f"file://{source}@abcdef1").err
    )
    assert "git could not fetch" in terminal.run("skill", "add", f"file://{tmp_path}/gone").err
    assert not ran.exists()
    assert not (terminal.paths.root / "skills").exists()
