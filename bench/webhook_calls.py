"""Run as a program: calls webhooks over many connections at once, and prints the seconds it took.

Arguments: the port, the secret, the number of hooks, of calls and of connections.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator

# Like an event of GitHub for a small repository, in shape and size.
BODY = json.dumps(
    {
        "action": "opened",
        "issue": {"title": "It rains", "number": 7, "body": "x" * 1500},
        "sender": {"login": "ada", "urls": ["https://example.org/" + "y" * 40] * 30},
    }
).encode()


async def caller(port: int, secret: str, hooks: Iterator[int]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for hook in hooks:
        writer.write(
            f"POST /hook/h{hook} HTTP/1.1\r\nHost: bot\r\nAuthorization: Bearer {secret}\r\n"
            f"Content-Length: {len(BODY)}\r\n\r\n".encode()
            + BODY
        )
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 202"), head
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r")[0])
        await reader.readexactly(length)
    writer.close()


async def main() -> None:
    port, secret, hooks, calls, connections = sys.argv[1:]
    numbers = (number % int(hooks) for number in range(int(calls)))
    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(int(connections)):
            group.create_task(caller(int(port), secret, numbers))
    print(time.perf_counter() - began)


if __name__ == "__main__":
    asyncio.run(main())
