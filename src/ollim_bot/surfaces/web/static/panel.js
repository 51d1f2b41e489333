/**
 * A view beside the conversation: fragments that the server draws, their buttons, forms and folds.
 *
 * @typedef {import("./protocol.js").PanelState} PanelState
 * @typedef {import("./protocol.js").ViewAnswer} ViewAnswer
 * @typedef {import("./state.js").State} State
 * @typedef {import("./state.js").Store} Store
 */

import { json } from "./api.js";
import { closest, escaped, isField, make, markup, plain, say } from "./dom.js";
import { clockTime, zoneOf } from "./format.js";
import { Refused, jsonRequest, newId } from "./http.js";
import { announce } from "./notifications.js";

const LINES = 100;
const NOT_REACHED = "The bot does not answer, so nothing was done. Try again later.";
const NOT_LOADED = "The bot does not answer.";
const FIELD = "data-field-";
const PREVIEW_AFTER_MS = 150;
// A second tap at the same place so soon means the line that was there.
const DOUBLE_TAP_MS = 600;
const SAME_PLACE_PX = 16;

export class PanelView {
    #store;
    #host;
    #view;
    #go;
    #status = make("p", { class: "as-of", role: "status" });
    #problem = make("div", { class: "failed", role: "alert" });
    /** Whether the problem is that it could not be loaded. */
    #isFailing = false;
    /** @type {PanelState | null} */
    #seen = null;
    /** @type {string | null}  the query of the address; null until it is first shown */
    #asked = null;
    #isShown = false;
    #wasLive = false;
    #isLoading = false;
    #isStale = false;
    #most = LINES;
    /** How far this device's clock is behind the bot's. */
    #behind = 0;
    #lastTap = { time: -Infinity, x: 0, y: 0 };
    #previewTimer = 0;
    /** @type {WeakMap<HTMLElement, {sent: string, key: string}>}  of forms to be sent once */
    #keys = new WeakMap();

    content = make("div", { class: "content" });
    /** When the content was loaded, by this device; 0 before. */
    loadedAt = 0;

    /**
     * @param {Store} store
     * @param {HTMLElement} host
     * @param {{name: string, title: string}} view
     * @param {(address: string) => void} go  shows the view of another address
     */
    constructor(store, host, view, go) {
        this.#store = store;
        this.#host = host;
        this.#view = view;
        this.#go = go;
        host.classList.add("panel");
        host.replaceChildren(this.#status, this.#problem, this.content);
        host.addEventListener("click", (event) => this.#clicked(event));
        host.addEventListener("submit", (event) => this.#submitted(event));
        host.addEventListener("input", (event) => this.#typed(event));
        host.addEventListener("change", (event) => this.#filtered(event));
        // A view that was gone to has the focus on the place around it.
        /** @type {HTMLElement} */
        const focused = host.closest("#view") ?? host;
        focused.addEventListener("keydown", (event) => this.#moved(event));
        store.watch((state) => this.#update(state));
    }

    get isShown() {
        return this.#isShown;
    }

    /**
     * Show it for the query of an address.
     * @param {string} asked
     */
    show(asked) {
        this.#isShown = true;
        this.#host.hidden = false;
        if (this.#asked !== asked) {
            this.#asked = asked;
            this.#most = LINES;
            this.#seen = null;
            this.#problem.replaceChildren();
        }
        this.#update(this.#store.state);
    }

    hide() {
        this.#isShown = false;
        this.#host.hidden = true;
    }

    /**
     * The bot's time, for this moment or for that of the last load.
     * @param {number} [at]
     */
    botTime(at = Date.now()) {
        return new Date(at + this.#behind);
    }

    /** @param {State} state */
    #update(state) {
        const isAway = state.connection !== "open";
        this.#host.classList.toggle("is-away", isAway);
        this.#enable();
        this.#tell();
        // A turn may have changed something of which the bot tells nothing.
        const hasEnded = this.#wasLive && state.live === null;
        this.#wasLive = state.live !== null;
        const current = state.panels?.[this.#view.name] ?? null;
        if (this.#isShown && !isAway && (current !== this.#seen || hasEnded)) {
            this.#seen = current;
            this.load();
        }
    }

    #tell() {
        const { state } = this.#store;
        let words = this.loadedAt || this.#isFailing ? "" : "Loading…";
        if (this.loadedAt && state.connection !== "open") {
            const at = clockTime(this.botTime(this.loadedAt), zoneOf(state));
            words = `Not connected. This is how it was at ${at}.`;
        }
        say(this.#status, words);
    }

    async load() {
        if (this.#isLoading) {
            this.#isStale = true;
            return;
        }
        this.#isLoading = true;
        do {
            this.#isStale = false;
            const asked = new URLSearchParams(this.#asked ?? "");
            asked.set("most", `${this.#most}`);
            try {
                const { html } = await json(`/api/panels/${this.#view.name}?${asked}`);
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
        const folds = new Map([...this.content.querySelectorAll("details")]
            .map((one) => [one.dataset.fold, one.open]));
        fresh.querySelectorAll("details").forEach((one) => {
            one.open = folds.get(one.dataset.fold) ?? one.open;
        });
        const restoreFocus = keptFocus(this.content, this.#host);
        keepTyped(this.content, fresh);
        this.content.replaceChildren(fresh);
        if (this.#isFailing) {
            this.#isFailing = false;
            this.#problem.replaceChildren();
        }
        this.loadedAt = Date.now();
        this.#tell();
        const moment = this.content.querySelector("h2 time")?.getAttribute("datetime");
        this.#behind = moment ? Date.parse(moment) - this.loadedAt : this.#behind;
        this.#enable();
        restoreFocus();
    }

    /** @param {string} why */
    #fail(why) {
        this.#isFailing = true;
        const again = make("button", { type: "button", "data-again": true }, "Try again");
        this.#problem.replaceChildren(
            make("p", {}, `${this.#view.title} could not be loaded. ${why}`), again,
        );
        this.#tell();
    }

    /** Without the bot, no button does anything. */
    #enable() {
        const isAway = this.#store.state.connection !== "open";
        this.content.querySelectorAll("button").forEach((one) => { one.disabled = isAway; });
    }

    /** @param {MouseEvent} event */
    #clicked(event) {
        const button = closest(event, "button");
        if (button?.hasAttribute("data-again")) {
            this.load();
        } else if (button?.hasAttribute("data-most")) {
            this.#most += LINES;
            this.load();
        } else if (button?.dataset.action && !this.#isSecondTap(event)) {
            this.#act(button, button.dataset.action, fieldsOf(button));
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
        if (form instanceof HTMLFormElement && form.dataset.action) {
            const fields = fieldsOf(form, event.submitter);
            if (form.dataset.once) {
                fields.key = this.#keyOf(form, fields);
            }
            this.#act(form, form.dataset.action, fields);
        }
    }

    /**
     * The same for the same fields until the bot has taken them: a second Enter, or a retry after a
     * lost answer, does nothing twice.
     * @param {HTMLFormElement} form
     * @param {Record<string, string>} fields
     */
    #keyOf(form, fields) {
        const sent = JSON.stringify(fields);
        const last = this.#keys.get(form);
        const key = last?.sent === sent ? last.key : newId();
        this.#keys.set(form, { sent, key });
        return key;
    }

    /** @param {Event} event */
    #typed(event) {
        const form = closest(event, "form[data-previews]");
        if (form instanceof HTMLFormElement) {
            form.querySelector(":scope > .problem")?.replaceChildren();
            clearTimeout(this.#previewTimer);
            this.#previewTimer = setTimeout(() => this.#preview(form), PREVIEW_AFTER_MS);
        }
    }

    /** @param {HTMLFormElement} form */
    async #preview(form) {
        const [action, fields] = [form.dataset.action, fieldsOf(form)];
        const path = `/api/panels/${this.#view.name}/previews`;
        const typed = JSON.stringify(fields);
        const { html } = await json(path, jsonRequest({ action, fields })).catch(() => ({ html: "" }));
        // What was typed since then has a preview of its own.
        if (JSON.stringify(fieldsOf(form)) === typed) {
            form.querySelector(".preview")?.replaceChildren(markup(html));
            // A long preview that stays in sight must not cover the field.
            form.querySelector(":focus")?.scrollIntoView({ block: "nearest" });
        }
    }

    /** @param {Event} event */
    #filtered(event) {
        const form = closest(event, "form[data-filter]");
        if (form instanceof HTMLFormElement) {
            const set = Object.entries(fieldsOf(form)).filter(([, value]) => value !== "");
            const query = new URLSearchParams(set).toString();
            // What is in the address is not typed any more.
            applied.add(form);
            this.#go(location.pathname + (query && `?${query}`));
        }
    }

    /**
     * @param {HTMLElement} pressed
     * @param {string} action
     * @param {Record<string, string>} fields
     */
    async #act(pressed, action, fields) {
        pressed.toggleAttribute("aria-busy", true);
        if (!this.#isFailing) {
            this.#problem.replaceChildren();
        }
        const typed = JSON.stringify(fieldsOf(pressed));
        /** @type {ViewAnswer} */
        let answer;
        try {
            const path = `/api/panels/${this.#view.name}/actions`;
            answer = await json(path, jsonRequest({ action, fields }));
        } catch (error) {
            const why = error instanceof Refused ? error.message : NOT_REACHED;
            answer = { html: escaped(why), is_error: true, field: "", go: "" };
        }
        pressed.removeAttribute("aria-busy");
        this.#settle(pressed, answer, typed);
        if (answer.go) {
            this.#go(answer.go);
        }
        this.load();
    }

    /**
     * Say what came of it, where it was pressed if it is wrong.
     * @param {HTMLElement} pressed
     * @param {ViewAnswer} answer
     * @param {string} typed  what was sent; what was typed since stays
     */
    #settle(pressed, { html, is_error: isError, field }, typed) {
        const sentence = plain(html);
        const own = pressed.querySelector(":scope > .problem");
        pressed.querySelectorAll("[aria-invalid]").forEach((one) => one.removeAttribute("aria-invalid"));
        if (!isError) {
            this.#keys.delete(pressed);
            if (pressed instanceof HTMLFormElement && JSON.stringify(fieldsOf(pressed)) === typed) {
                pressed.reset();
                pressed.querySelector(".preview")?.replaceChildren();
            }
            announce(sentence);
        } else if (own) {
            say(own, sentence);
            const wrong = field && pressed.querySelector(`[name="${CSS.escape(field)}"]`);
            if (wrong instanceof HTMLElement) {
                wrong.setAttribute("aria-invalid", "true");
                wrong.focus();
            }
        } else {
            this.#problem.replaceChildren(make("p", {}, sentence));
        }
    }

    /**
     * Arrows lead from line to line, and along the buttons of one.
     * @param {KeyboardEvent} event
     */
    #moved(event) {
        const step = { ArrowDown: 1, ArrowUp: -1, ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!this.#isShown || step === undefined || isField(event.target)) {
            return;
        }
        const isAlong = event.key === "ArrowLeft" || event.key === "ArrowRight";
        const current = closest(event, ".thing");
        const target = isAlong
            ? neighbour(current ? pressable(current) : [], event.target, step)
            : pressable(neighbour(linesIn(this.content), current, step))[0];
        if (target instanceof HTMLElement) {
            event.preventDefault();
            target.focus();
        }
    }
}

/**
 * What a button or form says by its attributes, and a form by what was typed into it.
 * @param {HTMLElement} source
 * @param {HTMLElement | null} [submitter]
 * @returns {Record<string, string>}
 */
function fieldsOf(source, submitter = null) {
    const named = source.getAttributeNames().filter((name) => name.startsWith(FIELD));
    const fixed = named.map((name) => [name.slice(FIELD.length), source.getAttribute(name) ?? ""]);
    const isForm = source instanceof HTMLFormElement;
    const typed = isForm ? [...new FormData(source, submitter)] : [];
    return Object.fromEntries([...fixed, ...typed]);
}

/**
 * By what a button, form or fold is found again when the panel is drawn anew.
 * @param {Element | null | undefined} element
 */
function keyOf(element) {
    const names = element?.getAttributeNames().filter((name) => /^data-|^href$|^name$/.test(name)) ?? [];
    return names.map((name) => `${name}=${element?.getAttribute(name)}`).join(" ");
}

/** @param {Element} content */
function linesIn(content) {
    return [...content.querySelectorAll(".thing")].filter((one) => pressable(one).length > 0);
}

/**
 * @param {Element | undefined} line
 * @returns {Element[]}
 */
function pressable(line) {
    return [...(line?.querySelectorAll("a, button, summary, input") ?? [])]
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

const KEYED = "[data-action], [data-filter], [data-fold]";

/**
 * All that does the same.
 * @param {Element} content
 * @param {Element} element
 */
function alike(content, element) {
    const what = (/** @type {Element} */ one) => keyOf(one.closest(KEYED)) + keyOf(one);
    return [...content.querySelectorAll(element.tagName)].filter((one) => what(one) === what(element));
}

/**
 * Brings the focus back to where it is now, or near it.
 * @param {Element} content
 * @param {HTMLElement} host
 */
function keptFocus(content, host) {
    const active = document.activeElement;
    if (!active || !content.contains(active)) {
        return () => {};
    }
    const line = active.closest(".thing");
    const number = line ? linesIn(content).indexOf(line) : 0;
    const place = alike(content, active).indexOf(active);
    return () => {
        const [same, lines] = [alike(content, active), linesIn(content)];
        const near = pressable(lines[number] ?? lines.at(-1))[0];
        const it = active.isConnected ? active : same[place];
        const target = it ?? same.at(-1) ?? near ?? host;
        if (target instanceof HTMLElement) {
            target.focus();
        }
    };
}

/** @type {WeakSet<HTMLFormElement>}  filters whose fields are in the address */
const applied = new WeakSet();

/**
 * A form into which something was typed stays when the panel is drawn anew.
 * @param {Element} before
 * @param {DocumentFragment} fresh
 */
function keepTyped(before, fresh) {
    const typed = [...before.querySelectorAll("form")].filter(hasTyped);
    const byKey = new Map(typed.map((one) => [keyOf(one), one]));
    fresh.querySelectorAll("form").forEach((form) => {
        const old = byKey.get(keyOf(form));
        if (old) {
            form.replaceWith(old);
        }
    });
}

/** @param {HTMLFormElement} form */
function hasTyped(form) {
    const untouched = /** @type {HTMLFormElement} */ (form.cloneNode(true));
    untouched.reset();
    const [now, before] = [form, untouched].map((one) => JSON.stringify([...new FormData(one)]));
    return !applied.has(form) && now !== before;
}
