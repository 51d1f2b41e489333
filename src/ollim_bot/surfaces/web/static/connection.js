/**
 * Keeps the page and the server in step: what happens comes over a socket, earlier messages are
 * loaded when the reader wants them, and the server is told what was read.
 *
 * @typedef {import("./protocol.js").Frame} Frame
 * @typedef {import("./protocol.js").Greeting} Greeting
 * @typedef {import("./state.js").ConnectionState} ConnectionState
 * @typedef {import("./state.js").Store} Store
 */

import { markRead, messagesBefore } from "./api.js";
import { mayNotify } from "./format.js";
import { Foreign, Locked } from "./http.js";
import {
    connectionChanged, frameReceived, markedRead, olderLoaded, olderRequested,
} from "./reducers.js";
import { Insecure, Stale, currentSession, forgetSession, isBot, randomNonce } from "./session.js";

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;
const PAGE_SIZE = 50;
const MOST_PAGES = 20;
const NOT_REACHED = "The bot does not answer, so the page could not load that message. Try again later.";
const TOO_FAR = "That message is too far back. Search for its words to see it.";

/** Opens the socket, and opens it again after growing pauses. */
export class Connection {
    #store;
    #pause = FIRST_PAUSE_MS;
    /** @type {number | null} */
    #timer = null;
    /** @type {WebSocket | null} */
    #socket = null;

    /** @param {Store} store */
    constructor(store) {
        this.#store = store;
        addEventListener("online", () => this.#openNow());
        document.addEventListener("visibilitychange", () => {
            this.tellPresence();
            document.hidden || this.#openNow();
        });
    }

    async open() {
        this.#timer = null;
        let session;
        try {
            session = await currentSession();
        } catch (error) {
            this.#openLater(stateAfter(error));
            return;
        }
        const address = `${location.origin.replace("http", "ws")}/api/socket`;
        const socket = new WebSocket(address, ["ollim", `ollim.session.${session}`]);
        const handshake = new Handshake(socket, () => this.#store.state.change);
        handshake.greeting.then(
            (frame) => {
                this.#pause = FIRST_PAUSE_MS;
                this.#receive(frame);
                this.tellPresence();
                handshake.pass((next) => this.#receive(next));
            },
            () => socket.close(),
        );
        socket.addEventListener("close", () => this.#lost());
        this.#socket = socket;
    }

    /** Close the socket after a request found the server gone: the socket may notice much later. */
    reset() {
        this.#socket?.close();
    }

    /** Tell the bot whether it has to notify by itself. */
    tellPresence() {
        if (this.#store.state.connection === "open") {
            const frame = { type: "presence", seen: !document.hidden, notifies: mayNotify() };
            this.#socket?.send(JSON.stringify(frame));
        }
    }

    #openNow() {
        if (this.#timer !== null) {
            clearTimeout(this.#timer);
            this.#pause = FIRST_PAUSE_MS;
            this.open();
        }
    }

    /** @param {Frame} frame */
    #receive(frame) {
        this.#store.change(frameReceived, frame, performance.now());
    }

    #lost() {
        forgetSession();
        this.#openLater("lost");
    }

    /** @param {ConnectionState} state */
    #openLater(state) {
        this.#store.change(connectionChanged, state);
        this.#timer = setTimeout(() => this.open(), this.#pause);
        this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE_MS);
    }
}

/** The start of a socket. Holds every frame back until the server has proved that it is the bot. */
class Handshake {
    #isStarted = false;
    /** @type {Frame[]} */
    #waiting = [];
    /** @type {(frame: Frame) => void} */
    #receive = (frame) => { this.#waiting.push(frame); };

    /**
     * @param {WebSocket} socket
     * @param {() => number | null} change  the newest change of the log that the page has
     */
    constructor(socket, change) {
        const nonce = randomNonce();
        socket.addEventListener("open", () => {
            socket.send(JSON.stringify({ type: "hello", change: change(), nonce }));
        });
        /** @type {Promise<Greeting>} */
        this.greeting = new Promise((resolve, reject) => {
            socket.addEventListener("message", async (event) => {
                const frame = JSON.parse(event.data);
                if (this.#isStarted) {
                    this.#receive(frame);
                    return;
                }
                this.#isStarted = true;
                if (await isBot(frame.proof, nonce)) {
                    resolve(frame);
                } else {
                    reject(new Foreign());
                }
            });
        });
    }

    /**
     * Pass on the frames that were held back, and all that follow.
     * @param {(frame: Frame) => void} receive
     */
    pass(receive) {
        this.#receive = receive;
        this.#waiting.splice(0).forEach(receive);
    }
}

/**
 * @param {unknown} error
 * @returns {ConnectionState}
 */
function stateAfter(error) {
    if (error instanceof Stale) {
        return "stale";
    }
    if (error instanceof Insecure) {
        return "insecure";
    }
    if (error instanceof Locked) {
        return "locked";
    }
    return error instanceof Foreign ? "foreign" : "lost";
}

/** Loads earlier messages. */
export class History {
    #store;
    /** @type {Promise<boolean> | null} */
    #loading = null;

    /** @param {Store} store */
    constructor(store) {
        this.#store = store;
    }

    /**
     * Load the messages before the first one, unless they are being loaded already.
     * @returns {Promise<boolean>} false if the server could not be asked
     */
    load() {
        this.#loading ??= this.#load().finally(() => { this.#loading = null; });
        return this.#loading;
    }

    /**
     * Load earlier messages until the one with this id is there.
     * @param {string} id
     * @returns {Promise<string>} why it is not there; empty if it is
     */
    async loadUntil(id) {
        const isThere = () => this.#store.state.messages.some((message) => message.id === id);
        const isMissing = () => !isThere() && this.#store.state.hasMore;
        for (let page = 0; page < MOST_PAGES && isMissing(); page += 1) {
            if (!(await this.load())) {
                return NOT_REACHED;
            }
        }
        return isThere() ? "" : TOO_FAR;
    }

    async #load() {
        const { hasMore, messages: [first] } = this.#store.state;
        if (!hasMore || first === undefined) {
            return true;
        }
        this.#store.change(olderRequested);
        try {
            const { messages, has_more: isMore } = await messagesBefore(first.id, PAGE_SIZE);
            this.#store.change(olderLoaded, first.id, messages, isMore);
        } catch {
            this.#store.change(olderLoaded, first.id, [], true);
            return false;
        }
        return true;
    }
}

/**
 * Tell the server what the owner has seen, for the other tabs and the next visit.
 * @param {Store} store
 */
export function shareReadMark(store) {
    /** @type {string | null} */
    let told = null;
    store.watch((state) => {
        const last = state.messages.at(-1)?.id ?? null;
        if (state.isSeen && last !== state.lastRead) {
            store.change(markedRead, last);
        }
        if (state.connection !== "open") {
            told = null;
        } else if (state.isSeen && last !== null && last !== told) {
            told = last;
            // A mark that fails is sent again after the next connection.
            markRead(last).catch(() => undefined);
        }
    });
}
