/**
 * The clock of Today: the line of now and the bar of the next thing move a step a minute.
 *
 * @typedef {import("./panel.js").PanelView} PanelView
 * @typedef {import("./state.js").Store} Store
 */

import { say } from "./dom.js";
import { clockTime, dayIn, zoneOf } from "./format.js";

const MINUTE_MS = 60_000;

/**
 * @param {Store} store
 * @param {PanelView} panel
 */
export function keepTime(store, panel) {
    setInterval(() => tick(store, panel), MINUTE_MS);
    document.addEventListener("visibilitychange", () => tick(store, panel));
}

/**
 * @param {Store} store
 * @param {PanelView} panel
 */
function tick(store, panel) {
    if (document.hidden || !panel.isShown || panel.loadedAt === 0) {
        return;
    }
    const { content } = panel;
    const [zone, now] = [zoneOf(store.state), panel.botTime()];
    const bar = content.querySelector("progress[data-at]");
    const at = Date.parse(bar?.getAttribute("data-at") ?? "");
    const isNewDay = dayIn(zone, now) !== dayIn(zone, panel.botTime(panel.loadedAt));
    if (isNewDay || at <= now.getTime()) {
        panel.load();
        return;
    }
    const mark = content.querySelector("[data-now]");
    if (mark) {
        say(mark, clockTime(now, zone));
    }
    const left = content.querySelector("[data-left]");
    if (bar instanceof HTMLProgressElement && left) {
        const minutes = Math.ceil((at - now.getTime()) / MINUTE_MS);
        bar.value = Math.min(minutes, bar.max);
        say(left, `in ${inWords(minutes)}`);
    }
}

/** @param {number} minutes */
function inWords(minutes) {
    const [hours, rest] = [Math.floor(minutes / 60), minutes % 60];
    return hours === 0 ? `${rest} min` : `${hours} h${rest ? ` ${rest} min` : ""}`;
}
