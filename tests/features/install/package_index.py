"""A package index on loopback, and small wheels to put into it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from tests.wheels import pack_wheel


class PackageIndex:
    """Serves the wheels below `folder`; each page names them with their present hashes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = ""

    def publish(
        self,
        name: str,
        version: str,
        files: Mapping[str, str] | None = None,
        needs: Sequence[str] = (),
    ) -> Path:
        """Put a wheel there; one of the same name and version is overwritten."""
        shelf = self.folder / "simple" / name
        shelf.mkdir(parents=True, exist_ok=True)
        wheel = small_wheel(shelf, name, version, files, needs)
        links = (f'<a href="{each.name}#{sha256(each)}">{each.name}</a>' for each in wheels(shelf))
        (shelf / "index.html").write_text("<!DOCTYPE html>\n" + "\n".join(links))
        return wheel

    @contextmanager
    def served(self) -> Iterator[None]:
        handler = partial(_Handler, directory=str(self.folder))
        listening = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        listening.daemon_threads = True
        self.address = f"http://127.0.0.1:{listening.server_address[1]}/simple"
        thread = Thread(target=listening.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            listening.shutdown()
            listening.server_close()
            thread.join()


class _Handler(SimpleHTTPRequestHandler):
    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, *_: object) -> None:
        pass


def small_wheel(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, str] | None = None,
    needs: Sequence[str] = (),
) -> Path:
    """A wheel with a module of its name, and with `files`."""
    package = name.replace("-", "_")
    record = f"{package}-{version}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Provides-Extra: {each}" for each in re.findall('extra == "(.+?)"', " ".join(needs))]
    metadata = "\n".join([*lines, *(f"Requires-Dist: {each}" for each in needs), ""])
    contents = {
        f"{package}/__init__.py": f'__version__ = "{version}"\n',
        **(files or {}),
        f"{record}/METADATA": metadata,
        f"{record}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    path = folder / f"{package}-{version}-py3-none-any.whl"
    return pack_wheel(path, record, {name: text.encode() for name, text in contents.items()})


def locked(*packages: Path) -> str:
    """A lock file that names these wheels."""
    lines = ([*each.name.split("-")[:2], sha256(each).replace("=", ":")] for each in packages)
    return "".join(
        f"{name}=={version} \\\n    --hash={digest}\n" for name, version, digest in lines
    )


def sha256(path: Path) -> str:
    return f"sha256={hashlib.sha256(path.read_bytes()).hexdigest()}"


def wheels(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.whl"))
