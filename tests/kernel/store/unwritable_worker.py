"""Run as a program: open the database while no file can be written, then allow writing again.

Argument: a data directory. Prints what it sees at each step.
"""

from __future__ import annotations

import resource
import signal
import sys
from pathlib import Path

from tests.kernel.store.scene import NOW, StoreScene

from ollim_bot.kernel.base.errors import WriteFailed
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.store.database import Database
from ollim_bot.kernel.store.opening import DatabaseImage, open_for_bot


def main() -> None:
    scene = StoreScene(Path(sys.argv[1]))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, most))
    image = open_for_bot(scene.paths, lambda: NOW, report=print, tell=print)
    assert isinstance(image, DatabaseImage)
    print("read", image.query(lambda tx: tx.session.get()))
    try:
        image.run_noting(lambda tx: tx.session.put(SessionId("refused")))
    except WriteFailed as refused:
        print("refused", refused.path.name)
    print("still", type(image.recovered()).__name__)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    database = image.recovered()
    assert isinstance(database, Database)
    database.run(lambda tx: tx.session.put(SessionId("after")))
    print("written", database.query(lambda tx: tx.session.get()))
    database.close()


if __name__ == "__main__":
    main()
