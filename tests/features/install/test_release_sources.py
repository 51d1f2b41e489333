"""Newer versions are found and installed beside the current one, which stays unchanged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.features.install.fake_installation import NEW, OLD, Checkout, FakeInstallation, git, run

from ollim_bot.features.install.releases import (
    PIPX_RECORD,
    SIGNERS,
    UV_RECORD,
    InstalledProgram,
    InstallKind,
    Release,
    UpdateFailed,
    installed_record,
    release_source,
)
from ollim_bot.kernel.upkeep.hand_over import exchange
from ollim_bot.kernel.values.presence import Version

pytestmark = pytest.mark.real_process

UNSIGNED = (
    "This version's tag is not signed; it is trusted because it comes from the address your clone "
    "came from."
)
OF_ANOTHER_KEY = UNSIGNED.replace("not signed", "signed by a key that git does not know here")
# Knows the key of all that it has signed.
GPG = """#!/bin/sh
cat >/dev/null
case "$*" in
*--verify*) printf '\\n[GNUPG:] GOODSIG 0 a\\n' ;;
*)
    printf '\\n[GNUPG:] SIG_CREATED ' >&2
    printf -- '-----BEGIN PGP SIGNATURE-----\\n\\nx\\n-----END PGP SIGNATURE-----\\n'
    ;;
esac
"""


def test_a_checkout_gets_the_newest_tag_that_is_a_version(tmp_path: Path) -> None:
    fake = FakeInstallation(tmp_path)
    checkout = Checkout(fake)
    checkout.release(NEW)
    for tag in ("v0.99.0-beta", "vintage", "0.98.0"):
        git(checkout.work, "tag", tag)
        git(checkout.work, "push", "--quiet", "origin", tag)
    source = release_source(checkout.installation(), fake.environ)
    release = source.newest()
    assert release == Release(NEW, fake.changelog.strip(), UNSIGNED)
    source.refuse(release)
    assert git(checkout.path, "log", "-1", "--format=%s") == f"Version {OLD}"


def test_a_checkout_is_installed_from_its_tag_with_hashes_and_moves_only_at_the_end(
    tmp_path: Path,
) -> None:
    fake = FakeInstallation(tmp_path)
    checkout = Checkout(fake)
    checkout.release(NEW)
    installation = checkout.installation()
    source = release_source(installation, fake.environ)
    assert source.newest() is not None
    beside, present = installation.beside, installation.environment
    source.build(Release(NEW), beside)
    assert str(OLD) in checkout.version(), "the checkout has not moved"
    hashed = next(words for words in fake.calls() if "--require-hashes" in words)
    assert "--only-binary=:all:" in hashed
    assert hashed[-2:] == ["-r", str(beside / "source/requirements.lock")]
    assert (beside / "source/requirements.lock").read_text() == f"a==1 # for {NEW}\n"
    # Scripts name the final path of the environment; its sources are found from both paths.
    assert (beside / "bin/ollim-bot").read_text() == f"#!{present}/bin/python\n"
    link = beside / "lib/python3.11/site-packages/_editable_impl_ollim_bot.pth"
    assert link.read_text() == "../../../source/src\n"
    source.finish(OLD)
    assert str(OLD) in checkout.version(), "the version in use does not run from its own sources"

    exchange(present, beside)
    source.finish(NEW)
    source.finish(NEW)
    assert str(NEW) in checkout.version()
    assert git(checkout.path, "status", "--porcelain") == ""
    link = present / "lib/python3.11/site-packages/_editable_impl_ollim_bot.pth"
    assert link.read_text() == f"{checkout.path}/src\n"
    record = installed_record(present)
    assert record is not None
    assert json.loads((record / "direct_url.json").read_text())["url"] == checkout.path.as_uri()
    assert checkout.installation().version == NEW


@pytest.mark.parametrize("is_committed", [False, True], ids=["dirty", "diverged"])
def test_a_dirty_or_diverged_checkout_is_left_alone_in_one_sentence(
    tmp_path: Path, is_committed: bool
) -> None:
    fake = FakeInstallation(tmp_path)
    checkout = Checkout(fake)
    checkout.release(NEW)
    (checkout.path / "CHANGELOG.md").write_text("mine")
    if is_committed:
        git(checkout.path, "commit", "--quiet", "-am", "mine")
    source = release_source(checkout.installation(), fake.environ)
    release = source.newest()
    assert release is not None
    before = git(checkout.path, "rev-parse", "HEAD")
    with pytest.raises(UpdateFailed) as refused:
        source.refuse(release)
    word = "commits that v0.13.0 does not have" if is_committed else "such as CHANGELOG.md"
    assert word in str(refused.value)
    assert (checkout.path / "CHANGELOG.md").read_text() == "mine"
    assert git(checkout.path, "rev-parse", "HEAD") == before


class Signer:
    """A key for tags; `introduce` lets git know it, in every repository or in one."""

    def __init__(self, home: Path, name: str = "key") -> None:
        self._home = home
        self._key = home / name
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self._key))
        self.signers = home / f"{name}.signers"
        self.signers.write_text(f"a@localhost {self._key.with_suffix('.pub').read_text()}")

    def introduce(self) -> None:
        (self._home / ".gitconfig").write_text(
            f'[gpg "ssh"]\n\tallowedSignersFile = {self.signers}\n'
        )

    def sign(self, checkout: Checkout, version: Version) -> None:
        """Put a signed tag in the place of the present one, also in the clone."""
        key = ("-c", "gpg.format=ssh", "-c", f"user.signingKey={self._key}")
        put_tag(checkout, version, *key, words=("-s", "-m", "x"))


def put_tag(
    checkout: Checkout, version: Version, *settings: str, words: Sequence[str] = ()
) -> None:
    git(checkout.work, *settings, "tag", "--force", *words, version.tag, f"{version.tag}^0")
    publish(checkout, version.tag)


def publish(checkout: Checkout, tag: str) -> None:
    git(checkout.work, "push", "--quiet", "--force", "origin", tag)
    git(checkout.path, "fetch", "--quiet", "--tags", "--force")


def look_at_next(fake: FakeInstallation, checkout: Checkout) -> str:
    """Why the newest version is trusted. Raises `UpdateFailed` if it is not."""
    source = release_source(checkout.installation(), fake.environ)
    release = source.newest()
    assert release is not None
    assert release.version == NEW
    source.refuse(release)
    return release.trust


def test_a_clone_that_has_a_key_takes_only_what_is_signed_by_it(tmp_path: Path) -> None:
    fake = FakeInstallation(tmp_path)
    checkout = Checkout(fake)
    checkout.release(NEW)
    signer, stranger = Signer(tmp_path), Signer(tmp_path, "stranger")
    everywhere = tmp_path / ".gitconfig"

    def look(signers: str | None, by_default: str, *, is_proved: bool = False) -> None:
        """With what is set in the clone, and `by_default` where there is no key."""
        git(checkout.path, "config", SIGNERS, signers or "")
        if signers is None:
            git(checkout.path, "config", "--unset", SIGNERS)
        if is_proved or (not signers and (signers == "" or not everywhere.exists())):
            assert look_at_next(fake, checkout) == ("" if is_proved else by_default)
            return
        with pytest.raises(UpdateFailed) as refused:
            look_at_next(fake, checkout)
        assert str(refused.value) == (
            f"A tag has to be signed by one whom the `{SIGNERS}` of git names, and that of {NEW} "
            "is not. It may come from somebody else, so nothing was changed. Look at it with "
            f"`git -C {checkout.path} verify-tag {NEW.tag}`."
        )

    known, lost = str(signer.signers), str(tmp_path / "nowhere")
    for words in ((), ("-a", "-m", "x")):
        put_tag(checkout, NEW, words=words)
        for signers in (None, known, lost):
            look(signers, UNSIGNED)
    stranger.sign(checkout, NEW)
    for signers in (None, known, lost):
        look(signers, OF_ANOTHER_KEY)
    signer.introduce()
    look(None, OF_ANOTHER_KEY)
    signer.sign(checkout, NEW)
    look(None, "", is_proved=True)
    # An empty setting of the clone takes away what is said for all of them.
    look("", OF_ANOTHER_KEY)
    everywhere.unlink()
    look(known, "", is_proved=True)
    for signers in (None, lost):
        look(signers, OF_ANOTHER_KEY)


def test_a_version_that_gpg_proves_is_followed_only_by_such_versions(tmp_path: Path) -> None:
    fake = FakeInstallation(tmp_path)
    checkout = Checkout(fake)
    checkout.release(NEW)
    (gpg := tmp_path / "gpg").write_text(GPG)
    gpg.chmod(0o755)
    (tmp_path / ".gitconfig").write_text(f"[gpg]\n\tprogram = {gpg}\n")
    assert look_at_next(fake, checkout) == UNSIGNED
    by_gpg = ("-c", f"gpg.program={gpg}", "-c", "gpg.format=openpgp")
    put_tag(checkout, OLD, *by_gpg, words=("-s", "-m", "x"))
    with pytest.raises(UpdateFailed, match=r"signed by a key that git knows, and that of 0\.13\.0"):
        look_at_next(fake, checkout)
    put_tag(checkout, NEW, *by_gpg, words=("-s", "-m", "x"))
    assert look_at_next(fake, checkout) == ""
    # The signature of the version in use, under the name of the next one.
    git(checkout.work, "tag", "--force", NEW.tag, OLD.tag)
    publish(checkout, NEW.tag)
    with pytest.raises(UpdateFailed, match="the signature of another version"):
        look_at_next(fake, checkout)


def test_a_wrong_signature_is_refused(tmp_path: Path) -> None:
    fake = FakeInstallation(tmp_path)
    checkout = Checkout(fake)
    checkout.release(NEW)
    signer = Signer(tmp_path)
    signer.sign(checkout, NEW)
    tag = git(checkout.work, "cat-file", "tag", NEW.tag)
    (tmp_path / "tag").write_text(tag.replace("\n\nx\n", "\n\ny\n") + "\n")
    changed = git(checkout.work, "hash-object", "-t", "tag", "-w", str(tmp_path / "tag"))
    git(checkout.work, "update-ref", f"refs/tags/{NEW.tag}", changed)
    publish(checkout, NEW.tag)
    signer.introduce()
    with pytest.raises(UpdateFailed, match=r"The signature of v0\.13\.0 is wrong"):
        look_at_next(fake, checkout)


def test_without_the_remote_nothing_is_known_and_git_says_why(tmp_path: Path) -> None:
    fake = FakeInstallation(tmp_path)
    checkout = Checkout(fake)
    shutil.rmtree(checkout.remote)
    with pytest.raises(UpdateFailed, match=r"^Newer versions could not be looked up: "):
        release_source(checkout.installation(), fake.environ).newest()


@pytest.mark.parametrize("kind", [InstallKind.PIP, InstallKind.PIPX, InstallKind.UV_TOOL])
def test_a_package_comes_by_the_installer_that_put_it_there(
    tmp_path: Path, kind: InstallKind
) -> None:
    fake = FakeInstallation(tmp_path)
    installation = fake.installation(kind)
    present = installation.environment
    if kind is InstallKind.PIPX:
        words = ["--index-url", "http://127.0.0.1:9/simple"]
        record = {"main_package": {"package_version": str(OLD), "pip_args": words}, "else": 1}
        (present / PIPX_RECORD).write_text(json.dumps(record))
    if kind is InstallKind.UV_TOOL:
        (present / UV_RECORD).write_text("[tool]\n")
    source = release_source(installation, fake.environ)
    release = source.newest()
    assert release == Release(NEW, fake.changelog)
    source.build(release, installation.beside)
    asked = [words for words in fake.calls() if "install" in words]
    assert all("--only-binary=:all:" in words for words in asked), "nothing is built"
    uses_uv = kind is InstallKind.UV_TOOL
    assert all((words[0] == fake.home.name) is uses_uv for words in asked)
    program, needed = asked[-2:]
    assert program[-2:] == ["--no-deps", f"ollim-bot=={NEW}"]
    assert needed[-3:-1] == ["--require-hashes", "-r"]
    if kind is InstallKind.PIPX:
        assert all("--index-url" in words for words in asked)
        record = json.loads((installation.beside / PIPX_RECORD).read_text())
        assert record["main_package"]["package_version"] == str(NEW)
        assert record["else"] == 1
    if uses_uv:
        assert (installation.beside / UV_RECORD).read_text() == "[tool]\n"
    assert installed_record(present) is not None, "the present version is whole"
    assert (installation.beside / "bin/ollim-bot").read_text() == f"#!{present}/bin/python\n"
    source.refuse(release)
    source.finish(NEW)


def test_an_index_that_does_not_answer_and_a_missing_uv_are_said(tmp_path: Path) -> None:
    fake = FakeInstallation(tmp_path)
    installation = fake.installation()
    fake.write_plan(offline=True)
    with pytest.raises(UpdateFailed) as refused:
        release_source(installation, fake.environ).newest()
    assert str(refused.value) == (
        "Newer versions could not be looked up: no ready package (wheel) of ollim-bot was found. "
        "The package index is out of reach, or has only sources, which an update does not build."
    )
    by_uv = InstalledProgram(InstallKind.UV, installation.environment, Version(0, 12, 0))
    with pytest.raises(UpdateFailed, match="uv, which installed ollim-bot, was not found"):
        release_source(by_uv, {**fake.environ, "PATH": "/usr/bin:/bin"}).newest()
