/** Brings earlier messages when they are wanted. */

import { olderThan } from "./api.js";
import { askedOlder, loadedOlder } from "./state.js";

const AT_ONCE = 50;
const MOST_PAGES = 20;

/** @param {import("./store.js").Store} store */
export async function loadOlder(store) {
    const { hasMore, isLoadingOlder, messages } = store.state;
    if (!hasMore || isLoadingOlder || messages.length === 0) {
        return;
    }
    store.change(askedOlder);
    try {
        const older = await olderThan(messages[0].id, AT_ONCE);
        store.change(loadedOlder, older.messages, older.has_more);
    } catch {
        store.change(loadedOlder, [], true);
    }
}

/** Load earlier ones until that message is there; gives up at the beginning, or far before it. */
export async function loadUntil(store, id) {
    const has = () => store.state.messages.some((message) => message.id === id);
    for (let page = 0; page < MOST_PAGES && !has() && store.state.hasMore; page += 1) {
        await loadOlder(store);
    }
    return has();
}
