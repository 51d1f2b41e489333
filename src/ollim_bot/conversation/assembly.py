"""Puts the parts of the conversation together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ollim_bot.agent import AgentEngine, SessionSpec
from ollim_bot.chat import AttachmentKeeper, ChatSurface, Courier, Status
from ollim_bot.conversation import texts
from ollim_bot.conversation.answering import Answering
from ollim_bot.conversation.approvals.approvals import Approvals
from ollim_bot.conversation.auto_commit import AutoCommit
from ollim_bot.conversation.background.attempt import Surroundings
from ollim_bot.conversation.background.runs import BackgroundRuns
from ollim_bot.conversation.by_hand import ByHand
from ollim_bot.conversation.chat_log import ChatLog
from ollim_bot.conversation.clicks import Action, Clicks, Uses
from ollim_bot.conversation.commands.desk import CommandDesk
from ollim_bot.conversation.commands.jobs import JobCommands
from ollim_bot.conversation.commands.pings import PingCommands
from ollim_bot.conversation.commands.sessions import SessionCommands
from ollim_bot.conversation.commands.settings import SettingCommands
from ollim_bot.conversation.commands.setup import SetUp
from ollim_bot.conversation.compaction import Compaction
from ollim_bot.conversation.conversation import Conversation
from ollim_bot.conversation.conversation_tools import conversation_tools
from ollim_bot.conversation.foreground import ForegroundJobs
from ollim_bot.conversation.forks.buttons import ForkButtons
from ollim_bot.conversation.forks.commands import ForkCommands
from ollim_bot.conversation.forks.forks import Forks
from ollim_bot.conversation.forks.idle import IdleWatch
from ollim_bot.conversation.forks.kept import KeptFork
from ollim_bot.conversation.forks.replies import Replies
from ollim_bot.conversation.forks.session import ForkSession, fork_spec
from ollim_bot.conversation.greeting import Greeting
from ollim_bot.conversation.inbox import DurableInbox
from ollim_bot.conversation.job_buttons import JobButtons
from ollim_bot.conversation.job_echo import Former, JobEcho
from ollim_bot.conversation.main_session import MainSession, main_run
from ollim_bot.conversation.notices import Notices
from ollim_bot.conversation.outbox.outbox import DurableOutbox
from ollim_bot.conversation.posting import Posting
from ollim_bot.conversation.questions import Questions
from ollim_bot.conversation.recovery import Recovery
from ollim_bot.conversation.reminders.buttons import ReminderButtons
from ollim_bot.conversation.reminders.delivery import ReminderDelivery
from ollim_bot.conversation.stage import Stage
from ollim_bot.domain.events import AgentEvent
from ollim_bot.domain.sessions import SessionId
from ollim_bot.ports import Clock, Journal
from ollim_bot.prompts.set_up import read_set_up
from ollim_bot.stores import Stores
from ollim_bot.tools.background_gate import BackgroundTools
from ollim_bot.tools.job_validator import JobChecker
from ollim_bot.tools.main_gate import Allowed, Gate, Undecided
from ollim_bot.tools.server.bench import Workbench


@dataclass(frozen=True, slots=True)
class World:
    """Everything outside that a conversation needs.

    `spec` says what a session is to be like now; `gate` makes what is asked before each call of a
    tool, given what the owner has allowed since and who decides about the rest; `doctor` looks the
    whole installation over; `restart` has the whole bot begin anew; `courier` is whoever has to
    confirm what is sent. `patience` is how many seconds a slow surface is waited for.
    """

    engine: AgentEngine
    stores: Stores
    clock: Clock
    surfaces: Sequence[ChatSurface]
    keeper: AttachmentKeeper
    spec: Callable[[], Awaitable[SessionSpec]]
    gate: Callable[[Allowed, Undecided], Gate]
    background_tools: BackgroundTools
    journal: Journal
    job_files: JobChecker
    former: Former
    working_directory: Path
    status: Status
    doctor: Callable[[], Awaitable[str]]
    restart: Callable[[], None]
    courier: Courier | None = None
    patience: float = 2.0


@dataclass(frozen=True, slots=True)
class Talk:
    """The conversation, and those of its parts that have a life of their own."""

    conversation: Conversation
    session: MainSession
    forks: Forks
    notices: Notices
    outbox: DurableOutbox
    idle_watch: IdleWatch
    foreground: ForegroundJobs
    background: BackgroundRuns
    reminders: ReminderDelivery
    by_hand: ByHand
    greeting: Greeting


def assemble(world: World) -> Talk:
    stores, clock, is_free = world.stores, world.clock, world.status.is_offline
    chat = ChatLog(stores.messages)
    courier = world.courier
    stage = Stage(
        chat,
        world.surfaces,
        send=None if courier is None else lambda message: outbox.post(message),
        elsewhere="" if courier is None else courier.name,
        patience=world.patience,
    )
    inbox = DurableInbox(stores.inbox)
    notices = Notices(stores, stage, clock, may_speak=lambda: answering.is_idle)
    outbox = DurableOutbox(stores, chat, stage, clock, courier, notices.tell)

    async def session_lost(session_id: SessionId) -> None:
        await notices.tell(texts.SESSION_LOST, key=f"session-lost {session_id}")

    bench = Workbench(
        run=main_run(clock.now()),
        stores=stores,
        clock=clock,
        root=world.working_directory,
        poster=outbox,
        is_busy=lambda: conversation.is_busy,
        wants=lambda intent: fork_commands.want(intent),
    )
    kept = KeptFork(stores.fork)
    approvals = Approvals(
        stores, stage, clock, world.working_directory, in_fork=lambda: kept.fork is not None
    )
    gate = world.gate(approvals.granted, approvals.decide)
    echo = JobEcho(
        world.working_directory, world.job_files, world.former, stores, stage.post, clock
    )
    job_watch = echo.watch()
    tools = conversation_tools(bench, job_watch.noting(gate), inbox, clock)
    session = MainSession(
        world.engine, stores, clock, spec=world.spec, tools=tools, lost=session_lost
    )
    fork_session = ForkSession(
        world.engine,
        stores,
        clock,
        kept,
        spec=fork_spec(world.spec, kept, stores),
        tools=tools,
        lost=session_lost,
    )
    forks = Forks(stores, kept, session, fork_session, chat, stage, clock)
    auto_commit = AutoCommit(world.journal, world.working_directory)

    def watch(events: AsyncIterator[AgentEvent], *, in_fork: bool) -> AsyncIterator[AgentEvent]:
        return job_watch.watching(auto_commit.watching(events), in_fork=in_fork)

    foreground = ForegroundJobs(stores, inbox, clock)
    posting = Posting(stage, forks, clock, is_free=is_free)
    answering = Answering(inbox, forks, stage, posting, bench, watch, foreground, clock)
    fork_commands = ForkCommands(forks, inbox, clock, note=posting.note)
    questions, by_hand, set_up = Questions(world.keeper), ByHand(), read_set_up()
    desk = CommandDesk(
        inbox,
        session,
        answering,
        posting,
        Compaction(stores, forks, answering, clock),
        SessionCommands(
            world.engine, stores, session, clock, world.working_directory, is_free=is_free
        ),
        SettingCommands(stores.config),
        PingCommands(stores.pings, clock),
        JobCommands(stores, clock, stage.post, in_fork=lambda: kept.fork is not None),
        approvals,
        fork_commands,
        SetUp(set_up, lambda message: conversation.receive(message)),
        clock,
        doctor=world.doctor,
        restart=world.restart,
    )
    conversation = Conversation(
        inbox=inbox,
        outbox=outbox,
        chat=chat,
        stage=stage,
        session=session,
        forks=forks,
        replies=Replies(world.engine, stores, session, forks, clock),
        answering=answering,
        approvals=approvals,
        recovery=Recovery(stores, inbox, chat, forks, questions, answering, posting, desk, clock),
        questions=questions,
        desk=desk,
        clicks=Clicks(
            stores,
            chat,
            stage,
            clock,
            receive=lambda message: conversation.receive(message),
            actions={
                "approve": Action(approvals.answer, Uses.NOTHING),
                "undo": Action(echo.undo),
                **ReminderButtons(stores, clock).actions,
                **JobButtons(
                    stores, world.job_files, world.former, stage.post, clock, by_hand
                ).actions,
                **ForkButtons(forks, fork_commands, answering.stop).actions,
            },
        ),
        notices=notices,
        keeper=world.keeper,
        clock=clock,
        config=stores.config,
        status=world.status,
    )
    idle_watch = IdleWatch(
        kept, clock, is_quiet=lambda: conversation.is_quiet, is_due=fork_commands.is_due
    )
    background = BackgroundRuns(
        Surroundings(
            world.engine,
            stores,
            clock,
            world.working_directory,
            outbox,
            notices,
            world.background_tools,
            echo,
            auto_commit,
            spec=world.spec,
            is_busy=lambda: conversation.is_busy,
            main=lambda: session.id,
        )
    )
    reminders = ReminderDelivery(stores, stage, outbox, clock)
    greeting = Greeting(
        stores,
        chat,
        stage,
        session,
        posting,
        clock,
        open_fork=lambda: kept.fork,
        name=world.status.bot_name,
        prompt=set_up,
    )
    return Talk(
        conversation,
        session,
        forks,
        notices,
        outbox,
        idle_watch,
        foreground,
        background,
        reminders,
        by_hand,
        greeting,
    )
