"""The form of a job as markup for the page. Every text in it is data: it is escaped, set apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from ollim_bot.domain.job_form import TEXT, FormField, JobForm, address_of, dated
from ollim_bot.domain.text import visible

_PROBLEM = '<p class="problem" role="alert"></p>'
_MOST_ROWS = 24
_DELETE = "It does not come any more. Changes keeps it, so that you can bring it back."
_OTHERS = (
    "The agent wrote this after reading text of others, so it is treated as theirs: its runs may "
    "do less, and it may be held back. This is the whole file. If all of it is what you want, say "
    "so."
)


def job_html(form: JobForm, _most: int) -> str:
    """The panel: what the job does and when, its buttons, its fields, and its file."""
    return "".join(_parts(form))


def _parts(form: JobForm) -> Iterator[str]:
    yield f'<h2><bdi class="what">{escape(visible(form.title))}</bdi></h2>'
    yield f'<p class="when">{escape(_when(form))}</p>'
    if form.set_by:
        yield f'<p class="remark">Set by <bdi>{escape(visible(form.set_by))}</bdi>.</p>'
    if form.problems:
        items = "".join(f"<li><bdi>{escape(visible(each))}</bdi></li>" for each in form.problems)
        yield f'<section class="wrong"><p>The file is not right:</p><ul>{items}</ul></section>'
    else:
        yield _buttons(form)
    if form.both:
        yield f'<section class="conflict"><p>{escape(form.both)}</p>{_take(form)}</section>'
    if form.untrusted:
        yield _words_of_others(form)
    if form.fields:
        yield _form(form, "save", "".join(map(_field, form.fields)))
    yield _file_form(form)


def _when(form: JobForm) -> str:
    if form.problems:
        return f"{form.kind.capitalize()} · its file has mistakes"
    if not form.is_enabled:
        return f"{form.kind.capitalize()} · paused: it does not come until you resume it"
    coming = " · then ".join(dated(each, form.now) for each in form.next)
    if not form.rhythm:
        return f"{form.kind.capitalize()} · runs when it is called"
    if form.kind.value == "reminder":
        return f"Reminder · {form.rhythm}"
    skipped = " · the next time is skipped" if form.is_skipped else ""
    return f"{form.kind.capitalize()} · {form.rhythm} · next {coming or 'not planned'}{skipped}"


def _buttons(form: JobForm) -> str:
    """What can be done with the job as it is."""
    shown = []
    if not form.is_enabled:
        shown.append(_button(form, "resume", "Resume"))
    elif form.can_skip:
        label = "Do not skip" if form.is_skipped else "Skip once"
        shown.append(_button(form, "resume" if form.is_skipped else "skip", label))
    if form.can_run:
        shown.append(_button(form, "run", "Run now"))
    if form.is_enabled:
        shown.append(_button(form, "pause", "Pause"))
    delete = (
        '<details class="more" data-fold="delete"><summary>Delete</summary>'
        f"<p>{_DELETE}</p>{_button(form, 'delete', 'Delete it', 'danger')}</details>"
    )
    return f'<div class="buttons">{"".join(shown)}{delete}</div>'


def _button(form: JobForm, action: str, label: str, style: str = "secondary") -> str:
    return (
        f'<button type="button" class="{style}" data-action="{action}" '
        f'data-field-id="{escape(form.key)}">{label}</button>'
    )


def _take(form: JobForm) -> str:
    return f'<a class="take" href="{escape(address_of(form.key))}">Take the file’s</a>'


def _words_of_others(form: JobForm) -> str:
    text = escape(visible(form.file.text))
    return (
        '<details class="others" data-fold="words"><summary>May be words of others '
        f"(<bdi>{escape(visible(form.untrusted))}</bdi>)</summary><p>{_OTHERS}</p>"
        f"<pre><bdi>{text}</bdi></pre>"
        f'<form data-action="my-words" data-field-id="{escape(form.key)}" '
        f'data-field-version="{form.file.version}">'
        f"<button>These are my words</button>{_PROBLEM}</form></details>"
    )


def _form(form: JobForm, action: str, content: str) -> str:
    """A form that says which file it was made of; another one is shown after a conflict."""
    conflict = f' data-conflict="{form.file.version}"' if form.both else ""
    label = "Save anyway" if form.both else "Save"
    return (
        f'<form class="job" data-action="{action}" data-previews="1" '
        f'data-field-id="{escape(form.key)}"{conflict}>'
        f'<input type="hidden" name="version" value="{form.file.version}">{content}'
        f'{_PROBLEM}<div class="end"><div class="preview" aria-live="polite"></div>'
        f"<button>{label}</button></div></form>"
    )


def _field(field: FormField) -> str:
    place, hint, theirs = f"job-{field.name}", "", ""
    described = f' aria-describedby="{place}-hint"' if field.hint else ""
    if field.hint:
        examples = re.sub("`([^`]*)`", r"<code>\1</code>", escape(field.hint))
        hint = f'<p class="about" id="{place}-hint">{examples}</p>'
    if field.in_file is not None:
        words = dict(field.choices).get(field.in_file, field.in_file) or "nothing"
        theirs = f'<p class="in-file">In the file now: <bdi>{escape(visible(words))}</bdi></p>'
    return (
        f'<div class="field"><label for="{place}">{escape(field.label)}</label>'
        f"{_control(field, place, described)}{hint}{theirs}</div>"
    )


def _control(field: FormField, place: str, described: str) -> str:
    names = f'id="{place}" name="{field.name}"{described}'
    if field.choices:
        options = "".join(
            f'<option value="{escape(value)}"{" selected" if value == field.value else ""}>'
            f"{escape(words)}</option>"
            for value, words in field.choices
        )
        return f"<select {names}>{options}</select>"
    if field.name == TEXT:
        return _box(names, field.value)
    return f'<input {names} value="{escape(field.value)}" autocomplete="off" dir="auto">'


def _box(names: str, text: str) -> str:
    rows = min(text.count("\n") + 2, _MOST_ROWS)
    # A parser drops the first line end of a box.
    return f'<textarea {names} rows="{rows}" dir="auto">\n{escape(text)}</textarea>'


def _file_form(form: JobForm) -> str:
    is_open = " open" if form.problems or form.typed is not None else ""
    theirs = ""
    if form.typed is not None:
        now = escape(visible(form.file.text))
        theirs = f'<p class="in-file">In the file now:</p><pre><bdi>{now}</bdi></pre>'
    text = form.file.text if form.typed is None else form.typed
    box = _box('id="job-file" name="file" spellcheck="false"', text)
    label = f'<label for="job-file">{escape(form.file.name)}</label>'
    content = _form(form, "save-file", f'<div class="field">{label}{box}{theirs}</div>')
    return (
        f'<details class="whole" data-fold="file"{is_open}><summary>The file itself</summary>'
        f"{content}</details>"
    )
