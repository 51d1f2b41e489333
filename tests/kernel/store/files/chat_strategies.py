"""Strategies for messages, rows of inbox and outbox, and forks."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import strategies as st
from tests.kernel.values.strategies import instants, pending_updates, session_ids, texts

from ollim_bot.kernel.base.ids import MessageId, TurnId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.values.cards import Button, ButtonStyle, Card, CardField, CardLine, Color
from ollim_bot.kernel.values.chat import Attachment, Author, ChatMessage, TurnCost
from ollim_bot.kernel.values.forks import Fork
from ollim_bot.kernel.values.inbox import (
    Accepted,
    CommandCall,
    Edited,
    Ended,
    ForkOrigin,
    InputEnd,
    InputId,
    JobTurn,
    OwnerMessage,
    ProgramTurn,
    ProgramTurnReason,
    Released,
    Taken,
    ToolCalled,
)
from ollim_bot.kernel.values.jobs import Chain
from ollim_bot.kernel.values.taint import Untrusted

_ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
input_ids = _ids.map(InputId)
message_ids = _ids.map(MessageId)
turn_ids = _ids.map(TurnId)
attachments = st.lists(
    st.builds(Attachment, texts, texts, texts, st.integers(0, 2**40)), max_size=3
).map(tuple)
names = st.dictionaries(texts, texts, max_size=3)
untrusted = st.none() | st.builds(Untrusted, texts, texts)
spent = st.builds(
    TurnCost, st.floats(0, 1e6), st.integers(0, 10**7), st.none() | st.integers(0, 10**7)
)
cards = st.builds(
    Card,
    texts,
    texts,
    st.sampled_from(Color),
    st.lists(st.builds(CardField, texts, texts, st.booleans()), max_size=3).map(tuple),
    st.lists(
        st.builds(
            Button,
            *(texts, texts, texts, st.sampled_from(ButtonStyle), st.booleans()),
            line=st.integers(0, 9),
            asks=texts,
        ),
        max_size=3,
    ).map(tuple),
    lines=st.lists(st.builds(CardLine, texts, texts), max_size=3).map(tuple),
    earlier_of=texts,
    until=st.none() | instants,
    job=texts,
)
chat_messages = st.builds(
    ChatMessage,
    id=message_ids,
    at=instants,
    author=st.sampled_from(Author),
    text=texts,
    reply_to=st.none() | message_ids,
    attachments=attachments,
    turn=st.none() | turn_ids,
    session=st.none() | session_ids,
    is_cut_off=st.booleans(),
    in_fork=st.booleans(),
    occurrence=texts,
    spent=st.none() | spent,
    footer=texts,
    card=st.none() | cards,
    job=texts,
    refs=names,
    untrusted=untrusted,
    began=st.none() | instants,
    pings=st.lists(message_ids, max_size=2).map(tuple),
    must=st.booleans(),
)
forks = st.builds(
    Fork,
    id=texts,
    session=st.none() | session_ids,
    main=st.none() | session_ids,
    topic=texts,
    idle_limit=st.integers(1, 10**12).map(lambda seconds: timedelta(seconds=seconds)),
    last_activity=instants,
    began=instants,
    resumed_from=st.none() | session_ids,
    is_prompted=st.booleans(),
    has_answered=st.booleans(),
    last_answer=texts,
    resumed_at=st.none() | instants,
    model=st.none() | texts,
    seen=st.lists(texts, max_size=3).map(tuple),
)
owner_messages = st.builds(
    OwnerMessage,
    input_ids,
    texts,
    instants,
    texts,
    st.none() | message_ids,
    texts,
    attachments,
    texts,
    st.none() | st.builds(ForkOrigin, session_ids, instants, st.booleans()),
    untrusted,
    untrusted,
)
program_turns = st.builds(
    ProgramTurn, input_ids, texts, instants, st.sampled_from(ProgramTurnReason), texts, texts
)
job_turns = st.builds(
    JobTurn,
    input_ids,
    texts,
    instants,
    st.sampled_from(JobKind),
    texts,
    texts,
    texts,
    st.builds(Chain, st.integers(0, 99), st.integers(0, 99), st.none() | texts),
    st.none() | instants,
    texts,
)
command_calls = st.builds(CommandCall, input_ids, texts, instants, texts, names)
_several = st.lists(input_ids, max_size=3).map(tuple)
inbox_rows = st.one_of(
    st.builds(Accepted, instants, owner_messages | command_calls | program_turns | job_turns),
    st.builds(Edited, instants, input_ids, texts),
    st.builds(
        Taken,
        instants,
        turn_ids,
        _several,
        st.integers(1, 9),
        texts,
        st.none() | session_ids,
        pending_updates(),
        st.booleans(),
    ),
    st.builds(ToolCalled, instants, turn_ids, texts, texts),
    st.builds(Released, instants, turn_ids),
    st.builds(Ended, instants, _several, st.sampled_from(InputEnd)),
)
