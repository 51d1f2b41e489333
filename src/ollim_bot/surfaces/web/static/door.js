/** What a page says that was not let in, and how one gets in. */

import { byId, make } from "./dom.js";

const WAYS_IN = {
    locked: "This page needs its key. Run `ollim-bot web url` and open the address that it prints.",
    stale:
        "That address was used already, or is too old. Run `ollim-bot web url` and open the new one.",
    insecure: "Browsers open this page by https only. Open it so, or as 127.0.0.1.",
    foreign:
        "Who answers here could not show that it is your bot, so nothing is sent to it. " +
        "When the bot is back, the page goes on by itself; if it does not, reload it.",
};

/** @returns {string} the sentence for a page that is not let in; else empty */
export function wayIn(connection) {
    return WAYS_IN[connection] ?? "";
}

/**
 * A page that was never let in has nothing else to show.
 * @param {import("./store.js").Store} store
 */
export function showDoor(store) {
    const [door, footer] = [byId("door"), document.querySelector("footer")];
    let shown = "";
    store.watch((state) => {
        const sentence = state.status === null ? wayIn(state.connection) : "";
        door.hidden = sentence === "";
        footer.hidden = sentence !== "";
        if (sentence !== shown) {
            shown = sentence;
            door.replaceChildren(...withCode(sentence));
        }
    });
}

function withCode(sentence) {
    return sentence.split("`").map((part, place) => (place % 2 ? make("code", {}, part) : part));
}
