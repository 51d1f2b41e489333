/**
 * The bar at the top: the name of the bot, its model, the connection, and the theme.
 *
 * @typedef {import("./protocol.js").Status} Status
 * @typedef {import("./state.js").State} State
 */

import { byId, icon, present, say } from "./dom.js";
import { exclusionSentence } from "./empty_states.js";
import { botName } from "./format.js";
import { isAnswerNeeded, openFork, unreadMessages } from "./state.js";

// `theme.js` reads it.
const THEME_KEY = "ollim.theme";

/** @param {import("./state.js").Store} store */
export function showHeader(store) {
    /** @type {string | null} */
    let version = null;
    byId("reload").addEventListener("click", () => location.reload());
    store.watch((state) => {
        const current = state.status?.version ?? null;
        version ??= current;
        byId("reload").hidden = current === version;
        showConnection(state);
        document.title = titleOf(state);
        if (state.status) {
            showStatus(state.status);
        }
    });
}

/** @param {State} state */
function showConnection({ connection, status }) {
    const exclusion = exclusionSentence(connection);
    const reconnecting = connection === "lost" ? "reconnecting…" : "";
    // Before the first status the exclusion is shown in the middle of the page.
    const shown = status === null && exclusion !== "" ? "" : exclusion || reconnecting;
    const element = byId("connection");
    element.classList.toggle("is-long", shown !== "" && shown === exclusion);
    say(element, shown);
}

/** @param {State} state */
function titleOf(state) {
    const count = unreadMessages(state).length;
    const fork = openFork(state);
    const name = present(
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
    say(offline, `${status.provider} — not a language model`);
    say(byId("login-command"), `${status.program} auth login`);
    byId("provider").hidden = status.is_offline;
    say(byId("provider"), present(status.provider, status.model).join(" · "));
    byId("quiet").hidden = !status.quiet;
    say(byId("quiet"), `quiet until ${status.quiet}`);
    say(byId("trouble"), status.trouble);
    byId("box", HTMLTextAreaElement).placeholder =
        status.fork ? "Write in the side conversation" : `Write to ${status.bot_name}`;
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
