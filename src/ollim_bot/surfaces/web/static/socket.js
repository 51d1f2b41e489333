/** The connection to the server: opens, opens again after growing pauses, and tells what comes. */

import { Locked, knock } from "./api.js";
import { connected, received } from "./state.js";

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 10_000;

export class Socket {
    #store;
    #pause = FIRST_PAUSE;
    #timer = null;
    #socket = null;

    /** @param {import("./store.js").Store} store */
    constructor(store) {
        this.#store = store;
        addEventListener("online", () => this.hurry());
        document.addEventListener("visibilitychange", () => document.hidden || this.hurry());
    }

    open() {
        this.#timer = null;
        const socket = new WebSocket(`${location.origin.replace("http", "ws")}/api/socket`);
        socket.addEventListener("open", () => this.#greet(socket));
        socket.addEventListener("message", (event) => this.#take(JSON.parse(event.data)));
        socket.addEventListener("close", () => this.#lost());
        this.#socket = socket;
    }

    /** Try now, without waiting for the end of a pause: something tells that it may work. */
    hurry() {
        if (this.#timer !== null) {
            clearTimeout(this.#timer);
            this.#pause = FIRST_PAUSE;
            this.open();
        }
    }

    /** Something else found the server gone; the socket itself may not notice for long. */
    doubt() {
        this.#socket?.close();
    }

    #greet(socket) {
        const last = this.#store.state.messages.at(-1)?.id ?? null;
        socket.send(JSON.stringify({ type: "hello", last }));
    }

    #take(frame) {
        if (frame.type === "hello") {
            this.#pause = FIRST_PAUSE;
        }
        this.#store.change(received, frame, performance.now());
    }

    async #lost() {
        // A page that was locked says so until it is known to be otherwise, without a flicker.
        if (this.#store.state.connection !== "locked") {
            this.#store.change(connected, "lost");
        }
        this.#store.change(connected, (await isLocked()) ? "locked" : "lost");
        this.#timer = setTimeout(() => this.open(), this.#pause);
        this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE);
    }
}

async function isLocked() {
    try {
        await knock();
    } catch (error) {
        return error instanceof Locked;
    }
    return false;
}
