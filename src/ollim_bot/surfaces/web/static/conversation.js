/**
 * The list of messages in order, with the times, notes and lines between them.
 *
 * @typedef {import("./message.js").Context} Context
 * @typedef {import("./protocol.js").Message} Message
 * @typedef {import("./state.js").Live} Live
 * @typedef {import("./state.js").State} State
 * @typedef {import("./state.js").Store} Store
 * @typedef {Context & {bot: string}} ViewContext
 *
 * @typedef {object} Item  one element of the list
 * @property {string} key
 * @property {unknown} source  the element is built again when this value is another one
 * @property {(view: Conversation, old?: HTMLElement) => HTMLElement} build
 */

import { arrange, byId, make } from "./dom.js";
import {
    botName, dayIn, isApart, momentInWords, nextMomentInWords, speakerNames, zoneOf,
} from "./format.js";
import { LiveElement, fillMessage, messageElement, noteElement, unsentElement } from "./message.js";
import { placeChanged, viewChanged } from "./reducers.js";
import { Scroll } from "./scroll.js";
import { inReadingOrder, openFork } from "./state.js";

const ABOVE_TARGET_PX = 48;
const OUTDATED = Object.freeze({});
const REDUCED_MOTION = matchMedia("(prefers-reduced-motion: reduce)");

export class Conversation {
    #store;
    #log = byId("log");
    #toEnd = byId("to-end");
    /** @type {Map<string, {element: HTMLElement, source: unknown}>} by the key of the item */
    #shown = new Map();
    /** @type {Map<string, LiveElement>} by turn; two of them only while one turn follows another */
    #live = new Map();
    /** @type {ViewContext} */
    #context;
    #isOpened = false;
    #newest = "";
    #isElsewhere = false;

    /**
     * @param {Store} store
     * @param {() => void} onNearTop  called when the reader comes close to the first message
     */
    constructor(store, onNearTop) {
        this.#store = store;
        this.#context = contextOf(store.state);
        this.scroll = new Scroll(byId("scroller"), this.#log, () => {
            this.#updateView();
            if (this.scroll.isNearTop && store.state.elsewhere === null) {
                onNearTop();
            }
        });
        this.#toEnd.addEventListener("click", () => this.toEnd());
        document.addEventListener("visibilitychange", () => this.#updateView());
        store.watch((state) => this.#render(state));
    }

    /** @param {string} id */
    find(id) {
        return this.#shown.get(`message ${id}`)?.element ?? null;
    }

    /** Show the newest message, from wherever the reader is. */
    toEnd() {
        this.#store.change(placeChanged, null);
        this.refresh();
        this.scroll.toEnd();
    }

    /**
     * Lead the reader to a message that is shown, and mark it until the focus leaves it.
     * @param {string} id
     * @returns {boolean} false if the message is not shown
     */
    pointTo(id) {
        const element = this.find(id);
        if (!element) {
            return false;
        }
        element.focus({ preventScroll: true });
        element.dataset.target = "";
        element.addEventListener("blur", () => delete element.dataset.target, { once: true });
        this.scroll.toTop(element, ABOVE_TARGET_PX);
        return true;
    }

    /** Show the messages again, because the words for their times change at midnight. */
    refresh() {
        this.#render(this.#store.state);
    }

    /**
     * A final answer takes over the element in which it was written.
     * @param {Message} message
     * @param {HTMLElement} [old]
     */
    messageElement(message, old) {
        const element = old ?? this.#writtenElement(message);
        return element
            ? fillMessage(element, message, this.#context)
            : messageElement(message, this.#context);
    }

    /**
     * @param {Live} live
     * @param {boolean} isInFork
     */
    liveElement(live, isInFork) {
        const element = this.#live.get(live.turn) ?? new LiveElement();
        this.#live.set(live.turn, element);
        element.show(live, this.#context.names.assistant, isInFork);
        return element.article;
    }

    /** Tell the store whether the newest message is in view. */
    #updateView() {
        const isAtNewest = this.scroll.isFollowing && this.#store.state.elsewhere === null;
        const isCovered = !byId("scroller").checkVisibility({ visibilityProperty: true });
        const isSeen = this.#isOpened && isAtNewest && !document.hidden && !isCovered;
        if (isSeen !== this.#store.state.isSeen) {
            this.#store.change(viewChanged, isSeen);
        }
        this.#showEndButton(this.#store.state);
    }

    /** @param {State} state */
    #render(state) {
        const context = contextOf(state, this.#context);
        if (context !== this.#context) {
            this.#shown.forEach((shown) => { shown.source = OUTDATED; });
        }
        this.#context = context;
        this.scroll.around(() => arrange(this.#log, this.#elements(state)));
        if (this.#isElsewhere && state.elsewhere === null) {
            this.scroll.toEnd();
        }
        this.#isElsewhere = state.elsewhere !== null;
        if (!this.#isOpened && state.connection === "open") {
            this.#open();
        }
        this.#showEndButton(state);
    }

    /** Begin at the unread line, if there is one. */
    #open() {
        this.#isOpened = true;
        const line = this.#log.querySelector(".unread");
        if (line) {
            this.scroll.toTop(line);
        } else {
            this.scroll.toEnd();
        }
    }

    /** @param {State} state */
    #showEndButton({ live, messages, elsewhere }) {
        const newest = `${messages.at(-1)?.id} ${live && isWriting(live) ? live.turn : ""}`;
        const isAtNewest = this.scroll.isFollowing && elsewhere === null;
        if (isAtNewest) {
            this.#newest = newest;
        }
        this.#toEnd.hidden = isAtNewest;
        this.#toEnd.textContent = newest === this.#newest ? "To the end" : "New messages";
    }

    /** @param {State} state */
    #elements(state) {
        const before = this.#shown;
        this.#shown = new Map();
        const elements = [];
        for (const { key, source, build } of itemsOf(state, this.#context)) {
            const old = before.get(key);
            const element = old && old.source === source ? old.element : build(this, old?.element);
            this.#shown.set(key, { element, source });
            elements.push(element);
        }
        for (const turn of this.#live.keys()) {
            if (!this.#shown.has(`live ${turn}`)) {
                this.#live.delete(turn);
            }
        }
        return elements;
    }

    /** @param {Message} message */
    #writtenElement({ author, turn }) {
        if (turn === null) {
            return undefined;
        }
        const live = author === "assistant" ? this.#live.get(turn) : undefined;
        this.#live.delete(turn);
        return live?.finish();
    }
}

/**
 * @param {State} state
 * @param {Context} context
 * @returns {Generator<Item>}
 */
function* itemsOf(state, context) {
    if (state.elsewhere) {
        yield* placeItems(state.elsewhere, context);
        return;
    }
    yield* noteItems(state, null);
    const isInFork = openFork(state) !== null;
    const live = state.live && withoutMotion(state.live);
    const cards = earlierCards(state.messages);
    const shown = inReadingOrder(state.messages, live && isWriting(live) ? live : null);
    /** @type {Message | null} */
    let before = null;
    for (const message of shown) {
        if (!("at" in message)) {
            yield liveItem(message, isInFork);
            continue;
        }
        const earlier = message.card?.earlier_of && cards.get(message.card.earlier_of);
        if (!earlier || earlier.at(-1) === message) {
            yield* momentItems(before, message, context);
            yield earlier ? earlierItem(earlier, message, context) : messageItem(message);
        }
        yield* noteItems(state, message.id);
        if (state.unreadLine === message.id && message !== shown.at(-1)) {
            yield { key: "unread", source: null, build: unreadLine };
        }
        before = message;
    }
    for (const unsent of state.unsent) {
        const build = () => unsentElement(unsent, context.names, isInFork);
        yield { key: `unsent ${unsent.id}`, source: unsent, build };
    }
}

/**
 * The messages whose cards are earlier ones of a thing, by that thing.
 * @param {Message[]} messages
 */
function earlierCards(messages) {
    /** @type {Map<string, Message[]>} */
    const found = new Map();
    for (const message of messages) {
        const thing = message.card?.earlier_of;
        if (thing) {
            found.set(thing, [...found.get(thing) ?? [], message]);
        }
    }
    return found;
}

/**
 * One line for all earlier cards of a thing, in the place of the last.
 * @param {Message[]} messages
 * @param {Message} last
 * @param {Context} context
 * @returns {Item}
 */
function earlierItem(messages, last, { now, zone }) {
    const moments = messages.map(({ at }) => new Date(at));
    const later = moments.slice(1).map(
        (moment, place) => nextMomentInWords(moment, moments[place], now, zone),
    );
    const title = [messages[0].card?.title, ...later].join(", ");
    const shown = { ...last, card: last.card && { ...last.card, title } };
    return {
        key: `message ${last.id}`,
        source: title,
        build: (view, old) => view.messageElement(shown, old),
    };
}

/**
 * @param {Message[]} messages
 * @param {Context} context
 * @returns {Generator<Item>}
 */
function* placeItems(messages, context) {
    for (const [place, message] of messages.entries()) {
        yield* momentItems(messages[place - 1] ?? null, message, context);
        yield messageItem(message);
    }
}

/**
 * @param {Message} message
 * @returns {Item}
 */
function messageItem(message) {
    return {
        key: `message ${message.id}`,
        source: message,
        build: (view, old) => view.messageElement(message, old),
    };
}

/**
 * @param {Live} live
 * @param {boolean} isInFork
 * @returns {Item}
 */
function liveItem(live, isInFork) {
    const build = (/** @type {Conversation} */ view) => view.liveElement(live, isInFork);
    return { key: `live ${live.turn}`, source: live, build };
}

/**
 * @param {State} state
 * @param {string | null} id
 * @returns {Generator<Item>}
 */
function* noteItems(state, id) {
    for (const note of state.notes.filter((one) => one.after === id)) {
        yield { key: `note ${note.key}`, source: note, build: () => noteElement(note) };
    }
}

/**
 * The time of a message, if it is shown above it. A background message shows its time itself.
 * @param {Message | null} before
 * @param {Message} message
 * @param {Context} context
 * @returns {Generator<Item>}
 */
function* momentItems(before, message, { now, zone }) {
    const at = new Date(message.at);
    if (message.author === "background" || (before && !isApart(new Date(before.at), at, zone))) {
        return;
    }
    const words = momentInWords(at, now, zone);
    const isInFork = Boolean(before?.in_fork && message.in_fork);
    const time = () => make("time", { datetime: message.at }, words);
    const build = () => make("p", { class: isInFork ? "moment in-fork" : "moment" }, time());
    yield { key: `moment ${message.id} ${words}`, source: isInFork, build };
}

function unreadLine() {
    return make("p", { class: "unread" }, make("span", {}, "new"));
}

/**
 * For readers who want no motion, an answer appears in whole paragraphs.
 * @param {Live} live
 */
function withoutMotion(live) {
    return REDUCED_MOTION.matches ? { ...live, tail: "" } : live;
}

/** @param {Live} live */
function isWriting(live) {
    return !live.isAnswered && (live.blocks.length > 0 || live.tail !== "");
}

/**
 * The names and the date that messages show; another object when messages must be shown again.
 * @param {State} state
 * @param {ViewContext} [old]
 * @returns {ViewContext}
 */
function contextOf(state, old) {
    const bot = botName(state);
    const zone = zoneOf(state);
    const now = new Date();
    if (old?.bot === bot && old.zone === zone && dayIn(zone, old.now) === dayIn(zone, now)) {
        return old;
    }
    return { bot, now, zone, names: speakerNames(bot) };
}
