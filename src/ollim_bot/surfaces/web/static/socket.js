/** The connection to the server: opens, opens again after growing pauses, and tells what comes. */

import { Insecure, Stale, forgetSession, isBot, ownSession } from "./access.js";
import { randomText } from "./key.js";
import { connected, received } from "./state.js";
import { Foreign, Locked } from "./wire.js";

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

    async open() {
        this.#timer = null;
        let session;
        try {
            session = await ownSession();
        } catch (error) {
            this.#openLater(stateAfter(error));
            return;
        }
        const address = `${location.origin.replace("http", "ws")}/api/socket`;
        const socket = new WebSocket(address, ["ollim", `ollim.session.${session}`]);
        const greeting = new Greeting(socket, () => this.#store.state.change);
        greeting.isDone.then(
            (frame) => {
                this.#pause = FIRST_PAUSE;
                this.#take(frame);
                greeting.pass((next) => this.#take(next));
            },
            () => socket.close(),
        );
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

    #take(frame) {
        this.#store.change(received, frame, performance.now());
    }

    #lost() {
        forgetSession();
        this.#openLater("lost");
    }

    #openLater(state) {
        this.#store.change(connected, state);
        this.#timer = setTimeout(() => this.open(), this.#pause);
        this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE);
    }
}

/** The first words on a socket. Nothing that comes there counts before the bot has shown itself. */
class Greeting {
    #waiting = [];
    #next = (frame) => this.#waiting.push(frame);

    /** @param {() => number | null} change  the newest change of the log that is here */
    constructor(socket, change) {
        const nonce = randomText();
        socket.addEventListener("open", () => {
            socket.send(JSON.stringify({ type: "hello", change: change(), nonce }));
        });
        this.isDone = new Promise((resolve, reject) => {
            socket.addEventListener("message", async (event) => {
                const frame = JSON.parse(event.data);
                if (!this.#isBegun) {
                    this.#isBegun = true;
                    (await isBot(frame.proof, nonce)) ? resolve(frame) : reject(new Foreign());
                } else {
                    this.#next(frame);
                }
            });
        });
    }

    #isBegun = false;

    /** From now on, and what has waited until now. */
    pass(next) {
        this.#next = next;
        this.#waiting.splice(0).forEach(next);
    }
}

function stateAfter(error) {
    const states = [[Stale, "stale"], [Insecure, "insecure"], [Locked, "locked"], [Foreign, "foreign"]];
    return states.find(([kind]) => error instanceof kind)?.[1] ?? "lost";
}
