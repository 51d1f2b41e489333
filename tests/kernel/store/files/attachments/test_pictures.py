"""Pictures reach the model unchanged or smaller; for a broken picture the reason is given."""

from __future__ import annotations

import random
from io import BytesIO

import pytest
from hypothesis import given as each
from hypothesis import settings
from hypothesis import strategies as st
from PIL import Image
from tests.examples import examples
from tests.kernel.store.files.attachments.pictures import (
    FORMATS,
    encoded,
    gif_bomb,
    noise,
    opened,
    picture,
    png_bomb,
    webp_bomb,
)

from ollim_bot.kernel.store.attachments import pictures
from ollim_bot.kernel.store.attachments.attachment_files import media_type_of
from ollim_bot.kernel.store.attachments.decoding import Limits, TooManyPixels, fitted
from ollim_bot.kernel.store.attachments.pictures import MOST_PIXELS

# Less than the real limits, since large pictures take long. A PNG may have a megabyte at most, so
# MOST_BYTES is more than that.
LONGEST_EDGE, MOST_BYTES = 392, 1_100_000
ORIENTATION = 0x0112
RED, BLUE = (255, 0, 0), (0, 0, 255)


def given(data: bytes, edge: int = LONGEST_EDGE) -> tuple[str, bytes]:
    media_type = media_type_of(data)
    limits = Limits(edge, MOST_BYTES, MOST_PIXELS[media_type], memory=0, cpu=0, wall=0)
    return fitted(media_type, data, limits)


def fit(data: bytes, edge: int = LONGEST_EDGE) -> tuple[str, Image.Image, bytes]:
    """What the model gets, which is always within its limits."""
    media_type, out = given(data, edge)
    image = opened(out)
    assert media_type_of(out) == media_type
    assert len(out) <= MOST_BYTES
    assert max(image.size) <= edge
    return media_type, image, out


def is_close(found: object, expected: tuple[int, ...]) -> bool:
    assert isinstance(found, tuple)
    return all(abs(one - other) < 12 for one, other in zip(found, expected, strict=False))


@pytest.mark.parametrize("media_type", FORMATS)
def test_a_picture_that_fits_stays_as_it_is(media_type: str) -> None:
    data = picture(media_type, (LONGEST_EDGE, 20))
    assert given(data) == (media_type, data)


@pytest.mark.parametrize("media_type", FORMATS)
@pytest.mark.parametrize("size", [(400, 200), (200, 400), (LONGEST_EDGE + 1, 3)])
def test_a_large_one_becomes_smaller_and_keeps_its_shape(
    media_type: str, size: tuple[int, int]
) -> None:
    out_type, image, _ = fit(picture(media_type, size))
    assert out_type == ("image/jpeg" if media_type == "image/jpeg" else "image/png")
    assert max(image.size) == LONGEST_EDGE
    assert image.width / image.height == pytest.approx(size[0] / size[1], rel=0.25)
    middle = image.height // 2
    assert is_close(image.convert("RGB").getpixel((1, middle)), RED)
    assert is_close(image.convert("RGB").getpixel((image.width - 2, middle)), BLUE)


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("PNG", {}),
        ("JPEG", {"quality": 100, "subsampling": 0}),
        ("WEBP", {"lossless": True, "quality": 0}),
    ],
)
def test_one_of_many_bytes_becomes_smaller(form: str, options: dict[str, object]) -> None:
    data = encoded(noise((700, 700)), form, **options)
    assert len(data) > MOST_BYTES
    media_type, image, _ = fit(data, edge=700)
    assert (media_type, image.size) == ("image/jpeg", (700, 700))


def test_any_content_of_the_real_size_has_few_enough_bytes() -> None:
    edge, pixels = pictures.LONGEST_EDGE, MOST_PIXELS["image/jpeg"]
    data = encoded(noise((edge + 1, edge)), "JPEG", quality=100, subsampling=0)
    limits = Limits(edge, pictures.MOST_BYTES, pixels, memory=0, cpu=0, wall=0)
    assert len(data) > len(fitted("image/jpeg", data, limits)[1]) <= pictures.MOST_BYTES


@pytest.mark.parametrize(
    ("form", "orientation"),
    [*(("JPEG", number) for number in range(1, 9)), ("PNG", 6), ("WEBP", 8)],
)
def test_a_photo_that_lies_on_its_side_is_set_upright(form: str, orientation: int) -> None:
    original = Image.new("RGB", (400, 200), RED)
    original.paste(BLUE, (200, 0, 400, 200))
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    _, image, out = fit(encoded(original, form, exif=exif.tobytes()))
    size, blue_at = {
        1: ((392, 196), (375, 100)),
        2: ((392, 196), (15, 100)),
        3: ((392, 196), (15, 100)),
        4: ((392, 196), (375, 100)),
        5: ((196, 392), (100, 375)),
        6: ((196, 392), (100, 375)),
        7: ((196, 392), (100, 15)),
        8: ((196, 392), (100, 15)),
    }[orientation]
    assert image.size == size
    assert is_close(image.getpixel(blue_at), BLUE)
    assert not Image.open(BytesIO(out)).getexif()


@pytest.mark.parametrize("form", ["JPEG", "PNG"])
def test_what_a_camera_wrote_besides_the_picture_is_left_out(form: str) -> None:
    noted = encoded(Image.new("RGB", (500, 10), RED), form, icc_profile=b"p" * 90_000)
    _, image, out = fit(noted)
    assert "icc_profile" not in image.info
    assert len(out) < 9000


def test_a_damaged_note_about_the_orientation_does_not_cost_the_picture() -> None:
    data = encoded(Image.new("RGB", (500, 10), RED), "JPEG", exif=b"Exif\0\0MM\0*\0\0\xff\xff")
    assert fit(data)[1].size == (LONGEST_EDGE, 8)


@pytest.mark.parametrize(
    ("mode", "colour"),
    [("1", 255), ("L", 156), ("LA", 156), ("P", 156), ("RGBA", 156), ("I;16", 156 * 256)],
)
def test_every_kind_of_colour_can_be_made_smaller(mode: str, colour: int) -> None:
    plain = Image.new(mode if mode == "I;16" else "L", (400, 200), colour)
    image = plain if mode == "I;16" else plain.convert(mode)
    small = fit(encoded(image, "PNG"))[1].convert("RGB")
    assert is_close(small.getpixel((175, 75)), (colour // 256 or colour,))


def test_colours_of_print_can_be_made_smaller() -> None:
    data = encoded(Image.new("CMYK", (500, 250), (0, 255, 255, 0)), "JPEG")
    assert is_close(fit(data)[1].getpixel((5, 5)), RED)


def test_what_was_see_through_stays_so_or_becomes_white() -> None:
    clear = Image.new("RGBA", (500, 250), (0, 0, 0, 0))
    assert fit(encoded(clear, "PNG"))[1].getpixel((5, 5)) == (0, 0, 0, 0)
    speckled = noise((800, 400), "RGBA")
    speckled.paste((0, 0, 0, 0), (0, 0, 25, 25))
    media_type, image, _ = fit(encoded(speckled, "PNG"), edge=780)
    assert media_type == "image/jpeg"
    assert is_close(image.getpixel((10, 10)), (255, 255, 255))


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG"])
def test_of_an_animation_that_is_too_large_the_first_frame_is_taken(form: str) -> None:
    frames = [Image.new("RGB", (500, 25), colour) for colour in (RED, BLUE, RED)]
    data = encoded(frames[0], form, save_all=True, append_images=frames[1:], duration=50)
    _, image, _ = fit(data)
    assert is_close(image.convert("RGB").getpixel((5, 5)), RED)
    assert getattr(image, "n_frames", 1) == 1


@pytest.mark.parametrize("form", ["GIF", "WEBP"])
def test_a_small_animation_stays_one(form: str) -> None:
    frames = [Image.new("RGB", (20, 10), colour) for colour in (RED, BLUE)]
    data = encoded(frames[0], form, save_all=True, append_images=frames[1:])
    assert fit(data)[2] == data


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n",
        b"\x89PNG\r\n\x1a\n" + b"but not really" * 10,
        b"\xff\xd8\xff\xe0 a letter",
        b"GIF89a",
        b"RIFF\x10\0\0\0WEBPVP8 ",
        *(picture(media_type, (400, 300))[:-60] for media_type in FORMATS),
    ],
)
def test_what_only_begins_like_a_picture_is_none(data: bytes) -> None:
    with pytest.raises((OSError, SyntaxError, ValueError)):
        given(data)


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (png_bomb(50_000, 50_000), 50_000**2),
        (png_bomb(2**31 - 1, 2**31 - 1), (2**31 - 1) ** 2),
        (gif_bomb(65_000, 65_000), 65_000**2),
        (gif_bomb(5001, 5001), 5001**2),
    ],
)
def test_a_picture_that_would_fill_the_memory_is_never_unfolded(data: bytes, count: int) -> None:
    with pytest.raises(TooManyPixels) as wrong:
        given(data)
    assert wrong.value.count == count


def test_a_canvas_that_nothing_is_painted_on_is_no_picture() -> None:
    with pytest.raises(OSError, match="could not create decoder"):
        given(webp_bomb(16_000, 10_000))


@settings(max_examples=examples(1))
@each(st.sampled_from(sorted(FORMATS)), st.integers(0, 2**32))
def test_damaged_pictures_are_readable_or_refused_and_nothing_else(
    media_type: str, seed: int
) -> None:
    rng = random.Random(seed)
    data = bytearray(picture(media_type, (425, 2)))
    for _ in range(rng.randint(1, 20)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    del data[rng.randrange(len(data)) + 20 :]
    if media_type_of(bytes(data)) != media_type:
        return
    try:
        out_type, out = given(bytes(data))
    except Exception:  # noqa: BLE001 - whatever it is, the process takes it for a refusal
        return
    assert media_type_of(out) == out_type
    opened(out)
