"""Webhook files: the whole of each is checked when it is read."""

from __future__ import annotations

import pytest

from ollim_bot.kernel.store import frontmatter
from ollim_bot.kernel.store.webhook_format import WEBHOOKS
from ollim_bot.kernel.values.hook_jobs import WebhookAuth, WebhookSpec

ISSUES = """---
id: issues
fields:
  type: object
  required: [title]
  properties:
    title: {type: string, maxLength: 200}
    labels: {type: array, items: {type: string}}
pick: {title: /issue/title, labels: /issue/labels}
on: [issues.opened, ping]
auth: github
secret-env: GITHUB_HOOK_SECRET
---
Look at {{title}}.
"""


def read(text: str) -> WebhookSpec:
    reading = WEBHOOKS.read(frontmatter.parse(text))
    assert reading.problems == ()
    assert reading.job is not None
    return reading.job


def problems(*lines: str) -> list[str]:
    fields = (
        () if any(line.startswith("fields:") for line in lines) else ("fields: {type: object}",)
    )
    text = "\n".join(("---", "id: a", *fields, *lines, "---", "Look."))
    return [each.complaint() for each in WEBHOOKS.read(frontmatter.parse(text)).problems]


def test_all_fields_of_a_webhook_are_read_and_written() -> None:
    hook = read(ISSUES)
    assert hook.pick == {"title": "/issue/title", "labels": "/issue/labels"}
    assert hook.on == ("issues.opened", "ping")
    assert hook.auth == (WebhookAuth.GITHUB,)
    assert hook.secret_env == "GITHUB_HOOK_SECRET"
    assert not hook.is_plain
    assert WEBHOOKS.made(WEBHOOKS.written(hook), hook.spec.message) == hook
    short = read("---\nid: a\nfields: {type: object}\non: done\ndeliver: plain\n---\nDone.\n")
    assert (short.on, short.is_plain, short.pick) == (("done",), True, {})
    assert short.auth == tuple(WebhookAuth)
    assert WEBHOOKS.written(short) == {
        "id": "a",
        "fields": {"type": "object"},
        "on": ["done"],
        "deliver": "plain",
    }


NAMED = "fields: {type: object, properties: {a: {type: string}}, required: [a]}"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["fields: {}"], "a JSON Schema such as"),
        (["fields: {type: array}"], "type: is object for the data of a webhook"),
        (["fields: {a: {type: string}}"], "fields: a: is not known here"),
        (["fields: {properties: {a: {maxlength: 5}}}"], "a.maxlength: is not known here; did you"),
        (["fields: {properties: {a: {type: text}}}"], "properties.a.type: takes one or a list of"),
        (
            ["fields: {properties: {a: {type: string, maxLength: -1}}}"],
            "a.maxLength: takes a whole",
        ),
        (["fields: {properties: {a: string}}"], "properties.a: is a schema such as"),
        (["fields: {properties: [a]}"], "properties: takes a schema for each name"),
        (["fields: {properties: {a: {enum: []}}}"], "a.enum: takes a list of values"),
        (["fields: {properties: {a: {anyOf: {}}}}"], "a.anyOf: takes a list of schemas"),
        (["fields: {properties: {a: {minimum: low}}}"], "a.minimum: takes a number"),
        (["fields: {properties: {a: {multipleOf: 0}}}"], "takes a number above 0"),
        (["fields: {properties: {a: {pattern: '(a+)+$'}}}"], "a.pattern: is not used here"),
        (["fields: {properties: {a: {uniqueItems: true}}}"], "a.uniqueItems: is not used here"),
        (["fields: {properties: {a: {$ref: '#'}}}"], "a.$ref: is not used here"),
        (["fields: {required: [b]}"], "required: names b, which is not one of the properties"),
        (
            [f"fields: {{properties: {{{', '.join(f'a{n}: true' for n in range(21))}}}}}"],
            "properties: has 21; at most 20 are allowed",
        ),
        (
            [f"fields: {{properties: {{a: {{anyOf: [{', '.join(['true'] * 600)}]}}}}}}"],
            "is too large; at most 500 parts",
        ),
        ([NAMED, "pick: {a: issue/title}"], "'issue/title' is not right; it takes a JSON pointer"),
        ([NAMED, "pick: {a: /x~2}"], "it takes a JSON pointer"),
        ([NAMED, "pick: {a: 5}"], "it takes a JSON pointer"),
        ([NAMED, "pick: {a: /a, b: /b}"], "pick: b is not one of the properties in fields"),
        (
            [NAMED.replace("a: {", "b: true, a: {"), "pick: {b: /b}"],
            "pick: a is required in fields",
        ),
        (["on: []"], "on: "),
        (["on: 5"], "on: '5' is not right; it takes one or a list of 1 to 50 events"),
        (["on: {a: b}"], "on: "),
        (["auth: basic"], "one or a list of bearer, github, standard, stripe"),
        (["auth: []"], "one or a list of bearer"),
        (["secret-env: LANG"], "secret-env: 'LANG' is not right"),
        (["secret-env: a secret"], "secret-env: "),
        (["secret-env: ANTHROPIC_API_KEY"], "secret-env: "),
        (["deliver: always"], "deliver: 'always' is not right; it takes plain"),
        (["deliver: plain", "model: opus"], "model: cannot be kept with deliver: plain"),
        (["deliver: plain", "skills: [a]"], "skills: cannot be kept with deliver: plain"),
        (["deliver: plain", "allow-ping: false"], "deliver: cannot be kept with allow-ping: false"),
        (["plain: true"], "a webhook takes deliver: plain"),
        (["must: true"], "must: is for routines and reminders"),
        (
            ["secret-evn: X_SECRET"],
            "secret-evn: is not a field of a webhook; did you mean secret-env?",
        ),
    ],
)
def test_a_wrong_webhook_is_refused_with_its_reason(lines: list[str], said: str) -> None:
    found = problems(*lines)
    assert len(found) == 1
    assert said in found[0]


def test_all_problems_of_a_schema_are_said_at_once() -> None:
    (found,) = problems("fields: {properties: {a: {type: text}, b: {pattern: x}}, requird: [a]}")
    for part in ("properties.a.type: ", "properties.b.pattern: ", "requird: "):
        assert part in found


def test_a_place_in_the_text_without_a_field_is_refused() -> None:
    text = ISSUES.replace("{{title}}", "{{ titel }} of {{labels}}")
    (problem,) = WEBHOOKS.read(frontmatter.parse(text)).problems
    assert problem.complaint() == "{{titel}} in the text is not one of the properties in fields"
