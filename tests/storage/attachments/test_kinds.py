"""A file is what its content says."""

from __future__ import annotations

import struct
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.storage.attachments.pictures import FORMATS, picture

from ollim_bot.domain.chat import IMAGES, Attachment
from ollim_bot.store.attachments.files import media_type_of


def in_other_form(form: str) -> bytes:
    buffer = BytesIO()
    Image.new("RGB", (9, 9)).save(buffer, form)
    return buffer.getvalue()


def mp4(brand: bytes, handler: bytes) -> bytes:
    hdlr = b"hdlr" + bytes(8) + handler + bytes(12)
    return struct.pack(">I", 16) + b"ftyp" + brand + bytes(4) + b"....moov" + hdlr


@pytest.mark.parametrize("media_type", FORMATS)
def test_the_pictures_of_the_model_are_known(media_type: str) -> None:
    assert media_type_of(picture(media_type)) == media_type
    assert media_type in IMAGES


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (in_other_form("BMP"), "image/bmp"),
        (in_other_form("TIFF"), "image/tiff"),
        (in_other_form("AVIF"), "image/avif"),
        (mp4(b"heic", b"pict"), "image/heic"),
        (mp4(b"mif1", b"pict"), "image/heic"),
        (b"%PDF-1.7\n...", "application/pdf"),
        (b"PK\x03\x04....", "application/zip"),
        (b"\x1f\x8b\x08\0", "application/gzip"),
        (b"OggS" + bytes(24) + b"OpusHead", "audio/ogg"),
        (b"OggS" + bytes(24) + b"\x01vorbis", "audio/ogg"),
        (b"OggS" + bytes(24) + b"\x80theora", "video/ogg"),
        (mp4(b"M4A ", b"soun"), "audio/mp4"),
        (mp4(b"mp42", b"soun"), "audio/mp4"),
        (mp4(b"isom", b"vide"), "video/mp4"),
        (b"\x1a\x45\xdf\xa3....webm....A_OPUS", "audio/webm"),
        (b"\x1a\x45\xdf\xa3....webm....V_VP9..A_OPUS", "video/webm"),
        (b"RIFF\x10\0\0\0WAVEfmt ", "audio/wav"),
        (b"RIFF\x10\0\0\0AVI LIST", "video/x-msvideo"),
        (b"fLaC....", "audio/flac"),
        (b"ID3\x04....", "audio/mpeg"),
        (b"\xff\xfb\x90\x64", "audio/mpeg"),
        (b"\xff\xf1\x50\x80", "audio/aac"),
        (b"#!AMR\n", "audio/amr"),
        (b"BM is a short name\n", "text/plain"),
        ("Grüße, 日本語\n".encode(), "text/plain"),
        (b"\xff\xfeh\0i\0", "application/octet-stream"),
        (b"a\0b", "application/octet-stream"),
        (b"RIFF", "text/plain"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "text/plain"),
    ],
)
def test_other_kinds_are_known_by_their_content(data: bytes, media_type: str) -> None:
    assert media_type_of(data) == media_type


@given(st.binary(max_size=40), st.sampled_from([b"", b"RIFF", b"OggS", b"\0\0\0\x10ftyp", b"\xff"]))
def test_anything_has_a_kind(data: bytes, beginning: bytes) -> None:
    assert media_type_of(beginning + data).count("/") == 1


def noted(media_type: str) -> str:
    return Attachment("x", "downloads/x", media_type, 1).unread_note


def test_what_nobody_can_read_is_said_honestly() -> None:
    sentence = "I cannot hear voice messages and other recordings yet; downloads/x is kept."
    assert noted("audio/ogg") == noted("audio/mp4") == sentence
    assert noted("video/mp4") == "I cannot watch videos; downloads/x is kept."
    assert noted("image/heic") == (
        "I can see PNG, JPEG, GIF and WebP pictures only; downloads/x is kept."
    )


@pytest.mark.parametrize("media_type", [*FORMATS, "text/plain", "application/pdf"])
def test_nothing_is_said_about_what_can_be_read(media_type: str) -> None:
    assert noted(media_type) == ""
