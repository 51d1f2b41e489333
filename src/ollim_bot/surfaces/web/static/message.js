/**
 * How a message looks: final, being written, unsent, or a note. A button on it names what it does
 * in `data-action`; `actions.js` listens further up.
 *
 * @typedef {import("./protocol.js").Author} Author
 * @typedef {import("./protocol.js").Button} Button
 * @typedef {import("./protocol.js").Card} Card
 * @typedef {import("./protocol.js").Field} Field
 * @typedef {import("./protocol.js").Line} Line
 * @typedef {import("./protocol.js").Message} Message
 * @typedef {import("./protocol.js").Quote} Quote
 * @typedef {import("./state.js").Live} Live
 * @typedef {import("./state.js").Note} Note
 * @typedef {import("./state.js").Unsent} Unsent
 * @typedef {Record<Author, string>} Names
 * @typedef {{names: Names, now: Date, zone: string}} Context
 */

import { attachmentList, unsentFileList } from "./attachments.js";
import {
    actionAttribute, arrange, drawn, icon, iconButton, make, patch, plain, present, rich,
} from "./dom.js";
import { momentInWords } from "./format.js";

/**
 * @param {Message} message
 * @param {Context} context
 */
export function messageElement(message, context) {
    const article = make("article", { tabindex: "-1" }, make("div", { class: "body" }));
    return fillMessage(article, message, context);
}

/**
 * Fill an element, which may have shown the same message while it was written.
 * @param {HTMLElement} article
 * @param {Message} message
 * @param {Context} context
 */
export function fillMessage(article, message, context) {
    const body = article.querySelector(":scope > .body") ?? make("div", { class: "body" });
    const focused = article.contains(document.activeElement) ? document.activeElement : null;
    patch(body, rich(message.html));
    const when = momentInWords(new Date(message.at), context.now, context.zone);
    const isEarlier = Boolean(message.card?.earlier_of);
    article.className = present(
        "message", message.author, message.in_fork && "in-fork", isEarlier && "is-earlier",
    ).join(" ");
    article.dataset.id = message.id;
    const place = message.in_fork && "in a side conversation";
    const names = [context.names[message.author], place, message.job, when];
    article.setAttribute("aria-label", present(...names).join(", "));
    const parts = present(
        !isEarlier
            && (message.author === "background" || message.job)
            && backgroundMark(message, when),
        message.reply_to && quoteButton(message.reply_to, context.names),
        body,
        message.card && (isEarlier ? earlierLine(message.card) : cardElement(message.card)),
        message.attachments.length > 0 && attachmentList(message.attachments),
        message.is_cut_off && make("p", { class: "aside" }, "cut off here"),
        message.footer && make("p", { class: "aside" }, message.footer),
        message.run && make("p", { class: "aside" }, whyLink(message)),
        messageButtons(message.at, when),
    );
    const height = article.matches(":hover") ? heightOf(article) : 0;
    arrange(article, parts);
    keepHeight(article, height);
    if (focused instanceof HTMLElement && !focused.isConnected) {
        restoreFocus(article, focused);
    }
    return article;
}

/**
 * Keep the height of a message that shrinks under the pointer until the pointer leaves it, so that
 * a second click does not meet what comes up from below.
 * @param {HTMLElement} article
 * @param {number} height
 */
function keepHeight(article, height) {
    if (height <= heightOf(article)) {
        return;
    }
    article.style.minHeight = `${height}px`;
    const release = () => article.style.removeProperty("min-height");
    article.addEventListener("pointerleave", release, { once: true });
}

/** @param {HTMLElement} element */
function heightOf(element) {
    return element.getBoundingClientRect().height;
}

/**
 * Focus the open question, or the button that replaced the focused one, or else the message.
 * @param {HTMLElement} article
 * @param {HTMLElement} focused
 */
function restoreFocus(article, { dataset: { action, customId } }) {
    const question = article.querySelector("input");
    const buttons = [...article.querySelectorAll("button")];
    const same = buttons.find(
        ({ dataset, disabled }) =>
            !disabled && (customId ? dataset.customId === customId : dataset.action === action),
    );
    (question ?? same ?? article).focus({ preventScroll: true });
}

/**
 * The words of a message, as a screen reader or a notification says them.
 * @param {Message} message
 */
export function spokenText({ html, card }) {
    return present(plain(html), card && spokenCard(card)).join("\n");
}

/** @param {Card} card */
function spokenCard(card) {
    const fields = card.fields.map((field) => `${field.name}: ${plain(field.html)}`);
    const lines = card.lines.flatMap(({ heading, text }) => [heading, text]);
    return present(card.title, plain(card.html), ...fields, ...lines).join("\n");
}

/** An answer while it is written. */
export class LiveElement {
    #body = make("div", { class: "body" });
    article = make("article", { class: "message assistant", "aria-busy": "true" }, this.#body);
    /** @type {string[]} */
    #blocks = [];
    /** @type {number[]} how many nodes each block has become */
    #counts = [];

    /**
     * @param {Live} live
     * @param {string} name
     * @param {boolean} isInFork
     */
    show(live, name, isInFork) {
        this.article.setAttribute("aria-label", `${name} is writing`);
        this.article.classList.toggle("in-fork", isInFork);
        const differs = this.#blocks.findIndex((block, place) => live.blocks[place] !== block);
        const kept = differs < 0 ? this.#blocks.length : differs;
        this.#counts.length = kept;
        const first = this.#counts.reduce((sum, count) => sum + count, 0);
        const parts = live.blocks.slice(kept).map(rich);
        this.#counts.push(...parts.map((part) => part.childNodes.length));
        this.#blocks = live.blocks;
        const fragment = new DocumentFragment();
        fragment.append(...parts, rich(live.tail));
        patch(this.#body, fragment, first);
    }

    /** End the writing and return the element, for the final message to fill. */
    finish() {
        this.article.removeAttribute("aria-busy");
        this.article.tabIndex = -1;
        return this.article;
    }
}

/**
 * @param {Unsent} unsent
 * @param {Names} names
 * @param {boolean} isInFork
 */
export function unsentElement(unsent, names, isInFork) {
    const state = unsent.error ? "not sent" : "not sent yet";
    return make(
        "article",
        {
            class: isInFork ? "message owner in-fork" : "message owner",
            "data-id": unsent.id,
            tabindex: "-1",
            "aria-label": `${names.owner}, ${state}`,
        },
        unsent.replyTo && quoteButton(unsent.replyTo, names),
        make("div", { class: "body typed" }, unsent.text),
        unsent.files.length > 0 && unsentFileList(unsent.files),
        unsent.error && make("p", { class: "problem" }, unsent.error),
        make(
            "div",
            { class: "actions is-shown" },
            (unsent.error || unsent.isWaiting) && make("span", { class: "unsent" }, state),
            unsent.error && textButton("Try again", "again"),
            unsent.error && textButton("Edit", "take-back"),
            unsent.error && textButton("Discard", "discard"),
        ),
    );
}

/** @param {Note} note */
export function noteElement(note) {
    return make(
        "section",
        {
            class: note.isError ? "note is-error" : "note",
            "data-key": note.key,
            "aria-label": `Answer to ${note.title}`,
        },
        make(
            "p",
            { class: "typed" },
            make(note.isCommand ? "code" : "span", {}, note.title),
            note.isRunning && " is running…",
            !note.isRunning && note.isError && make("b", {}, " did not work"),
        ),
        !note.isRunning && make("div", { class: "body" }, rich(note.html)),
        note.isCommand && note.isError && textButton("What I can do", "help"),
        !note.isRunning && iconButton("close", "Remove this note", "drop-note"),
    );
}

/**
 * What is left of cards for which a newer one asks.
 * @param {Card} card
 */
function earlierLine({ title }) {
    return make("p", {}, ...drawn(title));
}

/** @param {string} until */
function timeLeft(until) {
    const element = make("time", { datetime: until, "data-left": "" });
    element.textContent = leftInWords(until);
    return element;
}

/** Say the time left anew on each card that counts to a moment. */
export function refreshTimesLeft() {
    for (const element of document.querySelectorAll("time[data-left]")) {
        element.textContent = leftInWords(element.getAttribute("datetime") ?? "");
    }
}

/** @param {string} until */
function leftInWords(until) {
    const minutes = Math.ceil((Date.parse(until) - Date.now()) / 60_000);
    return minutes > 0 ? `${minutes} min left` : "over";
}

/** @param {Card} card */
function cardElement(card) {
    const names = { role: "group", "aria-label": card.title };
    const edit = card.job ? [editLink(card)] : [];
    const buttons = [...buttonsOf(card, 0).map(buttonElement), ...edit];
    const asking = card.buttons.find((button) => button.asking);
    return make(
        "div",
        { class: isLine(card) ? "card is-line" : "card", "data-color": card.color, ...names },
        make("h2", {}, ...drawn(card.title)),
        card.html && make("div", { class: "body" }, rich(card.html)),
        card.until && make("p", {}, timeLeft(card.until)),
        card.fields.length > 0 && make("dl", {}, ...card.fields.map(fieldElement)),
        card.lines.length > 0
            && make("ul", { class: "lines" }, ...card.lines.flatMap(lineElements(card))),
        buttons.length > 0 && make("div", { class: "buttons" }, ...buttons),
        asking && questionElement(asking),
    );
}

/** @param {Message} message */
function whyLink({ run, job }) {
    const href = `/runs/${encodeURIComponent(run ?? "")}`;
    return make("a", { href, "aria-label": `Why? ${job}`.trim() }, "Why?");
}

/** @param {Card} card */
function editLink({ job, title }) {
    const href = `/jobs/${encodeURIComponent(job)}`;
    return make("a", { href, "aria-label": `Edit: ${title}` }, "Edit");
}

/**
 * Whether the card is one line, with at most one button beside it.
 * @param {Card} card
 */
function isLine({ html, fields, lines, buttons }) {
    return html === "" && fields.length + lines.length === 0 && buttons.length < 2;
}

/**
 * The question of a button, which is answered in words.
 * @param {Button} button
 */
function questionElement({ asks, custom_id: customId, asking, isPressed = false }) {
    const { words, problem } = asking ?? { words: "", problem: "" };
    const box = { name: "words", type: "text", value: words, maxlength: "200", readonly: isPressed };
    const ways = { autocomplete: "off", enterkeyhint: "done", "data-custom-id": customId };
    return make(
        "form",
        { class: "asking", "data-custom-id": customId },
        make("label", {}, asks, make("input", { ...box, ...ways })),
        make("button", { type: "submit", "aria-disabled": isPressed ? "true" : null }, "Set"),
        problem && make("p", { class: "problem" }, problem),
    );
}

/**
 * @param {Card} card
 * @param {number} line  counted from 1; 0 for the whole card
 */
function buttonsOf({ buttons }, line) {
    return buttons.filter((button) => button.line === line);
}

/**
 * A line with its buttons beside it, below its heading.
 * @param {Card} card
 * @returns {(line: Line, place: number) => HTMLElement[]}
 */
function lineElements(card) {
    return ({ text, heading }, place) => {
        const buttons = buttonsOf(card, place + 1).map(buttonElement);
        const names = { class: "buttons", role: "group", "aria-label": text };
        return present(
            heading && make("li", { class: "heading" }, heading),
            make(
                "li",
                {},
                make("span", {}, ...drawn(text)),
                buttons.length > 0 && make("div", names, ...buttons),
            ),
        );
    };
}

/** @param {Field} field */
function fieldElement(field) {
    return make(
        "div",
        { class: field.inline ? "inline" : null },
        make("dt", {}, ...drawn(field.name)),
        make("dd", { class: "body" }, rich(field.html)),
    );
}

/**
 * A pressed button is `aria-disabled` only, because a disabled one would lose the focus.
 * @param {Button} button
 */
function buttonElement(button) {
    const attributes = {
        type: "button",
        class: button.style,
        disabled: button.is_used,
        "aria-disabled": button.isPressed ? "true" : null,
        "aria-expanded": button.asks ? String(Boolean(button.asking)) : null,
        ...actionAttribute("press"),
        "data-custom-id": button.custom_id,
    };
    const used = button.is_used && make("small", {}, " used");
    return make("button", attributes, make("span", {}, ...drawn(button.label)), used);
}

/**
 * @param {Quote} quote
 * @param {Names} names
 */
export function quoteText(quote, names) {
    const author = quote.author === "background" ? "assistant" : quote.author;
    return [make("b", {}, names[author]), ` ${quote.excerpt}`];
}

/**
 * @param {Quote} quote
 * @param {Names} names
 */
function quoteButton(quote, names) {
    const target = { ...actionAttribute("jump"), "data-to": quote.id, title: "Go to this message" };
    const attributes = { type: "button", class: "quote", ...target };
    return make("button", attributes, ...quoteText(quote, names));
}

/**
 * @param {Message} message
 * @param {string} when
 */
function backgroundMark({ at, job, card }, when) {
    const time = make("time", { datetime: at }, when);
    if (!job || card?.title.includes(job)) {
        return make("p", { class: "mark" }, icon("clock"), time);
    }
    const name = make("span", { class: "name", title: job }, job);
    return make("p", { class: "mark" }, icon("clock"), name, " · ", time);
}

/**
 * @param {string} at
 * @param {string} when
 */
function messageButtons(at, when) {
    return make(
        "div",
        { class: "actions" },
        make("time", { datetime: at }, when),
        iconButton("copy", "Copy", "copy"),
        iconButton("reply", "Reply", "reply"),
    );
}

/**
 * @param {string} label
 * @param {import("./dom.js").Action} action
 */
function textButton(label, action) {
    return make("button", { type: "button", class: "link", ...actionAttribute(action) }, label);
}
