/** What a new page shows: three things to try. */

import { byId, make } from "./dom.js";
import { botName } from "./names.js";

const COMMANDS = ["/", "see all commands"];
const REMINDER = ["remind me in 1 minute to drink water", "see it come back to you"];
const OFFLINE = [REMINDER, ["What can you do?", "see what works without an account"], COMMANDS];
const CLAUDE = [
    REMINDER,
    ["Help me choose what to begin with today.", "sort out a full head"],
    COMMANDS,
];

/**
 * @param {import("./store.js").Store} store
 * @param {(text: string) => void} write  put a text into the box
 */
export function showEmptyState(store, write) {
    const section = byId("empty");
    section.addEventListener("click", (event) => {
        const button = event.target.closest("button");
        if (button) {
            write(button.dataset.text);
        }
    });
    let offline = null;
    store.watch((state) => {
        const said = [...state.messages, ...state.unsent, ...state.notes];
        section.hidden = state.status === null || said.length > 0 || state.live !== null;
        if (state.status && state.status.is_offline !== offline) {
            offline = state.status.is_offline;
            section.replaceChildren(...contents(offline ? OFFLINE : CLAUDE, botName(state)));
        }
    });
}

function contents(ideas, name) {
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
