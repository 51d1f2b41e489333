/**
 * The bar at the top: the name of the bot, its model, the connection, and the theme.
 *
 * @typedef {import("./protocol.js").Status} Status
 * @typedef {import("./state.js").State} State
 */

import { byId, icon, make, present, say } from "./dom.js";
import { exclusionSentence, withCode } from "./empty_states.js";
import { botName } from "./format.js";
import { isAnswerNeeded, openFork, unreadMessages } from "./state.js";

// `theme.js` reads it.
const THEME_KEY = "ollim.theme";
const AWAY_AFTER_MS = 10_000;
// A longer name would be cut off in the box of a small phone.
const LONGEST_IN_BOX = 12;
const ICON = "/static/icon.svg";
// Inside the page: while the bot is away, nothing can be loaded.
const AWAY_ICON = `data:image/svg+xml,${encodeURIComponent(
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">'
    + '<rect width="32" height="32" rx="9" fill="#8b8b8b"/>'
    + '<path d="M10 10l12 12M22 10L10 22" stroke="#fff" stroke-width="3.5"/></svg>',
)}`;

/** @param {import("./state.js").Store} store */
export function showHeader(store) {
    /** @type {string | null} */
    let version = null;
    const away = new AwayNotice(store);
    byId("reload").addEventListener("click", () => location.reload());
    store.watch((state) => {
        const current = state.status?.version ?? null;
        version ??= current;
        byId("reload").hidden = current === version;
        away.update(state);
        document.title = titleOf(state);
        if (state.status) {
            showStatus(state.status);
        }
    });
}

/**
 * Says that the bot is not there: at once that the page tries again, after a while also what does
 * not come and how to start the bot.
 */
class AwayNotice {
    #store;
    #element = byId("connection");
    #isAway = false;
    #shown = "";
    /** @type {number | undefined} */
    #timer;

    /** @param {import("./state.js").Store} store */
    constructor(store) {
        this.#store = store;
    }

    /** @param {State} state */
    update(state) {
        const isLost = state.connection === "lost";
        if (!isLost) {
            clearTimeout(this.#timer);
            this.#timer = undefined;
            this.#isAway = false;
        }
        if (isLost) {
            this.#timer ??= setTimeout(() => this.#stayAway(), AWAY_AFTER_MS);
        }
        const href = isLost ? AWAY_ICON : ICON;
        if (byId("icon", HTMLLinkElement).getAttribute("href") !== href) {
            byId("icon", HTMLLinkElement).href = href;
        }
        this.#show(state);
    }

    #stayAway() {
        this.#isAway = true;
        this.#show(this.#store.state);
    }

    /** @param {State} state */
    #show({ connection, status }) {
        const exclusion = exclusionSentence(connection);
        const lost = this.#isAway ? awaySentence(status) : "reconnecting…";
        // Before the first status the exclusion is shown in the middle of the page.
        const words = exclusion || (connection === "lost" ? lost : "");
        const shown = status === null && exclusion !== "" ? "" : words;
        this.#element.classList.toggle("is-long", shown !== "" && shown !== "reconnecting…");
        if (this.#shown !== shown) {
            this.#shown = shown;
            this.#element.replaceChildren(...withCode(shown));
        }
    }
}

/** @param {Status | null} status */
function awaySentence(status) {
    return (
        "Your bot does not answer. If it has stopped, reminders wait until you start it again; "
        + `then you get the ones you missed. To start it, run \`${status?.program ?? "ollim-bot"}\` in a terminal, in its folder.`
    );
}

/** @param {State} state */
function titleOf(state) {
    const count = unreadMessages(state).length;
    const fork = openFork(state);
    const name = present(
        state.connection === "lost" && "Not connected",
        isAnswerNeeded(state) && "Answer needed",
        fork && (fork.topic ? `Side conversation: ${fork.topic}` : "Side conversation"),
        botName(state),
    ).join(" · ");
    return count > 0 ? `(${count}) ${name}` : name;
}

/** @param {Status} status */
function showStatus(status) {
    say(byId("name"), status.bot_name);
    const offline = byId("offline");
    offline.hidden = !status.is_offline;
    if (offline.dataset.provider !== status.provider) {
        offline.dataset.provider = status.provider;
        const more = make("span", { class: "more" }, " — not a language model");
        offline.replaceChildren(status.provider, more);
    }
    say(byId("login-command"), `${status.program} auth login`);
    byId("provider").hidden = status.is_offline;
    say(byId("provider"), present(status.provider, status.model).join(" · "));
    byId("quiet").hidden = !status.quiet;
    say(byId("quiet"), `quiet until ${status.quiet}`);
    say(byId("trouble"), status.trouble);
    const isShort = status.bot_name.length <= LONGEST_IN_BOX;
    byId("box", HTMLTextAreaElement).placeholder =
        status.fork || !isShort ? "Write here" : `Write to ${status.bot_name}`;
}

/** Let the owner switch between dark and light; a theme other than the system's is remembered. */
export function showThemeSwitch() {
    const button = byId("theme");
    const system = matchMedia("(prefers-color-scheme: dark)");
    const systemTheme = () => (system.matches ? "dark" : "light");
    const root = document.documentElement;
    const otherTheme = () =>
        ((root.dataset.theme ?? systemTheme()) === "dark" ? "light" : "dark");
    const show = () => {
        const other = otherTheme();
        button.replaceChildren(icon(other === "dark" ? "moon" : "sun"));
        button.setAttribute("aria-label", `Switch to ${other}`);
        button.title = `Switch to ${other}`;
    };
    button.addEventListener("click", () => {
        const wanted = otherTheme();
        if (wanted === systemTheme()) {
            localStorage.removeItem(THEME_KEY);
            delete root.dataset.theme;
        } else {
            localStorage.setItem(THEME_KEY, wanted);
            root.dataset.theme = wanted;
        }
        show();
    });
    system.addEventListener("change", show);
    show();
}
