"""Builds the conversation and the schedule from their parts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from functools import partial
from pathlib import Path
from typing import Any

from ollim_bot.features.about_me.about_me_view import AboutMePage
from ollim_bot.features.changes.changes_view import ChangesPage
from ollim_bot.features.doctor.examination import DoctorCommand
from ollim_bot.features.doctor.health_view import Examiner, HealthPage
from ollim_bot.features.google.google_chat import EventButtons, EventCalendar, GoogleConnection
from ollim_bot.features.history.sessions import SessionCommands
from ollim_bot.features.install.updater import ProgramCommands
from ollim_bot.features.jobs.job_buttons import ItemButtons, JobButtons, UndoExpiry
from ollim_bot.features.jobs.job_forms import JobFormView
from ollim_bot.features.jobs.jobs_view import JobListing
from ollim_bot.features.money.cost_reports import CostCommands
from ollim_bot.features.money.money_view import MoneyView
from ollim_bot.features.quiet import QuietCommands, QuietWatch
from ollim_bot.features.runs.run_reports import RunCommands
from ollim_bot.features.runs.runs_view import RunListView, RunView, no_heartbeat
from ollim_bot.features.settings.setting_commands import SettingCommands
from ollim_bot.features.settings.settings_view import PhoneSettings, SettingPage
from ollim_bot.features.setup.set_up_talk import Greeting, SetUpCommand, SetUpTalk
from ollim_bot.features.tasks.task_buttons import BreakdownButtons, DueTasks, TaskCommands
from ollim_bot.features.today.day_view import DayPanel
from ollim_bot.features.today.overviews import DaySources, Overviews
from ollim_bot.features.today.quick_add_box import QuickAdds
from ollim_bot.features.tool_servers.server_cards import ServerCards
from ollim_bot.features.week.week_view import WeekPanel, WeekPlans
from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.logs import unless_refused
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.settings import GoogleAddresses
from ollim_bot.kernel.base.text import with_program
from ollim_bot.kernel.changes.breakdown_store import StepWriter
from ollim_bot.kernel.changes.change_journal import ChangeJournal
from ollim_bot.kernel.changes.file_changes import FileChanges
from ollim_bot.kernel.changes.item_answers import ItemAnswers
from ollim_bot.kernel.changes.job_files import JobFileChanges, JobFolders
from ollim_bot.kernel.conversation.approvals import Approvals, CarefulTimes
from ollim_bot.kernel.conversation.background import BackgroundRuns
from ollim_bot.kernel.conversation.background_attempt import AutoCommit, BackgroundDeps
from ollim_bot.kernel.conversation.buttons import Action, ButtonRouter, Uses
from ollim_bot.kernel.conversation.chat_sessions import MainSession, conversation_tools, main_run
from ollim_bot.kernel.conversation.command_handlers import (
    UNDO_CLEAR,
    ConversationCommands,
    PermissionCommands,
)
from ollim_bot.kernel.conversation.conversation import Conversation, MessageIntake
from ollim_bot.kernel.conversation.delivery import DeliveryQueue, DeliveryQueues
from ollim_bot.kernel.conversation.desktop_notices import DesktopWatch, Reach
from ollim_bot.kernel.conversation.dispatcher import CommandDispatcher, HelpCommands, Queued
from ollim_bot.kernel.conversation.foreground import ForegroundJobs, JobRuns, PlainDelivery
from ollim_bot.kernel.conversation.fork_commands import (
    ForkCommands,
    ForkRequests,
    Forks,
    ForkSession,
    Replies,
    fork_spec,
)
from ollim_bot.kernel.conversation.job_echo import ChangeEcho
from ollim_bot.kernel.conversation.message_poster import MessagePoster, with_open_button
from ollim_bot.kernel.conversation.notice_poster import DiskGate, FailureNotices, Notices
from ollim_bot.kernel.conversation.state import ConversationState, StatusBoard
from ollim_bot.kernel.conversation.surface_fanout import SurfaceFanout
from ollim_bot.kernel.conversation.turn_loop import (
    RETRY_AFTER_LOGIN,
    InputLoop,
    LoginMark,
    Recovery,
    Retries,
)
from ollim_bot.kernel.conversation.turn_runner import TurnInputs, TurnRunner
from ollim_bot.kernel.prompts.turn_prompts import read_screening, read_set_up
from ollim_bot.kernel.schedule.day_receipts import TodayReceipts
from ollim_bot.kernel.schedule.dispatch import Dispatcher, upcoming_reader
from ollim_bot.kernel.schedule.due_jobs import DueJobs
from ollim_bot.kernel.schedule.extra_times import Departures, HeadsUps, Nags, TimerCards
from ollim_bot.kernel.schedule.job_index import AnswerPlans, JobIndex
from ollim_bot.kernel.schedule.ledger_records import (
    ArmedJobs,
    Heartbeat,
    OwnerZone,
    ScheduleRecords,
)
from ollim_bot.kernel.schedule.requested_runs import RunRequests, WebhookRuns
from ollim_bot.kernel.schedule.scheduler import Scheduler
from ollim_bot.kernel.schedule.watcher import Events, Watcher, file_events
from ollim_bot.kernel.store.calendar_files import readable_copies
from ollim_bot.kernel.store.heartbeat import HeartbeatFile, ReadHeartbeat
from ollim_bot.kernel.store.job_checker import JobFileChecker
from ollim_bot.kernel.store.run_requests import RequestFolder
from ollim_bot.kernel.store.skill_files import SkillFolder
from ollim_bot.kernel.store.store import Store, Watches
from ollim_bot.kernel.tools.gates import Allowed, BackgroundTools, Undecided
from ollim_bot.kernel.tools.registry import of_conversation
from ollim_bot.kernel.tools.tool_context import ToolContext
from ollim_bot.kernel.values.calendar import CalendarCopy
from ollim_bot.kernel.values.channels import PushChannel
from ollim_bot.kernel.values.pasted_addresses import AddressKind, TakeAddress
from ollim_bot.kernel.values.ports import (
    AgentEngine,
    AttachmentStore,
    Channel,
    ChatSurface,
    Disk,
    Gate,
    JobRepositories,
    Journal,
    SessionSpec,
    Status,
    TaskList,
)
from ollim_bot.kernel.values.runs import Run
from ollim_bot.kernel.values.views import View


@dataclass(frozen=True, slots=True)
class ConversationDeps:
    """The collaborators of a conversation.

    `spec` gives the specification of a session as of now. `gate` builds the check that runs before
    each tool call, from what the owner has allowed, from the part that decides everything else, and
    from the check of turns that have read untrusted text. `doctor` examines the whole installation.
    `restart` restarts the bot. `newer_version` is one that is known to exist. `surfaces` follow the
    log; `channels` confirm what is sent.
    `tasks` returns the list of tasks in use now, `events` the calendar whose events can be changed.
    `take_address` uses an address that the owner pasted. `calendars` reads the copies of their
    calendars, and `news` are published when these have changed. `google` takes the place of
    Google's own addresses. `patience` is how many seconds to wait for a slow surface. `zone` is the
    owner's while the configuration names none. `heartbeat` reads until when the bot surely ran.
    `reach` are the ways to the owner besides a page that has to be opened. With `phone`, the page
    pairs the owner's phone.
    """

    engine: AgentEngine
    store: Store
    repositories: JobRepositories
    clock: Clock
    surfaces: Sequence[ChatSurface]
    keeper: AttachmentStore
    spec: Callable[[], Awaitable[SessionSpec]]
    gate: Callable[[Allowed, Undecided, Callable[[], Run]], Gate]
    background_tools: BackgroundTools
    journal: Journal
    job_files: JobFileChecker
    former: FileChanges
    working_directory: Path
    status: Status
    doctor: Callable[[], Awaitable[str]]
    health: Examiner
    restart: Callable[[], None]
    update: Callable[[], Awaitable[str]]
    newer_version: Callable[[], Awaitable[str | None]]
    login: LoginMark
    tasks: Callable[[], TaskList]
    events: Callable[[], EventCalendar]
    channels: Sequence[Channel] = ()
    take_address: Mapping[AddressKind, TakeAddress] = field(default_factory=dict)
    calendars: Callable[[], Sequence[CalendarCopy]] = tuple
    news: Watches = field(default_factory=Watches)
    webhook_port: int | None = None
    zone: tzinfo = UTC
    google: GoogleAddresses = field(default_factory=GoogleAddresses)
    patience: float = 2.0
    heartbeat: ReadHeartbeat = no_heartbeat
    reach: Reach = field(default_factory=Reach)
    phone: PhoneSettings | None = None


class ConversationParts:
    """The conversation, built area by area; an area uses only those before it.

    The attributes without an underscore are used by other parts of the program.
    """

    def __init__(self, deps: ConversationDeps) -> None:
        self._deps = deps
        self._build_log()
        self._build_tools()
        self._build_sessions()
        # The turns of the agent, one at a time.
        clock = self._deps.clock
        self.foreground = ForegroundJobs(self._deps.repositories, self.state, clock)
        self._inputs = TurnInputs(self._deps.keeper)
        self.runner = TurnRunner(
            self.state,
            self.forks,
            self.fanout,
            self.poster,
            self._context,
            self.foreground,
            clock,
            watch=self._changes.watching,
            hurry=self._inputs.hurry,
        )
        self._build_intake()
        self._build_commands()
        buttons = self._build_buttons()
        self.phone = deps.phone
        self.conversation: Conversation = Conversation(
            deps.store,
            self.intake,
            self.dispatcher,
            buttons,
            self.runner,
            self.poster,
            self.deliveries,
            self.board,
            self._views(buttons),
            self._careful,
        )

    def _views(self, buttons: ButtonRouter) -> Mapping[str, View[Any]]:
        deps, paths = self._deps, DataPaths(self._deps.working_directory)
        changes = FileChanges(paths, deps.store, deps.journal, deps.clock.now)
        lines = QuickAdds(deps.store, deps.repositories, deps.tasks, deps.clock, deps.reach)
        receipts = TodayReceipts()
        job = JobFormView(
            deps.store, deps.repositories, deps.clock, buttons.press, self.week_plans.difference
        )
        return {
            "today": DayPanel(
                deps.store,
                deps.repositories,
                self._day,
                deps.clock,
                buttons.press,
                lines,
                deps.heartbeat,
                deps.reach,
                receipts,
            ),
            "week": WeekPanel(deps.store, self.week_plans.week, deps.calendars, deps.clock),
            "jobs": JobListing(deps.store, deps.repositories, deps.clock, job.act, lines),
            "job": job,
            "runs": RunListView(deps.store, deps.clock, deps.heartbeat, receipts),
            "run": RunView(deps.store, deps.repositories, deps.clock),
            "money": MoneyView(deps.store, deps.clock),
            "settings": SettingPage(deps.store, deps.clock, self._settings.change, self.phone),
            "health": HealthPage(
                deps.store, deps.clock, [each.name for each in deps.channels], deps.health
            ),
            "sessions": self._sessions,
            "changes": ChangesPage(
                deps.store, deps.clock, paths.root, changes, self._items, deps.tasks
            ),
            "about-me": AboutMePage(deps.store, deps.clock, paths, changes, deps.journal),
        }

    @property
    def services(self) -> list[Callable[[], Coroutine[None, None, None]]]:
        """What runs as long as the bot, and is started again when it fails."""
        return [
            *(self.notices.run, self.deliveries.run, self.failures.run, self.fanout.run),
            *(self.fork_requests.run, self.quiet_watch.run, self.undo_expiry.run),
            *(self.overviews.run, self.job_file_changes.follow, self.echo.run, self.retries.run),
            *(self.board.run, self.server_cards.run, self.google.run, self.desktop.run),
            *(self.task_commands.offer_move, self.task_commands.run, self.breakdowns.run),
            *([self.phone.run] if self.phone else []),
        ]

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs and nothing waits to be answered."""
        return self.state.is_quiet and self.background.is_idle

    async def load(self) -> None:
        """Read the stored state; inputs that were accepted earlier are queued again."""
        await self.fanout.load()
        await self.state.load()
        await self.board.load()
        await self.desktop.load()
        # A full disk must not prevent a start.
        await unless_refused("The channels could not be noted", self.deliveries.load())
        await self.approvals.load(await self.state.read(lambda tx: with_open_button(tx, "approve")))

    def _build_log(self) -> None:
        """The message log, who shows it, and what the program itself puts there."""
        deps, store, clock = self._deps, self._deps.store, self._deps.clock
        self.state = ConversationState(store)
        talking = [each for each in deps.channels if not isinstance(each, PushChannel)]
        self.fanout = SurfaceFanout(store, deps.surfaces, talking, patience=deps.patience)
        queues = [DeliveryQueue(store, each, clock) for each in deps.channels]
        self.deliveries = DeliveryQueues(store, queues, clock)
        program = deps.status.program
        self.poster = MessagePoster(store, self.fanout, queues, clock, program=program)
        self.board = StatusBoard(store, self.state, self.fanout, deps.status, clock)
        self.desktop = DesktopWatch(store, deps.reach, clock, lambda: self.board.current.bot_name)
        self.notices = Notices(store, self.state, self.poster, self.board, clock)
        self.failures = FailureNotices(store, self.notices.tell, clock)
        self.quiet_watch = QuietWatch(store, self.state, self.poster, self.board, clock)
        self.gate = DiskGate(store, self.notices, clock)
        self.reminders = PlainDelivery(store, self.poster, self.gate, clock)
        paths = DataPaths(deps.working_directory)
        limited = partial(of_conversation, paths) if store.sharing.machine else None
        self.job_file_changes = JobFileChanges(store, deps.repositories, limited)
        self._items = ItemAnswers(store, self.job_file_changes)
        self._steps = StepWriter(store, deps.tasks)
        self.undo_expiry = UndoExpiry(store, clock)

    def _build_tools(self) -> None:
        """What the agent may do in the conversation, and who is asked or told about it."""
        deps, store, clock = self._deps, self._deps.store, self._deps.clock
        root, state = deps.working_directory, self.state
        self.approvals = Approvals(store, state, self.poster, clock, root)
        self.echo = ChangeEcho(
            root,
            deps.job_files,
            deps.former,
            store,
            deps.repositories.reminders,
            self.poster.post,
            clock,
            deps.webhook_port,
            deps.reach,
        )
        self._changes, self._auto_commit = self.echo.watch(), AutoCommit(deps.journal, root)
        self.fork_requests = ForkRequests(state, clock)
        context = self._context = ToolContext(
            run=main_run(clock.now()),
            store=store,
            repositories=deps.repositories,
            clock=clock,
            root=root,
            poster=self.poster,
            is_busy=lambda: state.inbox.is_busy,
            wants=self.fork_requests.want,
            items=self._items,
            steps=self._steps,
            servers=deps.background_tools.servers,
        )
        self._careful = CarefulTimes(store, self.poster, lambda: context.run, clock)
        allowing = deps.gate(self.approvals.granted, self.approvals.decide, lambda: context.run)
        gate = self._changes.noting(allowing)
        self._tools = self._auto_commit.of(
            conversation_tools(context, gate, state, clock), lambda: context.run
        )

    def _build_sessions(self) -> None:
        """The main session, its forks, and the runs in the background."""
        deps, store, clock, state = self._deps, self._deps.store, self._deps.clock, self.state
        main = MainSession(deps.engine, state, clock, spec=deps.spec, tools=self._tools)
        spec = fork_spec(deps.spec, store)
        fork = ForkSession(deps.engine, state, self.poster, clock, spec=spec, tools=self._tools)
        self.forks = Forks(state, main, fork, self.poster, clock)
        self._replies = Replies(deps.engine, store, state, self.forks, clock)
        self.background = BackgroundRuns(
            BackgroundDeps(
                deps.engine,
                store,
                deps.repositories,
                clock,
                deps.working_directory,
                self.poster,
                self.notices,
                deps.background_tools,
                self.echo,
                self._auto_commit,
                spec=deps.spec,
                is_busy=lambda: state.inbox.is_busy,
                main=lambda: state.session,
                screening="" if deps.status.is_offline else read_screening(),
            )
        )

    def _build_intake(self) -> None:
        """What the owner says, and the pasted addresses and set-up answers among it."""
        deps, clock = self._deps, self._deps.clock
        name, program = deps.status.bot_name, deps.status.program
        self._set_up = with_program(read_set_up(), program)
        talk = SetUpTalk(self._set_up, self.poster, clock, name=name, program=program)
        self.greeting = Greeting(deps.store, self.poster, clock, name=name, prompt=self._set_up)
        paths = DataPaths(deps.working_directory)
        self.google = GoogleConnection(
            paths, deps.google, deps.store, self.poster, self.notices, clock
        )
        self.intake = MessageIntake(
            self.state,
            deps.keeper,
            self._replies,
            self.poster,
            self.runner,
            self.board,
            self._items,
            {AddressKind.GOOGLE_REDIRECT: self.google.take, **deps.take_address},
            self.echo.undo,
            clock,
            talk.answered if deps.status.is_offline else None,
        )

    def _build_commands(self) -> None:
        """What slash commands do, and the loop that takes them and all other inputs."""
        deps, store, clock, state = self._deps, self._deps.store, self._deps.clock, self.state
        poster, forks, runner = self.poster, self.forks, self.runner
        day = self._day = DaySources(deps.calendars, DueTasks(deps.tasks), deps.news)
        self.overviews = Overviews(store, deps.repositories, poster, clock, day, deps.reach)
        skills = SkillFolder(DataPaths(deps.working_directory).skills)
        self.week_plans = WeekPlans(
            store, deps.repositories, lambda: skills.read().loaded.keys(), clock
        )
        self.task_commands = TaskCommands(store, deps.tasks, poster, clock)
        root, zone, board = deps.working_directory, deps.zone, self.board
        self._conversing = ConversationCommands(
            store, state, runner, self.approvals, forks, poster, clock
        )
        self._sessions = SessionCommands(deps.engine, store, state, poster, forks, clock, root)
        self._forking = ForkCommands(forks, self.fork_requests, state, poster, clock, runner.stop)
        self._settings = SettingCommands(
            store, deps.repositories, clock, zone, lambda: board.current
        )
        # Their commands and buttons are declared in them.
        self._owners = (
            self._conversing,
            self._sessions,
            CostCommands(store, clock, deps.status.price),
            RunCommands(store, clock),
            self._forking,
            self._settings,
            PermissionCommands(self.approvals, self._careful),
            QuietCommands(store, clock),
            self.overviews,
            self.task_commands,
            ProgramCommands(deps.restart, deps.update, deps.newer_version),
            DoctorCommand(deps.doctor),
            SetUpCommand(self._set_up, self.intake.receive),
            HelpCommands(store, poster),
            self.google,
        )
        self.retries = Retries(store, state, forks, poster, clock, login=deps.login)
        steps = {
            **{name: Queued(run, can_repeat=True) for name, run in self._forking.steps.items()},
            UNDO_CLEAR: Queued(self._conversing.undo_clear, can_repeat=True),
            RETRY_AFTER_LOGIN: Queued(self.retries.after_login, can_repeat=True),
        }
        self.dispatcher = CommandDispatcher(state, poster, clock, self._owners, steps)
        recovery = Recovery(state, forks, self._inputs, runner, poster, self.dispatcher, clock)
        self.loop = InputLoop(
            self.gate,
            state,
            forks,
            self._replies,
            self._inputs,
            runner,
            recovery,
            self.dispatcher,
            board,
        )

    def _build_buttons(self) -> ButtonRouter:
        """What the buttons below messages do."""
        deps, store, clock = self._deps, self._deps.store, self._deps.clock
        poster = self.poster
        self.manual_runs = JobRuns()
        self.server_cards = ServerCards(store, poster, self.notices, clock)
        can_ask = not deps.status.is_offline
        self.breakdowns = BreakdownButtons(store, self._steps, self.intake.receive, can_ask=can_ask)
        owners = (
            *self._owners,
            ItemButtons(self._items, clock),
            self.quiet_watch,
            self._careful,
            JobButtons(
                store,
                deps.repositories,
                poster.post,
                clock,
                self.manual_runs,
                self.overviews.refresh,
                deps.webhook_port,
            ),
            self.retries,
            self.server_cards,
            self.breakdowns,
            EventButtons(store, deps.events, poster, clock),
        )
        actions = {
            "approve": Action(self.approvals.answer, Uses.NOTHING),
            "undo": Action(self.echo.undo, Uses.NOTHING),
        }
        for owner in owners:
            actions.update(getattr(owner, "actions", {}))
        return ButtonRouter(store, poster, clock, receive=self.intake.receive, actions=actions)


def build_schedule(
    paths: DataPaths,
    store: Store,
    repositories: JobRepositories,
    conversation: ConversationParts,
    edits: ChangeJournal,
    clock: Clock,
    zone: OwnerZone,
    *,
    check_shared: Callable[[], None] = lambda: None,
    events: Events = file_events,
    disk: Disk | None = None,
    folders: JobFolders | None = None,
) -> Scheduler:
    """Build the scheduler; `events` yields the file changes that the system reports.

    `folders` are those of the repositories. `check_shared` is as in `JobIndex`.
    """
    index = JobIndex(
        paths, clock, conversation.notices, edits, disk, folders, check_shared=check_shared
    )
    dispatch = Dispatcher(
        store,
        conversation.gate,
        conversation.foreground,
        conversation.background,
        conversation.reminders,
        conversation.job_file_changes,
        clock,
        upcoming_reader(index, clock, paths.root, partial(readable_copies, paths)),
        conversation.manual_runs,
    )
    files, poster = conversation.job_file_changes, conversation.poster
    return Scheduler(
        index,
        Watcher(paths, clock, conversation.notices.tell, events=events),
        files,
        (
            Nags(store, index),
            HeadsUps(store, index, poster, clock),
            Departures(store, paths, poster, clock),
            TimerCards(store, index, poster, clock),
            DueJobs(store, index, dispatch, conversation.gate, files, clock),
        ),
        (
            RunRequests(RequestFolder(paths), repositories, dispatch, clock).run,
            WebhookRuns(store, index, dispatch, conversation.gate, clock).run,
        ),
        ScheduleRecords(
            ArmedJobs(store, clock), Heartbeat(store, HeartbeatFile(paths, disk)), zone
        ),
        AnswerPlans(store, index, clock),
        clock,
    )
