/**
 * Makes and changes elements.
 *
 * @typedef {"again" | "copy" | "copy-code" | "discard" | "drop-note" | "help" | "jump" | "press"
 *     | "reply" | "save" | "take-back"} Action  what a button on a message does, listed in `actions.js`
 * @typedef {keyof typeof ICON_PATHS} IconName
 * @typedef {false | null | undefined | ""} Nothing
 */

const ICON_PATHS = {
    attach: "M8 12.5 14.2 6.3a3 3 0 0 1 4.2 4.2l-7.8 7.8a5 5 0 0 1-7-7L11 4",
    bell: "M6 16v-5a6 6 0 0 1 12 0v5l1.5 2h-15zM10 21h4",
    bellOff: "M6 16v-5a6 6 0 0 1 12 0v5l1.5 2h-15zM10 21h4M4 3l16 18",
    clock: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM12 7v5l3 2",
    close: "M6 6l12 12M18 6 6 18",
    copy: "M9 9h11v11H9zM5 15H4V4h11v1",
    done: "M5 12.5 10 17.5 19.5 7",
    file: "M6 3h8l4 4v14H6zM14 3v4h4",
    keys: "M9.2 9a2.9 2.9 0 1 1 4.3 2.5c-1 .6-1.5 1.2-1.5 2.5M12 17.5v.1",
    moon: "M20 14.5A8.5 8.5 0 0 1 9.5 4 8.5 8.5 0 1 0 20 14.5z",
    reply: "M10 5 4 11l6 6M4 11h9a7 7 0 0 1 7 7v1",
    search: "M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM15.5 15.5 20 20",
    send: "M12 20V5M5.5 11.5 12 5l6.5 6.5",
    unlock: "M6 11h12v9H6zM9 11V7.5a3.5 3.5 0 0 1 6.7-1.4",
    sun:
        "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2" +
        "M5 5l1.4 1.4M17.6 17.6 19 19M5 19l1.4-1.4M17.6 6.4 19 5",
};

const SVG = "http://www.w3.org/2000/svg";

/**
 * Signs of the program that many fonts lack, each with its drawing and its name.
 * @type {Record<string, [IconName, string]>}
 */
const SIGNS = {
    "\u2705": ["done", "yes"],
    "\u2713": ["done", "done"],
    "\u{1f513}": ["unlock", "always"],
    "\u274c": ["close", "no"],
    "\u23f1": ["clock", "later"],
};
const SIGN = /([\u2705\u2713\u{1f513}\u274c\u23f1])\ufe0f?/u;

/**
 * The element with this id, which is of the given kind.
 * @template {HTMLElement} Kind
 * @overload
 * @param {string} id
 * @param {new () => Kind} kind
 * @returns {Kind}
 */
/**
 * @overload
 * @param {string} id
 * @returns {HTMLElement}
 */
/**
 * @param {string} id
 * @param {new () => HTMLElement} kind
 */
export function byId(id, kind = HTMLElement) {
    const element = document.getElementById(id);
    if (!(element instanceof kind)) {
        throw new Error(`The page has no such element: ${id}`);
    }
    return element;
}

/**
 * The element around the target of an event that a listener further up waits for.
 * @param {Event} event
 * @param {string} selector
 */
export function closest({ target }, selector) {
    const found = target instanceof Element ? target.closest(selector) : null;
    return found instanceof HTMLElement ? found : null;
}

/** @param {EventTarget | null} target */
export function isField(target) {
    return target instanceof Element && target.matches("input, textarea, select");
}

/**
 * The values that are there.
 * @template Value
 * @param {(Value | Nothing)[]} values
 */
export function present(...values) {
    return values.filter((value) => isPresent(value));
}

/**
 * @template Value
 * @param {Value | Nothing} value
 * @returns {value is Value}
 */
function isPresent(value) {
    return value !== false && value !== null && value !== undefined && value !== "";
}

/**
 * An element with the attributes and children that are there.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, string | boolean | null>} [attributes]
 * @param {(Node | string | Nothing)[]} children
 */
export function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (value !== null && value !== false) {
            element.setAttribute(name, value === true ? "" : value);
        }
    }
    element.append(...present(...children));
    return element;
}

/** @param {IconName} name */
export function icon(name) {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", "0 0 24 24");
    svg.setAttribute("aria-hidden", "true");
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", ICON_PATHS[name]);
    svg.append(path);
    return svg;
}

/**
 * A label in which the signs of the program are drawn; its words say the same to a screen reader.
 * @param {string} text
 */
export function drawn(text) {
    return text.split(SIGN).map((part) => (part in SIGNS ? signElement(part) : part));
}

/** @param {string} sign */
function signElement(sign) {
    const svg = icon(SIGNS[sign][0]);
    svg.classList.add("sign");
    return svg;
}

/** @param {string} sign */
function namedSign(sign) {
    const svg = signElement(sign);
    svg.removeAttribute("aria-hidden");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", SIGNS[sign][1]);
    return svg;
}

/**
 * A button that shows only an icon.
 * @param {IconName} name
 * @param {string} label
 * @param {Action | null} [action]
 */
export function iconButton(name, label, action = null) {
    const names = { "aria-label": label, title: label, ...(action && actionAttribute(action)) };
    return make("button", { type: "button", class: "icon", ...names }, icon(name));
}

/**
 * The attribute by which `actions.js` knows what a button does.
 * @param {Action} action
 */
export function actionAttribute(action) {
    return { "data-action": action };
}

/**
 * Give `parent` exactly these children, and leave those in place alone.
 * @param {Element} parent
 * @param {Element[]} children
 */
export function arrange(parent, children) {
    const wanted = new Set(children);
    for (const child of [...parent.children]) {
        if (!wanted.has(child)) {
            child.remove();
        }
    }
    children.forEach((child, place) => {
        if (parent.children[place] !== child) {
            parent.insertBefore(child, parent.children[place] ?? null);
        }
    });
}

/**
 * Replace the child nodes from `first` on by those of `fragment`; equal ones at the start stay.
 * @param {Element} parent
 * @param {DocumentFragment} fragment
 */
export function patch(parent, fragment, first = 0) {
    const old = [...parent.childNodes].slice(first);
    const fresh = [...fragment.childNodes];
    const differs = old.findIndex((node, place) => !fresh[place]?.isEqualNode(node));
    const kept = differs < 0 ? old.length : differs;
    old.slice(kept).forEach((node) => node.remove());
    parent.append(...fresh.slice(kept));
}

/**
 * Set a text only where it differs: a live region may speak at every change.
 * @param {Element} element
 * @param {string} text
 */
export function say(element, text) {
    if (element.textContent !== text) {
        element.textContent = text;
    }
}

/**
 * The server's sanitised markup, with copy buttons for code and tables that scroll.
 * @param {string} html
 */
export function rich(html) {
    const fragment = parsed(html);
    fragment.querySelectorAll("pre").forEach(frameCode);
    fragment.querySelectorAll("table").forEach(frameTable);
    fragment.querySelectorAll("a").forEach(openInNewTab);
    fragment.querySelectorAll("input").forEach(labelCheckbox);
    drawSigns(fragment);
    return fragment;
}

/** @param {DocumentFragment} fragment */
function drawSigns(fragment) {
    const walker = document.createTreeWalker(fragment, NodeFilter.SHOW_TEXT);
    const found = [];
    while (walker.nextNode()) {
        const node = walker.currentNode;
        if (SIGN.test(node.textContent ?? "") && !node.parentElement?.closest("code")) {
            found.push(node);
        }
    }
    found.forEach((node) => {
        const parts = (node.textContent ?? "").split(SIGN);
        const fresh = new DocumentFragment();
        fresh.append(...parts.map((part) => (part in SIGNS ? namedSign(part) : part)));
        node.parentNode?.replaceChild(fresh, node);
    });
}

/**
 * The words of the server's markup, as a screen reader or a notification says them.
 * @param {string} html
 */
export function plain(html) {
    return (parsed(html).textContent ?? "").trim().replace(/\s*\n\s*/g, "\n");
}

/**
 * Markup that shows this text.
 * @param {string} text
 */
export function escaped(text) {
    return make("p", {}, text).outerHTML;
}

/**
 * Load a style that not every page needs; rejects if the server is away.
 * @param {string} name
 * @returns {Promise<unknown>}
 */
export function loadStyle(name) {
    const href = new URL(name, import.meta.url).pathname;
    if (document.head.querySelector(`link[href="${href}"]`)) {
        return Promise.resolve();
    }
    const style = make("link", { rel: "stylesheet", href });
    return new Promise((resolve, reject) => {
        style.addEventListener("load", resolve);
        style.addEventListener("error", reject);
        document.head.append(style);
    });
}

/**
 * The server's markup with the signs of the program drawn, and nothing else changed.
 * @param {string} html
 */
export function markup(html) {
    const fragment = parsed(html);
    drawSigns(fragment);
    return fragment;
}

/** @param {string} html */
function parsed(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content;
}

/** @param {HTMLPreElement} pre */
function frameCode(pre) {
    pre.tabIndex = 0;
    const frame = make("div", { class: "code" });
    pre.replaceWith(frame);
    frame.append(pre, iconButton("copy", "Copy code", "copy-code"));
}

// Landmarks of one page need names of their own.
let tables = 0;

/** @param {HTMLTableElement} table */
function frameTable(table) {
    tables += 1;
    const role = { role: "region", "aria-label": `Table ${tables}` };
    const frame = make("div", { class: "table", tabindex: "0", ...role });
    table.replaceWith(frame);
    frame.append(table);
}

/** @param {HTMLAnchorElement} link */
function openInNewTab(link) {
    if (link.hasAttribute("href")) {
        link.target = "_blank";
        link.rel = "noopener noreferrer";
    }
}

/** @param {HTMLInputElement} input */
function labelCheckbox(input) {
    input.setAttribute("aria-label", input.hasAttribute("checked") ? "done" : "not done");
}
