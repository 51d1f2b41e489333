/** Keys that work wherever the focus is. */

import { byId, icon } from "./dom.js";
import { replying } from "./state.js";
import { stopTurn } from "./status.js";

/**
 * @param {import("./store.js").Store} store
 * @param {import("./composer.js").Composer} composer
 */
export function listenToKeys(store, composer) {
    const list = byId("keys");
    byId("keys-button").append(icon("keys"));
    byId("keys-button").addEventListener("click", () => list.showModal());
    list.addEventListener("close", () => composer.focus());
    document.addEventListener("keydown", (event) => {
        if (event.isComposing || list.open) {
            return;
        }
        if (event.key === "Escape") {
            escape(store, composer);
        } else if (event.key === "?" && composer.isEmpty) {
            event.preventDefault();
            list.showModal();
        } else if (isTyping(event)) {
            composer.focus();
        }
    });
}

/** The nearest thing that can be ended: the menu, the reply, the turn. */
function escape(store, composer) {
    if (document.querySelector(":popover-open")) {
        return;
    }
    if (composer.menu.isOpen) {
        composer.menu.close();
    } else if (store.state.replyTo) {
        store.change(replying, null);
    } else if (store.state.live) {
        stopTurn((sentence) => composer.complain(sentence));
    }
}

/** A letter typed anywhere is meant for the box; a space may press a button or scroll. */
function isTyping(event) {
    const isLetter = event.key.length === 1 && event.key !== " ";
    const hasModifier = event.ctrlKey || event.metaKey || event.altKey;
    return isLetter && !hasModifier && event.target !== byId("box");
}
