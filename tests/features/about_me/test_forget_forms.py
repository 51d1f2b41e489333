"""One run of `ollim-bot forget --everywhere` leaves no byte of the words in the data directory."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from unicodedata import normalize

import pytest
from tests.features.about_me.test_forgotten_forms import FORMS
from tests.terminal import SUNDAY, Terminal

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.text import slug
from ollim_bot.kernel.store.copies import copies_of, copy_database
from ollim_bot.kernel.store.questions import DATABASE
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.chat import Author, ChatMessage

pytestmark = pytest.mark.real_process

OTHER = "The ferns need water"
NOW = SUNDAY.replace(second=7, microsecond=330_745)
# Each with the word that may be nowhere afterwards.
SENTENCES = {
    'Quokkafeld sagt "Zwetschgenkönigin" heimlich Sauerampfer': "zwetschgenkönigin",
    "昨日から胃潰瘍で通院しています": "胃潰瘍で通院",
    "🦘 Ella's «Crème-brûlée» \\ is 👨‍👩‍👧 secret": "brûlée",
    "İpek'in ağrısı ŞUBATTA geçti": "ağrısı",
}


def plant(terminal: Terminal, sentence: str) -> None:
    """Put the sentence into every place, in every form."""
    terminal.done("reminder", "add", "-m", sentence, "--in", "2h", "--id", "old")
    terminal.done("routine", "add", "-m", OTHER, "--cron", "0 9 * * *", "--description", sentence)
    terminal.done("tasks", "add", f"Tell the doctor: {sentence}")
    terminal.write("USER.md", f"{OTHER}.\n- {sentence.upper()}, she said.\nI like tea.\n")
    quoted = json.dumps(sentence)
    text = f'---\nid: yaml\ncron: "0 9 * * *"\ndescription: {quoted}\n---\n{OTHER}\n'
    terminal.write("routines/by-hand.md", text)
    for number, form in enumerate(FORMS.values()):
        terminal.write(f"notes/copies/{number}.txt", f"{OTHER}: {form(sentence)}\n")
    terminal.write(f"notes/{slug(sentence)}/{normalize('NFD', slug(sentence))}.md", f"{OTHER}.\n")
    terminal.write("state/undo/0a1b2c3d.json", json.dumps({"version": 1, "before": sentence}))
    (terminal.paths.root / f"{slug(sentence)}-link").symlink_to("USER.md")
    terminal.keep(lambda tx: plant_rows(tx, [form(sentence) for form in FORMS.values()]))
    copy_database(terminal.paths.state / DATABASE, NOW - timedelta(hours=2))
    plant_in_history(terminal, sentence)


def plant_rows(tx: Transaction, texts: list[str]) -> None:
    for number, text in enumerate(texts):
        tx.messages.add(ChatMessage(MessageId(f"m{number}"), NOW, Author.OWNER, text))
        tx.changes.remember(f"notes/{text}", text)


def plant_in_history(terminal: Terminal, sentence: str) -> None:
    terminal.git("config", "user.name", "Ada")
    terminal.git("config", "user.email", "ada@localhost")
    terminal.git("remote", "add", "elsewhere", str(terminal.home / "elsewhere.git"))
    terminal.git("add", "-A")
    terminal.git("commit", "-q", "-m", f"by hand: {sentence}")
    terminal.git("tag", "-a", "-m", sentence, f"tag-{slug(sentence)}")
    terminal.git("switch", "-q", "-c", slug(sentence))
    terminal.write("notes/gone.md", sentence)
    terminal.git("add", "-A")
    terminal.git("commit", "-q", "-m", "more")
    terminal.git("config", f"branch.{slug(sentence)}.description", sentence)
    terminal.git("gc", "-q")
    terminal.write("notes/gone.md", f"{sentence} in the stash")
    terminal.git("stash", "-q")
    hook = terminal.paths.root / ".git/hooks/pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n")


def spelled(word: str) -> list[bytes]:
    """Every form of the word in bytes."""
    cases = {word, word.upper(), word.capitalize()}
    texts = {form(case) for form in FORMS.values() for case in cases}
    texts |= {text.swapcase() for text in texts if "\\" in text or "%" in text}
    return [text.encode() for text in texts]


def contents(terminal: Terminal) -> Iterator[tuple[str, bytes]]:
    """Every name, every file and every object of git, as bytes."""
    for folder, folders, names in os.walk(terminal.home):
        for name in (*folders, *names):
            path = Path(folder, name)
            yield f"the name {path}", os.fsencode(name)
            if path.is_file() and not path.is_symlink():
                yield str(path), path.read_bytes()
    listed = subprocess.run(
        ["git", "cat-file", "--batch-all-objects", "--batch", "--unordered"],
        cwd=terminal.paths.root, capture_output=True, check=True,
    ).stdout  # fmt: skip
    yield "an object of git", listed


def places_with(terminal: Terminal, word: str) -> list[str]:
    forms = spelled(word)
    found = contents(terminal)
    return [place for place, content in found if any(form in content for form in forms)]


@pytest.mark.parametrize("sentence", SENTENCES)
def test_after_one_run_no_form_of_the_words_is_anywhere(terminal: Terminal, sentence: str) -> None:
    terminal.now = NOW
    terminal.make_directory()
    plant(terminal, sentence)
    word = SENTENCES[sentence]
    assert len(places_with(terminal, word)) > 20
    said = terminal.done("forget", "--everywhere", "--yes", sentence)
    assert "\nForgotten.\n" in said
    assert "the git remote “elsewhere”" in said
    assert places_with(terminal, word) == []
    assert len(copies_of(terminal.paths.state / DATABASE)) == 1


def test_the_history_begins_anew_with_what_is_there(terminal: Terminal) -> None:
    terminal.make_directory()
    sentence = next(iter(SENTENCES))
    plant(terminal, sentence)
    terminal.done("forget", "--everywhere", "--yes", sentence)
    assert terminal.git("log", "--all", "--format=%s") == ["begin the history anew"]
    assert terminal.git("status", "--porcelain") == []
    assert terminal.git("for-each-ref", "--format=%(refname)") == ["refs/heads/main"]
    assert terminal.git("stash", "list") == []
    assert terminal.git("fsck", "--full", "--no-dangling") == []
    assert terminal.git("config", "user.name") == ["Ada"]
    assert (terminal.paths.root / ".git/hooks/pre-push").exists()
    assert "USER.md" in terminal.git("ls-files")
    terminal.write("USER.md", "Ada\n")
    terminal.done("forget", "USER.md:1")
    assert terminal.git("log", "-1", "--format=%s") == ["forget: USER.md"]
