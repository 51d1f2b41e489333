/** The server's sanitised markdown, with what a page adds: copy buttons, and room to scroll. */

import { iconButton, make } from "./dom.js";

/** @returns {DocumentFragment} */
export function rich(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    const fragment = template.content;
    fragment.querySelectorAll("pre").forEach(frameCode);
    fragment.querySelectorAll("table").forEach(frameTable);
    fragment.querySelectorAll("a[href]").forEach(openApart);
    fragment.querySelectorAll("input").forEach(nameBox);
    return fragment;
}

/** The words of it alone, as a screen reader or a notification says them. */
export function plain(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content.textContent.trim().replace(/\s*\n\s*/g, "\n");
}

/** HTML that shows just this text. */
export function escaped(text) {
    return make("p", {}, text).outerHTML;
}

function frameCode(pre) {
    pre.tabIndex = 0;
    const frame = make("div", { class: "code" });
    pre.replaceWith(frame);
    frame.append(pre, iconButton("copy", "Copy code", "copy-code"));
}

function frameTable(table) {
    const role = { role: "region", "aria-label": "Table" };
    const frame = make("div", { class: "table", tabindex: "0", ...role });
    table.replaceWith(frame);
    frame.append(table);
}

/** A link must not take the conversation away. */
function openApart(link) {
    link.target = "_blank";
    link.rel = "noopener noreferrer";
}

function nameBox(input) {
    input.setAttribute("aria-label", input.hasAttribute("checked") ? "done" : "not done");
}
