"""Who can write to the shared database, and is not the owner."""

from __future__ import annotations

import hashlib
import json
from contextlib import closing

from ollim_bot.kernel.store.transaction import JobOp
from ollim_bot_standby.postgres.connection import connect_to, parse_address


def put_job_op(url: str, op: JobOp) -> None:
    """Have the next leader change a job file."""
    with closing(connect_to(parse_address(url))) as connection:
        connection.execute(
            "INSERT INTO job_ops (seq, id, value, is_done)"
            " VALUES ((SELECT coalesce(max(seq), 0) + 1 FROM job_ops), $1, $2, 0)",
            (op.id, json.dumps(op.what)),
        )
        connection.commit()


def put_rows(url: str, files: dict[str, str], *, is_led: bool = False) -> None:
    """Make these the current versions of files; with `is_led`, beside a bot that leads."""
    with closing(connect_to(parse_address(url))) as connection:
        for path, text in files.items():
            content = text.encode()
            digest = hashlib.sha256(content).hexdigest()
            connection.execute(
                "INSERT INTO file_parts VALUES ($1, 0, $2) ON CONFLICT DO NOTHING",
                (digest, content),
            )
            connection.execute("UPDATE files SET is_current = 0 WHERE path = $1", (path,))
            connection.execute(
                "INSERT INTO files (path, hash, change, is_current, size, is_executable) VALUES"
                " ($1, $2, (SELECT coalesce(max(change), 0) + 1 FROM files), 1, $3, 0)"
                " ON CONFLICT (path, hash) DO UPDATE SET is_current = 1, change = excluded.change",
                (path, digest, len(content)),
            )
        if not is_led:
            # As if another machine had led since, and changed these.
            connection.execute("UPDATE lease SET epoch = epoch + 1")
            connection.execute(
                "UPDATE meta SET value = split_part(value, ' ', 1) || ' ' ||"
                " (SELECT epoch FROM lease) WHERE name = 'files'"
            )
        connection.commit()
