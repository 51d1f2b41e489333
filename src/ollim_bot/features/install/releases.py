"""How the program is installed, where newer versions come from, and how one is put beside it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import distributions
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ollim_bot.features.install.service import run_to_end
from ollim_bot.kernel.base.environment import SESSION, child_environment, program_path
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.plain_files import SizeLimit, read_file
from ollim_bot.kernel.base.text import PROGRAM
from ollim_bot.kernel.store.files import SHARED, OsDisk, write_atomically
from ollim_bot.kernel.values.presence import Version, newest_tag

PIPX_RECORD = "pipx_metadata.json"
UV_RECORD = "uv-receipt.toml"
CHANGELOG = "CHANGELOG.md"
# The exported tree of a tag, inside the environment that runs it.
SOURCE = "source"
LOCK_FILE = "requirements.lock"
# What the extra needs besides, and the package by which an installation with it is known.
POSTGRES_LOCK = "requirements-postgres.lock"
_OF_POSTGRES = "psycopg"

_SITE_PACKAGES = "lib/python*/site-packages"
_DIST_INFO = "ollim_bot-*.dist-info"
_INSTALLERS = frozenset({"pip", "setuptools", "wheel"})
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_LOCKED = re.compile(rf"^({_NAME.pattern})==", re.MULTILINE)
_MOST_NAMED = 3

# Of the environment, what git, pip and uv read.
_FOR_INSTALLERS = (
    *("GIT_*", "GNUPGHOME", "PIP_*", "UV_*", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *SESSION,
)
_LOOK_LIMIT = 120.0
_INSTALL_LIMIT = 1800.0
_MOST_WORDS = 300
_QUIET = ("--quiet", "--disable-pip-version-check", "--no-input")
# What is built from its sources runs its own code before it was looked at.
_NO_BUILDS = ("--only-binary=:all:",)
# What pip and uv say where only sources are published; pip says the same without a network.
_NO_WHEEL = re.compile("No matching distribution|no usable wheels|building from source is disabled")
_OTHER_HASH = re.compile(
    r"DO NOT MATCH THE HASHES[^\n]*\n +(\S+) from |Hash mismatch for `([^`\n]+)`"
)

# With it a clone has a key: git is told whose signatures count. `gpg` has its own keyring.
SIGNERS = "gpg.ssh.allowedSignersFile"
_ADDRESS = "it is trusted because it comes from the address your clone came from."
_UNSIGNED = f"This version's tag is not signed; {_ADDRESS}"
_UNKNOWN_KEY = f"This version's tag is signed by a key that git does not know here; {_ADDRESS}"
_WRONG_SIGNATURE = re.compile(r"\bBADSIG\b|incorrect signature|Signature verification failed")
_SIGNED = re.compile(r"^-----BEGIN (?:PGP|SSH|SIGNED) (?:SIGNATURE|MESSAGE)-----$", re.MULTILINE)


class InstallKind(Enum):
    """What has installed the program, the command that does so again, and whether that is uv."""

    GIT = "a git checkout", "", False
    PIPX = "pipx", "pipx install --force", False
    UV_TOOL = "uv tool", "uv tool install --force", True
    UV = "uv", "uv pip install --reinstall", True
    PIP = "pip", "pip install --force-reinstall", False

    def __init__(self, words: str, again: str, uses_uv: bool) -> None:
        self.words, self.again, self.uses_uv = words, again, uses_uv


class NotUpdatable(OllimError):
    """This installation cannot be updated by the program; the sentence says how it can be."""


@dataclass(frozen=True, slots=True)
class InstalledProgram:
    """`environment` is the virtual environment; `checkout` is the folder of a git installation."""

    kind: InstallKind
    environment: Path
    version: Version
    checkout: Path | None = None

    @property
    def python(self) -> Path:
        return self.environment / "bin" / "python"

    @property
    def beside(self) -> Path:
        """Where the new version is installed; after the switch, the old one is there."""
        return self.environment.with_name(f"{self.environment.name}.next")

    def __str__(self) -> str:
        if self.checkout is not None:
            return f"a git checkout in {self.checkout}"
        return f"installed by {self.kind.words} in {self.environment}"


def find_installation(prefix: str = "", base: str = "") -> InstalledProgram:
    """The installation in the environment `prefix`; by default in the present one.

    Raises `NotUpdatable`.
    """
    prefix, base = prefix or sys.prefix, base or sys.base_prefix
    if prefix == base:
        raise NotUpdatable(
            "ollim-bot is not in an environment of its own, so it cannot put a new version beside "
            f"the old one. Install it with `pipx install {PROGRAM}`, or update it as you installed "
            "it."
        )
    environment = Path(os.path.realpath(prefix))
    record, version = installed_record(environment), version_in(environment)
    if record is None or version is None:
        raise NotUpdatable(
            f"ollim-bot is not installed in {environment}, so there is nothing to update. "
            "`make run` in a checkout installs it."
        )
    kind = InstallKind.UV if _text(record / "INSTALLER").strip() == "uv" else InstallKind.PIP
    for name, other in ((PIPX_RECORD, InstallKind.PIPX), (UV_RECORD, InstallKind.UV_TOOL)):
        kind = other if (environment / name).exists() else kind
    checkout = _checkout_of(record, kind)
    if checkout is not None:
        version = _version_of_sources(record.parent) or version
        return InstalledProgram(InstallKind.GIT, environment, version, checkout)
    if kind in (InstallKind.PIP, InstallKind.UV):
        _refuse_shared(environment)
    return InstalledProgram(kind, environment, version)


def installed_record(environment: Path) -> Path | None:
    """The folder with which an installer records our package in an environment."""
    return next(iter(sorted(environment.glob(f"{_SITE_PACKAGES}/{_DIST_INFO}"))), None)


def version_in(environment: Path) -> Version | None:
    record = installed_record(environment)
    return None if record is None else _version_of(record)


def _version_of(record: Path) -> Version | None:
    return Version.of(record.name.removesuffix(".dist-info").partition("-")[2])


def _version_of_sources(site: Path) -> Version | None:
    """The version that an editable installation runs; its record may be of an older one."""
    for link in site.glob("*ollim_bot*.pth"):
        text = _text(site / _text(link).strip() / "ollim_bot" / "__init__.py")
        if match := re.search(r'^__version__ = "(.+)"', text, re.MULTILINE):
            return Version.of(match[1])
    return None


def _checkout_of(record: Path, kind: InstallKind) -> Path | None:
    """The checkout that an editable installation runs from; None for a package of an index.

    Raises `NotUpdatable` for what came from elsewhere.
    """
    if not (origin := _object(_text(record / "direct_url.json"))):
        return None
    url, folder, again = str(origin.get("url", "")), origin.get("dir_info"), kind.again
    path = Path(unquote(urlsplit(url).path))
    if isinstance(folder, dict) and folder.get("editable"):
        if (path / ".git").exists():
            return path
        raise NotUpdatable(
            f"ollim-bot runs from the folder {path}, which is no git checkout. Put the new version "
            "there by hand."
        )
    if folder is not None:
        raise NotUpdatable(
            f"ollim-bot was installed from the folder {path}. Bring that up to date, for example "
            f"with `git -C {path} pull --ff-only`, then run `{again} {path}`."
        )
    way = f"the file {url}. Update it with `{again}` and the newer file."
    if "vcs_info" in origin:
        way = f"{url}. Update it with `{again} git+{url}`."
    raise NotUpdatable(f"ollim-bot was installed from {way}")


def _refuse_shared(environment: Path) -> None:
    """A new environment would lack what the owner has put into this one beside our package."""
    site = site_packages(environment)
    found = {
        _normal(package.name): package.requires or ()
        for package in distributions(path=[str(site)])
        if package.name
    }
    locks = "".join(map(_text, site.glob("ollim_bot/*.lock")))
    known, waiting = {*_INSTALLERS, *map(_normal, _LOCKED.findall(locks))}, [PROGRAM]
    while waiting:
        name = waiting.pop()
        known.add(name)
        needed = (_normal(match[0]) for match in map(_NAME.match, found.get(name, ())) if match)
        waiting += (other for other in needed if other not in known)
    if others := sorted(found.keys() - known):
        named = ", ".join(others[:_MOST_NAMED]) + (", …" if len(others) > _MOST_NAMED else "")
        raise NotUpdatable(
            f"{environment} holds other packages too ({named}), which a new environment would not "
            f"have. Update it with `{environment}/bin/python -m pip install --upgrade {PROGRAM}`."
        )


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _text(path: Path) -> str:
    """What a file says; empty if it cannot be read."""
    try:
        return read_file(path, SizeLimit.STATE).decode(errors="replace")
    except OSError:
        return ""


def site_packages(environment: Path) -> Path:
    return next(environment.glob(_SITE_PACKAGES), environment)


def _object(text: str) -> dict[str, Any]:
    """The object that a JSON text has; an empty one if it is none."""
    with suppress(ValueError):
        if isinstance(value := json.loads(text), dict):
            return value
    return {}


class UpdateFailed(OllimError):
    """The update ends, and the present version goes on; the sentence says why.

    `output` is what a program that failed has printed.
    """

    def __init__(self, sentence: str, output: str = "") -> None:
        super().__init__(sentence)
        self.output = output


@dataclass(frozen=True, slots=True)
class Release:
    """`changelog` is that of the version, or as much of it as is new; it may be empty.

    `trust` is a sentence on why the version is trusted although its origin cannot be proved.
    `obstacle` says why it cannot be installed now, and what to do; it is empty otherwise.
    """

    version: Version
    changelog: str = ""
    trust: str = ""
    obstacle: str = ""


class ReleaseSource:
    """Where new versions come from, and how one is installed: by what installed the present one.

    This is the package index. All methods raise `UpdateFailed`.
    """

    def __init__(self, installation: InstalledProgram, environ: Mapping[str, str]) -> None:
        self._installation = installation
        self._environ = environ
        self._site = site_packages(installation.environment)
        # pipx keeps one pip for all of its environments.
        self._has_pip = installation.kind is InstallKind.GIT or (self._site / "pip").is_dir()
        self._pipx_record = _object(_text(installation.environment / PIPX_RECORD))

    def newest(self) -> Release | None:
        """The newest version there is; None if there is none.

        The package alone is downloaded: its name has the version, and it has the changelog.
        """
        what, installation = "Newer versions could not be looked up", self._installation
        with tempfile.TemporaryDirectory() as folder:
            words = () if installation.kind.uses_uv else ("--no-compile",)
            alone = ("--no-deps", "--target", folder, *words, PROGRAM)
            command = (*self._installer(installation.python), *alone)
            try:
                run_program(command, self._environ, _LOOK_LIMIT, what)
            except UpdateFailed as refused:
                if not _NO_WHEEL.search(refused.output):
                    raise
                raise UpdateFailed(
                    f"{what}: no ready package (wheel) of ollim-bot was found. The package index "
                    "is out of reach, or has only sources, which an update does not build."
                ) from refused
            version = next(map(_version_of, Path(folder).glob(_DIST_INFO)), None)
            changelog = _text(Path(folder) / "ollim_bot" / CHANGELOG)
            return None if version is None else Release(version, changelog)

    def refuse(self, release: Release) -> None:
        """Raise if the installation must not be changed by hand of the program."""

    def finish(self, version: Version) -> None:
        """Bring what belongs to the installation to the version that runs now. Repeatable."""

    def build(self, release: Release, target: Path) -> None:
        """Install the version into the new environment `target`, with what its locks name."""
        present, python = str(self._installation.python), target / "bin" / "python"
        shutil.rmtree(target, ignore_errors=True)
        words = () if self._has_pip else ("--without-pip",)
        make = (present, "-m", "venv", *words)
        if self._installation.kind.uses_uv:
            make = (self._uv(), "venv", "--quiet", "--python", present)
        self._install(*make, str(target))
        sources = self._take(release, target)
        if not (sources / LOCK_FILE).is_file():
            raise UpdateFailed(
                f"Version {release.version} does not bring {LOCK_FILE}, the list of what it needs "
                "with the hash of each package, so nothing was changed."
            )
        locks = ["-r", str(sources / LOCK_FILE)]
        if (self._site / _OF_POSTGRES).is_dir() and (more := sources / POSTGRES_LOCK).is_file():
            locks += ["-r", str(more)]
        self._install(*self._installer(python), "--require-hashes", *locks)
        self._complete(target)
        # The scripts name the place that the environment will have.
        found, final = map(os.fsencode, (target, self._installation.environment))
        for path in (target / "pyvenv.cfg", *(target / "bin").iterdir()):
            if path.is_file() and not path.is_symlink():
                path.write_bytes(path.read_bytes().replace(found, final))

    def _take(self, release: Release, target: Path) -> Path:
        """Bring the program itself, and give the folder that has its lock files."""
        installer = self._installer(target / "bin" / "python")
        self._install(*installer, "--no-deps", f"{PROGRAM}=={release.version}")
        return site_packages(target) / "ollim_bot"

    def _complete(self, target: Path) -> None:
        """Keep the installer's own record true, so that it can go on with the environment."""
        if self._installation.kind is InstallKind.UV_TOOL:
            shutil.copy2(self._installation.environment / UV_RECORD, target / UV_RECORD)
        if self._installation.kind is InstallKind.PIPX:
            main = {**self._pipx_main, "package_version": str(version_in(target))}
            record = {**self._pipx_record, "main_package": main}
            _write(target / PIPX_RECORD, json.dumps(record, indent=4))
            for link in self._site.glob("pipx_shared.pth"):
                shutil.copy2(link, site_packages(target) / link.name)

    @property
    def _pipx_main(self) -> dict[str, Any]:
        main = self._pipx_record.get("main_package")
        return main if isinstance(main, dict) else {}

    def _installer(self, python: Path) -> Sequence[str]:
        """The command that installs into the environment of `python`, and builds nothing."""
        if self._installation.kind.uses_uv:
            quiet = ("pip", "install", "--quiet", *_NO_BUILDS)
            return (self._uv(), *quiet, "--python", str(python))
        pip: tuple[str, ...] = (str(python), "-m", "pip")
        if not self._has_pip:
            pip = (str(self._installation.python), "-m", "pip", "--python", str(python))
        # What the owner told pipx to tell pip, such as the address of an index.
        told = self._pipx_main.get("pip_args")
        words = map(str, told) if isinstance(told, list) else ()
        return (*pip, "install", *_QUIET, *words, *_NO_BUILDS)

    def _install(self, *command: str) -> None:
        what = "The new version could not be installed"
        run_program(command, self._environ, _INSTALL_LIMIT, what)

    def _uv(self) -> str:
        found = program_path("uv", self._environ.get("PATH", ""))
        if found is None:
            raise UpdateFailed("uv, which installed ollim-bot, was not found in the search path.")
        return found


class GitReleases(ReleaseSource):
    """The tags of the checkout's remote. The checkout itself moves only in `finish`."""

    def __init__(self, installation: InstalledProgram, environ: Mapping[str, str]) -> None:
        super().__init__(installation, {**environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"})
        assert installation.checkout is not None
        self._checkout = installation.checkout

    def newest(self) -> Release | None:
        self._git("fetch", "--quiet", "--tags", what="Newer versions could not be looked up")
        newest, changelog = self.newest_fetched(), ""
        if newest is None:
            return None
        with suppress(UpdateFailed):
            changelog = self._git("show", f"{newest.tag}:{CHANGELOG}")
        is_newer = newest > self._installation.version
        return Release(newest, changelog, self._trust(newest) if is_newer else "")

    def newest_fetched(self) -> Version | None:
        return newest_tag(self._git("tag", "--list", "v*").split())

    def refuse(self, release: Release) -> None:
        tag, checkout = release.version.tag, self._checkout
        if changed := self._git("status", "--porcelain", "--untracked-files=no").splitlines():
            name = changed[0].strip().partition(" ")[2].strip()
            raise UpdateFailed(
                f"The checkout {checkout} has changes of its own, such as {name}, and is left as "
                "it is. Commit them elsewhere or undo them first."
            )
        if release.trust and (reason := self._why_proof()):
            raise UpdateFailed(
                f"{reason}, and that of {release.version} is not. It may come from somebody else, "
                f"so nothing was changed. Look at it with `git -C {checkout} verify-tag {tag}`."
            )
        # Whether the checkout's commit is part of the tag's history.
        if self._git("rev-list", "--count", f"{tag}..HEAD") != "0":
            raise UpdateFailed(
                f"The checkout {checkout} has commits that {tag} does not have, and is left as it "
                "is. Go to a released version, or merge by hand."
            )

    def finish(self, version: Version) -> None:
        """Move the checkout to the tag, and let the environment run from it again."""
        environment, sources = self._installation.environment, self._checkout / "src"
        runs_from_checkout = any(str(sources) in _text(link) for link in self._site.glob("*.pth"))
        if not (environment / SOURCE).is_dir() or runs_from_checkout:
            return
        what = f"Version {version} runs, but the checkout {self._checkout} could not follow"
        self._git("merge", "--quiet", "--ff-only", version.tag, what=what)
        _lead_to(environment, sources)
        # For make, which otherwise would install all of it again.
        (environment / ".runtime").touch()

    def _take(self, release: Release, target: Path) -> Path:
        archive, source = target / "tree.zip", target / SOURCE
        self._git("archive", "--format=zip", f"--output={archive}", release.version.tag)
        shutil.unpack_archive(archive, source)
        archive.unlink()
        return source

    def _complete(self, target: Path) -> None:
        """Let it run from the exported tree, as an editable installation of the checkout."""
        pip, source = (str(target / "bin" / "python"), "-m", "pip"), target / SOURCE
        editable = ("--no-deps", "--no-build-isolation", "--editable", str(source))
        self._install(*pip, "install", *_QUIET, *editable)
        # Relative: the environment will take the name of the present one.
        _lead_to(target, Path(os.path.relpath(source / "src", site_packages(target))))
        if (record := installed_record(target)) is not None:
            origin = {"dir_info": {"editable": True}, "url": self._checkout.as_uri()}
            _write(record / "direct_url.json", json.dumps(origin))

    def _trust(self, version: Version) -> str:
        """Empty if git knows the key of the tag's signature, else why it is trusted all the same.

        Raises `UpdateFailed` if the signature is wrong.
        """
        try:
            signed = self._git("cat-file", "tag", version.tag)
        except UpdateFailed:  # it has no object of its own, or there is no such tag
            return _UNSIGNED
        if not _SIGNED.search(signed):
            return _UNSIGNED
        if f"tag {version.tag}" not in signed.partition("\n\n")[0].splitlines():
            raise UpdateFailed(f"The tag {version.tag} holds the signature of another version.")
        try:
            self._git("verify-tag", "--raw", version.tag)
        except UpdateFailed as refused:
            if refused.output and _WRONG_SIGNATURE.search(refused.output):
                raise UpdateFailed(
                    f"The signature of {version.tag} is wrong. It may come from somebody else, so "
                    "nothing was changed."
                ) from refused
            return _UNKNOWN_KEY
        return ""

    def _why_proof(self) -> str:
        """Why the next version must have a signature that git can prove; empty if it need not."""
        if self._git("config", "--default", "", "--get", SIGNERS):
            return f"A tag has to be signed by one whom the `{SIGNERS}` of git names"
        if self._trust(self._installation.version) == "":
            return f"The tag of {self._installation.version} is signed by a key that git knows"
        return ""

    def _git(self, *words: str, what: str = "git failed") -> str:
        program = program_path("git", self._environ.get("PATH", ""))
        if program is None:
            raise UpdateFailed("git was not found. Install it, for example with `apt install git`.")
        command = (program, "-c", "core.hooksPath=/dev/null", *words)
        return run_program(command, self._environ, _LOOK_LIMIT, what, cwd=self._checkout).strip()


def _lead_to(environment: Path, sources: Path) -> None:
    """Let the editable installation of an environment run from these sources."""
    path = next(site_packages(environment).glob("*ollim_bot*.pth"), None)
    if path is None:
        raise UpdateFailed("The new version was installed, but how it is found is not known.")
    _write(path, f"{sources}\n")


def release_source(installation: InstalledProgram, environ: Mapping[str, str]) -> ReleaseSource:
    kind = ReleaseSource if installation.checkout is None else GitReleases
    return kind(installation, environ)


def newest_known(installation: InstalledProgram, environ: Mapping[str, str]) -> Version | None:
    """The newest version that a checkout knows of since it was last asked to look."""
    with suppress(UpdateFailed):
        if installation.checkout is not None:
            return GitReleases(installation, environ).newest_fetched()
    return None


def run_program(
    command: Sequence[str],
    environ: Mapping[str, str],
    limit: float,
    what: str,
    *,
    cwd: Path | None = None,
) -> str:
    """What the program prints. Raises `UpdateFailed` with `what` and the last of its words."""
    try:
        ran = run_to_end(command, child_environment(environ, *_FOR_INSTALLERS), limit, cwd)
    except subprocess.TimeoutExpired:
        raise UpdateFailed(f"{what}: it was not done within {limit:g} s.") from None
    except OSError as refused:
        raise UpdateFailed(f"{what}: {command[0]}: {refused.strerror}.") from None
    if ran.returncode:
        said = ran.stderr or ran.stdout
        reason = last_words(said)
        if found := _OTHER_HASH.search(said):
            reason = (
                f"{found[1] or found[2]} has another hash than it must have. It may come from "
                "somebody else, so nothing was changed"
            )
        raise UpdateFailed(f"{what}: {reason}.", said)
    return ran.stdout


def last_words(text: str) -> str:
    """The last line with something in it, which in most programs is the reason."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    words = re.sub(r"^(?:ERROR|error|fatal): +", "", lines[-1]) if lines else "no reason was given"
    return words[:_MOST_WORDS].rstrip(".")


def _write(path: Path, text: str) -> None:
    write_atomically(OsDisk(), path, text.encode(), SHARED)
