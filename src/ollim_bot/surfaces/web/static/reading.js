/** Tells the server what the owner has seen, so that all tabs and the next visit know it. */

import { markRead } from "./api.js";
import { marked } from "./state.js";

/** @param {import("./store.js").Store} store */
export function shareReading(store) {
    let told = null;
    store.watch((state) => {
        const last = state.messages.at(-1)?.id ?? null;
        if (state.isSeen && last !== state.read) {
            store.change(marked, last);
        }
        if (state.connection !== "open") {
            told = null;
        } else if (state.isSeen && last !== null && last !== told) {
            told = last;
            // What fails now is told again after the reconnection.
            markRead(last).catch(() => undefined);
        }
    });
}
