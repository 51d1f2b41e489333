/** Tells the server of a button that was pressed, and shows the answer as a note that passes. */

import { postClick } from "./api.js";
import { announce } from "./announcer.js";
import { answerTo } from "./commands.js";
import { leaving, leavingAnswered } from "./leaving.js";
import { plain } from "./rich.js";
import { noteDropped, noteGiven, pressed, released } from "./state.js";

const NOT_REACHED = "The bot cannot be reached now, so nothing was done. Try again later.";

/**
 * @param {import("./store.js").Store} store
 * @param {import("./state.js").Message} message
 */
export async function press(store, message, customId) {
    const button = message.card.buttons.find((one) => one.custom_id === customId);
    if (button.is_used || button.isPressed) {
        return;
    }
    const key = `${message.id} ${customId}`;
    store.change(noteDropped, key);
    store.change(pressed, message.id, customId);
    const { html, is_error: isError } = await click(message.id, customId);
    store.change(released, message.id, customId);
    if (html !== "" || isError) {
        store.change(noteGiven, { key, after: message.id, label: button.label, html, isError });
        announce(plain(html));
    }
}

/**
 * One of the buttons of the card with which the fork began, pressed at the top of the page.
 * @param {import("./store.js").Store} store
 * @param {{customId: string, label: string}} way
 */
export async function leave(store, card, { customId, label }) {
    store.change(leaving, card);
    const { html, is_error: isError } = await click(card, customId);
    store.change(leavingAnswered, card, isError ? html : "");
    if (html !== "" && !isError) {
        const after = store.state.messages.at(-1)?.id ?? null;
        store.change(noteGiven, { key: `${card} ${customId}`, after, label, html, isError });
    }
    announce(plain(html));
}

function click(id, customId) {
    return answerTo(postClick(id, customId), NOT_REACHED);
}
