"""What a view of the page answers to a press or to a line that is being typed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ViewAnswer:
    """What an action did, in a sentence.

    `field` names the field that is wrong, and `go` is the address of the view to show next.
    """

    text: str = ""
    is_error: bool = False
    field: str = ""
    go: str = ""


@dataclass(frozen=True, slots=True)
class OtherReading:
    """Another way to read what is typed; `value` goes into the field `reading` when pressed."""

    label: str
    value: str


@dataclass(frozen=True, slots=True)
class Preview:
    """What typed fields would do, in sentences, before anything is done."""

    sentences: tuple[str, ...] = ()
    readings: tuple[OtherReading, ...] = ()
    is_error: bool = False
