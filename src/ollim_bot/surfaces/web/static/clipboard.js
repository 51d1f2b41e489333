/** Copying, also where the browser does not give its clipboard to the page. */

import { icon } from "./dom.js";

const SHOWN_MS = 1500;

/** Copy `text` and let `button` show for a moment that it is done. */
export async function copyBy(button, text) {
    await copy(text);
    button.replaceChildren(icon("done"));
    button.setAttribute("aria-label", "Copied");
    setTimeout(() => {
        button.replaceChildren(icon("copy"));
        button.setAttribute("aria-label", button.title);
    }, SHOWN_MS);
}

/** Through a tunnel, the page has no clipboard; elsewhere, the owner may have forbidden it. */
async function copy(text) {
    try {
        await navigator.clipboard.writeText(text);
    } catch {
        copyBySelection(text);
    }
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
