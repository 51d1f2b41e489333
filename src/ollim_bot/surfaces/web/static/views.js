/**
 * The views beside the conversation and their addresses. On a wide screen Today stands beside it,
 * on a narrow one a bar leads from one to the other. A view is loaded when first shown.
 *
 * @typedef {import("./state.js").State} State
 * @typedef {import("./state.js").Store} Store
 */

import { byId, closest, loadStyle, make, say } from "./dom.js";
import { exclusionSentence } from "./empty_states.js";
import { zoneOf } from "./format.js";

/**
 * @typedef {object} View
 * @property {string} name  of its panel
 * @property {string} path  one that ends with a slash is followed by an id
 * @property {string} title
 * @property {string} letter  goes to it after `g`; empty if none does
 * @property {boolean} isInBar  on a narrow screen; the others are under More
 * @property {string} style
 */

/** @type {View[]} */
const VIEWS = [
    { name: "chat", path: "/", title: "Chat", letter: "c", isInBar: true, style: "" },
    ...JSON.parse(byId("views").dataset.views ?? "[]"),
];
const [CHAT, TODAY] = VIEWS;
const LINKS = ":is(nav, .panel) a[href^='/'], #log a:is([href^='/jobs/'], [href^='/runs/'])";
const LETTERS_KEY = "ollim.letters";

export class Views {
    #store;
    #onShown;
    #today = byId("panel");
    #place = byId("view");
    #zones = byId("zones");
    #letters = byId("letters", HTMLInputElement);
    #wide = matchMedia("(width >= 1100px)");
    /** @type {Map<View, import("./panel.js").PanelView | null>}  null while it is being loaded */
    #panels = new Map();

    /**
     * @param {Store} store
     * @param {() => void} onShown  called when another view is shown
     */
    constructor(store, onShown) {
        this.#store = store;
        this.#onShown = onShown;
        this.#letters.checked = localStorage.getItem(LETTERS_KEY) !== "off";
        this.#link();
        this.#listen();
        store.watch((state) => this.#update(state));
        this.#show();
    }

    /** Whether letters outside a box may be keys. */
    get hasLetters() {
        return this.#letters.checked;
    }

    get isChatShown() {
        return current() === CHAT || (current() === TODAY && this.#wide.matches);
    }

    /**
     * Go to the view of this letter; false if none has it.
     * @param {string} letter
     */
    goByLetter(letter) {
        const view = VIEWS.find((one) => one.letter === letter);
        if (view) {
            this.go(view.path);
        }
        return view !== undefined;
    }

    /** @param {string} address */
    go(address) {
        if (location.pathname + location.search !== address) {
            history.pushState(null, "", address);
        }
        this.#show();
        const view = current();
        const place = view === TODAY ? this.#today : this.#place;
        (view === CHAT ? byId("box") : place).focus();
    }

    /** Each view has a link: in the bar, or on a narrow screen under More. */
    #link() {
        const linked = VIEWS.filter(({ path }) => path === "/" || !path.endsWith("/"));
        const more = byId("views").querySelector("button");
        for (const { name, path, title, isInBar } of linked) {
            const count = name === "today" && make("span", { id: "open", class: "count", hidden: true });
            const kind = isInBar ? null : "further";
            const link = make("a", { href: path, class: kind, "data-view": name }, title, count && " ", count);
            more?.before(link);
        }
        byId("keys-list").append(...linked.filter(({ letter }) => letter).map(({ letter, title }) => (
            make("div", {},
                make("dt", {}, make("kbd", {}, "g"), " ", make("kbd", {}, letter)),
                make("dd", {}, `outside a box: ${title}`))
        )));
        const further = linked.filter(({ isInBar }) => !isInBar);
        byId("more").prepend(...further.map(({ path, title }) => (
            make("a", { href: path, class: "further" }, title)
        )));
    }

    #listen() {
        document.addEventListener("click", (event) => {
            const link = closest(event, LINKS);
            if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
                event.preventDefault();
                byId("more").hidePopover();
                this.go(link.getAttribute("href") ?? "/");
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

    #show() {
        for (const link of document.querySelectorAll(":is(#views, #more) a")) {
            const path = link.getAttribute("href");
            const isWithin = path !== "/" && location.pathname.startsWith(`${path}/`);
            link.ariaCurrent = path === location.pathname || isWithin ? "page" : null;
        }
        this.#update(this.#store.state);
        this.#onShown();
    }

    /** @param {State} state */
    #update(state) {
        const { connection, panels } = state;
        const open = panels?.today?.open ?? 0;
        byId("open").hidden = open === 0;
        say(byId("open"), `${open}`);
        const isLetIn = panels !== null || exclusionSentence(connection) === "";
        // Why the page is not let in stands in the place of the conversation.
        const view = isLetIn ? current() : CHAT;
        document.body.dataset.view = view.name;
        const isBeside = this.#wide.matches;
        this.#place.hidden = view === CHAT || view === TODAY;
        this.#today.hidden = !isLetIn || !(isBeside || view === TODAY);
        this.#today.role = isBeside ? "complementary" : "main";
        this.#arrange(TODAY, !this.#today.hidden);
        for (const other of VIEWS.slice(2)) {
            this.#arrange(other, other === view);
        }
        this.#showZones(state);
    }

    /** @param {State} state */
    #showZones(state) {
        this.#zones.hidden = state.status === null || isSameClock(state.status.zone);
        say(this.#zones, `Times are ${cityOf(zoneOf(state))}’s; this device is in ${cityOf(ownZone())}.`);
        const places = [this.#place, ...(this.#wide.matches ? [] : [this.#today])];
        const place = places.find((one) => !one.hidden) ?? byId("chat");
        if (this.#zones.parentElement !== place) {
            place.prepend(this.#zones);
        }
    }

    /**
     * Show or hide a view; it is loaded when first shown.
     * @param {View} view
     * @param {boolean} isShown
     */
    #arrange(view, isShown) {
        const panel = this.#panels.get(view);
        if (isShown && panel === undefined) {
            this.#panels.set(view, null);
            this.#load(view);
        } else if (isShown && panel) {
            const id = view.path.endsWith("/") ? location.pathname.slice(view.path.length) : "";
            const asked = new URLSearchParams(view === current() ? location.search : "");
            if (id) {
                asked.set("id", decodeURIComponent(id));
            }
            panel.show(asked.toString());
        } else {
            panel?.hide();
        }
    }

    /** @param {View} view */
    async #load(view) {
        try {
            // Nothing is shown without its style.
            const [{ PanelView }, today] = await Promise.all([
                import("./panel.js"),
                view === TODAY ? import("./today.js") : null,
                loadStyle("panel.css"),
                view.style ? loadStyle(view.style) : null,
            ]);
            const host = view === TODAY ? this.#today : make("section", { "aria-label": view.title });
            if (view !== TODAY) {
                this.#place.append(host);
            }
            const panel = new PanelView(this.#store, host, view, (address) => this.go(address));
            this.#panels.set(view, panel);
            today?.keepTime(this.#store, panel);
            this.#update(this.#store.state);
        } catch {
            // The bot went away; the next change tries again.
            this.#panels.delete(view);
        }
    }
}

/** The view of the address. */
function current() {
    const { pathname } = location;
    return VIEWS.find(({ path }) => (
        path === pathname || (path !== "/" && path.endsWith("/") && pathname.startsWith(path))
    )) ?? CHAT;
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
