/** The banner of a fork: what it is about, and the three ways out of it. */

import { leave } from "./clicks.js";
import { byId, make, patch, say } from "./dom.js";
import { isWayOpen, openFork, wayOut } from "./leaving.js";
import { forkName } from "./names.js";
import { rich } from "./rich.js";

const WAYS = [
    { customId: "act:fork_save:", label: "Save Context", style: "success" },
    { customId: "act:fork_report:", label: "Report", style: "report" },
    { customId: "act:fork_exit:", label: "Exit Fork", style: "danger" },
];

/**
 * @param {import("./store.js").Store} store
 * @param {import("./scroll.js").Scroll} scroll
 * @param {() => void} focusElsewhere  called when the banner goes with the focus in it
 */
export function showFork(store, scroll, focusElsewhere) {
    const banner = byId("fork");
    const buttons = WAYS.map((way) => wayButton(store, way));
    byId("fork-ways").append(...buttons);
    let shown = "";
    store.watch((state) => {
        const fork = openFork(state);
        const words = [fork ? forkName(fork) : "", wayOut(state).html];
        if (shown !== words.join("\n")) {
            shown = words.join("\n");
            const hadFocus = banner.contains(document.activeElement);
            scroll.around(() => fill(banner, ...words));
            if (banner.hidden && hadFocus) {
                focusElsewhere();
            }
        }
        buttons.forEach((button, place) => {
            setOpen(button, isWayOpen(state, WAYS[place].customId));
        });
    });
}

/** @param {string} name  empty where there is no fork */
function fill(banner, name, answer) {
    document.documentElement.toggleAttribute("data-fork", name !== "");
    banner.hidden = name === "";
    say(byId("fork-name"), name);
    byId("fork-name").title = name;
    patch(byId("fork-answer"), rich(answer));
}

function wayButton(store, way) {
    const button = make("button", { type: "button", class: way.style }, way.label);
    button.addEventListener("click", () => {
        if (isWayOpen(store.state, way.customId)) {
            leave(store, openFork(store.state).card, way);
        }
    });
    return button;
}

/** A way that cannot be gone now keeps the focus, so it is not disabled for the browser. */
function setOpen(button, isOpen) {
    if (isOpen) {
        button.removeAttribute("aria-disabled");
    } else {
        button.setAttribute("aria-disabled", "true");
    }
}
