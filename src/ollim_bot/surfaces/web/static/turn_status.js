/**
 * The line about the turn that runs, and its steps, which fold out.
 *
 * @typedef {import("./protocol.js").Tool} Tool
 * @typedef {import("./protocol.js").ToolState} ToolState
 * @typedef {import("./state.js").Live} Live
 * @typedef {import("./state.js").State} State
 * @typedef {import("./state.js").Store} Store
 */

import { interrupt } from "./api.js";
import { byId, make, patch, present, say } from "./dom.js";
import { durationInWords } from "./format.js";
import { isAnswerNeeded } from "./state.js";

const NOT_STOPPED = "The bot does not answer, so the page could not stop this. Try again later.";
const SECOND_MS = 1000;

/** @type {Record<ToolState, string>} */
const OUTCOMES = { running: "runs", done: "done", refused: "refused", failed: "failed" };

/** @param {(sentence: string) => void} complain  says what went wrong */
export function stopTurn(complain) {
    interrupt().catch(() => complain(NOT_STOPPED));
}

export class TurnStatus {
    #store;
    #label = byId("doing");
    #duration = byId("elapsed");
    #remark = byId("remark");
    #steps = byId("steps");
    #stepsButton = byId("steps-button");
    #stop = byId("stop");
    #isOpen = false;
    #timer = 0;

    /**
     * @param {Store} store
     * @param {(sentence: string) => void} complain  says what went wrong
     */
    constructor(store, complain) {
        this.#store = store;
        this.#stepsButton.addEventListener("click", () => {
            this.#isOpen = !this.#isOpen;
            this.#show();
        });
        this.#stop.addEventListener("click", () => stopTurn(complain));
        store.watch(() => this.#show());
    }

    #show() {
        const { state } = this.#store;
        const live = shownTurn(state);
        say(this.#label, live ? labelOf(live, isAnswerNeeded(state)) : waitingLabel(state));
        this.#remark.textContent = live && isWordless(live) ? live.notes.at(-1) ?? "" : "";
        this.#stop.hidden = !live;
        this.#showSteps(live ? stepElements(live) : []);
        this.#tick(live);
    }

    /** @param {HTMLElement[]} items */
    #showSteps(items) {
        this.#isOpen &&= items.length > 0;
        this.#stepsButton.hidden = items.length === 0;
        this.#stepsButton.textContent = items.length === 1 ? "1 step" : `${items.length} steps`;
        this.#stepsButton.setAttribute("aria-expanded", String(this.#isOpen));
        this.#steps.hidden = !this.#isOpen;
        const list = new DocumentFragment();
        list.append(...(this.#isOpen ? items : []));
        patch(this.#steps, list);
    }

    /** @param {Live | null} live */
    #tick(live) {
        clearTimeout(this.#timer);
        if (live === null) {
            this.#duration.textContent = "";
            return;
        }
        const passed = performance.now() - live.since;
        this.#duration.textContent = durationInWords(passed);
        this.#timer = setTimeout(() => this.#tick(live), SECOND_MS - (passed % SECOND_MS));
    }
}

/**
 * The turn to show: none after its answer, nor while the connection is lost.
 * @param {State} state
 */
function shownTurn({ live, connection }) {
    return live?.isAnswered || connection !== "open" ? null : live;
}

/**
 * The label for a message whose turn has not begun.
 * @param {State} state
 */
function waitingLabel({ status, messages, connection }) {
    const isLastOwn = messages.at(-1)?.author === "owner";
    return connection === "open" && status?.is_busy && isLastOwn ? "Waiting…" : "";
}

/**
 * @param {Live} live
 * @param {boolean} isAsking
 */
function labelOf(live, isAsking) {
    if (isAsking) {
        return "Answer needed";
    }
    const running = live.tools.findLast((tool) => tool.state === "running");
    if (running && ["", "Thinking…"].includes(live.phase)) {
        return running.label;
    }
    return live.phase || (isWordless(live) ? "Thinking…" : "Writing…");
}

/** @param {Live} live */
function isWordless(live) {
    return live.blocks.length === 0 && live.tail === "";
}

/** @param {Live} live */
function stepElements(live) {
    return [
        ...live.notes.map((note) => make("li", {}, make("span", {}, note))),
        ...live.tools.map(toolElement),
    ];
}

/** @param {Tool} tool */
function toolElement(tool) {
    const label = make(tool.state === "refused" ? "s" : "span", {}, tool.label);
    const outcome = present(OUTCOMES[tool.state] ?? tool.state, tool.reason).join(": ");
    return make("li", { class: tool.state }, label, make("small", {}, outcome));
}
