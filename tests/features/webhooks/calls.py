"""Requests to a running webhook server, as other programs send them."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple


class HookAnswer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: Any


def call(
    port: int,
    hook: str,
    data: object,
    headers: Mapping[str, str] | None = None,
    *,
    method: str = "POST",
    seconds: float = 60,
) -> HookAnswer:
    """Send `data`, as JSON unless it is bytes; the body of the answer is read as JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        connection.request(method, f"/hook/{hook}", raw(data), dict(headers or {}))
        answer = connection.getresponse()
        return HookAnswer(answer.status, dict(answer.getheaders()), json.loads(answer.read()))
    finally:
        connection.close()


def raw(data: object) -> bytes:
    return data if isinstance(data, bytes) else json.dumps(data).encode()


def bearer(secret: str, key: str | None = None) -> dict[str, str]:
    named = {} if key is None else {"Idempotency-Key": key}
    return {"Authorization": f"Bearer {secret}", **named}


def github(secret: str, data: object, event: str = "push") -> dict[str, str]:
    signature = hmac.new(secret.encode(), raw(data), hashlib.sha256).hexdigest()
    return {"X-Hub-Signature-256": f"sha256={signature}", "X-GitHub-Event": event}


def standard(key: bytes, data: object, at: float, call_id: str = "msg_1") -> dict[str, str]:
    """`key` is the secret, decoded from base64."""
    signed = f"{call_id}.{int(at)}.".encode() + raw(data)
    signature = b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {
        "webhook-id": call_id,
        "webhook-timestamp": str(int(at)),
        "webhook-signature": f"v1,{signature}",
    }


def stripe(secret: str, data: object, at: float) -> dict[str, str]:
    signed = f"{int(at)}.".encode() + raw(data)
    signature = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    return {"Stripe-Signature": f"t={int(at)},v1={signature}"}
