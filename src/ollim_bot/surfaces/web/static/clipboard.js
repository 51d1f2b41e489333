/** Copy, also where the page is not on loopback and the browser hides its clipboard. */

import { icon } from "./dom.js";

const SHOWN_MS = 1500;

/** Copy `text` and let `button` show for a moment that it is done. */
export async function copyBy(button, text) {
    if (navigator.clipboard) {
        await navigator.clipboard.writeText(text);
    } else {
        copyBySelection(text);
    }
    const before = button.getAttribute("aria-label");
    button.replaceChildren(icon("done"));
    button.setAttribute("aria-label", "Copied");
    setTimeout(() => {
        button.replaceChildren(icon("copy"));
        button.setAttribute("aria-label", before);
    }, SHOWN_MS);
}

function copyBySelection(text) {
    const focused = document.activeElement;
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "unseen";
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    focused?.focus();
}
