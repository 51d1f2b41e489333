/**
 * The banner of a fork: its topic, and the three ways to leave it.
 *
 * @typedef {import("./state.js").State} State
 * @typedef {import("./state.js").Store} Store
 * @typedef {(typeof EXITS)[number]} Exit
 */

import { leaveFork } from "./actions.js";
import { byId, make, patch, rich, say } from "./dom.js";
import { forkName } from "./format.js";
import { BUTTON_IDS, forkExitRefusal, isForkExitOffered, isForkExitOpen, openFork } from "./state.js";

const EXITS = [
    { customId: BUTTON_IDS.forkSave, label: "Keep all of it", style: "success" },
    { customId: BUTTON_IDS.forkReport, label: "Keep a summary", style: "report" },
    { customId: BUTTON_IDS.forkExit, label: "Leave it", style: "danger" },
];

/**
 * @param {Store} store
 * @param {import("./scroll.js").Scroll} scroll
 * @param {() => void} focusElsewhere  called when the banner goes with the focus in it
 */
export function showFork(store, scroll, focusElsewhere) {
    const banner = byId("fork");
    const buttons = EXITS.map((exit) => exitButton(store, exit));
    byId("fork-ways").append(...buttons);
    let shown = "";
    const draw = (/** @type {State} */ state) => {
        const fork = openFork(state);
        const name = fork ? forkName(fork) : "";
        const refusal = forkExitRefusal(state);
        if (shown !== `${name}\n${refusal}`) {
            shown = `${name}\n${refusal}`;
            const hadFocus = banner.contains(document.activeElement);
            scroll.around(() => fill(banner, name, refusal));
            if (banner.hidden && hadFocus) {
                focusElsewhere();
            }
        }
        buttons.forEach((button, place) => {
            button.hidden = !isForkExitOffered(state, EXITS[place].customId);
            setOpen(button, isForkExitOpen(state, EXITS[place].customId));
        });
    };
    store.watch(draw);
    draw(store.state);
}

/**
 * @param {HTMLElement} banner
 * @param {string} name  empty outside a fork
 * @param {string} refusal
 */
function fill(banner, name, refusal) {
    document.documentElement.toggleAttribute("data-fork", name !== "");
    banner.hidden = name === "";
    say(byId("fork-name"), name);
    byId("fork-name").title = name;
    patch(byId("fork-answer"), rich(refusal));
}

/**
 * @param {Store} store
 * @param {Exit} exit
 */
function exitButton(store, exit) {
    const button = make("button", { type: "button", class: exit.style }, exit.label);
    button.addEventListener("click", () => {
        const fork = openFork(store.state);
        if (fork && isForkExitOpen(store.state, exit.customId)) {
            leaveFork(store, fork.card, exit);
        }
    });
    return button;
}

/**
 * A closed exit is `aria-disabled` only, because a disabled button would lose the focus.
 * @param {HTMLButtonElement} button
 * @param {boolean} isOpen
 */
function setOpen(button, isOpen) {
    if (isOpen) {
        button.removeAttribute("aria-disabled");
    } else {
        button.setAttribute("aria-disabled", "true");
    }
}
