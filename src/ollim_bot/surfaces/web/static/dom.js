/** Small tools for making elements. */

const PATHS = {
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
    send: "M12 20V5M5.5 11.5 12 5l6.5 6.5",
    sun:
        "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2" +
        "M5 5l1.4 1.4M17.6 17.6 19 19M5 19l1.4-1.4M17.6 6.4 19 5",
};

const SVG = "http://www.w3.org/2000/svg";

export function byId(id) {
    return document.getElementById(id);
}

/** An element with attributes and children; those that are null or false are left out. */
export function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (value !== null && value !== false) {
            element.setAttribute(name, value === true ? "" : value);
        }
    }
    element.append(...children.filter((child) => child !== null && child !== false));
    return element;
}

export function icon(name) {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", "0 0 24 24");
    svg.setAttribute("aria-hidden", "true");
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", PATHS[name]);
    svg.append(path);
    return svg;
}

/** A button that shows only an icon; `action` is for a listener further up. */
export function iconButton(name, label, action) {
    const names = { "aria-label": label, title: label, "data-action": action };
    return make("button", { type: "button", class: "icon", ...names }, icon(name));
}

/** Give `parent` exactly these children, and leave alone those that are in place already. */
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

/** From child `first` on, let `parent` hold the nodes of `fragment`; those that are equal stay. */
export function patch(parent, fragment, first = 0) {
    const old = [...parent.childNodes].slice(first);
    const fresh = [...fragment.childNodes];
    const differs = old.findIndex((node, place) => !fresh[place]?.isEqualNode(node));
    const kept = differs < 0 ? old.length : differs;
    old.slice(kept).forEach((node) => node.remove());
    parent.append(...fresh.slice(kept));
}

/** Set only what differs: a live region may speak at every change. */
export function say(element, text) {
    if (element.textContent !== text) {
        element.textContent = text;
    }
}

export function sizeInWords(bytes) {
    const units = [[1024 * 1024, "MB"], [1024, "KB"]];
    const [size, unit] = units.find(([least]) => bytes >= least) ?? [1, "bytes"];
    const amount = bytes / size;
    return `${amount < 10 && size > 1 ? Math.round(amount * 10) / 10 : Math.round(amount)} ${unit}`;
}
