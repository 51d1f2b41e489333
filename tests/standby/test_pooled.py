"""The address of a pooler is recognised before anything is moved there."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import parse_qs, quote, urlsplit

from tests.standby.pooler import pooler
from tests.standby.scene import StandbyScene, has_address

SOCKET = ".s.PGSQL.5432"


def test_an_address_that_keeps_no_session_is_refused(scene: StandbyScene) -> None:
    [server] = parse_qs(urlsplit(scene.url).query)["host"]
    direct = scene.file.read_text()
    with TemporaryDirectory() as folder, pooler(Path(server, SOCKET), Path(folder, SOCKET)):
        scene.file.write_text(direct.replace(quote(server, safe=""), quote(folder, safe="")))
        told = scene.desk.refused("standby", "init", "--yes", "--from", str(scene.file), code=1)
    assert "is reached through a pooler" in told
    assert not has_address(scene.desk)
    scene.file.write_text(direct)
    told = scene.init()
    assert f"Delete {scene.file} now: it holds the password" in " ".join(told.split())
