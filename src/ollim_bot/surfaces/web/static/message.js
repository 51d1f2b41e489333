/** How a message looks, final or not. Clicks are told by `data-action` to whoever listens above. */

import { cardElement, spokenCard } from "./card.js";
import { arrange, icon, iconButton, make, patch, sizeInWords } from "./dom.js";
import { showWhenNear } from "./files.js";
import { plain, rich } from "./rich.js";
import { describe } from "./time.js";

/** What a button is told by. */
const NAMES = ["action", "customId"];

/** @param {import("./state.js").Message} message */
export function messageElement(message, context) {
    const article = make("article", { tabindex: "-1" }, make("div", { class: "body" }));
    return fillMessage(article, message, context);
}

/**
 * Fill an element, which may have shown the same message while it was streamed.
 * @param {import("./state.js").Message} message
 * @param {{names: Record<string, string>, now: Date}} context
 */
export function fillMessage(article, message, context) {
    const body = article.querySelector(":scope > .body");
    const focused = article.contains(document.activeElement) ? document.activeElement : null;
    patch(body, rich(message.html));
    const when = describe(new Date(message.at), context.now);
    article.className = `message ${message.author}${message.in_fork ? " in-fork" : ""}`;
    article.dataset.id = message.id;
    const place = message.in_fork && "in a fork";
    const names = [context.names[message.author], place, message.job, when];
    article.setAttribute("aria-label", shown(...names).join(", "));
    const parts = shown(
        message.author === "background" && backgroundMark(message, when),
        message.reply_to && quoteButton(message.reply_to, context),
        body,
        message.card && cardElement(message.card),
        message.attachments.length > 0 && attachmentList(message.attachments),
        message.is_cut_off && make("p", { class: "aside" }, "cut off here"),
        message.footer && make("p", { class: "aside" }, message.footer),
        actions(message.at, when),
    );
    arrange(article, parts);
    if (focused && !focused.isConnected) {
        focusAgain(article, focused);
    }
    return article;
}

/** On the button that took the place of the one that had the focus, or else on the message. */
function focusAgain(article, focused) {
    const buttons = [...article.querySelectorAll("button:enabled")];
    const isSame = (one) => NAMES.every((name) => one.dataset[name] === focused.dataset[name]);
    const same = buttons.find(isSame);
    (same ?? article).focus({ preventScroll: true });
}

/** The words of it alone, as a screen reader or a notification says them. */
export function spoken(message) {
    return shown(plain(message.html), message.card && spokenCard(message.card)).join("\n");
}

/** What is written of an answer so far. */
export class LiveElement {
    #body = make("div", { class: "body" });
    article = make("article", { class: "message assistant", "aria-busy": "true" }, this.#body);
    #blocks = [];
    #counts = [];

    /** @param {import("./state.js").Live} live */
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

    /** @returns {HTMLElement} the element, for the final message to fill */
    finished() {
        this.article.removeAttribute("aria-busy");
        this.article.tabIndex = -1;
        return this.article;
    }
}

/** @param {import("./state.js").Unsent} unsent */
export function unsentElement(unsent, context, isInFork) {
    const state = unsent.error ? "not sent" : "not sent yet";
    const files = unsent.files.map(namedFile);
    return make(
        "article",
        {
            class: isInFork ? "message owner in-fork" : "message owner",
            "data-id": unsent.id,
            tabindex: "-1",
            "aria-label": `${context.names.owner}, ${state}`,
        },
        ...shown(
            unsent.replyTo && quoteButton(unsent.replyTo, context),
            make("div", { class: "body typed" }, unsent.text),
            files.length > 0 && make("ul", { class: "files" }, ...files),
            unsent.error && make("p", { class: "problem" }, unsent.error),
            make(
                "div",
                { class: "actions is-shown" },
                ...shown(
                    (unsent.error || unsent.isWaiting) && make("span", { class: "unsent" }, state),
                    unsent.error && textButton("Try again", "again"),
                    unsent.error && textButton("Write anew", "take-back"),
                    unsent.error && textButton("Discard", "discard"),
                ),
            ),
        ),
    );
}

/** @param {import("./state.js").Note} note */
export function noteElement(note) {
    return make(
        "section",
        {
            class: note.isError ? "note is-error" : "note",
            "data-key": note.key,
            "aria-label": `Answer to ${note.line ?? note.label}`,
        },
        make("p", { class: "typed" }, wordsOf(note), outcomeOf(note)),
        ...shown(!note.isRunning && make("div", { class: "body" }, rich(note.html))),
        ...shown(!note.isRunning && iconButton("close", "Remove this note", "drop-note")),
    );
}

function wordsOf(note) {
    return note.line ? make("code", {}, note.line) : make("span", {}, note.label);
}

function outcomeOf(note) {
    if (note.isRunning) {
        return " runs...";
    }
    return note.isError && make("b", {}, " was not done");
}

/** @param {import("./state.js").Quote} quote */
export function quoteText(quote, context) {
    const author = quote.author === "background" ? "assistant" : quote.author;
    return [make("b", {}, context.names[author]), ` ${quote.excerpt}`];
}

function quoteButton(quote, context) {
    const action = { "data-action": "jump", "data-to": quote.id, title: "Go to this message" };
    const attributes = { type: "button", class: "quote", ...action };
    return make("button", attributes, ...quoteText(quote, context));
}

function backgroundMark({ at, job }, when) {
    const name = make("span", { class: "name", title: job || null }, job || "background");
    const time = make("time", { datetime: at }, when);
    return make("p", { class: "mark" }, icon("clock"), name, " · ", time);
}

function actions(at, when) {
    return make(
        "div",
        { class: "actions" },
        make("time", { datetime: at }, when),
        iconButton("copy", "Copy", "copy"),
        iconButton("reply", "Reply", "reply"),
    );
}

function attachmentList(attachments) {
    return make("ul", { class: "files" }, ...attachments.map(attachmentItem));
}

/** @param {import("./state.js").Attachment} attachment */
function attachmentItem(attachment) {
    const label = `${attachment.name}, ${sizeInWords(attachment.size)}`;
    if (attachment.is_image) {
        const image = showWhenNear(make("img", { alt: attachment.name }), attachment.url);
        const link = { target: "_blank", rel: "noopener", title: label, class: "picture" };
        return make("li", {}, make("a", link, image));
    }
    const save = { "data-action": "save", "data-name": attachment.name };
    const download = { href: attachment.url, title: label, class: "file", ...save };
    const words = fileLabel(attachment.name, attachment.size);
    return make("li", {}, make("a", download, icon("file"), ...words));
}

function namedFile(file) {
    const words = fileLabel(file.name, file.size);
    return make("li", {}, make("span", { class: "file" }, icon("file"), ...words));
}

export function fileLabel(name, size) {
    return [make("span", { class: "name" }, name), make("small", {}, sizeInWords(size))];
}

function textButton(label, action) {
    return make("button", { type: "button", class: "link", "data-action": action }, label);
}

function shown(...children) {
    return children.filter(Boolean);
}
