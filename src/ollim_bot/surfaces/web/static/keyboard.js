/**
 * Keys that work wherever the focus is.
 *
 * @typedef {import("./composer.js").Composer} Composer
 * @typedef {import("./state.js").Store} Store
 * @typedef {import("./views.js").Views} Views
 */

import { byId, icon, isField } from "./dom.js";
import { placeChanged, replyChosen, searchOpened } from "./reducers.js";
import { stopTurn } from "./turn_status.js";

const LONGEST_PAUSE_MS = 1500;

/**
 * @param {Store} store
 * @param {Composer} composer
 * @param {Views} views
 */
export function listenToKeys(store, composer, views) {
    const list = byId("keys", HTMLDialogElement);
    byId("keys-button").append(icon("keys"));
    byId("keys-button").addEventListener("click", () => list.showModal());
    list.addEventListener("close", () => composer.focus());
    // When the first of two letters was pressed.
    let goingSince = -Infinity;
    document.addEventListener("keydown", (event) => {
        if (event.isComposing || document.querySelector("dialog[open]")) {
            return;
        }
        if (isSearchKey(event)) {
            event.preventDefault();
            store.change(searchOpened, "");
        } else if (event.key === "Escape") {
            escapePressed(store, composer, event.target);
        } else if (isField(event.target) && event.target !== byId("box")) {
            return;
        } else if (isTyping(event) && event.timeStamp - goingSince < LONGEST_PAUSE_MS) {
            goingSince = -Infinity;
            if (views.goByLetter(event.key)) {
                event.preventDefault();
            } else if (views.isChatShown) {
                // It was the beginning of a word.
                composer.continue("g");
            }
        } else if (event.key === "g" && isTyping(event) && views.hasLetters) {
            goingSince = event.timeStamp;
            event.preventDefault();
        } else if (event.key === "?" && composer.isEmpty) {
            event.preventDefault();
            list.showModal();
        } else if (isTyping(event)) {
            composer.focus();
        }
    });
}

/**
 * End the nearest of these: the menu, the reply, the look at older messages, the turn; else leave
 * a field in which nothing is typed. The browser itself closes a popover.
 * @param {Store} store
 * @param {Composer} composer
 * @param {EventTarget | null} field
 */
function escapePressed(store, composer, field) {
    if (document.querySelector(":popover-open")) {
        return;
    }
    if (composer.menu.isOpen) {
        composer.menu.close();
    } else if (store.state.replyTo) {
        store.change(replyChosen, null);
    } else if (store.state.elsewhere) {
        store.change(placeChanged, null);
    } else if (store.state.live) {
        stopTurn((sentence) => composer.complain(sentence));
    } else if (field instanceof HTMLElement && !hasTyped(field)) {
        field.blur();
        // The arrows go on from the view that the field is in.
        /** @type {HTMLElement | null} */
        const view = field.closest("#view, #panel");
        view?.focus();
    }
}

/** @param {HTMLElement} field */
function hasTyped(field) {
    const isText = field instanceof HTMLTextAreaElement || (
        field instanceof HTMLInputElement && !field.matches("[type='checkbox'], [type='radio']")
    );
    return isText && field.value !== "" && field.value !== field.defaultValue;
}

/** @param {KeyboardEvent} event */
function isSearchKey(event) {
    return event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey;
}

/**
 * Whether a character was typed outside the box. A space may press a button or scroll.
 * @param {KeyboardEvent} event
 */
function isTyping(event) {
    const isCharacter = event.key.length === 1 && event.key !== " ";
    const hasModifier = event.ctrlKey || event.metaKey || event.altKey;
    return isCharacter && !hasModifier && event.target !== byId("box");
}
