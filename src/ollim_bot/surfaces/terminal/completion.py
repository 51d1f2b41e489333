"""`ollim-bot completion`: scripts for shells, and the words with which they complete a line.

A script asks the program at each Tab, so a new verb is completed without a new script.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from ollim_bot.kernel.base.environment import program_path
from ollim_bot.kernel.base.errors import OllimError, WrongInput
from ollim_bot.kernel.base.text import PROGRAM
from ollim_bot.surfaces.terminal.completions import Completion, CompletionAsked, WordAtCursor
from ollim_bot.surfaces.terminal.framework import Noun, plain
from ollim_bot.surfaces.terminal.printing import own_name, show

if TYPE_CHECKING:
    from ollim_bot.surfaces.terminal.caller import Caller
    from ollim_bot.surfaces.terminal.framework import Given

# No script evaluates what it reads: the lines are data in all of them.
_BASH = """\
_ollim_bot() {
    local kind word
    COMPREPLY=()
    {
        IFS= read -r kind
        while IFS= read -r word; do COMPREPLY+=("$word"); done
    } < <(PROGRAM completion ask bash "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null)
    if [[ $kind == files ]]; then compopt -o default 2>/dev/null; fi
}
complete -F _ollim_bot ollim-bot
"""
_ZSH = """\
#compdef ollim-bot
_ollim_bot() {
    local kind word about
    local -a found shown
    {
        IFS= read -r kind
        while IFS=$'\\t' read -r word about; do
            found+=("$word")
            shown+=("$word${about:+  ($about)}")
        done
    } < <(PROGRAM completion ask zsh "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)
    if [[ $kind == files ]]; then _files; fi
    if (( $#found )); then compadd -l -d shown -a found; fi
}
if [[ $funcstack[1] == _ollim_bot ]]; then
    _ollim_bot "$@"
else
    (( $+functions[compdef] )) || { autoload -U compinit && compinit; }
    compdef _ollim_bot ollim-bot
fi
"""
_FISH = """\
function __ollim_bot_complete
    set -l words (commandline -opc)
    set -e words[1]
    set -l current (commandline -ct)
    set -l answer (PROGRAM completion ask fish $words "$current" 2>/dev/null)
    if test "$answer[1]" = files
        __fish_complete_path "$current"
    end
    set -e answer[1]
    string join -- \\n $answer
end
complete -c ollim-bot -f -a '(__ollim_bot_complete)'
"""
_LINES = {
    "bash": ("~/.bashrc", 'eval "$({} completion bash)"'),
    "zsh": ("~/.zshrc", 'eval "$({} completion zsh)"'),
    "fish": ("~/.config/fish/config.fish", "{} completion fish | source"),
}

_COMPLETION = Noun("completion")


def run(words: Sequence[str], caller: Caller) -> None:
    if words:
        _COMPLETION.run(words, caller)
        return
    shell = os.path.basename(caller.environ.get("SHELL", ""))
    if shell not in _LINES:
        raise WrongInput("Say for which shell: ollim-bot completion bash, zsh or fish.")
    file, line = _LINES[shell]
    show(f"Put this line at the end of {file}, and open a new terminal:\n{line.format(_name())}")


def answer(
    shell: str, line: Sequence[str], commands: Mapping[str, tuple[str, str]], caller: Caller
) -> Iterator[str]:
    """The lines that a script reads: `files` or `words`, then what can stand at the cursor.

    `commands` has the description of each command and its module. The agent gets no words.
    """
    words = [*line] or [""]
    if shell == "bash":
        words = _words_of(line[0])
    while words[0] == "help" and len(words) > 1:
        del words[0]
    asked = (
        None if caller.agent else _asked([*words[:-1], WordAtCursor(words[-1])], commands, caller)
    )
    if asked is None:
        return
    yield "files" if asked.takes_files else "words"
    for word, about in asked.find(caller):
        if word.startswith(words[-1]) and word.isprintable():
            if shell == "bash":
                yield escaped(word.removeprefix(_kept(words[-1], line[1])))
            else:
                yield f"{word}\t{' '.join(plain(about).split())}"


def _asked(
    words: list[str], commands: Mapping[str, tuple[str, str]], caller: Caller
) -> CompletionAsked | None:
    """What the command asks for the last word; None if the words before it are wrong."""
    command, *rest = words
    if not rest:
        names = [Completion(name, about) for name, (about, _) in commands.items()]
        return CompletionAsked(lambda _: names)
    module = commands.get(command, ("", ""))[1]
    try:
        if module:
            import_module(module).run(rest, caller)
    except CompletionAsked as asked:
        return asked
    except OllimError:
        return None
    return None


def _words_of(line: str) -> list[str]:
    """The words of an unfinished command behind its name, without quotes."""
    for end in ("", '"', "'"):
        try:
            # With an `x`, an empty last word counts, and a last backslash escapes nothing else.
            *words, last = shlex.split(f"{line}x{end}")[1:]
        except ValueError:
            continue
        return [*words, last[:-1]]
    return [""]


def _kept(word: str, replaced: str) -> str:
    """The beginning of the word that bash does not replace: it breaks words at `=` and `:`."""
    return word.removesuffix(replaced) if word.endswith(replaced) else ""


def escaped(word: str) -> str:
    """The word as bash reads it back, in the form that can be continued at its end."""
    return re.sub(r"([^\w@%+=:,./-])", r"\\\1", word)


def _name() -> str:
    """How this program is called from any folder, for a shell."""
    name = own_name()
    return name if name == PROGRAM else shlex.quote(os.path.abspath(name))


@_COMPLETION.verb("the script for bash", "")
def _bash(_: Given, __: Caller) -> None:
    _write(_BASH)


@_COMPLETION.verb("the script for zsh", "")
def _zsh(_: Given, __: Caller) -> None:
    _write(_ZSH)


@_COMPLETION.verb("the script for fish", "")
def _fish(_: Given, __: Caller) -> None:
    _write(_FISH)


def _write(script: str) -> None:
    name = own_name()
    found = program_path(PROGRAM, os.environ.get("PATH", "")) if name == PROGRAM else name
    program = shlex.quote(os.path.abspath(found)) if found else PROGRAM
    print(script.replace("PROGRAM", program), end="")
