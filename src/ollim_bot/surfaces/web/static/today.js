/**
 * Today: what waits, what comes next, and what is done, as the server draws it.
 *
 * @typedef {import("./protocol.js").Answer} Answer
 * @typedef {import("./protocol.js").PanelState} PanelState
 * @typedef {import("./state.js").State} State
 * @typedef {import("./state.js").Store} Store
 */

import { json } from "./api.js";
import { make, markup, plain, say } from "./dom.js";
import { clockTime, dayIn, zoneOf } from "./format.js";
import { Refused, jsonRequest } from "./http.js";
import { announce } from "./notifications.js";

const PATH = "/api/panels/today";
const LINES = 100;
const MINUTE_MS = 60_000;
const NOT_REACHED = "The bot does not answer, so nothing was done. Try again later.";
const NOT_LOADED = "The bot does not answer.";
// A second tap at the same place so soon means the line that was there.
const DOUBLE_TAP_MS = 600;
const SAME_PLACE_PX = 16;

export class TodayView {
    #store;
    #panel;
    #status = make("p", { class: "as-of", role: "status" });
    #problem = make("div", { class: "failed", role: "alert" });
    #content = make("div", { class: "day" });
    /** @type {PanelState | null} */
    #seen = null;
    #wasLive = false;
    #isLoading = false;
    #isStale = false;
    #most = LINES;
    /** When the content was loaded, by this device, and how far its clock is behind the bot's. */
    #loadedAt = 0;
    #behind = 0;
    #lastTap = { time: -Infinity, x: 0, y: 0 };

    /**
     * @param {Store} store
     * @param {HTMLElement} panel
     */
    constructor(store, panel) {
        this.#store = store;
        this.#panel = panel;
        panel.replaceChildren(this.#status, this.#problem, this.#content);
        panel.addEventListener("click", (event) => this.#clicked(event));
        panel.addEventListener("submit", (event) => this.#submitted(event));
        panel.addEventListener("keydown", (event) => this.#moved(event));
        store.watch((state) => this.#update(state));
        setInterval(() => this.#tick(), MINUTE_MS);
        document.addEventListener("visibilitychange", () => document.hidden || this.#tick());
        this.#update(store.state);
    }

    /** @param {State} state */
    #update(state) {
        const isAway = state.connection !== "open";
        this.#panel.classList.toggle("is-away", isAway);
        this.#enable();
        const at = new Date(this.#loadedAt + this.#behind);
        say(this.#status, isAway && this.#loadedAt
            ? `Not connected. This is how it was at ${clockTime(at, zoneOf(state))}.`
            : "");
        // A turn may have changed tasks, of which the bot tells nothing.
        const hasEnded = this.#wasLive && state.live === null;
        this.#wasLive = state.live !== null;
        const current = state.panels?.today ?? null;
        if (!isAway && (current !== this.#seen || hasEnded)) {
            this.#seen = current;
            this.#load();
        }
    }

    async #load() {
        if (this.#isLoading) {
            this.#isStale = true;
            return;
        }
        this.#isLoading = true;
        do {
            this.#isStale = false;
            try {
                const { html } = await json(`${PATH}?most=${this.#most}`);
                this.#draw(html);
            } catch (error) {
                this.#fail(error instanceof Refused ? error.message : NOT_LOADED);
            }
        } while (this.#isStale);
        this.#isLoading = false;
    }

    /** @param {string} html */
    #draw(html) {
        const fresh = markup(html);
        const folds = this.#content.querySelectorAll("details[open]");
        const open = new Set([...folds].map((one) => one.getAttribute("data-fold")));
        fresh.querySelectorAll("details").forEach((one) => {
            one.open = open.has(one.dataset.fold ?? null);
        });
        keepTyped(this.#content, fresh);
        const place = focusPlace(this.#content);
        this.#content.replaceChildren(fresh);
        this.#problem.replaceChildren();
        this.#loadedAt = Date.now();
        const moment = this.#content.querySelector("h2 time")?.getAttribute("datetime");
        this.#behind = moment ? Date.parse(moment) - this.#loadedAt : 0;
        this.#enable();
        if (place) {
            restoreFocus(this.#content, place, this.#panel);
        }
    }

    /** @param {string} why */
    #fail(why) {
        const again = make("button", { type: "button", "data-again": true }, "Try again");
        this.#problem.replaceChildren(make("p", {}, `Today could not be loaded. ${why}`), again);
    }

    /** Without the bot, no button does anything. */
    #enable() {
        const isAway = this.#store.state.connection !== "open";
        this.#content.querySelectorAll("button").forEach((one) => { one.disabled = isAway; });
    }

    /** Move the line of now and the bar of the next thing. */
    #tick() {
        if (document.hidden || this.#panel.hidden || this.#loadedAt === 0) {
            return;
        }
        const zone = zoneOf(this.#store.state);
        const now = new Date(Date.now() + this.#behind);
        const bar = this.#content.querySelector("progress[data-at]");
        const at = Date.parse(bar?.getAttribute("data-at") ?? "");
        const isNewDay = dayIn(zone, now) !== dayIn(zone, new Date(this.#loadedAt + this.#behind));
        if (isNewDay || at <= now.getTime()) {
            this.#load();
            return;
        }
        const mark = this.#content.querySelector("[data-now]");
        if (mark) {
            say(mark, clockTime(now, zone));
        }
        const left = this.#content.querySelector("[data-left]");
        if (bar instanceof HTMLProgressElement && left) {
            const minutes = Math.ceil((at - now.getTime()) / MINUTE_MS);
            bar.value = Math.min(minutes, bar.max);
            say(left, `in ${inWords(minutes)}`);
        }
    }

    /** @param {MouseEvent} event */
    #clicked(event) {
        const button = event.target instanceof Element ? event.target.closest("button") : null;
        if (button?.hasAttribute("data-again")) {
            this.#load();
        } else if (button?.hasAttribute("data-most")) {
            this.#most += LINES;
            this.#load();
        } else if (button?.dataset.press && !this.#isSecondTap(event)) {
            this.#press(button.dataset.press, button);
        }
    }

    /** @param {MouseEvent} event */
    #isSecondTap({ timeStamp: time, clientX: x, clientY: y, detail }) {
        const last = this.#lastTap;
        const isByPointer = detail > 0;
        const isNear = Math.hypot(x - last.x, y - last.y) < SAME_PLACE_PX;
        if (isByPointer) {
            this.#lastTap = { time, x, y };
        }
        return isByPointer && isNear && time - last.time < DOUBLE_TAP_MS;
    }

    /** @param {SubmitEvent} event */
    #submitted(event) {
        event.preventDefault();
        const form = event.target;
        const words = form instanceof HTMLFormElement && form.querySelector("input")?.value;
        if (form instanceof HTMLFormElement && form.dataset.press && words) {
            this.#press(form.dataset.press, form, words);
        }
    }

    /**
     * @param {string} customId
     * @param {HTMLElement} pressed
     * @param {string} [words]
     */
    async #press(customId, pressed, words) {
        pressed.toggleAttribute("aria-busy", true);
        /** @type {Pick<Answer, "html" | "is_error">} */
        let answer;
        try {
            answer = await json(`${PATH}/presses`, jsonRequest({ custom_id: customId, words }));
        } catch (error) {
            const why = error instanceof Refused ? error.message : NOT_REACHED;
            answer = { html: make("p", {}, why).outerHTML, is_error: true };
        }
        pressed.removeAttribute("aria-busy");
        const sentence = plain(answer.html);
        const own = pressed.querySelector(".problem");
        if (answer.is_error && own) {
            say(own, sentence);
        } else if (answer.is_error) {
            this.#problem.replaceChildren(make("p", {}, sentence));
        } else {
            if (pressed instanceof HTMLFormElement) {
                pressed.reset();
            }
            announce(sentence);
        }
        this.#load();
    }

    /**
     * Arrows lead from line to line, and along the buttons of one.
     * @param {KeyboardEvent} event
     */
    #moved(event) {
        const step = { ArrowDown: 1, ArrowUp: -1, ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (step === undefined || event.target instanceof HTMLInputElement) {
            return;
        }
        const isAlong = event.key === "ArrowLeft" || event.key === "ArrowRight";
        const current = event.target instanceof Element ? event.target.closest(".thing, .next") : null;
        const lines = linesIn(this.#content);
        const target = isAlong
            ? neighbour(current ? pressable(current) : [], event.target, step)
            : pressable(neighbour(lines, current, step))[0];
        if (target instanceof HTMLElement) {
            event.preventDefault();
            target.focus();
        }
    }
}

/** @param {Element} content */
function linesIn(content) {
    return [...content.querySelectorAll(".thing, .next")].filter((one) => pressable(one).length > 0);
}

/**
 * @param {Element | undefined} line
 * @returns {Element[]}
 */
function pressable(line) {
    return [...(line?.querySelectorAll("button, summary, input") ?? [])]
        .filter((one) => one.checkVisibility());
}

/**
 * The one after or before; from outside the list, the first or the last.
 * @param {Element[]} list
 * @param {EventTarget | null} current
 * @param {number} step
 */
function neighbour(list, current, step) {
    const place = list.findIndex((one) => one === current);
    return place < 0 ? list.at(step > 0 ? 0 : -1) : list[place + step];
}

/**
 * Where the focus is: on which button, and in which line.
 * @param {Element} content
 */
function focusPlace(content) {
    const active = document.activeElement;
    if (!active || !content.contains(active)) {
        return null;
    }
    const line = active.closest(".thing, .next");
    const key = active.closest("[data-press], [data-fold]");
    return {
        key: key?.getAttribute("data-press") ?? key?.getAttribute("data-fold") ?? "",
        isField: active instanceof HTMLInputElement,
        number: line ? linesIn(content).indexOf(line) : 0,
    };
}

/**
 * @param {Element} content
 * @param {NonNullable<ReturnType<typeof focusPlace>>} place
 * @param {HTMLElement} panel
 */
function restoreFocus(content, { key, isField, number }, panel) {
    const same = [...content.querySelectorAll("[data-press], [data-fold]")].find(
        (one) => (one.getAttribute("data-press") ?? one.getAttribute("data-fold")) === key,
    );
    const inside = isField ? same?.querySelector("input") : same?.querySelector("summary");
    const lines = linesIn(content);
    const near = pressable(lines[Math.min(number, lines.length - 1)])[0];
    const target = inside ?? same ?? near ?? panel;
    if (target instanceof HTMLElement) {
        target.focus();
    }
}

/**
 * What was typed into a box stays when the panel is drawn anew.
 * @param {Element} before
 * @param {DocumentFragment} fresh
 */
function keepTyped(before, fresh) {
    const typed = new Map(
        [...before.querySelectorAll("form")].map((one) => [one.dataset.press, one]),
    );
    fresh.querySelectorAll("form").forEach((form) => {
        const old = typed.get(form.dataset.press);
        const [from, to] = [old?.querySelector("input"), form.querySelector("input")];
        if (old && from && to) {
            to.value = from.value;
            say(form.querySelector(".problem") ?? form, old.querySelector(".problem")?.textContent ?? "");
        }
    });
}

/** @param {number} minutes */
function inWords(minutes) {
    const [hours, rest] = [Math.floor(minutes / 60), minutes % 60];
    return hours === 0 ? `${rest} min` : `${hours} h${rest ? ` ${rest} min` : ""}`;
}
