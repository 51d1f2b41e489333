/**
 * Opens the search box, and loads what is in it with the first opening.
 *
 * @typedef {import("./composer.js").Composer} Composer
 * @typedef {import("./conversation.js").Conversation} Conversation
 * @typedef {import("./state.js").Store} Store
 */

import { byId, icon, loadStyle } from "./dom.js";
import { searchClosed, searchOpened } from "./reducers.js";

/**
 * @param {Store} store
 * @param {Conversation} conversation
 * @param {Composer} composer
 */
export function offerSearch(store, conversation, composer) {
    const dialog = byId("search", HTMLDialogElement);
    const words = byId("search-words", HTMLInputElement);
    let isLoaded = false;
    byId("search-button").append(icon("search"));
    byId("search-button").addEventListener("click", () => store.change(searchOpened, ""));
    store.watch(async ({ search }) => {
        if (search === null || dialog.open) {
            return;
        }
        // At once, so that what is typed meanwhile goes there.
        words.value = search;
        dialog.showModal();
        words.select();
        words.dispatchEvent(new Event("input"));
        if (isLoaded) {
            return;
        }
        try {
            const [module] = await Promise.all([import("./search.js"), loadStyle("search.css")]);
            isLoaded = true;
            module.listenToSearch(store, conversation, composer);
        } catch {
            // The bot is away: what is in the box cannot be loaded now.
            dialog.close();
            store.change(searchClosed);
        }
    });
}
