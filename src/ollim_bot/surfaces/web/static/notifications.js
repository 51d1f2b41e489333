/** Desktop notifications for what comes while nobody looks; only after the owner asked for them. */

import { onArrival } from "./arrivals.js";
import { byId, icon } from "./dom.js";
import { spoken } from "./message.js";
import { botName } from "./names.js";
import { isQuestion } from "./questions.js";
import { unread } from "./state.js";

const KEY = "ollim.notify";
const LONGEST = 200;
const BLOCKED = "Notifications are blocked in the browser's settings";
// Another tab may be looked at; then it tells soon that the message was read.
const GRACE_MS = 400;

export class Notifications {
    #store;
    #bell = byId("bell");
    #open = new Map();

    /** @param {import("./store.js").Store} store */
    constructor(store) {
        this.#store = store;
        if (!("Notification" in window)) {
            return;
        }
        this.#bell.hidden = false;
        this.#bell.addEventListener("click", () => this.#switch());
        this.#show();
        onArrival(store, (message) => this.#arrived(message));
        store.watch(() => this.#closeRead());
    }

    get #isOn() {
        return Notification.permission === "granted" && localStorage.getItem(KEY) === "on";
    }

    async #switch() {
        const isWanted = !this.#isOn;
        if (isWanted && Notification.permission === "default") {
            await Notification.requestPermission();
        }
        localStorage.setItem(KEY, isWanted ? "on" : "off");
        this.#show();
    }

    #show() {
        const isBlocked = Notification.permission === "denied";
        const label = isBlocked ? BLOCKED : "Notifications";
        this.#bell.replaceChildren(icon(this.#isOn ? "bell" : "bellOff"));
        this.#bell.setAttribute("aria-label", label);
        this.#bell.setAttribute("aria-pressed", String(this.#isOn));
        this.#bell.title = isBlocked ? label : `Notifications are ${this.#isOn ? "on" : "off"}`;
    }

    #arrived(message) {
        const isForThis = message.author === "assistant" || message.author === "background";
        if ((isForThis || isQuestion(message)) && document.hidden && this.#isOn) {
            setTimeout(() => this.#notify(message), GRACE_MS);
        }
    }

    #notify(message) {
        if (!this.#isNews(message)) {
            return;
        }
        const body = spoken(message).slice(0, LONGEST);
        const details = { body, tag: message.id, icon: "/static/icon.svg" };
        const notification = shown(botName(this.#store.state), details);
        notification?.addEventListener("click", () => {
            window.focus();
            notification.close();
        });
        this.#open.set(message, notification);
    }

    #closeRead() {
        for (const [message, notification] of this.#open) {
            if (!this.#isNews(message)) {
                notification?.close();
                this.#open.delete(message);
            }
        }
    }

    /** Not seen yet; and a question not answered elsewhere. */
    #isNews(message) {
        const now = unread(this.#store.state).find((one) => one.id === message.id);
        return now !== undefined && (!isQuestion(message) || isQuestion(now));
    }
}

/** Some phones have notifications but not for pages; there the title alone must do. */
function shown(title, details) {
    try {
        return new Notification(title, details);
    } catch {
        return null;
    }
}
