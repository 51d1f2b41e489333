/**
 * What the page shows in place of a conversation: how to be let in.
 *
 * @typedef {import("./state.js").ConnectionState} ConnectionState
 * @typedef {import("./state.js").State} State
 * @typedef {import("./state.js").Store} Store
 */

import { byId, make } from "./dom.js";

/** @type {Partial<Record<ConnectionState, string>>} */
const EXCLUSIONS = {
    locked: "This page needs its key. Run `ollim-bot web url` and open the address that it prints.",
    stale:
        "That address was used already, or is too old. " +
        "Run `ollim-bot web url` and open the new one.",
    insecure: "This page works only over https, or on 127.0.0.1. Open it there.",
    foreign:
        "This address is not answered by your bot. Nothing was sent. " +
        "Open the address that `ollim-bot web url` prints.",
};

/** @type {Set<ConnectionState>} */
const NEEDS_ADDRESS = new Set(["locked", "stale"]);
const WAY_IN = [
    "On the computer that runs your bot, open a terminal in the folder where you start it.",
    "Run `ollim-bot web url`. If the terminal does not know that command, run `.venv/bin/ollim-bot web url`.",
    "Open the address in this browser within 15 minutes; it works once. " +
        "This page then goes on by itself.",
    "If no address comes, the bot is not running: start it first.",
];

/**
 * Why the page is not let in, and how it can be; empty if it is.
 * @param {ConnectionState} connection
 */
export function exclusionSentence(connection) {
    return EXCLUSIONS[connection] ?? "";
}

/**
 * Show why the page is not let in and how to get in, while it has nothing else to show.
 * @param {Store} store
 */
export function showExclusion(store) {
    const notice = byId("exclusion");
    const steps = byId("way-in");
    steps.replaceChildren(...WAY_IN.map((step) => make("li", {}, ...withCode(step))));
    const footer = byId("footer");
    let shown = "";
    store.watch((state) => {
        const sentence = state.status === null ? exclusionSentence(state.connection) : "";
        notice.hidden = sentence === "";
        steps.hidden = notice.hidden || !NEEDS_ADDRESS.has(state.connection);
        footer.hidden = sentence !== "";
        if (sentence !== shown) {
            shown = sentence;
            notice.replaceChildren(...withCode(sentence));
        }
    });
}

/** @param {string} sentence */
export function withCode(sentence) {
    return sentence.split("`").map((part, place) => (place % 2 ? make("code", {}, part) : part));
}

/**
 * Whether nothing has been said yet.
 * @param {State} state
 */
export function isEmpty({ status, messages, unsent, notes, live }) {
    const said = messages.length + unsent.length + notes.length;
    return status !== null && said === 0 && live === null;
}
