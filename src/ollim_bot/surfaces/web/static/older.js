/** Brings earlier messages when they are wanted. */

import { olderThan } from "./api.js";
import { askedOlder, loadedOlder } from "./state.js";

const AT_ONCE = 50;
const MOST_PAGES = 20;
const NOT_REACHED = "The bot cannot be reached now, so that message could not be loaded.";
const TOO_FAR = "That message is too far back to be shown.";

export class Older {
    #store;
    #coming = null;

    /** @param {import("./store.js").Store} store */
    constructor(store) {
        this.#store = store;
    }

    /**
     * Load those before the first message, unless they are on their way already.
     * @returns {Promise<boolean>} false if the server could not be asked
     */
    load() {
        this.#coming ??= this.#fetch().finally(() => { this.#coming = null; });
        return this.#coming;
    }

    /**
     * Load earlier ones until that message is there.
     * @returns {Promise<string>} why it is not; empty if it is
     */
    async until(id) {
        const isThere = () => this.#store.state.messages.some((message) => message.id === id);
        for (let page = 0; page < MOST_PAGES && !isThere() && this.#store.state.hasMore; page += 1) {
            if (!(await this.load())) {
                return NOT_REACHED;
            }
        }
        return isThere() ? "" : TOO_FAR;
    }

    async #fetch() {
        const { hasMore, messages } = this.#store.state;
        if (!hasMore || messages.length === 0) {
            return true;
        }
        const first = messages[0].id;
        this.#store.change(askedOlder);
        try {
            const { messages: older, has_more: isMore } = await olderThan(first, AT_ONCE);
            this.#store.change(loadedOlder, first, older, isMore);
        } catch {
            this.#store.change(loadedOlder, first, [], true);
            return false;
        }
        return true;
    }
}
