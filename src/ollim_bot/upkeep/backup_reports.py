"""What backups and restores report."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ollim_bot.upkeep.archive import DATA, Manifest
from ollim_bot.upkeep.doctor import DoctorFinding

# Where a restore puts what can act and was not taken in.
LEFT_OFF = "state/left-off"

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class BackupReport:
    """`removed` are the older backups that `keep` has removed."""

    path: Path
    size: int
    manifest: Manifest
    removed: tuple[Path, ...] = ()

    @property
    def is_complete(self) -> bool:
        return self.manifest.is_complete


def incomplete(report: BackupReport) -> str:
    """The sentence about a backup that has gaps: what is missing, and why."""
    gaps = report.manifest.unread
    shown = ", ".join(
        f"{gap.path.removeprefix(f'{DATA}/')} ({gap.reason})" for gap in gaps[:_SHOWN]
    )
    more = f", and {len(gaps) - _SHOWN} more" if len(gaps) > _SHOWN else ""
    return f"The backup {report.path} is not complete. It could not read {shown}{more}."


class Power(StrEnum):
    """What the owner is asked about, by the names that `--accept` takes."""

    HOOKS = "hooks"
    SERVERS = "servers"
    POLICY = "policy"
    AGENTS = "agents"
    SKILLS = "skills"
    KEYS = "keys"


@dataclass(frozen=True, slots=True)
class Brought:
    """Something in a backup that can act and is not so at present.

    `files` are its paths below the data directory; it has none if it is in the database. `later`
    says how the owner gets it after all.
    """

    power: Power
    name: str
    detail: str = ""
    files: tuple[str, ...] = ()
    later: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.detail})" if self.detail else self.name


@dataclass(frozen=True, slots=True)
class Restored:
    """What came out of a backup.

    `keys` were taken from the present data directory, `missing` keys are in neither. `brought` can
    act, and `left_off` is what of it was not taken in. `notes` are sentences about what is not as
    it was.
    """

    manifest: Manifest
    keys: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    brought: tuple[Brought, ...] = ()
    left_off: tuple[Brought, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """`aside` is where the former data directory is; None if there was none.

    `said` is what the owner said after the backup, as far as the former directory knows it.
    """

    restored: Restored
    aside: Path | None
    said: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TrialReport:
    """A backup that was restored into a scratch place; `findings` are the doctor's."""

    restored: Restored
    findings: tuple[DoctorFinding, ...]
