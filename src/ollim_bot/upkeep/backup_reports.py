"""What backups and restores report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ollim_bot.upkeep.archive import DATA, Manifest
from ollim_bot.upkeep.doctor import DoctorFinding

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


@dataclass(frozen=True, slots=True)
class Restored:
    """What came out of a backup.

    `keys` were taken from the present data directory, `missing` keys are in neither. `notes` are
    sentences about what is not as it was.
    """

    manifest: Manifest
    keys: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
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
