"""Long answers of a model, and the words and code that are visible in messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_FENCE = "```"

Token = tuple[str, str | None]


def long_answer(longest: int = 15_000) -> str:
    """Chapters with prose, nested lists, tables and code, some of it longer than a message.

    All sentences, rows and lines differ, so that a lost or repeated one is noticed.
    """
    chapters: list[str] = []
    while sum(len(each) + 2 for each in chapters) < longest:
        chapters.append(_chapter(len(chapters) + 1))
    return "\n\n".join(chapters)[:longest].rpartition("\n\n")[0]


def sentences(number: int, about: str) -> str:
    """So many different sentences, without a line break."""
    return " ".join(f"Sentence {each} about {about} ends here." for each in range(1, number + 1))


def tokens(texts: Sequence[str]) -> list[Token]:
    """Each word of prose, and each line of code with its language.

    Lines that open or close a fence are left out, and white space counts in code only.
    """
    return [token for text in texts for token in _tokens(text)]


def is_balanced(text: str) -> bool:
    """Whether the text closes every fence that it opens."""
    return text.count(_FENCE) % 2 == 0


def _tokens(text: str) -> Iterator[Token]:
    language: str | None = None
    for line in text.split("\n"):
        if line.lstrip().startswith(_FENCE):
            language = line.strip().removeprefix(_FENCE) if language is None else None
        elif language is not None:
            yield line, language
        else:
            yield from ((word, None) for word in line.split())


def _chapter(number: int) -> str:
    return "\n\n".join(
        [
            f"## Chapter {number}",
            sentences(3 + number % 4, f"tea {number}"),
            _steps(number),
            sentences(20 if number % 3 == 0 else 4, f"water {number}"),
            _table(number),
            f"{_FENCE}python\n{_code(number, 12 if number % 2 else 40)}\n{_FENCE}",
            f"And a word after the code of chapter {number}.",
        ]
    )


def _steps(number: int) -> str:
    return "\n".join(
        line
        for step in range(1, 5)
        for line in (
            f"{step}. Step {number}.{step}: warm the pot",
            f"   - with water that has boiled ({number}.{step}.a)",
            f"     - and wait a minute ({number}.{step}.b)",
        )
    )


def _table(number: int) -> str:
    rows = [f"| {number}.{row} | {row * 7 % 5 + 1} min | {70 + row} °C |" for row in range(1, 9)]
    return "\n".join(["| tea | time | heat |", "| --- | --- | --- |", *rows])


def _code(number: int, lines: int) -> str:
    body = [
        f"    if kettle == {line}:\n\n        pour_{number}(cup={line})" for line in range(lines)
    ]
    return "\n".join([f"def brew_{number}(kettle: int) -> None:", *body])
