/** Says to a screen reader what is complete: each answer once, in whole. */

import { onArrival } from "./arrivals.js";
import { byId, make } from "./dom.js";
import { botName, speakers } from "./names.js";
import { spoken } from "./message.js";

const HEARD_MS = 10_000;

/** @param {import("./store.js").Store} store */
export function announceArrivals(store) {
    onArrival(store, (message) => {
        if (message.author !== "owner") {
            announce(`${speakers(botName(store.state))[message.author]}: ${spoken(message)}`);
        }
    });
}

export function announce(text) {
    const said = make("p", {}, text);
    byId("announcer").append(said);
    setTimeout(() => said.remove(), HEARD_MS);
}
