"""What the owner says of a due item that is open, or of what was just done, in words."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from ollim_bot.domain.item_replies import meaning_of
from ollim_bot.domain.phrases import parse_moment
from ollim_bot.errors import BadPhrase
from ollim_bot.offline import texts, vocabulary
from ollim_bot.offline.actions import ListedJob, matching, settle
from ollim_bot.offline.dialogue import time_question
from ollim_bot.offline.messages import FollowUp, Part, Say
from ollim_bot.offline.situation import ParsedPrompt, Situation
from ollim_bot.offline.vocabulary import SettleTask

_FIRST = r"(?:(?:ok|no|oh|oops|please|actually|wait|sorry|h+m+)[ ,]+)*"
_IT = re.compile(
    rf"{_FIRST}(?P<verb>cancel|delete|remove|drop|forget|skip|pause"
    r"|push|move|postpone|snooze|delay|change|shift|reschedule|make)"
    r" (?:it|that|this)(?: one)?(?: back)?(?: (?:to|until|till|for|by))?(?P<until>(?: \S+)*)",
    re.IGNORECASE,
)
_UNDO = re.compile(
    rf"{_FIRST}(?:undo(?: (?:it|that|this))?|take (?:it|that) back|i did not mean that)",
    re.IGNORECASE,
)
_ENDING = frozenset(("cancel", "delete", "remove", "drop", "forget", "skip", "pause"))
_PAST = (
    r"(?:took|taken|did|done|had|ate|drunk|drank|made|paid|fed|sent|bought|got|went|read|wrote|told"
    r"|swept|put|hung|brought|gave|met|ran|cut|\w+ed)"
)
_NOT_DONE = r"(?!\w*(?:forgot|missed|need|want|hat|stopp|skipp|cancell|postpon|delay|lost|tri))"
_JUST = r"(?:['’]?ve| have)? (?:just |already )?"
_I_HAVE = rf"(?:i{_JUST}|just |already )?"
_LATER = r"(?:snooze|postpone|push|move|delay|shift) (?P<subject>.+?)(?: back)?"
_SAID_OF = tuple(
    (meant, re.compile(form, re.IGNORECASE))
    for meant, form in (
        ("done", rf"{_I_HAVE}{_NOT_DONE}{_PAST} (?P<subject>.+)"),
        ("done", r"(?:the |my )?(?P<subject>.+?) (?:is |are |has been )?(?:done|taken|finished)"),
        ("skip", rf"{_I_HAVE}(?:skip(?:ped)?|let go of|leave out) (?P<subject>.+)"),
        ("", rf"{_LATER} (?:to|until|till|for|by|in) (?P<until>.+)"),
    )
)
_FINISHED = re.compile(
    rf"(?:i{_JUST}{_NOT_DONE}{_PAST}|finished)"
    r" (?!.*\b(?:it|that|this|them|so|you|me)\b)(?P<subject>\S+(?: \S+){0,5})",
    re.IGNORECASE,
)
_BEHIND = re.compile(r"(?: (?:already|now|just now|today|this morning|a minute ago))+$", re.I)
_UNSURE = re.compile(r"yes|yep|yeah|ok|okay|no|nope|not yet|soon|wait", re.IGNORECASE)
_SNOOZE = re.compile(r"snooze(?: (?:it|that|this))?", re.IGNORECASE)
_WAITS = ("in 10 minutes", "in 1 hour", "tomorrow 9am")
# Without a clock no time is read.
_ANY_MOMENT = datetime(2000, 1, 1)


def about_it(prompt: ParsedPrompt, before: FollowUp) -> str:
    """The words with what `it` and `undo` stand for: the newest card, or what was just done."""
    text = prompt.text.strip(" .!")
    if _UNDO.fullmatch(text):
        return before.undo or "undo"
    found = _IT.fullmatch(text)
    if found is None or prompt.points_elsewhere:
        return prompt.text
    is_end, until = found["verb"].lower() in _ENDING, found["until"].strip()
    if prompt.newest_item and (is_end or until):
        return f"answer {prompt.newest_item}: {'let it go' if is_end else until}"
    if not before.about or bool(until) == is_end:
        return prompt.text
    if is_end:
        return f"{found['verb']} {before.about}"
    keeps_day = before.moves and not vocabulary.names_day(until)
    form = before.moves[0] if keeps_day else f"snooze {before.about} until {{}}"
    return form.replace("{}", until)


def settled_by_words(situation: Situation) -> Part | None:
    """Answer an open item, if the words do; None if they do not.

    Words that name none are for the newest thing said. Where that is not a card, they are asked
    about.
    """
    prompt, items = situation.prompt, _open_items(situation)
    text = prompt.text.strip(" .!")
    now = (prompt.moment or _ANY_MOMENT).replace(tzinfo=UTC)
    quoted = [each for each in items if prompt.aside and each.title in prompt.aside]
    newest = [each for each in items if each.id == prompt.newest_item and not prompt.aside]
    if _SNOOZE.fullmatch(text) and items:
        one = quoted or newest or items
        return _how_long(one[0]) if len(one) == 1 else _which(one, "later")
    meant = None if prompt.points_elsewhere else meaning_of(text, now)
    if meant is not None and items:
        return settle(newest[0].id, meant, situation) if newest else _which(items, text)
    if newest and _UNSURE.fullmatch(text):
        choices = tuple((each, f"answer {newest[0].id}: {each}") for each in ("Done", "Later"))
        return Say(texts.what_of(newest[0].title), FollowUp(choices))
    if newest and vocabulary.tells_time(text.split()):
        return _unclear_time(newest[0], text, now)
    return _named(situation, items, text, now)


def _unclear_time(item: ListedJob, text: str, now: datetime) -> Say | None:
    """Ask about a time that puts off the newest card and can be read in two ways."""
    try:
        parse_moment(text, now)
    except BadPhrase as refused:
        question = time_question(f"answer {item.id}: {{}}", refused.readings, text, now)
        return Say(f"“{item.title}”: {texts.unclear_moment(str(refused))}", question)
    return None


def _named(situation: Situation, items: list[ListedJob], text: str, now: datetime) -> Part | None:
    """Answer the open item whose words are said."""
    for meant, form in _SAID_OF:
        found = form.fullmatch(_BEHIND.sub("", text))
        about = matching(items, found["subject"]) if found and found["subject"] else ()
        words = meant or (found["until"] if found else "")
        said = meaning_of(words, now) if about else None
        if said is not None:
            one = len(about) == 1
            return settle(about[0].id, said, situation) if one else _which([*about], words)
    return None


def finished_task(text: str) -> SettleTask | None:
    """The task that the words may say is done; None if they tell of nothing that was done."""
    found = _FINISHED.fullmatch(_BEHIND.sub("", text.strip(" .!")))
    return SettleTask("done", found["subject"], is_sure=False) if found else None


def _open_items(situation: Situation) -> list[ListedJob]:
    return [ListedJob(key, "", title.rstrip(".")) for title, key in situation.prompt.open_items]


def _which(items: list[ListedJob], words: str) -> Say:
    """Ask which of the open items is meant."""
    choices = tuple((each.title, f"answer {each.id}: {words}") for each in items)
    return Say(texts.which_item([each.title for each in items], words), FollowUp(choices))


def _how_long(item: ListedJob) -> Say:
    choices = tuple((each, f"answer {item.id}: {each}") for each in _WAITS)
    return Say(texts.how_long(item.title), FollowUp(choices, (f"answer {item.id}: {{}}",)))
