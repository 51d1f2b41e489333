/**
 * Three things to try, while nothing has been said.
 *
 * @typedef {import("./state.js").State} State
 * @typedef {import("./state.js").Store} Store
 */

import { byId, closest, make } from "./dom.js";
import { isEmpty } from "./empty_states.js";
import { botName } from "./format.js";

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
    const draw = (/** @type {State} */ state) => {
        section.hidden = !isEmpty(state);
        if (state.status && state.status.is_offline !== isOffline) {
            isOffline = state.status.is_offline;
            const ideas = isOffline ? OFFLINE_IDEAS : CLAUDE_IDEAS;
            section.replaceChildren(...ideaElements(ideas, botName(state)));
        }
    };
    store.watch(draw);
    draw(store.state);
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
