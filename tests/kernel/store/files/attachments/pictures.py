"""Pictures for tests, made on the spot."""

from __future__ import annotations

import random
import struct
import zlib
from io import BytesIO

from PIL import Image

FORMATS = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WEBP"}


# Encoding takes most of the time of the tests, and the size of the files does not matter.
_QUICK: dict[str, dict[str, object]] = {"PNG": {"compress_level": 1}, "WEBP": {"method": 0}}


def encoded(image: Image.Image, form: str, **options: object) -> bytes:
    buffer = BytesIO()
    image.save(buffer, form, **_QUICK.get(form, {}) | options)
    return buffer.getvalue()


def picture(media_type: str = "image/png", size: tuple[int, int] = (40, 30)) -> bytes:
    """Left half red, right half blue."""
    image = Image.new("RGB", size, (255, 0, 0))
    image.paste((0, 0, 255), (size[0] // 2, 0, *size))
    return encoded(image, FORMATS[media_type])


def noise(size: tuple[int, int], mode: str = "RGB") -> Image.Image:
    """A picture that cannot be compressed."""
    count = size[0] * size[1] * len(mode)
    return Image.frombytes(mode, size, random.Random(7).randbytes(count))


def opened(data: bytes) -> Image.Image:
    image = Image.open(BytesIO(data))
    image.load()
    return image


def png_bomb(width: int, height: int) -> bytes:
    """A few bytes that decompress to a picture of any size."""
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(b"\0"))


def webp_bomb(width: int, height: int) -> bytes:
    canvas = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    body = b"WEBPVP8X" + struct.pack("<I", 10) + bytes(4) + canvas
    return b"RIFF" + struct.pack("<I", len(body)) + body


def gif_bomb(width: int, height: int) -> bytes:
    screen = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + bytes(6)
    return screen + b"\x2c" + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x02\x02\x4c\x01\0;"


def many_scans(count: int, edge: int = 5000) -> bytes:
    """A grey JPEG with this many scans of the whole picture, each of them empty."""
    frame = struct.pack(">BHHBBBB", 8, edge, edge, 1, 1, 0x11, 0)
    # One code of one bit: `0` and 14 bits, "nothing more in the next 27306 blocks".
    tables = bytes([0x10, 1, *bytes(15), 0xE0, 0x00, 1, *bytes(15), 0])
    runs = (edge // 8 + 1) ** 2 // 27306 + 1
    bits = "010101010101010" * runs
    bits += "1" * (-len(bits) % 8)
    data = int(bits, 2).to_bytes(len(bits) // 8)
    scan = _segment(0xDA, bytes([1, 1, 0, 1, 63, 0])) + data
    start = b"\xff\xd8" + _segment(0xDB, bytes([0, *[1] * 64])) + _segment(0xC2, frame)
    return start + _segment(0xC4, tables) + scan * count + b"\xff\xd9"


def _segment(marker: int, body: bytes) -> bytes:
    return bytes([0xFF, marker]) + struct.pack(">H", len(body) + 2) + body


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
