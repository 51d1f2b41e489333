/** Says to a screen reader what is complete, each answer once, in whole; and that one is in a fork. */

import { onArrival } from "./arrivals.js";
import { byId, make } from "./dom.js";
import { openFork } from "./leaving.js";
import { spoken } from "./message.js";
import { botName, forkName, speakers } from "./names.js";

const HEARD_MS = 10_000;

/** @param {import("./store.js").Store} store */
export function announceArrivals(store) {
    let named = null;
    onArrival(store, (message) => {
        if (message.author !== "owner" && message.id !== named) {
            announce(`${speakers(botName(store.state))[message.author]}: ${spoken(message)}`);
        }
    });
    let isOpened = false;
    store.watch((state) => {
        const fork = openFork(state);
        // The card with which it began says it too, and comes just before or after.
        const isSaid = isOpened && state.messages.some((message) => message.id === fork?.card);
        if (fork !== null && fork.card !== named && !isSaid) {
            announce(forkName(fork));
        }
        named = fork?.card ?? null;
        isOpened ||= state.connection === "open";
    });
}

export function announce(text) {
    if (text === "") {
        return;
    }
    const said = make("p", {}, text);
    byId("announcer").append(said);
    setTimeout(() => said.remove(), HEARD_MS);
}
