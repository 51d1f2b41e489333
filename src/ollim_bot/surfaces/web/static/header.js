/** The bar at the top: who this is, what thinks for it, and whether it can be reached. */

import { byId, icon, say } from "./dom.js";
import { wayIn } from "./door.js";
import { openFork } from "./leaving.js";
import { botName } from "./names.js";
import { isAsked } from "./questions.js";
import { unread } from "./state.js";

const ASKED = "Answer needed";

/** @param {import("./store.js").Store} store */
export function showHeader(store) {
    let version = null;
    byId("reload").addEventListener("click", () => location.reload());
    store.watch((state) => {
        version ??= state.status?.version ?? null;
        byId("reload").hidden = (state.status?.version ?? null) === version;
        const way = wayIn(state.connection);
        // Before it was ever let in, the page says it in its middle.
        const shown = state.status === null && way !== "" ? "" : way || passing(state);
        byId("connection").classList.toggle("is-long", shown !== "" && shown === way);
        say(byId("connection"), shown);
        document.title = titleOf(state);
        if (state.status) {
            showStatus(state.status);
        }
    });
}

function passing({ connection }) {
    return connection === "lost" ? "reconnecting…" : "";
}

function titleOf(state) {
    const count = unread(state).length;
    const fork = openFork(state);
    const name = [
        isAsked(state) && ASKED,
        fork && (fork.topic ? `Fork: ${fork.topic}` : "Fork"),
        botName(state),
    ].filter(Boolean).join(" · ");
    return count > 0 ? `(${count}) ${name}` : name;
}

function showStatus(status) {
    say(byId("name"), status.bot_name);
    const offline = byId("offline");
    offline.hidden = !status.is_offline;
    say(offline, `${status.provider} — not a language model`);
    byId("provider").hidden = status.is_offline;
    say(byId("provider"), [status.provider, status.model].filter(Boolean).join(" · "));
    say(byId("trouble"), status.trouble);
    byId("box").placeholder = status.fork ? "Write in the fork" : `Write to ${status.bot_name}`;
}

/** The switch between dark and light; what is chosen against the system's wish is remembered. */
export function showThemeSwitch() {
    const button = byId("theme");
    const system = matchMedia("(prefers-color-scheme: dark)");
    const systemTheme = () => (system.matches ? "dark" : "light");
    const root = document.documentElement;
    const show = () => {
        const other = (root.dataset.theme ?? systemTheme()) === "dark" ? "light" : "dark";
        button.replaceChildren(icon(other === "dark" ? "moon" : "sun"));
        button.setAttribute("aria-label", `Switch to ${other}`);
        button.title = `Switch to ${other}`;
        button.dataset.theme = other;
    };
    button.addEventListener("click", () => {
        const wanted = button.dataset.theme;
        if (wanted === systemTheme()) {
            localStorage.removeItem("ollim.theme");
            delete root.dataset.theme;
        } else {
            localStorage.setItem("ollim.theme", wanted);
            root.dataset.theme = wanted;
        }
        show();
    });
    system.addEventListener("change", show);
    show();
}
