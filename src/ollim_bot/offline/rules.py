"""The built-in model: answers requests by rules."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from ollim_bot.kernel.base.errors import BadPhrase
from ollim_bot.kernel.base.moments import later, zone_at
from ollim_bot.kernel.base.text import PROGRAM, shortened, with_program
from ollim_bot.kernel.values.phrases.durations import parse_duration
from ollim_bot.kernel.values.phrases.moment import parse_moment
from ollim_bot.kernel.values.quiet import QUIET
from ollim_bot.offline import texts
from ollim_bot.offline.actions import (
    ask_about_job,
    next_step,
    show_reminders,
    show_routines,
    show_tasks,
    show_when,
)
from ollim_bot.offline.change_intents import about_it, finished_task, settled_by_words
from ollim_bot.offline.intents import guessed_intent, moment_in, schedule_intent
from ollim_bot.offline.phrasings import (
    COURTESIES,
    Intent,
    intents_in,
    show_next_week,
    show_today,
    show_tomorrow,
    show_upcoming,
    show_week,
)
from ollim_bot.offline.server import CallTool, FollowUp, ModelRequest, Part, Reply, Say
from ollim_bot.offline.situation import (
    SHELL,
    ParsedPrompt,
    Situation,
    Unanswered,
    answered,
    said_by_owner,
    situations_of,
)
from ollim_bot.offline.vocabulary import (
    AmbiguousIntent,
    Remind,
    RoutineWish,
    is_negated,
    names_time,
)

PING = "mcp__discord__ping_user"
REPORT = "mcp__discord__report_updates"
UPDATE_NAMES = "mcp__discord__update_names"
EMBED = "mcp__discord__discord_embed"
# Sentences of a job's instructions that forbid something, or mark a follow-up.
_NO_PINGS = "`ping_user` and `discord_embed` are switched off"
_NO_REPORTS = "`report_updates` is not available in this job"
_FOLLOWS_UP = "Say in a ping that it is a follow-up."
_TOPIC = re.compile(r"Topic: *([^\n]+)")
_MOST_BUTTONS, _LONGEST_LABEL = 5, 80
_REMEMBERED = 5
_USUAL_QUIET = timedelta(hours=2)
_LONGEST_MEMORY = 120
# The beginning of the prompt that `/setup` and its button send.
_SET_UP = (
    "Set me up: I want you to know what you need to be of use to me, by a few short questions."
)
_NAMING = re.compile(
    r"(?:please )?(?:(?P<owner>call me|my name is|i am called)"
    r"|(?P<bot>your (?:new )?name is|you are called|i(?: will|'ll)? call you))"
    r" (?P<name>[^\W\d_][^\s,;]*?(?: [^\s,;]+?){0,2}?)[.!]?",
    re.IGNORECASE,
)
_TRAVELLING = re.compile(
    r"(?:i am|i'm|i’m) (?:now |currently )?in (?P<city>[^\W\d_][\w' -]*?)"
    r"(?: (?:now|today|this week|this month|(?:until|till|for) .+))?[.!]?"
    r"|(?:please )?(?:set|change) my time ?zone to (?P<zone>[\w/+ -]+?)[.!]?",
    re.IGNORECASE,
)
_ASKING_WHEN = re.compile(
    r"(?:when|(?:at )?what time)(?:['’]?s| is| are| do i| am i| should i| will you| was)"
    r"(?: (?:due|coming|remind me (?:to|of|about)))?(?: (?:the|my|next))*"
    r" (?P<subject>\S.*?)(?: (?:due|again|coming up|next))*",
    re.IGNORECASE,
)
_QUIET = re.compile(
    r"(?:please |just |ok(?:ay)? )*(?:(?:be |stay |keep |i need (?:some )?)?quiet|shut up|s?hush"
    r"|(?:do not|don['’]?t) disturb(?: me)?|leave me (?:alone|in peace|be)|go away|enough|silence"
    r"|stop|(?:stop|quit) (?:\w+ing me|with the \w+)|give me (?:a break|some peace)|pipe down"
    r"|too many (?:pings|notifications|messages|reminders))(?: (?:please|now|rn|already|ok))*"
    r"(?: for (?P<length>.+)| (?P<until>(?:until|till) .+))?",
    re.IGNORECASE,
)
# Answers that only say how to write it: what may be meant is asked first.
_GUESSED = frozenset((texts.RHYTHM, texts.ORDER, texts.MOMENT_FIRST, texts.LINK))
_ONE_LIST = re.compile(
    r"(?:please )?(?:(?:show|give|read|tell) me|show|read|what(?:['’]s| is) on)(?: my| the)?"
    r" (?P<name>(?!task|to-?do)[\w-]+) list[.?! ]*",
    re.IGNORECASE,
)
_NOTE = re.compile(
    r"(?:please )?(?:note(?: to self| that)?|write(?: this)? down|make a note(?: of| that)?)"
    r"[:, ]+(?P<note>\S.*)",
    re.IGNORECASE,
)
# What is not done here, and the place that can do it.
_PLACES = {
    re.compile(form, re.IGNORECASE): place
    for form, place in {
        r".*\b(?:disturb|quiet|silent|ping me|message me)\b"
        r".*\b(?:after|before|between|from|night)\b.*": texts.QUIET_AT_NIGHT,
        r"(?:please )?(?:break|split)\b.*\b(?:down|up|into)\b.*": texts.BREAK_DOWN,
        r".*\bwhen(?:ever)? i(?:['’]m| am)? (?:get|arrive|leave|come|at|back|am|go)\b.*": (
            texts.NO_PLACES
        ),
        r"(?:please )?(?:ask|check with) me (?:if|whether)\b.*": texts.ASK_ME,
        r".*\bsame time\b.*": texts.SAME_TIME,
        r"(?:the |an? )?(?:day|evening|night|morning|week|hour)s? before\b.*": texts.BEFORE_WHAT,
        r"(?:i['’]?m|i am) (?:allergic|vegan|vegetarian|diabetic)\b.*|i (?:live|work|prefer)\b.*"
        r"|my (?:birthday|wife|husband|partner|boss|doctor|dentist|number|address)\b.*": (
            texts.ABOUT_YOU
        ),
    }.items()
}
# Said of what was just set, as in `not on fridays`.
_OTHER_DAYS = re.compile(
    r"(?:but |and )?(?:not|only|except) (?:on )?(?:\w+days?|weekends?|weekdays?)\b|(?:until|till) ",
    re.IGNORECASE,
)
_POINTING = re.compile(r"\b(?:this|that)\b", re.IGNORECASE)
_STANDING_FOR_IT = re.compile(r"\b(?:this|that|it|these|those|them)\b", re.IGNORECASE)
# Without a clock nothing is scheduled, but a schedule intent is still recognised.
_ANY_MOMENT = datetime(2000, 1, 1)


class OfflineModel:
    """Gives equal requests equal answers, which name commands as `program` is called."""

    def __init__(self, program: str = PROGRAM) -> None:
        self._program = program

    def reply(self, request: ModelRequest) -> Reply:
        reply = _reply(request)
        parts = (
            replace(part, text=with_program(part.text, self._program))
            if isinstance(part, Say)
            else part
            for part in reply.parts
        )
        return replace(reply, parts=tuple(parts))


def _reply(request: ModelRequest) -> Reply:
    aside = side_answer(request)
    if aside is not None:
        return aside
    if asks_for_summary(request):
        return summary(texts.talk_so_far(_in_short(said_by_owner(request)[:-1])))
    *earlier, situation = situations_of(request)
    said, refused = Say(""), ""
    for turn in earlier:
        said = _left_open(turn, _part(turn, said.follow_up), said.follow_up)
        # Every other time, so that no refusal is said twice in a row.
        refused = said.text if said.text != refused else ""
    part = _part(situation, said.follow_up)
    if part == Say(refused) and texts.NOTHING_DONE in refused and not _asks(part):
        part = Say(texts.NOT_UNDERSTOOD_AGAIN, said.follow_up)
    return Reply(_with_news(situation, _with_buttons(situation, part)))


def _asks(part: Part) -> bool:
    return isinstance(part, Say) and part.follow_up.asks


def _left_open(turn: Situation, part: Part, before: FollowUp) -> Say:
    """What the owner may refer to after the answer: thanks and refusals leave it as it was."""
    if not isinstance(part, Say) or not turn.is_answered:
        return Say("")
    if _is_only_polite(turn.prompt.text):
        return replace(part, follow_up=before)
    after = part.follow_up
    if after.undo or texts.NOTHING_DONE not in part.text:
        return part
    moves, about = after.moves or before.moves, after.about or before.about
    return replace(part, follow_up=replace(after, moves=moves, about=about, undo=before.undo))


def _is_only_polite(text: str) -> bool:
    intents = intents_in(text)
    return bool(intents) and COURTESIES.issuperset(intents)


def _part(situation: Situation, before: FollowUp) -> Part:
    """The answer of a turn; `before` is what the one before has left to say."""
    tagged = TAGGED.get(situation.prompt.tag)
    return tagged(situation) if tagged else _by_words(situation, before)


def _with_buttons(situation: Situation, part: Part) -> Part:
    """A question as a card with a button for each choice, where there are cards."""
    if not isinstance(part, Say) or EMBED not in situation.tools:
        return part
    choices, edit = part.follow_up.choices, part.follow_up.edit
    if not choices and not edit:
        return part
    buttons = [
        {"label": shortened(label, _LONGEST_LABEL), "action": _action(sentence)}
        for label, sentence in choices[:_MOST_BUTTONS]
    ]
    if len(choices) == 1:
        buttons.append({"label": "No", "action": "dismiss"})
    title = texts.EDIT if edit else texts.WHICH if len(choices) > 1 else texts.IS_IT_RIGHT
    card = {"title": title, "description": part.text, "buttons": buttons}
    shown = situation.outcomes.get(EMBED)
    if shown is None:
        return CallTool(EMBED, {**card, "job": edit} if edit else card)
    return part if shown.is_error else Say(texts.PRESS_EDIT if edit else texts.PRESS_OR_WRITE)


def _action(sentence: str) -> str:
    if not sentence:
        return "dismiss"
    return sentence if sentence.startswith(f"{QUIET}:") else f"agent:{sentence}"


def _by_words(situation: Situation, before: FollowUp) -> Part:
    prompt = situation.prompt
    if prompt.text.startswith(_SET_UP):
        # Each of its lines may be left out.
        return Say(texts.set_up(prompt.moment, prompt.zone), FollowUp(forms=("{}",)))
    is_of_it = not prompt.points_elsewhere and prompt.tag != "button"
    now = (prompt.moment or _ANY_MOMENT).replace(tzinfo=UTC)
    said = (
        None
        if _is_only_polite(prompt.text)
        else answered(before, prompt.text, lambda each: schedule_intent(each, now))
    )
    if said is Unanswered.DROPPED and is_of_it:
        return Say(texts.DROPPED)
    if said is Unanswered.STILL_OPEN and is_of_it:
        return Say(texts.WHICH_OF_THEM, before)
    if before.about and said is None and _OTHER_DAYS.match(prompt.text):
        return Say(texts.edit_routine(""), FollowUp(edit=before.about))
    sentence = said if isinstance(said, str) and is_of_it else about_it(prompt, before)
    return _by_sentence(replace(situation, prompt=replace(prompt, text=sentence)))


def _by_sentence(situation: Situation) -> Part:
    if settled := settled_by_words(situation) or _named(situation) or _asked_aside(situation):
        return settled
    if one_list := _ONE_LIST.fullmatch(situation.prompt.text):
        return show_tasks(situation, one_list["name"].lower())
    intents = intents_in(situation.prompt.text)
    when = _ASKING_WHEN.fullmatch(situation.prompt.text.strip(" .?!"))
    if not intents and when:
        return show_when(when["subject"], situation) or _elsewhere(situation)
    if not intents:
        return _by_schedule_intent(situation)
    # `Is this a person?` asks about the picture that came with it.
    prompt = situation.prompt
    points = prompt.points_elsewhere and _POINTING.search(prompt.text) is not None
    if points and not COURTESIES.issuperset(intents):
        return Say(texts.NOT_UNDERSTOOD)
    # The first call that is needed; if none is, all answers together.
    parts = [_ANSWERS[intent](situation) for intent in intents]
    calls = [part for part in parts if isinstance(part, CallTool)]
    said = (part.text for part in parts if isinstance(part, Say))
    return calls[0] if calls else Say("\n\n".join(said))


def _named(situation: Situation) -> Part | None:
    """Keep the name that the owner gives; None if the words give none."""
    found = _NAMING.fullmatch(situation.prompt.text.strip())
    if found is None or names_time(found["name"]) or is_negated(found["name"]):
        return None
    name = found["name"]
    # `call me back` gives no name.
    if (found["owner"] or "").lower() == "call me" and not name[0].isupper():
        return None
    call = CallTool(UPDATE_NAMES, {"user_name" if found["owner"] else "bot_name": name})
    outcome = situation.outcome(call)
    if outcome is None:
        return call if situation.may_call(UPDATE_NAMES) else Say(texts.NOT_HERE)
    if outcome.is_error:
        return Say(texts.not_changed(outcome.text))
    return Say(texts.owner_named(name) if found["owner"] else texts.bot_named(name))


def _asked_aside(situation: Situation) -> Part | None:
    """What only the owner can do, by a command."""
    return _travelling(situation) or _quiet(situation)


def _quiet(situation: Situation) -> Part | None:
    text = situation.prompt.text.strip(" .!")
    if text.startswith(f"{QUIET}:"):
        # The answer to the question below, in words.
        return Say(texts.PRESS_QUIET)
    found = _QUIET.fullmatch(text)
    if found is None:
        return None
    now = situation.prompt.moment
    if now is None:
        return Say(texts.NO_CLOCK)
    return _quiet_until(found["length"] or "", found["until"] or "", now.replace(tzinfo=UTC))


def _quiet_until(length: str, until: str, now: datetime) -> Say:
    """A button that makes it quiet for a length of time, or until a moment."""
    try:
        if until:
            ends = [parse_moment(until.partition(" ")[2], now)]
        else:
            ends = [later(now, parse_duration(length) if length else _USUAL_QUIET)]
    except BadPhrase as refused:
        ends = [parse_moment(each, now) for each in refused.readings]
        if not ends:
            return Say(texts.unclear_moment(str(refused)))
    choices = tuple((texts.quiet_until(each), f"{QUIET}:{each:%Y-%m-%dT%H:%M}") for each in ends)
    return Say(texts.quiet([label for label, _ in choices]), FollowUp(choices))


def _travelling(situation: Situation) -> Part | None:
    """Name the command that changes the time zone; None if the words name no place that has one."""
    found = _TRAVELLING.fullmatch(situation.prompt.text.strip())
    if found is None:
        return None
    zone = zone_at(found["zone"] or found["city"])
    if zone is None and found["city"]:
        return None
    return Say(texts.time_zone(zone or "Asia/Tokyo"))


def _by_schedule_intent(situation: Situation) -> Part:
    prompt = situation.prompt
    now = (prompt.moment or _ANY_MOMENT).replace(tzinfo=UTC)
    intent = schedule_intent(prompt.text, now)
    finished = finished_task(prompt.text) if SHELL in situation.tools else None
    if intent is None and finished:
        return next_step(finished, situation)
    unread = intent.reason if isinstance(intent, AmbiguousIntent) else ""
    if intent is None or unread in (*_GUESSED, texts.ONE_AT_A_TIME, texts.SAY_WHAT):
        if asked := ask_about_job(situation, moment_in(prompt.text, now)):
            return asked
        if intent is None or unread in _GUESSED:
            place = _elsewhere(situation)
            if place.text != texts.NOT_UNDERSTOOD:
                return place
            intent = guessed_intent(prompt.text, now) or intent
    if intent is None:
        return Say(texts.NOT_UNDERSTOOD)
    if prompt.moment is None:
        return Say(texts.NO_CLOCK)
    is_job = isinstance(intent, Remind | RoutineWish)
    if is_job and prompt.points_elsewhere and _STANDING_FOR_IT.search(prompt.text):
        return Say(texts.SAY_WHAT)
    return next_step(intent, situation)


def _elsewhere(situation: Situation) -> Say:
    """The place that can do what the words ask for."""
    text = situation.prompt.text.strip(" .!")
    if found := _NOTE.fullmatch(text):
        add = ("Add a task", f"add a task: {found['note']}")
        return Say(texts.NO_NOTES, FollowUp((add,)))
    place = next((place for form, place in _PLACES.items() if form.fullmatch(text)), None)
    return Say(place or texts.NOT_UNDERSTOOD)


def _time(situation: Situation) -> Part:
    prompt = situation.prompt
    return Say(texts.time(prompt.moment, prompt.zone) if prompt.moment else texts.NO_CLOCK)


def _memory(situation: Situation) -> Part:
    said = _in_short(situation.said_before)
    return Say(texts.said_before(said) if said else texts.NOTHING_SAID)


def _memory_of_yesterday(situation: Situation) -> Part:
    now = situation.prompt.moment
    day = None if now is None else now.date() - timedelta(days=1)
    said = [each for each in situation.said_before if each.moment and each.moment.date() == day]
    return Say(texts.said_yesterday(_in_short(said)) if said else texts.NOTHING_YESTERDAY)


_ANSWERS: Mapping[Intent, Callable[[Situation], Part]] = {
    Intent.GREETING: lambda _: Say(texts.GREETING),
    Intent.THANKS: lambda _: Say(texts.THANKS),
    Intent.FAREWELL: lambda _: Say(texts.FAREWELL),
    Intent.ABILITIES: lambda _: Say(texts.WHAT_I_CAN_DO),
    Intent.IDENTITY: lambda _: Say(texts.WHAT_I_AM),
    Intent.TIME: _time,
    Intent.MEMORY: _memory,
    Intent.YESTERDAY: _memory_of_yesterday,
    Intent.OVERWHELMED: lambda _: Say(texts.OVERWHELMED),
    Intent.DESPAIR: lambda _: Say(texts.DESPAIR),
    Intent.DID_I: lambda _: Say(texts.DID_I),
    Intent.UNDO: lambda _: Say(texts.NOTHING_TO_UNDO),
    Intent.CONNECT: lambda _: Say(texts.HOW_TO_CONNECT),
    Intent.TODAY: show_today,
    Intent.TOMORROW: show_tomorrow,
    Intent.WEEK: show_week,
    Intent.NEXT_WEEK: show_next_week,
    Intent.UPCOMING: show_upcoming,
    Intent.REMINDERS: show_reminders,
    Intent.ROUTINES: show_routines,
    Intent.TASKS: show_tasks,
    Intent.DONE: lambda _: Say(texts.TASK_DONE),
}


def _with_news(situation: Situation, part: Part) -> tuple[Part, ...]:
    """Add the updates to mention, once, at the beginning of the turn."""
    updates = situation.prompt.updates
    if not updates or situation.outcomes:
        return (part,)
    news = texts.updates_to_mention(updates)
    return (Say(f"{news}\n\n{part.text}"),) if isinstance(part, Say) else (Say(news), part)


def _in_short(said: Sequence[ParsedPrompt]) -> tuple[str, ...]:
    newest = (" ".join(each.text.split()) for each in said[-_REMEMBERED:])
    return tuple(shortened(text, _LONGEST_MEMORY) for text in newest)


def side_answer(request: ModelRequest) -> Reply | None:
    """A neutral answer to a request outside the conversation; None for any other request."""
    if request.max_tokens == 1:
        return Reply((Say("ok"),))
    # Only a request for a title asks for an object with this one field.
    value: object = request.body
    for step in ("output_config", "format", "schema", "properties"):
        value = value.get(step) if isinstance(value, Mapping) else None
    if isinstance(value, Mapping) and list(value) == ["title"]:
        return Reply((Say(json.dumps({"title": "Conversation"})),))
    if request.tools == ("web_search",):
        return Reply((Say("Nothing was found: there is no web search here."),))
    return None


def asks_for_summary(request: ModelRequest) -> bool:
    """Whether the engine asks for a summary to replace the conversation."""
    text = request.last_user_text
    return "create a detailed summary" in text and "<summary>" in text


def summary(text: str) -> Reply:
    """A summary in the form that the engine accepts at the first try."""
    return Reply((Say(f"<analysis>\n</analysis>\n<summary>\n{text}\n</summary>"),))


def remind(situation: Situation) -> Part:
    """Ping the text of the reminder, then report that it was sent, or why not."""
    return _told(situation, situation.prompt.task)


def run_routine(situation: Situation) -> Part:
    """Deliver a routine that only reminds; report any other as not done."""
    task = situation.prompt.task
    if reminded := texts.REMIND_ME.fullmatch(task):
        return _told(situation, reminded["of"])
    return _reported(situation, texts.routine_not_done(task))


def _told(situation: Situation, task: str) -> Part:
    if _NO_PINGS in situation.prompt.instructions:
        return _reported(situation, texts.reminder_unsaid(task))
    if situation.may_call(PING):
        is_again = _FOLLOWS_UP in situation.prompt.instructions
        return CallTool(PING, {"message": texts.follow_up(task) if is_again else task})
    ping = situation.outcomes.get(PING)
    if ping is None:
        return Say(texts.reminder_due(task))
    if ping.is_error:
        return _reported(situation, texts.reminder_not_told(task, ping.text))
    return _reported(situation, texts.reminder_told(task))


def take_webhook(situation: Situation) -> Part:
    return _reported(situation, texts.webhook_not_read(situation.prompt.subject))


def open_fork(situation: Situation) -> Part:
    text = situation.prompt.text
    if topic := _TOPIC.match(text):
        return Say(texts.fork_about(topic[1].rstrip(" .")))
    return Say(texts.FORK_RESUMED if "earlier session" in text else texts.FORK_WITHOUT_TOPIC)


def hear_program(situation: Situation) -> Part:
    """Report where the program asks for a report."""
    if "report_updates" in situation.prompt.text:
        return _reported(situation, texts.fork_report(_in_short(situation.said_in_fork)))
    return Say(texts.PROGRAM_SPOKE)


def _reported(situation: Situation, text: str) -> Part:
    if situation.may_call(REPORT) and _NO_REPORTS not in situation.prompt.instructions:
        return CallTool(REPORT, {"message": text})
    return Say(texts.DONE if REPORT in situation.outcomes else text)


TAGGED: Mapping[str, Callable[[Situation], Part]] = {
    "reminder-bg": remind,
    "routine-bg": run_routine,
    "webhook": take_webhook,
    "reminder": lambda situation: Say(texts.reminder_due(situation.prompt.said_in_turn)),
    "routine": lambda situation: Say(texts.routine_due(situation.prompt.said_in_turn)),
    "fork-started": open_fork,
    "fork-timeout": lambda situation: _reported(situation, texts.FORK_IDLE),
    "system": hear_program,
}
