/** The one line about the turn that runs, and its steps, which fold out. */

import { interrupt } from "./api.js";
import { byId, make, patch, say } from "./dom.js";
import { isAsked } from "./questions.js";
import { elapsed } from "./time.js";

const NOT_STOPPED = "The bot cannot be reached now, so this was not stopped.";
const OUTCOMES = { running: "runs", done: "done", refused: "refused", failed: "failed" };

/**
 * @param {import("./store.js").Store} store
 * @param {(sentence: string) => void} complain  says what went wrong
 */
export function showStatusLine(store, complain) {
    const [doing, seconds, remark] = ["doing", "elapsed", "remark"].map(byId);
    const [steps, button, stop] = ["steps", "steps-button", "stop"].map(byId);
    let isOpen = false;
    let timer = null;

    const show = () => {
        const live = shownTurn(store.state);
        say(doing, live ? labelOf(live, isAsked(store.state)) : waitingLabel(store.state));
        remark.textContent = live && isWordless(live) ? live.notes.at(-1) ?? "" : "";
        stop.hidden = !live;
        showSteps(live ? stepsOf(live) : []);
        tick(live);
    };
    const showSteps = (items) => {
        isOpen &&= items.length > 0;
        button.hidden = items.length === 0;
        button.textContent = items.length === 1 ? "1 step" : `${items.length} steps`;
        button.setAttribute("aria-expanded", String(isOpen));
        steps.hidden = !isOpen;
        const list = new DocumentFragment();
        list.append(...(isOpen ? items : []));
        patch(steps, list);
    };
    const tick = (live) => {
        clearTimeout(timer);
        const passed = live ? performance.now() - live.since : 0;
        seconds.textContent = live ? elapsed(passed) : "";
        timer = live && setTimeout(() => tick(live), 1000 - (passed % 1000));
    };

    button.addEventListener("click", () => {
        isOpen = !isOpen;
        show();
    });
    stop.addEventListener("click", () => stopTurn(complain));
    store.watch(show);
}

/** @param {(sentence: string) => void} complain  says what went wrong */
export function stopTurn(complain) {
    interrupt().catch(() => complain(NOT_STOPPED));
}

/** After the answer the line goes; without a connection nobody knows what goes on. */
function shownTurn({ live, connection }) {
    return live?.isAnswered || connection !== "open" ? null : live;
}

/** A message was taken, and its turn has not begun yet. */
function waitingLabel({ status, messages, connection }) {
    const isTaken = messages.at(-1)?.author === "owner";
    return connection === "open" && status.is_busy && isTaken ? "Waiting…" : "";
}

/** @param {import("./state.js").Live} live */
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

function isWordless(live) {
    return live.blocks.length === 0 && live.tail === "";
}

function stepsOf(live) {
    return [
        ...live.notes.map((note) => make("li", {}, make("span", {}, note))),
        ...live.tools.map(step),
    ];
}

/** @param {import("./state.js").Tool} tool */
function step(tool) {
    const label = make(tool.state === "refused" ? "s" : "span", {}, tool.label);
    const outcome = [OUTCOMES[tool.state] ?? tool.state, tool.reason].filter(Boolean).join(": ");
    return make("li", { class: tool.state }, label, make("small", {}, outcome));
}
