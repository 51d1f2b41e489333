/** The list of what was said, in order, with everything that stands between. */

import { arrange, byId, make } from "./dom.js";
import { openFork } from "./leaving.js";
import { LiveElement, fillMessage, messageElement, noteElement, unsentElement } from "./message.js";
import { botName, speakers } from "./names.js";
import { Scroll } from "./scroll.js";
import { looked } from "./state.js";
import { describe, isApart } from "./time.js";

const OUTDATED = Object.freeze({});
const CALM = matchMedia("(prefers-reduced-motion: reduce)");

export class Conversation {
    #store;
    #log = byId("log");
    #toEnd = byId("to-end");
    /** @type {Map<string, {element: HTMLElement, of: object}>} what is shown, by its key */
    #shown = new Map();
    /** @type {Map<string, LiveElement>} by turn; more than one only while they change places */
    #live = new Map();
    #context = null;
    #isOpened = false;
    #newest = null;

    /**
     * @param {import("./store.js").Store} store
     * @param {() => void} nearTop  called when the reader comes close to the first message
     */
    constructor(store, nearTop) {
        this.#store = store;
        this.scroll = new Scroll(byId("scroller"), this.#log, () => {
            this.look();
            if (this.scroll.isNearTop) {
                nearTop();
            }
        });
        this.#toEnd.addEventListener("click", () => this.scroll.toEnd());
        document.addEventListener("visibilitychange", () => this.look());
        store.watch((state) => this.#render(state));
    }

    /** Tell whether the newest message is before the reader's eyes. */
    look() {
        const isSeen = this.#isOpened && this.scroll.isFollowing && !document.hidden;
        if (isSeen !== this.#store.state.isSeen) {
            this.#store.change(looked, isSeen);
        }
        this.#showWayToEnd(this.#store.state);
    }

    /** @returns {HTMLElement | null} */
    find(id) {
        return this.#shown.get(`message ${id}`)?.element ?? null;
    }

    /** Show it anew where the words for a moment have changed, at midnight. */
    refresh() {
        this.#render(this.#store.state);
    }

    #render(state) {
        const context = contextOf(state, this.#context);
        if (context !== this.#context) {
            this.#shown.forEach((shown) => { shown.of = OUTDATED; });
        }
        this.#context = context;
        this.scroll.around(() => arrange(this.#log, this.#elements(state)));
        if (!this.#isOpened && state.connection === "open") {
            this.#open();
        }
        this.#showWayToEnd(state);
    }

    /** Begin where the reader left, if that is further up than one view. */
    #open() {
        this.#isOpened = true;
        const line = this.#log.querySelector(".unread");
        if (line) {
            this.scroll.toTop(line);
        } else {
            this.scroll.toEnd();
        }
    }

    #showWayToEnd(state) {
        const writing = isWriting(state.live) ? state.live.turn : "";
        const newest = `${state.messages.at(-1)?.id} ${writing}`;
        if (this.scroll.isFollowing) {
            this.#newest = newest;
        }
        this.#toEnd.hidden = this.scroll.isFollowing;
        this.#toEnd.textContent = newest === this.#newest ? "To the end" : "New messages";
    }

    #elements(state) {
        const before = this.#shown;
        this.#shown = new Map();
        const elements = [];
        for (const { key, of, build } of items(state, this.#context)) {
            const old = before.get(key);
            const element = old?.of === of ? old.element : build(this, old?.element);
            this.#shown.set(key, { element, of });
            elements.push(element);
        }
        for (const turn of this.#live.keys()) {
            if (!this.#shown.has(`live ${turn}`)) {
                this.#live.delete(turn);
            }
        }
        return elements;
    }

    /** A final answer takes over the element in which it was written. */
    message(message, old) {
        const element = old ?? this.#streamed(message);
        return element
            ? fillMessage(element, message, this.#context)
            : messageElement(message, this.#context);
    }

    #streamed(message) {
        const live = message.author === "assistant" ? this.#live.get(message.turn) : undefined;
        this.#live.delete(message.turn);
        return live?.finished();
    }

    live(live, isInFork) {
        if (!this.#live.has(live.turn)) {
            this.#live.set(live.turn, new LiveElement());
        }
        const element = this.#live.get(live.turn);
        element.show(live, this.#context.names.assistant, isInFork);
        return element.article;
    }

    unsent(unsent, isInFork) {
        return unsentElement(unsent, this.#context, isInFork);
    }
}

function* items(state, context) {
    yield* notesAfter(state, null);
    let before = null;
    let wasInFork = false;
    for (const [place, message] of state.messages.entries()) {
        const at = new Date(message.at);
        // A background run says by itself when it spoke.
        if (message.author !== "background" && (before === null || isApart(before, at))) {
            const isWithin = wasInFork && message.in_fork;
            yield momentItem(message, describe(at, context.now), isWithin);
        }
        before = at;
        wasInFork = message.in_fork;
        const build = (view, old) => view.message(message, old);
        yield { key: `message ${message.id}`, of: message, build };
        yield* notesAfter(state, message.id);
        if (state.line === message.id && place < state.messages.length - 1) {
            yield { key: "unread", of: null, build: unreadLine };
        }
    }
    const isInFork = openFork(state) !== null;
    const live = state.live && steady(state.live);
    if (isWriting(live)) {
        const build = (view) => view.live(live, isInFork);
        yield { key: `live ${live.turn}`, of: live, build };
    }
    for (const unsent of state.unsent) {
        const build = (view) => view.unsent(unsent, isInFork);
        yield { key: `unsent ${unsent.id}`, of: unsent, build };
    }
}

function* notesAfter(state, id) {
    for (const note of state.notes.filter((one) => one.after === id)) {
        yield { key: `note ${note.key}`, of: note, build: () => noteElement(note) };
    }
}

function momentItem(message, words, isInFork) {
    const time = () => make("time", { datetime: message.at }, words);
    const build = () => make("p", { class: isInFork ? "moment in-fork" : "moment" }, time());
    return { key: `moment ${message.id} ${words}`, of: isInFork, build };
}

function unreadLine() {
    return make("p", { class: "unread" }, make("span", {}, "new"));
}

/** For those who want no movement, the answer comes in whole paragraphs. */
function steady(live) {
    return CALM.matches ? { ...live, tail: "" } : live;
}

function isWriting(live) {
    return live !== null && !live.isAnswered && (live.blocks.length > 0 || live.tail !== "");
}

/** Names and date as the messages show them; another object when they must be shown anew. */
function contextOf(state, old) {
    const bot = botName(state);
    const now = new Date();
    if (old?.bot === bot && old.now.toDateString() === now.toDateString()) {
        return old;
    }
    return { bot, now, names: speakers(bot) };
}
