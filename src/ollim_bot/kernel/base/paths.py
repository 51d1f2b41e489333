"""The paths of all files below the data directory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ollim_bot.kernel.base.job_kinds import JobKind

# To join a path takes six times as long as to find it here, and some are asked for every second.
_MOST_KEPT = 512


@lru_cache(_MOST_KEPT)
def _joined(root: Path, relative: str) -> Path:
    return root / relative


class _Below:
    __slots__ = ("_relative",)

    def __init__(self, relative: str) -> None:
        self._relative = relative

    def __get__(self, paths: DataPaths, owner: type[DataPaths]) -> Path:
        return _joined(paths.root, self._relative)


@dataclass(frozen=True, slots=True)
class DataPaths:
    root: Path

    identity = _Below("IDENTITY.md")
    user = _Below("USER.md")
    tasks = _Below("tasks.md")
    tool_policy = _Below("tool-policy.yaml")
    mcp = _Below("mcp.json")
    routines = _Below("routines")
    reminders = _Below("reminders")
    webhooks = _Below("webhooks")
    skills = _Below("skills")
    downloads = _Below("downloads")
    claude_agents = _Below(".claude/agents")
    claude_skills = _Below(".claude/skills")
    routine_spec_link = _Below("routine-reminder-spec.md")
    webhook_spec_link = _Below("webhook-spec.md")
    env_file = _Below(".env")
    gitignore = _Below(".gitignore")
    state = _Below("state")
    bot_pid = _Below("state/bot.pid")
    sessions = _Below("state/sessions.json")
    session_history = _Below("state/session_history.jsonl")
    pending_updates = _Below("state/pending_updates.json")
    fork_messages = _Below("state/fork_messages.json")
    inquiries = _Below("state/inquiries.json")
    ping_budget = _Below("state/ping_budget.json")
    config = _Below("state/config.json")
    fork = _Below("state/fork.json")
    heartbeat = _Below("state/heartbeat")
    sentinel = _Below("state/sentinel.json")
    commands = _Below("state/commands.sock")
    standing_by = _Below("state/standing_by")
    machine_id = _Below("state/machine_id")
    known_schedule = _Below("state/known_schedule.db")
    led = _Below("state/led")
    shared_settings = _Below("state/settings.env")
    maintenance = _Below("state/maintenance.json")
    restored_transcripts = _Below("state/restored_transcripts")
    update = _Below("state/update.json")
    before_update = _Below("state/before-update")
    credentials = _Below("state/credentials.json")
    token = _Below("state/token.json")
    calendars = _Below("state/calendars")
    google_revoked = _Below("state/google_revoked.json")
    task_ids = _Below("state/task_ids.json")
    push = _Below("state/push.json")
    web_token = _Below("state/web_token")
    web_browsers = _Below("state/web_browsers.json")
    attachments = _Below("state/attachments")
    servers = _Below("state/servers")
    set_aside = _Below("state/set-aside")
    files_current = _Below("state/files-current")
    waiting_files = _Below("state/waiting-files.json")
    locks = _Below("state/.locks")

    def backups(self) -> Path:
        """Where backups go by default: beside the data directory, out of the agent's reach."""
        return self.root.with_name(f"{self.root.name}-backups")

    def jobs(self, kind: JobKind) -> Path:
        """The folder with the files of this kind of job."""
        return _joined(self.root, kind.plural)

    def lock_of(self, path: Path) -> Path:
        """The file to lock before a change of the file or folder `path`."""
        return self.locks / path.name
