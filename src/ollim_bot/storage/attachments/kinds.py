"""What a file is by its content; nobody's word is taken for it."""

from __future__ import annotations

import re

_BY_BEGINNING = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"#!AMR", "audio/amr"),
)
_BY_RIFF = {
    b"WEBP": "image/webp",
    b"WAVE": "audio/wav",
    b"AVI ": "video/x-msvideo",
}
_BY_BRAND = {
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"hevc": "image/heic",
    b"mif1": "image/heic",
    b"msf1": "image/heic",
    b"avif": "image/avif",
    b"avis": "image/avif",
}
_HAS_VIDEO_TRACK = re.compile(rb"hdlr.{8}vide", re.DOTALL)
_HAS_VIDEO_CODEC = re.compile(rb"V_(?:VP|AV1|MPEG|THEORA)")
_HEAD = 65536


def media_type_of(data: bytes) -> str:
    for beginning, media_type in _BY_BEGINNING:
        if data.startswith(beginning):
            return media_type
    return _of_container(data) or _of_sound_frames(data) or _of_plain_data(data)


def _of_container(data: bytes) -> str | None:
    match data[:4]:
        case b"RIFF":
            return _BY_RIFF.get(data[8:12])
        case b"OggS":
            return "video/ogg" if b"theora" in data[:_HEAD] else "audio/ogg"
        case b"\x1a\x45\xdf\xa3":
            return "video/webm" if _HAS_VIDEO_CODEC.search(data[:_HEAD]) else "audio/webm"
    if data[4:8] != b"ftyp":
        return None
    # Voice messages often have the brand of a video: only the tracks tell.
    sound_or_video = "video/mp4" if _HAS_VIDEO_TRACK.search(data) else "audio/mp4"
    return _BY_BRAND.get(data[8:12], sound_or_video)


def _of_sound_frames(data: bytes) -> str | None:
    """MP3 and AAC without a header of their own begin with the bits that mark a frame."""
    if len(data) < 2 or data[0] != 0xFF:
        return None
    if data[1] & 0xF6 == 0xF0:
        return "audio/aac"
    return "audio/mpeg" if data[1] & 0xE6 == 0xE2 else None


def _of_plain_data(data: bytes) -> str:
    if data[:2] == b"BM" and data[6:10] == bytes(4):
        return "image/bmp"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    return "application/octet-stream" if "\0" in text else "text/plain"
