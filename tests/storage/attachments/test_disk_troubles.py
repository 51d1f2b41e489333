"""After any disk failure, an incoming file is either stored durably or still where it was."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from devtools.doubles.disks import PowerCutDisk, SteppedDisk
from tests.storage.attachments.pictures import picture
from tests.storage.attachments.scene import AttachmentScene
from tests.storage.test_power_cut import PowerCut

from ollim_bot.domain.chat import Attachment
from ollim_bot.domain.inbox import InputId
from ollim_bot.errors import WriteFailed
from ollim_bot.store.files import OsDisk

PNG = picture("image/png")


@pytest.mark.parametrize("content", [b"words", PNG], ids=["file", "picture"])
def test_a_disk_that_refuses_leaves_the_file_where_it_was(
    scene: AttachmentScene, content: bytes
) -> None:
    for step in ("write", "sync", "link", "sync_folder"):

        def refuse(happening: str, _: Path, step: str = step) -> None:
            if happening == step:
                raise OSError(28, "No space left on device")

        file = scene.file(content)
        with pytest.raises(WriteFailed, match="No space left on device"):
            scene.store(disk=SteppedDisk(OsDisk(), refuse)).keep(InputId("m1"), file)
        assert file.path.read_bytes() == content
        assert not list(scene.data.paths.root.rglob(".*.tmp"))


@pytest.mark.parametrize("content", [b"words", PNG], ids=["file", "picture"])
def test_what_was_kept_survives_a_power_cut(
    scene: AttachmentScene, content: bytes, pytestconfig: pytest.Config
) -> None:
    """A power cut during the storing leaves the file whole: stored, or where it was."""
    for steps in range(10):
        rng = random.Random(f"{pytestconfig.option.chaos_seed} {steps}")
        disk = PowerCutDisk(OsDisk(), rng)
        file = scene.file(content, f"{steps}.txt")
        kept: list[Attachment] = []
        with suppress(PowerCut):
            counted = SteppedDisk(disk, until(steps))
            kept.append(scene.store(disk=counted).keep(InputId(str(steps)), file))
        disk.cut()
        if kept:
            assert scene.content_of(kept[0]) == content
        else:
            assert file.path.read_bytes() == content
    assert kept


def until(steps: int) -> Callable[[str, Path], None]:
    left = [steps]

    def before(_: str, __: Path) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise PowerCut

    return before
