"""Reads from a message what the owner wants of a reminder or routine that is there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache

from ollim_bot.kernel.base.errors import BadPhrase
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.text import nearest
from ollim_bot.kernel.values.answers import meaning_of
from ollim_bot.kernel.values.phrases.durations import is_duration, parse_duration
from ollim_bot.kernel.values.phrases.moment import parse_day, parse_moment
from ollim_bot.kernel.values.wishes import is_dose
from ollim_bot.offline import texts, vocabulary
from ollim_bot.offline.actions import ListedJob, choices_of, matching, settle
from ollim_bot.offline.server import FollowUp, Part, Say
from ollim_bot.offline.situation import ParsedPrompt, Situation, time_question
from ollim_bot.offline.vocabulary import POLITELY, AddTask, AmbiguousIntent, Change, SettleTask

_KIND = r"(?P<kind>reminder|routine)"
_ID = r"(?P<subject>[0-9a-f]{8})"
_THE = r"(?:the |my |that )"
_NAMED = (
    _ID,
    rf"{_THE}?{_KIND}(?P<subject>)",
    rf"{_THE}?{_KIND} (?:with (?:the )?id )?{_ID}",
    rf"{_THE}?{_KIND} (?:about|to|for|of|that) (?P<subject>.+?)",
    rf"{_THE}?(?P<subject>.+?) {_KIND}",
    rf"{_THE}?(?P<subject>\S+(?: \S+){{0,2}}?) (?P<thing>thing|one|stuff)",
)
_BY_WORDS = (rf"{_THE}?(?P<subject>\S+(?: \S+){{0,2}}?)(?P<thing> (?:thing|one|stuff))?",)
_CANCEL = r"cancel|delete|remove|scrap|ditch|get rid of|call off"
_NO_NEED = r"(?:i )?(?:do not|don['’]?t|no longer) (?:need|want)"
_MOVE = r"(?:push|move|change|reschedule|delay|shift|snooze|postpone|bump|put off)"
_UNTIL = r"(?: back)? (?P<how>by|for|to|until|till) (?P<until>.+)"
# The verb of the command line, what people say for it with {} for the job, and how they name the
# job: only after plain verbs may its kind be left out.
_CHANGES = tuple(
    (verb, rf"{POLITELY}?(?:{form.replace('{}', named)})")
    for verb, form, names in (
        ("cancel", rf"(?:{_CANCEL}|drop|forget(?: about)?|bin|lose|clear|take back) {{}}", _NAMED),
        ("cancel", rf"{_NO_NEED} {{}}(?: any ?more| any longer| now)?", _NAMED),
        ("pause", r"(?:pause|stop|disable|(?:turn|switch) off) {}(?: for now)?", _NAMED),
        ("pause", r"(?:turn|switch) {} off(?: for now)?", _NAMED),
        ("resume", r"(?:resume|unpause|enable|start|(?:turn|switch) on) {}(?: again)?", _NAMED),
        ("resume", r"(?:turn|switch) {}(?: back)? on(?: again)?", _NAMED),
        ("snooze", rf"{_MOVE} {{}}{_UNTIL}", _NAMED),
        ("move", rf"{_MOVE} {{}} (?P<until>(?:\d|half |an? ).+)", _NAMED),
        ("move", r"put {} (?:off|back) (?:to|until|till) (?P<until>.+)", (*_NAMED, *_BY_WORDS)),
        ("snooze", r"(?:snooze|postpone) {}", _NAMED),
        ("move", r"(?:make|have) {}(?: for| at)? (?P<until>.+)", _NAMED),
        ("cancel", rf"(?:{_CANCEL}|forget about) {{}}", _BY_WORDS),
        ("pause", r"pause {}(?: for now)?", _BY_WORDS),
        ("resume", r"(?:resume|unpause) {}", _BY_WORDS),
        ("resume", r"(?:re)?start {} again", _BY_WORDS),
        ("snooze", rf"(?:snooze|postpone) {{}}{_UNTIL}", _BY_WORDS),
        ("snooze", r"(?:snooze|postpone) {}", _BY_WORDS),
        ("move", rf"{_MOVE} {{}}{_UNTIL}", _BY_WORDS),
        ("move", rf"{_MOVE} {{}} back (?P<until>.+)", (*_NAMED, *_BY_WORDS)),
        ("pause", r"(?:stop|(?:turn|switch) off) (?:my )?(?P<subject>\w+)", ("",)),
        (
            "stop",
            r"(?:stop|quit) (?:reminding|nagging|bugging|telling) me (?:about|to|of) {}",
            _BY_WORDS,
        ),
        ("pause for", r"pause {} (?:for|until|till) (?!now).+", (*_NAMED, *_BY_WORDS)),
        ("move", r"{} (?P<until>(?:at|on|in|tomorrow|today|tonight)\b.*) instead", _BY_WORDS),
        (
            "skip",
            r"skip {} (?:today|tomorrow|tonight|this time|once|next time)",
            (*_NAMED, *_BY_WORDS),
        ),
        ("move", r"(?:snooze|postpone|push|delay) {} (?P<until>(?:\d|half |an? ).+)", _BY_WORDS),
        ("change", r"change {}", (_ID,)),
    )
    for named in names
)
_CHANGE_REQUEST = re.compile(
    rf"{POLITELY}?(?:cancel|delete|remove|drop|pause|snooze|resume)\b.*\b(?:reminder|routine)s?\b.*",
    re.IGNORECASE,
)
_POINTERS = re.compile(r"(?:it|this|that|me|us|you|something|anything)(?: one)?", re.IGNORECASE)
_SEVERAL = re.compile(
    r"\b(?:and|or|all|both|every|each|any|everything|but|reminders?|routines?)\b|[,;&+.]",
    re.IGNORECASE,
)
_VERBS = (
    *("cancel", "delete", "remove", "scrap", "ditch", "snooze", "postpone", "pause", "resume"),
    *("unpause", "reschedule", "delay", "shift"),
)


# When first asked for: a hundred of them would take a twentieth of a second of each start.
@cache
def _pattern(form: str) -> re.Pattern[str]:
    return re.compile(form, re.IGNORECASE)


def change_intent(text: str, now: datetime) -> Change | AmbiguousIntent | None:
    """None if the text does not change a job that is there."""
    doubt = None
    for verb, form in _CHANGES:
        if found := _pattern(form).fullmatch(text):
            change = _checked_change(verb, found.groupdict(), now)
            if isinstance(change, Change):
                return change
            doubt = doubt or change
    if doubt or _CHANGE_REQUEST.fullmatch(text):
        return doubt or AmbiguousIntent(texts.ONE_AT_A_TIME)
    # `cancle the dentist thing`
    first, _, rest = text.partition(" ")
    meant = None if first.lower() in _VERBS else nearest(first.lower(), _VERBS, 1)
    change = change_intent(f"{meant} {rest}", now) if meant else None
    return change if isinstance(change, Change) else None


def _checked_change(
    verb: str, said: Mapping[str, str | None], now: datetime
) -> Change | AmbiguousIntent | None:
    subject, kind = (said["subject"] or "").strip(), said.get("kind")
    if _SEVERAL.search(subject) or vocabulary.is_more_than_one(subject):
        return AmbiguousIntent(texts.ONE_AT_A_TIME)
    if vocabulary.is_negated(subject):
        return AmbiguousIntent(texts.WHICH_ONE)
    is_event = vocabulary.names_event(subject) and not said.get("thing") and verb != "move"
    if kind is None and (_POINTERS.fullmatch(subject) or is_event):
        return None
    until = said.get("until") or ""
    if verb == "skip":
        return AmbiguousIntent(texts.no_single_skip(subject))
    if verb in ("stop", "pause for"):
        return Change("stop", None, subject)
    if verb == "pause" and re.search(r" (?:for|until|till) ", subject, re.IGNORECASE):
        return None
    if verb == "move" and not vocabulary.tells_time(until.split()):
        return None
    if verb in ("snooze", "move"):
        return _snooze(kind or "", subject, said.get("how") or "", until, now)
    return Change(verb, JobKind(kind.lower()) if kind else None, subject)


def _snooze(
    kind: str, subject: str, how: str, until: str, now: datetime
) -> Change | AmbiguousIntent:
    form = (
        f"snooze the reminder about {subject} until {{}}" if subject else "snooze the reminder {}"
    )
    if not until:
        is_id = re.fullmatch(_ID, subject) is not None
        asked = texts.UNTIL_WHEN if is_id else texts.until_when(subject or "the reminder")
        return AmbiguousIntent(asked, time_question(form))
    if kind.lower() == JobKind.ROUTINE:
        return Change("snooze", JobKind.ROUTINE, subject, ("--until", until))
    until, is_later = re.subn(r"(?<=\S) later$", "", until, flags=re.IGNORECASE)
    is_length = is_later or how.lower() in ("by", "for") or (not how and is_duration(until))
    try:
        _ = parse_duration(until) if is_length else parse_moment(until, now)
    except BadPhrase as refused:
        readings = () if is_length else refused.readings
        question = time_question(form, readings, until, now)
        return AmbiguousIntent(texts.unclear_moment(str(refused)), question)
    return Change("snooze", JobKind.REMINDER, subject, ("--for" if is_length else "--until", until))


_LIST = (
    r"(?:my |the )?(?:(?:(?:task|to-?do|to do|(?P<name>(?!task\b|to-?do\b)[\w-]+)) )?list"
    r"(?: of (?:tasks|things)(?: to do)?)?|tasks?|to-?dos?|to do)"
)
_MADE = r"(?:(?:add|make|create|write down|note(?: down)?|i need|i have) )?"
_TASK = rf"{_MADE}(?:an? |another )?(?:new )?(?:task|to-?do)(?: for me)?"
_THE_TASK = r"(?:the |my )?"
_ABOUT = r"(?:to |about |of )?(?P<subject>.+)"
_ADDING = tuple(
    re.compile(rf"{POLITELY}?(?:{form})", re.IGNORECASE)
    for form in (
        rf"{_TASK}(?:: ?| to | for | that i (?:have|need) to )(?P<task>.+)",
        r"(?:(?:add|new|make|create|note) )+(?:an? )?(?:new )?(?:task|to-?do) (?P<task>\S.+)",
        rf"(?:add|put|write|note) (?P<task>.+?) (?:to|on|onto|in) {_LIST}(?P<more>(?:[ ,].*)?)",
        r"(?:add|note) (?P<task>.+?) as a(?: new)? task(?P<more>(?:[ ,].*)?)",
        rf"{_TASK}(?P<task>)",
    )
)
_SETTLING = tuple(
    (verb, re.compile(rf"{POLITELY}?(?:{form})", re.IGNORECASE))
    for verb, form in (
        ("done", rf"(?:tick|check|cross) off {_THE_TASK}(?:task )?(?P<subject>.+?)(?: task)?"),
        ("done", rf"(?:tick|check|cross) {_THE_TASK}(?P<subject>.+?)(?: task)? off"),
        ("done", rf"mark {_THE_TASK}(?P<subject>.+?)(?: task)? (?:as )?(?:done|finished)"),
        ("done", rf"(?:complete|finish) {_THE_TASK}task {_ABOUT}"),
        ("done", rf"(?:complete|finish) {_THE_TASK}(?P<subject>.+?) task"),
        ("done", rf"(?:i am |i['’]?m )?done with {_THE_TASK}(?:task )?(?P<subject>.+?)(?: task)?"),
        ("done", rf"i(?:['’]ve| have)? (?:just )?finished {_THE_TASK}(?P<subject>.+?) task"),
        ("delete", rf"(?:delete|remove|drop|forget) {_THE_TASK}task {_ABOUT}"),
        ("delete", rf"(?:delete|remove|drop|forget) {_THE_TASK}(?P<subject>.+?) task"),
        ("delete", rf"(?:delete|remove|take) {_THE_TASK}(?P<subject>.+?) (?:from|off) {_LIST}"),
    )
)
_DUE = re.compile(r"(?P<task>.+?),? \(?(?P<how>due|by)(?: on)? (?P<day>[^()]+?)\)?", re.IGNORECASE)
_DAY_BEHIND = re.compile(r"(?P<task>.+?),? (?P<day>today|tomorrow)", re.IGNORECASE)
_TASK_POINTERS = re.compile(r"it|this|that|them|these|those|everything|all", re.IGNORECASE)


def task_intent(text: str, now: datetime) -> AddTask | SettleTask | AmbiguousIntent | None:
    """None if the text is not about a task."""
    for form in _ADDING:
        if found := form.fullmatch(text):
            parts = found.groupdict()
            return _adding(f"{found['task']}{parts.get('more') or ''}".strip(), now, parts)
    for verb, form in _SETTLING:
        if found := form.fullmatch(text):
            is_pointer = _TASK_POINTERS.fullmatch(found["subject"])
            return None if is_pointer else SettleTask(verb, found["subject"])
    return None


def _adding(
    words: str, now: datetime, parts: Mapping[str, str | None]
) -> AddTask | AmbiguousIntent:
    task, due = words, ""
    if found := _DUE.fullmatch(words) or _DAY_BEHIND.fullmatch(words):
        try:
            parse_day(found["day"], now.date())
            task, due = found["task"], found["day"]
        except BadPhrase as refused:
            if found.groupdict().get("how", "").lower() == "due":
                return AmbiguousIntent(texts.unclear_moment(str(refused)))
    if not task or _TASK_POINTERS.fullmatch(task) or vocabulary.names_no_task(task):
        return AmbiguousIntent(texts.SAY_WHICH_TASK, FollowUp(blank="add a task: {}"))
    if vocabulary.is_order_beside(task):
        return AmbiguousIntent(texts.ONE_AT_A_TIME)
    return AddTask(task, due, parts.get("name") or "")


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
_TAKEN = re.compile(rf"{_I_HAVE}(?:took|taken|had|swallowed)\b", re.IGNORECASE)
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
        return _how_long(one[0]) if len(one) == 1 else _which(one, "later", situation)
    meant = None if prompt.points_elsewhere else meaning_of(text, now)
    if meant is not None and items:
        doses = [each for each in items if is_dose(each.title)] if _TAKEN.match(text) else []
        one = newest or (doses if len(doses) == 1 else [])
        return (
            settle(one[0].id, meant, situation) if one else _which(doses or items, text, situation)
        )
    if newest and _UNSURE.fullmatch(text):
        choices = tuple((each, f"answer {newest[0].id}: {each}") for each in ("Done", "Later"))
        return Say(texts.what_of(newest[0].title), FollowUp(choices))
    if newest and vocabulary.tells_time(text.split()):
        # Ask about a time that puts off the newest card and can be read in two ways.
        item = newest[0]
        try:
            parse_moment(text, now)
        except BadPhrase as refused:
            question = time_question(f"answer {item.id}: {{}}", refused.readings, text, now)
            return Say(f"“{item.title}”: {texts.unclear_moment(str(refused))}", question)
        return None
    return _named(situation, items, text, now)


def _named(situation: Situation, items: list[ListedJob], text: str, now: datetime) -> Part | None:
    """Answer the open item whose words are said."""
    for meant, form in _SAID_OF:
        found = form.fullmatch(_BEHIND.sub("", text))
        about = matching(items, found["subject"]) if found and found["subject"] else ()
        words = meant or (found["until"] if found else "")
        said = meaning_of(words, now) if about else None
        if said is not None:
            one = len(about) == 1
            return (
                settle(about[0].id, said, situation) if one else _which([*about], words, situation)
            )
    return None


def finished_task(text: str) -> SettleTask | None:
    """The task that the words may say is done; None if they tell of nothing that was done."""
    found = _FINISHED.fullmatch(_BEHIND.sub("", text.strip(" .!")))
    return SettleTask("done", found["subject"], is_sure=False) if found else None


def _open_items(situation: Situation) -> list[ListedJob]:
    return [
        ListedJob(each.key, each.due, each.title.rstrip("."))
        for each in situation.prompt.open_items
    ]


def _which(items: list[ListedJob], words: str, situation: Situation) -> Say:
    """Ask which of the open items is meant."""
    choices = choices_of(items, f"answer {{}}: {words}", situation)
    return Say(texts.which_item([label for label, _ in choices], words), FollowUp(choices))


def _how_long(item: ListedJob) -> Say:
    choices = tuple((each, f"answer {item.id}: {each}") for each in _WAITS)
    return Say(texts.how_long(item.title), FollowUp(choices, (f"answer {item.id}: {{}}",)))
