"""The whole bot: builds each object once, starts them in order, and owns every lifetime."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from functools import partial

from ollim_bot import __version__
from ollim_bot.app.build import ConversationDeps, ConversationParts, build_schedule
from ollim_bot.app.persona import Persona
from ollim_bot.app.provider_engine import ProviderEngine, engine_on_standby, open_provider_engine
from ollim_bot.app.surfaces import (
    MakeChannel,
    MakePhone,
    Service,
    Surfaces,
    first_error,
    in_order,
    keep_running,
    open_surfaces,
)
from ollim_bot.features.calendars.feeds import CalendarFeeds
from ollim_bot.features.calendars.refreshing import CalendarRefresher, take_calendar_address
from ollim_bot.features.doctor.examination import BotDoctor
from ollim_bot.features.google.google_calendars import GoogleCalendars
from ollim_bot.features.google.google_client import GoogleClient
from ollim_bot.features.google.google_tasks import connected_tasks
from ollim_bot.features.google.tokens import GoogleTokenStore
from ollim_bot.features.install.updater import BotUpdates, newer_version, start_updater
from ollim_bot.features.keeping.daily import DailyTask, DailyUpkeep, back_up_daily
from ollim_bot.features.keeping.restore import place_transcripts, refuse_cut_off
from ollim_bot.features.sentinel.sentinel_file import SentinelFile
from ollim_bot.features.tasks.task_lists import active_tasks
from ollim_bot.features.tool_servers.tool_servers import OpenServer, ToolServers, opened_in
from ollim_bot.kernel.base.clock import MovableClock, SystemClock, zone_of
from ollim_bot.kernel.base.desktop_notification import DesktopNotifier
from ollim_bot.kernel.base.environment import system_zone
from ollim_bot.kernel.base.errors import OllimError, StorageError
from ollim_bot.kernel.base.instance import single_instance
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.settings import Settings
from ollim_bot.kernel.base.text import PROGRAM
from ollim_bot.kernel.changes.change_journal import ChangeJournal
from ollim_bot.kernel.changes.file_changes import FileChanges
from ollim_bot.kernel.changes.job_files import job_folders, open_repositories, read_all
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.conversation.desktop_notices import Reach
from ollim_bot.kernel.permissions.path_rules import PathPolicy
from ollim_bot.kernel.schedule.ledger_records import MachineZoneWatch, OwnerZone
from ollim_bot.kernel.schedule.scheduler import Scheduler
from ollim_bot.kernel.schedule.watcher import Events, file_events
from ollim_bot.kernel.store.answer_plan_rows import with_known_plan
from ollim_bot.kernel.store.attachments.attachment_files import FileAttachments
from ollim_bot.kernel.store.backend import Backend
from ollim_bot.kernel.store.calendar_files import CalendarFiles, readable_copies
from ollim_bot.kernel.store.copies import AfterReturn
from ollim_bot.kernel.store.data_directory import (
    TEXTS,
    Closing,
    close_to_others,
    prepare_data_directory,
)
from ollim_bot.kernel.store.file_store import StoreProblem
from ollim_bot.kernel.store.heartbeat import HeartbeatFile
from ollim_bot.kernel.store.job_checker import JobFileChecker
from ollim_bot.kernel.store.journal import GitJournal, open_journal
from ollim_bot.kernel.store.opening import (
    DAILY_LIMIT_NOTICE,
    NOTICE_DUE,
    NOTICE_TOLD,
    open_for_bot,
    settle,
)
from ollim_bot.kernel.store.owner_files import PolicyFile, SubagentFiles
from ollim_bot.kernel.store.server_file import ServerFile
from ollim_bot.kernel.store.skill_files import SkillFolder
from ollim_bot.kernel.store.standby_loader import SharedLead, load_standby
from ollim_bot.kernel.store.steps import (
    count_set,
    holder_of_id,
    leave_notice,
    new_notice,
    note_agent_skills,
)
from ollim_bot.kernel.store.store import DatabaseStore, Store, Watches
from ollim_bot.kernel.store.task_file import TaskFile
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.tools.gates import Abilities, BackgroundTools, Careful, main_gate
from ollim_bot.kernel.tools.guards import JobValidator, SubagentGuard, is_own
from ollim_bot.kernel.tools.registry import DEFAULT_BG_TOOLS, MAIN_TOOLS
from ollim_bot.kernel.upkeep.hand_over import confirm_update, resume_update
from ollim_bot.kernel.values.calendar import CalendarCopy
from ollim_bot.kernel.values.jobs import Job, job_key
from ollim_bot.kernel.values.pasted_addresses import AddressAnswer, AddressKind
from ollim_bot.kernel.values.permissions import Pattern
from ollim_bot.kernel.values.ports import (
    AgentEngine,
    ChatSurface,
    Disk,
    JobRepositories,
    Journal,
    Status,
    TaskList,
)
from ollim_bot.kernel.values.provider import Provider
from ollim_bot.kernel.values.sessions import SessionChange, SessionEvent
from ollim_bot.kernel.values.tool_servers import NamedPlaces
from ollim_bot.surfaces.web.page import WebSurface

# How many seconds running work may take to end after the bot is told to stop.
_GRACE = 20.0
# How many seconds the last messages may take to arrive; the others follow after the next start.
_LAST_WORDS = 3.0
_A_DAY = 24 * 60 * 60.0

AnnounceStart = Callable[[Provider, WebSurface | None], None]

_logger = logging.getLogger(__name__)


class Ending(Enum):
    STOPPED = "stopped"
    RESTART = "restart"


@dataclass(frozen=True, slots=True)
class Adapters:
    """The implementations of the ports; None means the real one."""

    clock: MovableClock | None = None
    engine: AgentEngine | None = None
    surfaces: Sequence[ChatSurface] | None = None
    store: Store | None = None
    disk: Disk | None = None
    journal: Journal | None = None
    events: Events = file_events
    open_server: OpenServer | None = None
    newer_version: Callable[[], Awaitable[str | None]] = newer_version
    end: Callable[[str], None] | None = None


class App:
    """The whole bot.

    `channels` make the surfaces that are services of others, and `phone` the way on which the page
    pairs the owner's phone. `announce` is called when the bot is up, with the provider whose model
    answers, and with the page, if there is one. `program` is how the owner calls the program in a
    terminal. On trial, the bot ends where it would begin to serve: the store is open and migrated,
    and all is loaded; no input was taken, nothing ran, and nothing was delivered.
    """

    def __init__(
        self,
        settings: Settings,
        adapters: Adapters | None = None,
        *,
        channels: Sequence[MakeChannel] = (),
        phone: MakePhone | None = None,
        announce: AnnounceStart = lambda _provider, _page: None,
        program: str = PROGRAM,
        is_trial: bool = False,
    ) -> None:
        self._settings = settings
        self._is_trial = is_trial
        self._adapters = adapters or Adapters()
        self._clock = self._adapters.clock or SystemClock(settings.zone)
        self._make_channels = channels
        self._make_phone = phone
        self._announce = announce
        self._program = program
        self._ending = Ending.STOPPED
        self._is_wanted_to_end = asyncio.Event()
        self._problems: asyncio.Queue[str] = asyncio.Queue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reach = PathPolicy(settings.paths.root, (TEXTS,), self._server_places)
        self._skills = SkillFolder(settings.paths.skills, self._problem)
        self._job_files = JobFileChecker(settings.paths)
        self._job_folders = job_folders(settings.paths, self._adapters.disk)
        self._policy = PolicyFile(settings.paths, self._problem)
        self._subagents = SubagentFiles(settings.paths)
        calendars = CalendarFiles(settings.paths, self._adapters.disk, self._state_problem)
        self._feeds = CalendarFeeds(settings.paths, calendars)
        self._news = Watches()
        self._google_tokens = GoogleTokenStore(settings.paths, self._clock.now, settings.google)
        self._shared: SharedLead | None = None
        self._scheduler: Scheduler | None = None
        self._servers: ToolServers | None = None
        self._updates: BotUpdates | None = None
        self._is_unproven = False
        self._start_journal: Callable[[], None] = lambda: None
        self._has_loaded = asyncio.Event()

    def stop(self, ending: Ending = Ending.STOPPED) -> None:
        """Tell the bot to end. A second call is harmless."""
        self._ending = ending
        self._is_wanted_to_end.set()

    async def run(self) -> Ending:
        """Run until told to stop. Raises the error that ended the bot."""
        self._loop = asyncio.get_running_loop()
        paths = self._settings.paths
        async with AsyncExitStack() as lifetime:
            closing = await asyncio.to_thread(self._prepare, paths)
            lifetime.enter_context(single_instance(paths.bot_pid, report=self._problem))
            vital: list[Service] = []
            edits = ChangeJournal(await self._journal(lifetime), paths.root, self._clock)
            if self._settings.database_url and not await self._led(lifetime, edits):
                return self._ending
            store = self._adapters.store or await self._opened_store(lifetime, vital, edits)
            zone = await self._owner_zone(store)
            repositories = self._opened_repositories(store, edits)
            # The engine waits for its program, and the job files may be many.
            reading = asyncio.create_task(asyncio.to_thread(read_all, repositories))
            chosen = await self._opened_engine(lifetime, store)
            surfaces = await self._opened_surfaces(store)
            servers = await self._loaded_servers(store)
            persona = self._persona(store)
            parts = self._parts(store, repositories, chosen, edits, surfaces, persona)
            lifetime.push_async_callback(parts.forks.close)
            await parts.load()
            if chosen.provider.problem:
                await parts.notices.tell(chosen.provider.problem, for_reminder=True)
            if closing.mended:
                # A key with the moment: the notice is told at every such start.
                key = f"{closing.mended} {self._clock.now().isoformat()}"
                await parts.notices.tell(closing.mended, key=key)
            for problem in closing.problems:
                await parts.notices.tell(problem)
            await self._tell_of_limit(store, parts)
            try:
                self._scheduler = build_schedule(
                    self._settings.paths,
                    store,
                    repositories,
                    parts,
                    edits,
                    self._clock,
                    zone,
                    check_shared=partial(self._check_shared, persona),
                    events=self._adapters.events,
                    disk=self._adapters.disk,
                    folders=self._job_folders,
                )
                if self._is_trial:
                    await reading
                    await self._tried_out(parts, self._scheduler)
                    return self._ending
                heartbeat = HeartbeatFile(paths, self._adapters.disk)
                if refused := await parts.greeting.begun(await asyncio.to_thread(heartbeat.read)):
                    await parts.notices.tell(texts.no_room(refused), for_reminder=True)
                announce = partial(self._announce, chosen.provider)
                vital += surfaces.services(parts.conversation, parts)
                services = [*surfaces.greetings(parts, announce)]
                services.append(partial(self._hold_servers, self._scheduler, chosen, servers))
                keep = partial(edits.run, self._changes(store, edits), parts.echo.show_unwatched)
                services.append(partial(self._keep_history, self._scheduler, keep))
                services += [self._shared.store_records] if self._shared else []
                services += self._own_services(store, parts, self._scheduler)
                scheduled = in_order(reading, self._scheduler.run)
                await self._serve(store, parts, self._scheduler, vital, services, scheduled)
            except BaseExceptionGroup as several:
                error = first_error(several)
                if isinstance(error, OllimError):
                    # The bot ends with a stated reason, so the next start must not report a crash.
                    await parts.greeting.ended()
                await parts.greeting.failed(error)
                raise error from None
            await parts.greeting.ended(for_restart=self._ending is Ending.RESTART)
            if self._ending is Ending.RESTART and parts.state.session is not None:
                now = self._clock.now()
                event = SessionEvent(parts.state.session, SessionChange.RESTARTING, now)
                await store.transact(lambda tx: tx.session_history.append(event))
        return self._ending

    async def _led(self, lifetime: AsyncExitStack, edits: ChangeJournal) -> bool:
        """Stand by until this machine leads the database that it shares; False if told to end."""
        shared = self._shared = self._shared_database()
        lifetime.push_async_callback(asyncio.to_thread, shared.close)
        if self._is_trial:
            await asyncio.to_thread(shared.check)
            return False
        show = partial(self._show_to_readers, shared, edits)
        return await shared.lead_or_stand_by(self._is_wanted_to_end, show)

    def _shared_database(self) -> SharedLead:
        again = partial(asyncio.get_running_loop().call_soon_threadsafe, self.stop, Ending.RESTART)
        heartbeat = HeartbeatFile(self._settings.paths, self._adapters.disk)
        given = self._settings, self._clock, heartbeat, again, self._problem, self._adapters.end
        shared: SharedLead = load_standby("shared_database").SharedDatabase(*given)
        return shared

    async def _show_to_readers(self, shared: SharedLead, edits: ChangeJournal) -> None:
        """Show the page for reading only, and which machine leads, until cancelled."""
        async with AsyncExitStack() as lifetime:
            opening = asyncio.to_thread(shared.open_for_reading)
            store = DatabaseStore(await opening, self._clock)
            lifetime.push_async_callback(store.close)
            self._settings = await asyncio.to_thread(self._settings.with_shared)
            await self._owner_zone(store)
            engine = self._adapters.engine
            chosen = await engine_on_standby(self._settings, store, self._clock, engine)
            surfaces = await self._opened_surfaces(store)
            repositories, persona = self._opened_repositories(store, edits), self._persona(store)
            parts = self._parts(store, repositories, chosen, edits, surfaces, persona)
            for load in (parts.fanout.load, parts.state.load, parts.board.load):
                await load()
            announce = partial(self._announce, chosen.provider)
            services = [*surfaces.services(parts.conversation, parts), store.run_upkeep]
            services += [parts.fanout.run, parts.board.run, *surfaces.greetings(parts, announce)]
            services.append(partial(shared.follow, store))
            async with asyncio.TaskGroup() as group:
                for run in services:
                    group.create_task(run())
                while True:
                    await parts.board.trouble(shared.standing)
                    await shared.standing_changed()

    def _own_services(
        self, store: Store, parts: ConversationParts, scheduler: Scheduler
    ) -> list[Service]:
        self._updates = BotUpdates(
            self._settings.paths,
            self._clock,
            parts.notices.tell,
            lambda: parts.is_idle,
            lambda: self.stop(Ending.RESTART),
            partial(start_updater, self._settings.paths, os.environ),
        )

        async def tell(sentence: str, key: str) -> None:
            await parts.notices.tell(sentence, key=key)

        return [
            partial(self._updates.run, scheduler.started),
            self._daily(store, parts, self._updates).run,
            partial(self._keep_calendars, store, parts),
            partial(self._serve_webhooks, store, scheduler),
            MachineZoneWatch(store, self._clock, tell, partial(system_zone, os.environ)).run,
        ]

    async def _keep_history(self, scheduler: Scheduler, keep_changes: Service) -> None:
        """Keep what has changed once the schedule has begun: the files of a start may be many."""
        await scheduler.started()
        self._start_journal()
        await keep_changes()

    async def _hold_servers(
        self, scheduler: Scheduler, chosen: ProviderEngine, servers: ToolServers
    ) -> None:
        """Load what no reminder needs, which takes long, then hold the tool servers.

        One after the other: threads that load the same libraries may lock each other out.
        """
        await scheduler.started()
        await asyncio.to_thread(chosen.load)
        self._has_loaded.set()
        await servers.run()

    async def _tried_out(self, parts: ConversationParts, scheduler: Scheduler) -> None:
        """Read all jobs too, and leave the problems found so far for the start that follows."""
        await scheduler.read_jobs()
        while not self._problems.empty():
            await parts.notices.tell(self._problems.get_nowait())

    def _prepare(self, paths: DataPaths) -> Closing:
        refuse_cut_off(paths)
        for problem in prepare_data_directory(paths).problems:
            self._problem(problem)
        return close_to_others(paths)

    async def _tell_of_limit(self, store: Store, parts: ConversationParts) -> None:
        """Tell the owner of a directory from before the daily limit, once, that it has none."""
        if await store.read(lambda tx: tx.meta.get(DAILY_LIMIT_NOTICE)) != NOTICE_DUE:
            return
        if (await store.read(lambda tx: tx.config.get())).daily_cost_cap is None:
            await parts.notices.tell(texts.NO_DAILY_LIMIT)
        with suppress(StorageError):  # the next start tries again
            await store.transact(lambda tx: tx.meta.put(DAILY_LIMIT_NOTICE, NOTICE_TOLD))

    async def _journal(self, lifetime: AsyncExitStack) -> Journal:
        if self._adapters.journal is not None:
            return self._adapters.journal
        journal = open_journal(self._settings.paths, on_problem=self._problem)
        lifetime.push_async_callback(asyncio.to_thread, _close_journal, journal)
        await asyncio.to_thread(journal.note_unseen)
        self._start_journal = journal.start
        return journal

    async def _opened_engine(self, lifetime: AsyncExitStack, store: Store) -> ProviderEngine:
        engine = self._adapters.engine
        opening = open_provider_engine(self._settings, store, self._clock, engine, self._program)
        chosen = await lifetime.enter_async_context(opening)
        if self._shared is None:
            return chosen
        return replace(chosen, engine=self._shared.recorded(chosen.engine))

    async def _owner_zone(self, store: Store) -> OwnerZone:
        zone = OwnerZone(store, self._clock, self._settings.zone)
        await zone.set_clock()
        return zone

    def _opened_repositories(self, store: Store, edits: ChangeJournal) -> JobRepositories:
        def choose_holder(rivals: Sequence[Job]) -> int:
            return store.query(lambda tx: holder_of_id(tx, rivals))

        def plan(job: Job) -> Job:
            return store.query(lambda tx: with_known_plan(tx, job))

        paths, disk, folders = self._settings.paths, self._adapters.disk, self._job_folders
        changes = self._changes(store, edits)
        return open_repositories(paths, edits, disk, choose_holder, folders, plan, changes)

    def _changes(self, store: Store, journal: Journal) -> FileChanges:
        return FileChanges(self._settings.paths, store, journal, self._clock.now)

    async def _opened_surfaces(self, store: Store) -> Surfaces:
        if self._adapters.surfaces is not None:
            return Surfaces(self._adapters.surfaces, self._clock)
        given = self._make_channels, self._heartbeat_age, self._problem
        return await open_surfaces(self._settings, store, self._clock, *given)

    async def _loaded_servers(self, store: Store) -> ToolServers:
        paths = self._settings.paths
        open_server = self._adapters.open_server or opened_in(paths)
        file = ServerFile(paths, self._problem)
        self._servers = ToolServers(store, file, self._clock, open_server)
        await self._servers.load()
        return self._servers

    def _server_places(self) -> NamedPlaces:
        return self._servers.places if self._servers else NamedPlaces()

    async def _opened_store(
        self, lifetime: AsyncExitStack, vital: list[Service], journal: Journal
    ) -> Store:
        def opened() -> Backend:
            if not self._is_trial:
                paths, now = self._settings.paths, self._clock.now()
                self._is_unproven = resume_update(paths, __version__)
                for problem in place_transcripts(paths, os.environ, now):
                    self._problem(problem)
            database = self._opened_database(journal)
            if database.is_writable:
                take_over(database)
            return database

        left = SentinelFile(self._settings.paths, self._state_problem, self._adapters.disk)
        # A trial may be put back, and what it had taken over would be lost.
        take_over = (lambda _: False) if self._is_trial else left.give_to
        store = DatabaseStore(await asyncio.to_thread(opened), self._clock, take_over)
        lifetime.push_async_callback(store.close)
        vital.append(store.run_upkeep)
        if self._shared is not None:
            self._settings = await self._shared.take_up(store, self._settings)
            vital += self._shared.services(store, self._settings)
        return store

    def _opened_database(self, journal: Journal) -> Backend:
        paths, now, disk = self._settings.paths, self._clock.now, self._adapters.disk
        report = self._state_problem
        if self._shared is not None:
            database = self._shared.open_for_leader(report, disk, journal)
            heartbeat = HeartbeatFile(paths, disk).read()
            database.run(lambda tx: settle(tx, heartbeat, self._tell_of_return))
            return database
        tell = self._tell_of_return
        return open_for_bot(paths, now, report=report, tell=tell, disk=disk, journal=journal)

    def _tell_of_return(self, tx: Transaction, returned: AfterReturn) -> None:
        sentence = texts.returned_to_copy(returned, self._clock.now())
        _logger.warning("%s", sentence)
        leave_notice(tx, new_notice(sentence), tx.now)

    def _state_problem(self, problem: StoreProblem) -> None:
        self._problem(str(problem))

    def _problem(self, sentence: str) -> None:
        """Tell the problem once the conversation runs. Callable from any thread."""
        _logger.warning("%s", sentence)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._problems.put_nowait, sentence)

    def _tasks(self, store: Store, journal: Journal) -> TaskList:
        """The list of tasks in use now: the owner may connect Google while the bot runs."""
        list_id = store.query(lambda tx: tx.config.get()).google_task_list
        service = connected_tasks(self._google_tokens, self._google(store), list_id)
        return active_tasks(TaskFile(self._settings.paths, journal, self._clock.now), service)

    def _persona(self, store: Store) -> Persona:
        skills, tell = self._skills.read, self._problem
        return Persona(self._settings, store, self._clock, self._subagents, skills, tell)

    def _check_shared(self, persona: Persona) -> None:
        """Tell what is wrong with the policy, the skills and the profile, before they are used."""
        self._policy.read()
        self._skills.read()
        persona.check()

    def _parts(
        self,
        store: Store,
        repositories: JobRepositories,
        chosen: ProviderEngine,
        journal: Journal,
        surfaces: Surfaces,
        persona: Persona,
    ) -> ConversationParts:
        settings, paths = self._settings, self._settings.paths
        job_guard, careful = self._job_guard(store), self._careful(store)
        doctor = BotDoctor(settings, chosen.provider, self._clock.now)
        is_real = self._adapters.surfaces is None
        desktop = DesktopNotifier(os.environ) if is_real else None
        deps = ConversationDeps(
            store=store,
            engine=chosen.engine,
            repositories=repositories,
            clock=self._clock,
            surfaces=surfaces.followers,
            keeper=FileAttachments(paths, self._clock.now),
            spec=persona.spec,
            gate=partial(
                main_gate,
                self._reach,
                allowed=self._allowed_in_main,
                careful=careful,
                job_guard=job_guard,
                subagents=SubagentGuard(self._subagents.read),
            ),
            background_tools=BackgroundTools(
                self._reach,
                lambda: self._policy.read().background(DEFAULT_BG_TOOLS),
                careful=careful,
                job_guard=job_guard,
                count=lambda setter: store.run(lambda tx: count_set(tx, setter, tx.now.date())),
                abilities=Abilities(
                    self._subagents.read,
                    self._skills.read,
                    self._servers.tools if self._servers else dict,
                    self._allowed_in_main,
                    lambda job: store.query(lambda tx: tx.agent_skills.get()).of_job(job_key(job)),
                ),
            ),
            journal=journal,
            job_files=self._job_files,
            former=self._changes(store, journal),
            working_directory=paths.root,
            doctor=doctor.examine_in_chat,
            health=doctor,
            restart=lambda: self.stop(Ending.RESTART),
            update=self._begin_update,
            newer_version=self._adapters.newer_version,
            login=chosen.login,
            tasks=partial(self._tasks, store, journal),
            events=lambda: self._google_calendars(store),
            channels=surfaces.channels,
            calendars=partial(readable_copies, paths),
            news=self._news,
            take_address={AddressKind.CALENDAR: self._take_calendar},
            webhook_port=settings.webhook_port,
            zone=settings.zone,
            google=settings.google,
            status=self._status(chosen.provider),
            heartbeat=HeartbeatFile(paths, self._adapters.disk).read,
            reach=Reach(desktop, surfaces.page.tabs if surfaces.page else None),
            phone=self._make_phone(store, self._clock) if self._make_phone else None,
        )
        return ConversationParts(deps)

    def _job_guard(self, store: Store) -> JobValidator:
        def note_skills(job: str, skills: Sequence[str]) -> None:
            store.run(lambda tx: note_agent_skills(tx, job, skills))

        root = self._settings.paths.root
        return JobValidator(root, self._job_files, self._allowed_in_main, note_skills)

    def _careful(self, store: Store) -> Careful:
        root = self._settings.paths.root

        def looks(tool: str) -> bool:
            return self._servers is not None and self._servers.looks(tool)

        return Careful(root, partial(is_own, store, root), looks)

    def _status(self, provider: Provider) -> Status:
        settings = self._settings
        return Status(
            provider=provider.name,
            is_offline=provider.is_offline,
            model=settings.engine_environment().get("ANTHROPIC_MODEL", "default"),
            is_busy=False,
            user_name=settings.user_name,
            bot_name=settings.bot_name,
            version=__version__,
            price=provider.price,
            program=self._program,
        )

    def _daily(self, store: Store, parts: ConversationParts, updates: BotUpdates) -> DailyUpkeep:
        paths, tell = self._settings.paths, parts.notices.tell
        backup = partial(back_up_daily, paths, os.environ, self._clock, tell)
        tasks = [
            DailyTask("backup", lambda config: config.auto_backup, backup),
            DailyTask(
                "update", lambda config: config.auto_update, updates.begin_daily, only_in_hour=True
            ),
        ]
        return DailyUpkeep(store, self._clock, tasks, lambda: parts.is_idle)

    async def _begin_update(self) -> str:
        assert self._updates is not None
        return await self._updates.begin()

    async def _keep_calendars(self, store: Store, parts: ConversationParts) -> None:
        """Keep the calendars current.

        Those that the owner has just chosen, and files that were changed, are read at once.
        """

        def read_google(now: datetime) -> Sequence[CalendarCopy]:
            return self._google_calendars(store).refresh(now)

        tell, clock, publish = parts.notices.tell, self._clock, self._news.publish
        refresher = CalendarRefresher(self._feeds, tell, clock, read_google, publish)
        with store.changes("config", "changes") as changed:
            async with asyncio.TaskGroup() as group:
                group.create_task(refresher.run())
                known = await store.read(lambda tx: tx.config.get().google_calendars)
                while True:
                    await changed.wait()
                    changed.clear()
                    wanted = await store.read(lambda tx: tx.config.get().google_calendars)
                    if wanted != known:
                        known = wanted
                        refresher.read_others_soon()
                    await refresher.refresh_files()

    async def _take_calendar(self, address: str) -> AddressAnswer:
        answer = await take_calendar_address(self._feeds, self._clock, address)
        self._news.publish()
        return answer

    def _google(self, store: Store) -> GoogleClient:
        api = self._settings.google.api
        return GoogleClient(self._google_tokens, api, may_act=store.sharing.may_act)

    def _google_calendars(self, store: Store) -> GoogleCalendars:
        config = store.query(lambda tx: tx.config.get())
        return GoogleCalendars(
            self._settings.paths,
            self._google_tokens,
            self._google(store),
            zone_of(self._clock),
            config.google_calendars,
        )

    def _allowed_in_main(self) -> Sequence[Pattern]:
        patterns = [Pattern.of(text) for text in self._policy.read().main(MAIN_TOOLS)]
        return patterns if self._servers is None else [*patterns, *self._servers.patterns()]

    async def _serve_webhooks(self, store: Store, scheduler: Scheduler) -> None:
        """Answer the calls of other programs, if that is switched on, once the jobs are known."""
        if self._settings.webhook_port is not None:
            await self._has_loaded.wait()
            # Its libraries are those of the SDK, which is loaded by then.
            from ollim_bot.features.webhooks.webhook_server import serve_webhooks

            await serve_webhooks(self._settings, scheduler.job, store, self._clock)

    def _heartbeat_age(self) -> float | None:
        return self._scheduler.heartbeat_age if self._scheduler else None

    async def _serve(
        self,
        store: Store,
        parts: ConversationParts,
        scheduler: Scheduler,
        vital: Sequence[Service],
        services: Sequence[Service],
        scheduled: Coroutine[None, None, None],
    ) -> None:
        """Run all until told to end. A failure of the loop, the schedule or the vital ends all.

        Every other service is started again when it fails.
        """
        async with asyncio.TaskGroup() as group:
            if self._is_unproven:
                parts.background.may_begin.clear()
            schedule = group.create_task(scheduled)
            if self._is_unproven:
                await self._proven(scheduler)
                parts.background.may_begin.set()
            conversation = group.create_task(parts.loop.run())
            tasks = [group.create_task(run()) for run in vital]
            others: list[Service] = [partial(self._tell_problems, parts), self._tidy]
            for run in (*parts.services, *others, *services):
                kept = keep_running(run, store, parts.notices, self._clock)
                tasks.append(group.create_task(kept))
            await self._is_wanted_to_end.wait()
            schedule.cancel()
            await asyncio.gather(self._end(parts, conversation), parts.background.close())
            await scheduler.close()
            await parts.deliveries.settle(_LAST_WORDS)
            for task in tasks:
                task.cancel()

    async def _proven(self, scheduler: Scheduler) -> None:
        """Return when an update may count on this version: its heartbeat has come.

        Until then an update may put the old version back, and what was taken would be lost.
        """
        waits = [asyncio.create_task(w()) for w in (scheduler.started, self._is_wanted_to_end.wait)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if waits[0].done():
            with suppress(StorageError):  # the next start confirms it
                await asyncio.to_thread(confirm_update, self._settings.paths)
        for each in waits:
            each.cancel()

    async def _end(self, parts: ConversationParts, task: asyncio.Task[None]) -> None:
        """Give the running turn time to end; the next start resumes it otherwise."""
        parts.loop.end_soon()
        if not parts.state.is_idle:
            await asyncio.wait({task}, timeout=_GRACE)
        task.cancel()

    async def _tell_problems(self, parts: ConversationParts) -> None:
        while True:
            await parts.notices.tell(await self._problems.get())

    async def _tidy(self) -> None:
        """Delete old attachments once a day."""
        keeper = FileAttachments(self._settings.paths, self._clock.now)
        while True:
            try:
                await asyncio.to_thread(keeper.clean, self._clock.now())
            except OllimError as error:
                self._problem(str(error))
            await self._clock.sleep(_A_DAY)


def _close_journal(journal: GitJournal) -> None:
    """Commit what waits, in the thread, so that the end of the bot waits for git only so long."""
    journal.start()
    journal.close()
