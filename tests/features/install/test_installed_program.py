"""How the program is installed is read from the files that installers leave."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.features.install.fake_installation import NEW, OLD, Checkout, FakeInstallation, git

from ollim_bot.features.install.releases import (
    PIPX_RECORD,
    UV_RECORD,
    InstallKind,
    NotUpdatable,
    find_installation,
)

pytestmark = pytest.mark.real_process

BASE = "/usr"


@pytest.mark.parametrize(
    ("files", "installer", "kind"),
    [
        ((PIPX_RECORD,), "pip", InstallKind.PIPX),
        ((UV_RECORD,), "uv", InstallKind.UV_TOOL),
        ((), "pip", InstallKind.PIP),
        ((), "uv", InstallKind.UV),
    ],
)
def test_the_installer_is_recognised(
    tmp_path: Path, files: tuple[str, ...], installer: str, kind: InstallKind
) -> None:
    environment = FakeInstallation(tmp_path).environment(files=files, installer=installer)
    (tmp_path / "link").symlink_to(environment)
    found = find_installation(str(tmp_path / "link"), BASE)
    assert (found.kind, found.environment, found.version) == (kind, environment, OLD)
    assert found.beside == tmp_path / "env.next"
    assert found.python == environment / "bin" / "python"


def test_a_checkout_is_recognised_by_its_editable_installation(tmp_path: Path) -> None:
    checkout = Checkout(FakeInstallation(tmp_path))
    found = checkout.installation()
    assert (found.kind, found.checkout) == (InstallKind.GIT, checkout.path)
    assert found.beside == checkout.path / ".venv.next"
    assert found.version == OLD
    checkout.release(NEW)
    git(checkout.path, "pull", "--quiet", "--ff-only")
    assert checkout.installation().version == NEW, "that of the sources that run"


@pytest.mark.parametrize(
    ("origin", "files", "words"),
    [
        (
            {"url": "file:///src/ollim", "dir_info": {}},
            (PIPX_RECORD,),
            "git -C /src/ollim pull --ff-only`, then run `pipx install --force /src/ollim`",
        ),
        (
            {"url": "https://example.org/x.git", "vcs_info": {"vcs": "git"}},
            (UV_RECORD,),
            "`uv tool install --force git+https://example.org/x.git`",
        ),
        (
            {"url": "file:///tmp/a.whl", "archive_info": {}},
            (),
            "from the file file:///tmp/a.whl. Update it with `pip install --force-reinstall`",
        ),
        ({"url": "file:///nowhere", "dir_info": {"editable": True}}, (), "is no git checkout"),
    ],
)
def test_what_came_from_elsewhere_is_not_touched_and_says_what_to_do(
    tmp_path: Path, origin: dict[str, object], files: tuple[str, ...], words: str
) -> None:
    environment = FakeInstallation(tmp_path).environment(origin=origin, files=files)
    with pytest.raises(NotUpdatable) as refused:
        find_installation(str(environment), BASE)
    assert words in str(refused.value)


def test_a_shared_environment_and_the_python_of_the_system_are_not_touched(tmp_path: Path) -> None:
    fake = FakeInstallation(tmp_path)
    environment = fake.environment()
    site = environment / "lib/python3.11/site-packages"
    for name, requires in (("ollim_bot-0.12.0", "needed>=1"), ("needed-1", ""), ("Own.Tool-1", "")):
        record = site / f"{name}.dist-info"
        record.mkdir(exist_ok=True)
        title = name.rpartition("-")[0].replace("_", "-")
        lines = [f"Name: {title}", "Version: 1", f"Requires-Dist: {requires}" if requires else ""]
        (record / "METADATA").write_text("\n".join(["Metadata-Version: 2.1", *filter(None, lines)]))
    with pytest.raises(NotUpdatable, match=r"holds other packages too \(own-tool\)"):
        find_installation(str(environment), BASE)
    with pytest.raises(NotUpdatable, match="not in an environment of its own"):
        find_installation(BASE, BASE)
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotUpdatable, match="is not installed in"):
        find_installation(str(tmp_path / "empty"), BASE)
