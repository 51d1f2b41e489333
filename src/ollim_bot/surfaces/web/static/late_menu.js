/**
 * The menu of commands, loaded with the first slash. The keys that it may use wait for it.
 *
 * @typedef {import("./command_menu.js").CommandMenu} CommandMenu
 */

import { byId } from "./dom.js";

const WHOLE_NAME = /^\/[a-z][a-z-]*$/i;
const ITS_KEYS = new Set(["ArrowDown", "ArrowUp", "Tab", "Enter", "Escape"]);

/**
 * Whether the text is a command; `/etc/hosts is empty` is a message.
 * @param {string} text
 */
export function isCommand(text) {
    return WHOLE_NAME.test(text.trim().split(/\s/, 1)[0]);
}

export class LateMenu {
    #box = byId("box", HTMLTextAreaElement);
    #make;
    #repeat;
    /** @type {CommandMenu | null} */
    #menu = null;
    #isLoading = false;
    /** @type {KeyboardEvent[]} */
    #waiting = [];

    /**
     * @param {(module: typeof import("./command_menu.js")) => CommandMenu} make
     * @param {(event: KeyboardEvent) => void} repeat  does what the key does, once it is loaded
     */
    constructor(make, repeat) {
        this.#make = make;
        this.#repeat = repeat;
    }

    get isOpen() {
        return this.#menu?.isOpen ?? false;
    }

    close() {
        this.#menu?.close();
    }

    /** Show what fits the line in the box. */
    update() {
        this.#menu?.update();
        if (!this.#menu && !this.#isLoading && this.#isWanted) {
            this.#load();
        }
    }

    /**
     * @param {KeyboardEvent} event
     * @returns {boolean} whether the menu has used the key, or will
     */
    take(event) {
        if (!this.#isLoading) {
            return this.#menu?.take(event) ?? false;
        }
        const hasModifier = event.ctrlKey || event.metaKey || event.altKey || event.shiftKey;
        const isNext = event.key.length === 1 && this.#waiting.length > 0;
        const isTaken = isNext || (ITS_KEYS.has(event.key) && this.#isWanted);
        if (!isTaken || hasModifier) {
            return false;
        }
        event.preventDefault();
        this.#waiting.push(event);
        return true;
    }

    get #isWanted() {
        return this.#box.value.startsWith("/") && !this.#box.value.includes("\n");
    }

    async #load() {
        this.#isLoading = true;
        try {
            this.#menu = this.#make(await import("./command_menu.js"));
            this.#menu.update();
        } catch {
            // The bot is away: a line is sent without a menu, the next key tries again.
        }
        this.#isLoading = false;
        this.#waiting.splice(0).forEach(this.#repeat);
    }
}
