"""Builds the scheduler."""

from __future__ import annotations

from datetime import tzinfo

from ollim_bot.conversation.assembly import ConversationParts
from ollim_bot.paths import DataPaths
from ollim_bot.ports import Clock, Disk
from ollim_bot.schedule.dispatch import Dispatcher
from ollim_bot.schedule.hand_edits import HandEdits
from ollim_bot.schedule.job_index import JobIndex
from ollim_bot.schedule.run_requests import RunRequests
from ollim_bot.schedule.scheduler import Scheduler, UpcomingReader
from ollim_bot.schedule.watcher import Events, Watcher, file_events
from ollim_bot.store.heartbeat import HeartbeatFile
from ollim_bot.store.run_requests import RequestFolder
from ollim_bot.store.store import Store
from ollim_bot.stores import Stores


def assemble_schedule(
    paths: DataPaths,
    stores: Stores,
    store: Store,
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
        stores,
        store,
        talk.foreground,
        talk.background,
        talk.reminders,
        talk.notices,
        clock,
        UpcomingReader(index, clock, zone, paths.root),
        talk.manual_runs,
    )
    watcher = Watcher(paths, clock, talk.notices.tell, events=events)
    requests = RunRequests(RequestFolder(paths), stores, dispatch, clock)
    heartbeat = HeartbeatFile(paths, disk)
    return Scheduler(
        stores, index, watcher, dispatch, talk.notices, clock, zone, heartbeat, requests
    )
