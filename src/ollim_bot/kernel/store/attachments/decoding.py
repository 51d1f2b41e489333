"""The process that decodes one picture, within limits of time and memory.

It prints a line with its verdict, and then the picture if that had to be made smaller: `fits`,
`shown TYPE`, `pixels COUNT` or `memory`. Without a line the picture cannot be read.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import warnings
from collections.abc import Mapping
from contextlib import suppress
from io import BytesIO
from typing import NamedTuple

from PIL import ImageOps
from PIL.GifImagePlugin import GifImageFile
from PIL.Image import Image, Resampling, new
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile

_MOST_PNG_BYTES = 1024 * 1024
_JPEG_QUALITY = 85
_WHITE = (255, 255, 255)
_LESS_URGENT = 5
_PR_SET_PDEATHSIG = 1
# The decoder is chosen by the first bytes, so that no other decoder ever gets untrusted bytes.
_FORMATS: Mapping[str, type[ImageFile]] = {
    "image/png": PngImageFile,
    "image/jpeg": JpegImageFile,
    "image/gif": GifImageFile,
    "image/webp": WebPImageFile,
}


class Limits(NamedTuple):
    """`edge`, `size` and `pixels` limit the picture, the others limit the process.

    `edge` is in pixels, `size` and `memory` in bytes, the times in seconds.
    """

    edge: int
    size: int
    pixels: int
    memory: int
    cpu: int
    wall: float


class TooManyPixels(Exception):
    """`count` is the number of pixels."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


def fitted(media_type: str, data: bytes, limits: Limits) -> tuple[str, bytes]:
    """The media type and bytes, unchanged if they fit; else smaller, without animation.

    Raises `TooManyPixels`, or any other exception if the picture cannot be read.
    """
    with warnings.catch_warnings():
        # Ignore small damage that the decoder can repair.
        warnings.simplefilter("ignore")
        image = _FORMATS[media_type](BytesIO(data))
        longest = max(image.size)
        if image.width * image.height > limits.pixels:
            raise TooManyPixels(image.width * image.height)
        # A JPEG decoder can produce a smaller picture directly.
        image.draft(None, (limits.edge, limits.edge))
        image.load()
        if len(data) <= limits.size and longest <= limits.edge:
            return media_type, data
        # Reduce by a whole number first, which needs no second copy of the large picture.
        factor = max(image.size) // limits.edge
        is_plain = factor > 1 and image.mode in ("L", "LA", "RGB", "RGBA")
        small = _in_plain_colours(image.reduce(factor) if is_plain else image)
        small.thumbnail((limits.edge, limits.edge), Resampling.LANCZOS)
        # The camera's orientation data may be damaged; the picture is then shown as stored.
        with suppress(Exception):
            small = ImageOps.exif_transpose(small)
        small.info.clear()
        return _encoded(small, is_photo=media_type == "image/jpeg")


def _in_plain_colours(image: Image) -> Image:
    if image.has_transparency_data:
        return image.convert("RGBA")
    if image.mode.startswith("I;16"):
        return image.convert("I").point(lambda value: value / 256).convert("L")
    return image if image.mode in ("L", "RGB") else image.convert("RGB")


def _encoded(image: Image, *, is_photo: bool) -> tuple[str, bytes]:
    if not is_photo:
        data = _saved(image, "PNG")
        if len(data) <= _MOST_PNG_BYTES:
            return "image/png", data
    flat = image
    if image.mode == "RGBA":
        flat = new("RGB", image.size, _WHITE)
        flat.paste(image, mask=image.getchannel("A"))
    return "image/jpeg", _saved(flat, "JPEG", quality=_JPEG_QUALITY)


def _saved(image: Image, form: str, **options: int) -> bytes:
    buffer = BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def confine(limits: Limits, parent: int) -> None:
    """Make this process end with its parent, after its time, and at its processor limit."""
    with suppress(OSError, AttributeError):  # only Linux has it
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)
    signal.setitimer(signal.ITIMER_REAL, limits.wall)
    os.nice(_LESS_URGENT)
    for kind, most in (
        (resource.RLIMIT_CPU, limits.cpu),
        (resource.RLIMIT_AS, limits.memory),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        with suppress(OSError, ValueError):  # not every system knows each of them
            resource.setrlimit(kind, (most, most))


def main(media_type: str, limits_json: str, parent: str) -> int:
    limits = Limits(**json.loads(limits_json))
    confine(limits, int(parent))
    data = sys.stdin.buffer.read()
    try:
        shown_type, shown = fitted(media_type, data, limits)
        verdict = "fits" if shown is data else f"shown {shown_type}"
    except TooManyPixels as wrong:
        verdict, shown = f"pixels {wrong.count}", data
    except MemoryError:
        verdict, shown = "memory", data
    except Exception:  # noqa: BLE001 - untrusted bytes may cause any failure
        return 1
    sys.stdout.buffer.write(f"{verdict}\n".encode() + (b"" if shown is data else shown))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
