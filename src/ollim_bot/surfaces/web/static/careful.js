/** The line that says since when the bot is careful and why, with the button that ends it. */

import { json } from "./api.js";
import { byId, make, plain, say } from "./dom.js";
import { Refused, jsonRequest } from "./http.js";
import { announce } from "./notifications.js";

const NOT_REACHED = "The bot does not answer, so nothing was done. Try again later.";

/**
 * @param {import("./state.js").Store} store
 * @param {import("./scroll.js").Scroll} scroll
 * @param {import("./composer.js").Composer} composer
 */
export function showCareful(store, scroll, composer) {
    const words = make("span");
    const button = make("button", { type: "button", class: "link" }, "Go on, it is all right");
    const line = make("p", { id: "careful", hidden: true }, words, button);
    byId("connection").before(line);
    const draw = () => {
        const shown = store.state.status?.careful?.words ?? "";
        if (shown !== words.textContent) {
            const hadFocus = line.contains(document.activeElement);
            scroll.around(() => {
                say(words, shown);
                line.hidden = shown === "";
            });
            if (line.hidden && hadFocus) {
                composer.focus();
            }
        }
    };
    button.addEventListener("click", async () => {
        const key = store.state.status?.careful?.key;
        // A disabled button would lose the focus.
        if (key && !button.ariaDisabled) {
            button.ariaDisabled = "true";
            const { sentence, isError } = await goOn(key);
            button.ariaDisabled = null;
            composer.complain(isError ? sentence : "");
            announce(isError ? "" : sentence);
        }
    });
    store.watch(draw);
    draw();
}

/** @param {string} key  of the line as it was shown */
async function goOn(key) {
    try {
        /** @type {import("./protocol.js").Answer} */
        const { html, is_error: isError } = await json("/api/go-on", jsonRequest({ key }));
        return { sentence: plain(html), isError };
    } catch (error) {
        return { sentence: error instanceof Refused ? error.message : NOT_REACHED, isError: true };
    }
}
