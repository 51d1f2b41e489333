/** How a card looks: a title, a few lines and some buttons. */

import { make } from "./dom.js";
import { plain, rich } from "./rich.js";

/** @param {import("./state.js").Card} card */
export function cardElement(card) {
    const fields = card.fields.map(fieldElement);
    const buttons = card.buttons.map(buttonElement);
    const names = { role: "group", "aria-label": card.title };
    return make(
        "div",
        { class: "card", "data-color": card.color, ...names },
        make("h2", {}, card.title),
        card.html !== "" && make("div", { class: "body" }, rich(card.html)),
        fields.length > 0 && make("dl", {}, ...fields),
        buttons.length > 0 && make("div", { class: "buttons" }, ...buttons),
    );
}

/** Its words alone, as a screen reader or a notification says them. */
export function spokenCard(card) {
    const fields = card.fields.map((field) => `${field.name}: ${plain(field.html)}`);
    return [card.title, plain(card.html), ...fields].filter(Boolean).join("\n");
}

/** @param {import("./state.js").Field} field */
function fieldElement(field) {
    return make(
        "div",
        { class: field.inline ? "inline" : null },
        make("dt", {}, field.name),
        make("dd", { class: "body" }, rich(field.html)),
    );
}

/**
 * One that was just pressed keeps the focus until the answer is there, so it is not disabled for
 * the browser yet.
 * @param {import("./state.js").Button} button
 */
function buttonElement(button) {
    const attributes = {
        type: "button",
        class: button.style,
        disabled: button.is_used,
        "aria-disabled": button.isPressed ? "true" : null,
        "data-action": "press",
        "data-custom-id": button.custom_id,
    };
    const used = button.is_used && make("small", {}, " used");
    return make("button", attributes, make("span", {}, button.label), used);
}
