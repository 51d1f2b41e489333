"""Pictures as the model takes them: readable, upright, and of a sensible size.

One at a time: a picture may need some hundred megabytes while it is looked at.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BytesIO

from PIL import ImageOps
from PIL.GifImagePlugin import GifImageFile
from PIL.Image import Image, Resampling, new
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile

from ollim_bot.errors import WrongInput

LONGEST_EDGE = 1568
MOST_BYTES = 5 * 1024 * 1024
# A small file can unfold to more memory than the machine has. Phones make up to 50 million pixels;
# of JPEG the decoder can give a smaller picture at once, of the others it cannot.
MOST_PIXELS = {
    "image/jpeg": 50_000_000,
    "image/png": 25_000_000,
    "image/gif": 25_000_000,
    "image/webp": 25_000_000,
}

_MOST_PNG_BYTES = 1024 * 1024
_JPEG_QUALITY = 85
_WHITE = (255, 255, 255)
# Opened as what they begin like, so that no other decoder is ever given the bytes of a stranger.
_FORMATS: Mapping[str, type[ImageFile]] = {
    "image/png": PngImageFile,
    "image/jpeg": JpegImageFile,
    "image/gif": GifImageFile,
    "image/webp": WebPImageFile,
}


def check_picture(name: str, media_type: str, data: bytes) -> None:
    """Raises `WrongInput` if the model could not be given it."""
    with _quietly(name):
        _loaded(name, media_type, data)


def fitted(name: str, media_type: str, data: bytes) -> tuple[str, bytes]:
    """Media type and bytes: the same ones where they fit; of an animation, else, the first frame.

    Raises `WrongInput` if it is not a picture that can be read.
    """
    with _quietly(name):
        image, edge = _loaded(name, media_type, data)
        if len(data) <= MOST_BYTES and edge <= LONGEST_EDGE:
            return media_type, data
        return _encoded(_shrunk(image), is_photo=media_type == "image/jpeg")


@contextmanager
def _quietly(name: str) -> Iterator[None]:
    """Small damages that the decoder can get over are nobody's concern; others are a refusal."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except WrongInput:
        raise
    except Exception as broken:  # with the bytes of a stranger it may fail in any way
        raise WrongInput(f"{name} is not a picture that can be read.") from broken


def _loaded(name: str, media_type: str, data: bytes) -> tuple[Image, int]:
    """The first frame, perhaps smaller already, and how long its longer edge really is."""
    image = _FORMATS[media_type](BytesIO(data))
    width, height = image.size
    if width * height > MOST_PIXELS[media_type]:
        raise WrongInput(
            f"{name} has {width * height // 1_000_000} million pixels. Send it with at most "
            f"{MOST_PIXELS[media_type] // 1_000_000} million."
        )
    image.draft(None, (LONGEST_EDGE, LONGEST_EDGE))
    image.load()
    return image, max(width, height)


def _shrunk(image: Image) -> Image:
    # First by a whole number, which needs no second copy of the large one.
    factor = max(image.size) // LONGEST_EDGE
    is_plain = factor > 1 and image.mode in ("L", "LA", "RGB", "RGBA")
    small = _in_plain_colours(image.reduce(factor) if is_plain else image)
    small.thumbnail((LONGEST_EDGE, LONGEST_EDGE), Resampling.LANCZOS)
    # What the camera wrote about the orientation may be damaged; the picture is shown as it lies.
    with suppress(Exception):
        small = ImageOps.exif_transpose(small)
    small.info.clear()
    return small


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
    return "image/jpeg", _saved(_on_white(image), "JPEG", quality=_JPEG_QUALITY)


def _on_white(image: Image) -> Image:
    if image.mode != "RGBA":
        return image
    flat = new("RGB", image.size, _WHITE)
    flat.paste(image, mask=image.getchannel("A"))
    return flat


def _saved(image: Image, form: str, **options: int) -> bytes:
    buffer = BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()
