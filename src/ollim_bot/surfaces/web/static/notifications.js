/**
 * Tells the owner of what arrives: a screen reader says each complete answer once, and the desktop
 * shows a notification while the page is hidden, if the owner has asked for that.
 *
 * @typedef {import("./protocol.js").Message} Message
 * @typedef {import("./state.js").Store} Store
 */

import { byId, icon, make } from "./dom.js";
import { NOTIFY_KEY, botName, forkName, mayNotify, speakerNames } from "./format.js";
import { spokenText } from "./message.js";
import { isOpenQuestion, onArrival, openFork, unreadMessages } from "./state.js";

const SPOKEN_MS = 10_000;
const KEY = NOTIFY_KEY;
const LONGEST_BODY = 200;
const BLOCKED = "Notifications are blocked in the browser's settings";
const HOW_TO_UNBLOCK =
    "The browser blocks notifications here. Allow them in its settings for this site, then press " +
    "the bell again.";
const NOT_ALLOWED = "You have not allowed notifications yet, so the bell stays off.";
// The time in which another tab that shows the message can mark it as read.
const GRACE_MS = 400;

/** @param {string} text */
export function announce(text) {
    if (text === "") {
        return;
    }
    const spoken = make("p", {}, text);
    byId("announcer").append(spoken);
    setTimeout(() => spoken.remove(), SPOKEN_MS);
}

/** @param {Store} store */
export function announceArrivals(store) {
    /** @type {string | null} the card of the fork that was announced */
    let announced = null;
    onArrival(store, (message) => {
        if (message.author !== "owner" && message.id !== announced) {
            const speaker = speakerNames(botName(store.state))[message.author];
            announce(`${speaker}: ${spokenText(message)}`);
        }
    });
    let wasOpen = false;
    store.watch((state) => {
        const fork = openFork(state);
        // The card that opens a fork arrives just before or after, and is announced itself.
        const isCardAnnounced =
            wasOpen && state.messages.some((message) => message.id === fork?.card);
        if (fork !== null && fork.card !== announced && !isCardAnnounced) {
            announce(forkName(fork));
        }
        announced = fork?.card ?? null;
        wasOpen ||= state.connection === "open";
    });
}

export class DesktopNotifications {
    #store;
    #complain;
    #tell;
    #bell = byId("bell");
    /** @type {Map<Message, Notification | null>} */
    #open = new Map();

    /**
     * @param {Store} store
     * @param {(sentence: string) => void} complain  says why the bell stays off
     * @param {() => void} tell  tells the bot that the bell was switched
     */
    constructor(store, complain, tell) {
        this.#store = store;
        this.#complain = complain;
        this.#tell = tell;
        onArrival(store, (message) => this.#sound(message));
        if (!("Notification" in window)) {
            return;
        }
        this.#bell.hidden = false;
        this.#bell.addEventListener("click", () => this.#switch());
        this.#showBell();
        byId("offer-yes").addEventListener("click", () => this.#switch());
        byId("offer-no").addEventListener("click", () => this.#decline());
        onArrival(store, (message) => this.#arrived(message));
        store.watch((state) => {
            this.#closeRead();
            this.#offer(state);
        });
    }

    get #isOn() {
        return mayNotify();
    }

    #decline() {
        localStorage.setItem(KEY, "off");
        byId("offer").hidden = true;
    }

    /**
     * Offer notifications once a reminder is set, in whatever way, until the owner has decided.
     * @param {import("./state.js").State} state
     */
    #offer({ status }) {
        const isUndecided = Notification.permission === "default" && !localStorage.getItem(KEY);
        byId("offer").hidden = !(isUndecided && status?.has_jobs);
    }

    async #switch() {
        byId("offer").hidden = true;
        const isWanted = !this.#isOn;
        if (isWanted && Notification.permission === "default") {
            await Notification.requestPermission();
        }
        localStorage.setItem(KEY, isWanted ? "on" : "off");
        this.#showBell();
        this.#tell();
        this.#complain(isWanted ? refusal() : "");
    }

    #showBell() {
        const isBlocked = Notification.permission === "denied";
        const label = isBlocked ? BLOCKED : "Notifications";
        this.#bell.replaceChildren(icon(this.#isOn ? "bell" : "bellOff"));
        this.#bell.setAttribute("aria-label", label);
        this.#bell.setAttribute("aria-pressed", String(this.#isOn));
        this.#bell.title = isBlocked ? label : `Notifications are ${this.#isOn ? "on" : "off"}`;
    }

    /** @param {Message} message */
    #sound(message) {
        const { card, author } = message;
        const asks = isOpenQuestion(message) || (author === "background" && card?.buttons.length);
        if (asks && this.#store.state.status?.has_sound) {
            playTone();
        }
    }

    /** @param {Message} message */
    #arrived(message) {
        const isFromBot = message.author === "assistant" || message.author === "background";
        if ((isFromBot || isOpenQuestion(message)) && document.hidden && this.#isOn) {
            setTimeout(() => this.#notify(message), GRACE_MS);
        }
    }

    /** @param {Message} message */
    #notify(message) {
        if (!this.#isNews(message)) {
            return;
        }
        const body = spokenText(message).slice(0, LONGEST_BODY);
        const options = { body, tag: message.id, icon: "/static/icon.svg" };
        const notification = show(botName(this.#store.state), options);
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

    /**
     * Whether the message is unread and, if it is a question, not answered in another place.
     * @param {Message} message
     */
    #isNews(message) {
        const now = unreadMessages(this.#store.state).find((one) => one.id === message.id);
        return now !== undefined && (!isOpenQuestion(message) || isOpenQuestion(now));
    }
}

/** A browser plays nothing before the first click, and a machine without sound refuses. */
function playTone() {
    try {
        const audio = new AudioContext();
        const tone = new OscillatorNode(audio, { frequency: 660 });
        const volume = new GainNode(audio, { gain: 0.1 });
        volume.gain.exponentialRampToValueAtTime(0.001, audio.currentTime + 0.4);
        tone.connect(volume).connect(audio.destination);
        tone.onended = () => audio.close();
        tone.start();
        tone.stop(audio.currentTime + 0.4);
    } catch {
        // The message is seen all the same.
    }
}

/** Why the browser shows no notifications; empty if it does. */
function refusal() {
    switch (Notification.permission) {
        case "granted":
            return "";
        case "denied":
            return HOW_TO_UNBLOCK;
        default:
            return NOT_ALLOWED;
    }
}

/**
 * Show a notification; some phones have the class but refuse it to pages.
 * @param {string} title
 * @param {NotificationOptions} options
 */
function show(title, options) {
    try {
        return new Notification(title, options);
    } catch {
        return null;
    }
}
