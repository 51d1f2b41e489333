/**
 * What the page shows in place of a conversation: how to be let in, or three things to try.
 *
 * @typedef {import("./state.js").ConnectionState} ConnectionState
 * @typedef {import("./state.js").Store} Store
 */

import { byId, closest, make } from "./dom.js";
import { botName } from "./format.js";

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

const MENU = "/";
const COMMANDS = [MENU, "see all commands"];
const REMINDER = ["remind me in 1 minute to drink water", "see it come back to you"];
const OFFLINE_IDEAS = [
    REMINDER,
    ["What can you do?", "see what works without an account"],
    COMMANDS,
];
const CLAUDE_IDEAS = [
    REMINDER,
    ["Help me choose what to begin with today.", "sort out a full head"],
    COMMANDS,
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
 * Show three things to try while nothing has been said. A click sends the text; the slash opens the
 * menu.
 * @param {Store} store
 * @param {import("./composer.js").Composer} composer
 */
export function showIdeas(store, composer) {
    const section = byId("empty");
    section.addEventListener("click", (event) => {
        const text = closest(event, "button")?.dataset.text;
        if (text === MENU) {
            composer.write(MENU);
        } else if (text !== undefined) {
            composer.send(text);
        }
        composer.focus();
    });
    /** @type {boolean | null} */
    let isOffline = null;
    store.watch((state) => {
        const said = [...state.messages, ...state.unsent, ...state.notes];
        section.hidden = state.status === null || said.length > 0 || state.live !== null;
        if (state.status && state.status.is_offline !== isOffline) {
            isOffline = state.status.is_offline;
            const ideas = isOffline ? OFFLINE_IDEAS : CLAUDE_IDEAS;
            section.replaceChildren(...ideaElements(ideas, botName(state)));
        }
    });
}

/**
 * @param {string[][]} ideas
 * @param {string} name
 */
function ideaElements(ideas, name) {
    const items = ideas.map(([text, about]) => {
        const label = [make("b", {}, text), make("span", {}, about)];
        return make("li", {}, make("button", { type: "button", "data-text": text }, ...label));
    });
    return [
        make("h2", {}, `${name} is here.`),
        make("p", {}, "Three things to try:"),
        make("ul", {}, ...items),
    ];
}
