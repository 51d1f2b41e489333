"""Builds the scheduler."""

from __future__ import annotations

from datetime import tzinfo

from ollim_bot.conversation.assembly import ConversationParts
from ollim_bot.paths import DataPaths
from ollim_bot.ports import Clock, Disk, JobShelves
from ollim_bot.schedule.dispatch import Dispatcher
from ollim_bot.schedule.hand_edits import HandEdits
from ollim_bot.schedule.job_index import JobIndex
from ollim_bot.schedule.must_reminders import MustReminders
from ollim_bot.schedule.run_requests import RunRequests
from ollim_bot.schedule.scheduler import Scheduler, UpcomingReader
from ollim_bot.schedule.watcher import Events, Watcher, file_events
from ollim_bot.store.heartbeat import HeartbeatFile
from ollim_bot.store.run_requests import RequestFolder
from ollim_bot.store.store import Store


def assemble_schedule(
    paths: DataPaths,
    store: Store,
    shelves: JobShelves,
    talk: ConversationParts,
    edits: HandEdits,
    clock: Clock,
    zone: tzinfo,
    *,
    events: Events = file_events,
    disk: Disk | None = None,
) -> Scheduler:
    """`events` yields the changes of files that the system reports."""
    index = JobIndex(paths, clock, talk.notices, edits)
    dispatch = Dispatcher(
        store,
        talk.gate,
        talk.foreground,
        talk.background,
        MustReminders(talk.reminders, talk.gate, talk.job_file_changes, clock),
        clock,
        UpcomingReader(index, clock, zone, paths.root),
        talk.manual_runs,
    )
    return Scheduler(
        store,
        index,
        Watcher(paths, clock, talk.notices.tell, events=events),
        dispatch,
        talk.gate,
        talk.job_file_changes,
        clock,
        zone,
        HeartbeatFile(paths, disk),
        RunRequests(RequestFolder(paths), shelves, dispatch, clock),
    )
