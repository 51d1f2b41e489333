/**
 * The views beside the conversation and their addresses. On a wide screen Today stands beside it,
 * on a narrow one a bar leads from one to the other. A view is loaded when it is first shown.
 *
 * @typedef {import("./state.js").State} State
 * @typedef {import("./state.js").Store} Store
 */

import { byId, loadStyle, say } from "./dom.js";
import { zoneOf } from "./format.js";

const TODAY = "/today";
const LETTERS = new Map([["c", "/"], ["t", TODAY]]);
const LETTERS_KEY = "ollim.letters";

export class Views {
    #store;
    #onShown;
    #panel = byId("panel");
    #letters = byId("letters", HTMLInputElement);
    #wide = matchMedia("(width >= 1100px)");
    #isLoaded = false;

    /**
     * @param {Store} store
     * @param {() => void} onShown  called when another view is shown
     */
    constructor(store, onShown) {
        this.#store = store;
        this.#onShown = onShown;
        this.#letters.checked = localStorage.getItem(LETTERS_KEY) !== "off";
        this.#listen();
        store.watch((state) => this.#update(state));
        this.#show();
    }

    /** Whether letters outside a box may be keys. */
    get hasLetters() {
        return this.#letters.checked;
    }

    get isChatShown() {
        return this.#wide.matches || location.pathname !== TODAY;
    }

    /**
     * Go to the view of this letter; false if none has it.
     * @param {string} letter
     */
    goByLetter(letter) {
        const path = LETTERS.get(letter);
        if (path !== undefined) {
            this.#go(path);
        }
        return path !== undefined;
    }

    #listen() {
        byId("views").addEventListener("click", (event) => {
            const link = event.target instanceof Element ? event.target.closest("a") : null;
            if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
                event.preventDefault();
                this.#go(link.pathname);
            }
        });
        byId("more").addEventListener("click", ({ target }) => {
            if (target instanceof HTMLElement && target.dataset.opens) {
                byId("more").hidePopover();
                byId(target.dataset.opens).click();
            }
        });
        this.#letters.addEventListener("change", () => {
            localStorage.setItem(LETTERS_KEY, this.#letters.checked ? "on" : "off");
        });
        addEventListener("popstate", () => this.#show());
        this.#wide.addEventListener("change", () => this.#show());
    }

    /** @param {string} path */
    #go(path) {
        if (location.pathname !== path) {
            history.pushState(null, "", path);
        }
        this.#show();
        if (path === TODAY) {
            this.#panel.focus();
        } else {
            byId("box").focus();
        }
    }

    #show() {
        const { pathname } = location;
        document.body.dataset.view = pathname === TODAY ? "today" : "chat";
        for (const link of byId("views").querySelectorAll("a")) {
            link.ariaCurrent = link.pathname === pathname ? "page" : null;
        }
        this.#update(this.#store.state);
        this.#onShown();
    }

    /** @param {State} state */
    #update(state) {
        const { panels, status } = state;
        const isShown = panels !== null && (this.#wide.matches || location.pathname === TODAY);
        this.#panel.hidden = !isShown;
        const open = panels?.today.open ?? 0;
        byId("open").hidden = open === 0;
        say(byId("open"), `${open}`);
        byId("zones").hidden = status === null || isSameClock(status.zone);
        say(byId("zones"), `Times are ${cityOf(zoneOf(state))}’s; this device is in ${cityOf(ownZone())}.`);
        if (isShown && !this.#isLoaded) {
            this.#isLoaded = true;
            this.#load();
        }
    }

    async #load() {
        try {
            // Nothing is shown without its style.
            const [{ TodayView }] = await Promise.all([
                import("./today.js"), loadStyle("today.css"),
            ]);
            new TodayView(this.#store, this.#panel);
        } catch {
            // The bot went away in between; the next change tries again.
            this.#isLoaded = false;
        }
    }
}

function ownZone() {
    return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/**
 * Whether the clocks of this device show the same as those of the zone.
 * @param {string} zone
 */
function isSameClock(zone) {
    try {
        const now = new Date();
        const shown = (/** @type {string} */ timeZone) =>
            now.toLocaleString("en", { timeZone, dateStyle: "short", timeStyle: "short" });
        return shown(zone) === shown(ownZone());
    } catch {
        // A zone that this browser does not know.
        return true;
    }
}

/** @param {string} zone */
function cityOf(zone) {
    return zone.slice(zone.lastIndexOf("/") + 1).replaceAll("_", " ");
}
