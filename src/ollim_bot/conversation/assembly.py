"""Puts the parts of the conversation together."""

from __future__ import annotations

from functools import cached_property

from ollim_bot.conversation.background import BackgroundRuns
from ollim_bot.conversation.background_attempt import BackgroundDeps
from ollim_bot.conversation.buttons import Action, ButtonRouter, Uses
from ollim_bot.conversation.commands.dispatcher import CommandDispatcher
from ollim_bot.conversation.commands.jobs import JobCommands
from ollim_bot.conversation.commands.program import (
    PermissionCommands,
    PingCommands,
    ProgramCommands,
    SettingCommands,
    SetUp,
)
from ollim_bot.conversation.commands.sessions import (
    Compaction,
    ConversationCommands,
    SessionCommands,
)
from ollim_bot.conversation.commands.table import CommandServices, Queued
from ollim_bot.conversation.conversation import Conversation
from ollim_bot.conversation.forks.commands import ForkButtons, IdleWatch
from ollim_bot.conversation.forks.forks import Replies
from ollim_bot.conversation.foundations import Foundations, World
from ollim_bot.conversation.greeting import Greeting
from ollim_bot.conversation.jobs.buttons import JobButtons
from ollim_bot.conversation.jobs.manual_runs import ManualRuns
from ollim_bot.conversation.jobs.reminders import ReminderButtons, ReminderDelivery
from ollim_bot.conversation.turns.recovery import Recovery
from ollim_bot.prompts.system import read_set_up


class Talk(Foundations):
    """The conversation, and those of its parts that have a life of their own."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._set_up = read_set_up()
        self.manual_runs = ManualRuns()

    @cached_property
    def conversation(self) -> Conversation:
        return Conversation(
            inbox=self._inbox,
            poster=self.poster,
            deliveries=self.deliveries,
            chat=self._chat,
            fanout=self.fanout,
            store=self._store,
            session=self.session,
            forks=self.forks,
            replies=Replies(
                self._engine, self._stores, self._store, self.session, self.forks, self._clock
            ),
            answering=self._answering,
            approvals=self._approvals,
            recovery=self._recovery,
            questions=self._questions,
            desk=self._desk,
            clicks=self._clicks,
            notices=self.notices,
            keeper=self._world.keeper,
            clock=self._clock,
            config=self._stores.config,
            status=self._world.status,
        )

    @cached_property
    def background(self) -> BackgroundRuns:
        return BackgroundRuns(
            BackgroundDeps(
                self._engine,
                self._stores,
                self._store,
                self._clock,
                self._root,
                self.poster,
                self.notices,
                self._world.background_tools,
                self.echo,
                self._auto_commit,
                spec=self._world.spec,
                is_busy=self._is_busy,
                main=lambda: self.session.id,
            )
        )

    @cached_property
    def reminders(self) -> ReminderDelivery:
        return ReminderDelivery(self._stores, self._store, self.poster, self._clock)

    @cached_property
    def idle_watch(self) -> IdleWatch:
        return IdleWatch(
            self._kept_fork,
            self._clock,
            is_quiet=lambda: self.conversation.is_quiet,
            is_due=self._fork_commands.is_due,
        )

    @cached_property
    def greeting(self) -> Greeting:
        return Greeting(
            self._stores,
            self._chat,
            self.poster,
            self.session,
            self._posting,
            self._clock,
            open_fork=lambda: self._kept_fork.fork,
            name=self._world.status.bot_name,
            prompt=self._set_up,
        )

    @cached_property
    def _recovery(self) -> Recovery:
        return Recovery(
            self._stores,
            self._inbox,
            self._chat,
            self.forks,
            self._questions,
            self._answering,
            self._posting,
            self._desk,
            self._clock,
        )

    @cached_property
    def _desk(self) -> CommandDispatcher:
        return CommandDispatcher(
            self._inbox,
            self._posting,
            self._clock,
            self._command_services(),
            steps={
                name: Queued(run, can_repeat=True)
                for name, run in self._fork_commands.steps.items()
            },
        )

    def _command_services(self) -> CommandServices:
        stores, store, clock, world = self._stores, self._store, self._clock, self._world
        return CommandServices(
            ConversationCommands(
                self._answering, self._approvals, self._fork_commands, self.session
            ),
            Compaction(stores, store, self.forks, self._answering, clock),
            SessionCommands(
                self._engine, stores, store, self.session, clock, self._root, price=self._price
            ),
            self._fork_commands,
            SettingCommands(stores.config),
            PermissionCommands(self._approvals),
            PingCommands(store, clock),
            JobCommands(stores, clock, self.poster.post, in_fork=self._is_in_fork),
            SetUp(self._set_up, lambda message: self.conversation.receive(message)),
            ProgramCommands(world.doctor, world.restart),
        )

    @cached_property
    def _clicks(self) -> ButtonRouter:
        world, post = self._world, self.poster.post
        jobs = JobButtons(
            self._stores, world.job_files, world.former, post, self._clock, self.manual_runs
        )
        forks = ForkButtons(self.forks, self._fork_commands, self._answering.stop)
        return ButtonRouter(
            self._stores,
            self._chat,
            self.poster,
            self._clock,
            receive=lambda message: self.conversation.receive(message),
            actions={
                "approve": Action(self._approvals.answer, Uses.NOTHING),
                "undo": Action(self.echo.undo),
                **ReminderButtons(self._stores, self._clock).actions,
                **jobs.actions,
                **forks.actions,
            },
        )
