/**
 * What is in the search box, loaded when it is first opened: its results, and the way from a result to its place in the conversation.
 *
 * @typedef {import("./composer.js").Composer} Composer
 * @typedef {import("./conversation.js").Conversation} Conversation
 * @typedef {import("./protocol.js").Result} Result
 * @typedef {import("./state.js").Store} Store
 */

import { messagesAround, searchMessages } from "./api.js";
import { byId, icon, make, say } from "./dom.js";
import { botName, momentInWords, speakerNames, zoneOf } from "./format.js";
import { Refused } from "./http.js";
import { placeChanged, searchClosed } from "./reducers.js";

const PAUSE_MS = 150;
const EMPTY = "Search everything that you and the bot said, also before a /clear.";
const NOTHING = "No message has these words.";
const NOT_REACHED = "The bot does not answer. Try again later.";

/**
 * @param {Store} store
 * @param {Conversation} conversation
 * @param {Composer} composer
 */
export function listenToSearch(store, conversation, composer) {
    new SearchView(store, (id) => showPlace(store, conversation, composer, id));
    addEventListener("popstate", () => store.change(placeChanged, null));
}

/**
 * Lead to a message: among the newest if it is loaded, else among those around it.
 * @param {Store} store
 * @param {Conversation} conversation
 * @param {Composer} composer
 * @param {string} id
 */
async function showPlace(store, conversation, composer, id) {
    try {
        if (store.state.messages.some((message) => message.id === id)) {
            store.change(placeChanged, null);
        } else {
            const { messages } = await messagesAround(id);
            store.change(placeChanged, messages);
            history.pushState(null, "");
        }
    } catch (error) {
        composer.complain(error instanceof Refused ? error.message : NOT_REACHED);
        return;
    }
    conversation.refresh();
    conversation.pointTo(id);
}

class SearchView {
    #store;
    #onChosen;
    #dialog = byId("search", HTMLDialogElement);
    #words = byId("search-words", HTMLInputElement);
    #status = byId("search-status");
    #results = byId("search-results");
    #request = new AbortController();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    #timer;

    /**
     * @param {Store} store
     * @param {(id: string) => void} onChosen
     */
    constructor(store, onChosen) {
        this.#store = store;
        this.#onChosen = onChosen;
        const close = byId("search-close");
        close.append(icon("close"));
        close.addEventListener("click", () => this.#dialog.close());
        this.#dialog.addEventListener("close", () => this.#closed());
        this.#words.addEventListener("input", () => this.#typed());
        this.#dialog.addEventListener("keydown", (event) => this.#keyPressed(event));
        byId("search-form").addEventListener("submit", (event) => {
            event.preventDefault();
            this.#buttons[0]?.click();
        });
        this.#search();
    }

    /** The next search begins without the results of this one. */
    #closed() {
        clearTimeout(this.#timer);
        this.#request.abort();
        this.#show([], EMPTY);
        this.#store.change(searchClosed);
    }

    get #buttons() {
        return [...this.#results.querySelectorAll("button")];
    }

    #typed() {
        clearTimeout(this.#timer);
        this.#timer = setTimeout(() => this.#search(), PAUSE_MS);
    }

    /** The arrows move between the words and the results. */
    #keyPressed(/** @type {KeyboardEvent} */ event) {
        const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        if (step === undefined || event.isComposing) {
            return;
        }
        event.preventDefault();
        const stops = [this.#words, ...this.#buttons];
        const at = stops.findIndex((stop) => stop === document.activeElement);
        stops[Math.min(Math.max(at + step, 0), stops.length - 1)].focus();
    }

    async #search() {
        this.#request.abort();
        const request = new AbortController();
        this.#request = request;
        const words = this.#words.value.trim();
        let sentence = EMPTY;
        /** @type {Result[]} */
        let results = [];
        try {
            if (words !== "") {
                ({ results } = await searchMessages(words, request.signal));
                sentence = results.length > 0 ? "" : NOTHING;
            }
        } catch (error) {
            sentence = error instanceof Refused ? error.message : NOT_REACHED;
        }
        if (!request.signal.aborted) {
            this.#show(results, sentence);
        }
    }

    /**
     * @param {Result[]} results
     * @param {string} sentence
     */
    #show(results, sentence) {
        const names = speakerNames(botName(this.#store.state));
        this.#results.replaceChildren(...results.map((result) => this.#item(result, names)));
        const count = results.length === 1 ? "1 result" : `${results.length} results`;
        say(this.#status, sentence || `${count}, best first`);
    }

    /**
     * @param {Result} result
     * @param {ReturnType<typeof speakerNames>} names
     */
    #item(result, names) {
        const words = result.parts.map((part) =>
            (part.is_match ? make("mark", {}, part.text) : part.text));
        const when = momentInWords(new Date(result.at), new Date(), zoneOf(this.#store.state));
        const button = make(
            "button",
            { type: "button" },
            make("span", { class: "origin" }, `${when} · ${result.job || names[result.author]}`),
            make("span", {}, ...words),
        );
        button.addEventListener("click", () => {
            this.#dialog.close();
            this.#onChosen(result.id);
        });
        return make("li", {}, button);
    }
}
