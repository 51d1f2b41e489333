"""Texts with parts that look like a key, and texts without."""

from __future__ import annotations

import pytest

KEYS = [
    pytest.param(
        "login with MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs now",
        "login with [redacted] now",
        id="discord-token",
    ),
    pytest.param(
        "POST /api/v10/interactions/123/aW50ZXJhY3Rpb246MTIzNDU2/callback",
        "POST /api/v10/interactions/123/[redacted]/callback",
        id="discord-interaction",
    ),
    pytest.param("key sk-ant-api03-Ab_c-9.", "key [redacted].", id="anthropic"),
    pytest.param("got ya29.a0Af_H-x.y", "got [redacted]", id="google-access"),
    pytest.param("got 1//0gAbCdEfGhIjKlMnOpQrSt-u", "got [redacted]", id="google-refresh"),
    pytest.param("client GOCSPX-abc_d", "client [redacted]", id="google-client"),
    pytest.param("Bearer abc.def", "Bearer [redacted]", id="bearer"),
    pytest.param("{'x': 'bearer abc', 'y': 1}", "{'x': 'bearer [redacted]', 'y': 1}", id="lower"),
    pytest.param("Authorization: Bot abc def", "Authorization: [redacted]", id="header"),
    pytest.param(
        "{'Authorization': 'Basic abc', 'a': 1}",
        "{'Authorization': '[redacted]', 'a': 1}",
        id="header-in-a-dict",
    ),
    pytest.param(
        "(b'authorization', b'Bot abc')", "(b'authorization', b'[redacted]')", id="raw-header"
    ),
    pytest.param(
        r"{\"authorization\": \"Bot abc\"}",
        r'{\"authorization\": \"[redacted]"}',
        id="header-in-json",
    ),
    pytest.param("/?token=ab%20c&x=1", "/?token=[redacted]&x=1", id="query"),
    pytest.param(
        "a_token=x client_secret=y", "a_token=[redacted] client_secret=[redacted]", id="="
    ),
    pytest.param('{"api_key": "x y"}', '{"api_key": "[redacted]"}', id="json"),
    pytest.param("/cb?state=1&code=4/0Ab", "/cb?state=1&code=[redacted]", id="oauth-code"),
    pytest.param("https://me:pw@host/x", "https://[redacted]@host/x", id="address"),
    pytest.param(
        "{'content': 'https://calendar.google.com/calendar/ical/a%40b/private-0a/basic.ics'}",
        "{'content': 'https://calendar.google.com[redacted]'}",
        id="calendar",
    ),
    pytest.param(
        "<https://x.org/a/b.ICS?key=1> webcal://p4.icloud.com/published/2/ab, so",
        "<https://x.org[redacted]> webcal://p4.icloud.com[redacted] so",
        id="calendars",
    ),
    pytest.param("token=Bearer abc", "token=[redacted] [redacted]", id="two-shapes"),
]

NO_KEYS = [
    "authorization failed",
    "Discord refused the token: 401",
    "max_tokens=5 exit code=1",
    "see http://127.0.0.1:8421/healthz?x=1",
    "family.ics has 3 events; see https://example.org/topics and webcal links",
    "Wrote notes/today.md, 12.5 kB, 1//2",
    "a/very-long-name-of-a-routine.with-dots.and-more-words",
]
