/** The menu of commands and their arguments, for a box in which a line begins with a slash. */

import { completions } from "./api.js";
import { byId, make } from "./dom.js";
import { argumentAt, commandsFor, isLastArgument, valuesFor } from "./suggestions.js";

const ASK_AFTER_MS = 120;

export class Menu {
    #box = byId("box");
    #panel = byId("menu");
    #usage = byId("menu-usage");
    #list = byId("menu-list");
    #commands;
    #write;
    #run;
    /** @type {import("./suggestions.js").Suggestion[]} */
    #items = [];
    #selected = -1;
    #place = null;
    #dismissed = null;
    #asking = new AbortController();

    /**
     * @param {() => import("./state.js").Command[]} commands
     * @param {(text: string) => void} write  put a text into the box
     * @param {() => void} run  send what is in the box
     */
    constructor(commands, write, run) {
        this.#commands = commands;
        this.#write = write;
        this.#run = run;
        // The box keeps the focus, or a phone would put its keyboard away.
        this.#panel.addEventListener("pointerdown", (event) => event.preventDefault());
        this.#list.addEventListener("click", (event) => this.#clicked(event));
    }

    get isOpen() {
        return !this.#panel.hidden;
    }

    close() {
        this.#dismissed = this.#box.value;
        this.update();
    }

    /** Look at the box again. */
    update() {
        this.#asking.abort();
        const line = this.#box.value;
        this.#dismissed = line === this.#dismissed ? line : null;
        const isMeant = line.startsWith("/") && !line.includes("\n") && this.#dismissed === null;
        this.#place = isMeant ? argumentAt(line, this.#commands()) : null;
        if (this.#place) {
            this.#showArgument([]);
            this.#ask(this.#place);
        } else {
            this.#showCommands(isMeant && !/\s/.test(line) ? line.slice(1) : null);
        }
    }

    /** @returns {boolean} whether the key was for the menu */
    take(event) {
        const step = this.isOpen && !event.shiftKey && KEYS[event.key];
        const isTaken = Boolean(step) && step(this) !== false;
        if (isTaken) {
            event.preventDefault();
        }
        return isTaken;
    }

    move(by) {
        const count = this.#items.length;
        if (count === 0) {
            return false;
        }
        const from = this.#selected < 0 && by < 0 ? 0 : this.#selected;
        this.#select((from + by + count) % count);
        return true;
    }

    /** Take the chosen one into the box, or else the first one; false if there is none at all. */
    fill() {
        const item = this.#items[Math.max(this.#selected, 0)];
        if (!item) {
            return false;
        }
        this.#write(this.#lineWith(item) + (this.#isComplete(item) ? "" : " "));
        return true;
    }

    /** Take what is chosen, and run it if it is all that is meant; false if nothing is chosen. */
    accept() {
        const item = this.#items[this.#selected];
        if (!item) {
            return false;
        }
        const isMeant = this.#isComplete(item) || this.#isWritten(item);
        this.fill();
        if (isMeant) {
            this.#run();
        }
        return true;
    }

    #lineWith(item) {
        return this.#place ? this.#place.before + item.value : `/${item.value}`;
    }

    /** Whether nothing more can be said after it. */
    #isComplete(item) {
        return this.#place ? isLastArgument(this.#place) : this.#argumentsOf(item).length === 0;
    }

    /** Whether it stands in the box already, letter by letter, and needs nothing more. */
    #isWritten(item) {
        const isWhole = this.#place === null && this.#box.value === `/${item.value}`;
        return isWhole && !this.#argumentsOf(item).some((argument) => argument.is_required);
    }

    #argumentsOf(item) {
        return this.#commands().find((command) => command.name === item.value).arguments;
    }

    #showCommands(typed) {
        this.#items = typed === null ? [] : commandsFor(typed, this.#commands());
        this.#usage.textContent = "";
        this.#show(this.#items[0]?.value.startsWith(typed?.toLowerCase()) ? 0 : -1);
    }

    #showArgument(found) {
        const { argument, command } = this.#place;
        this.#items = valuesFor(this.#place, found);
        const usage = command.usage.split(" ").map((word) => {
            const isHere = word.slice(1, -1) === argument.name;
            return make(isHere ? "b" : "span", {}, `${word} `);
        });
        this.#usage.replaceChildren(...usage, make("span", {}, argument.about));
        this.#show(-1);
    }

    async #ask(place) {
        this.#asking = new AbortController();
        const { signal } = this.#asking;
        await new Promise((resolve) => setTimeout(resolve, ASK_AFTER_MS));
        if (signal.aborted) {
            return;
        }
        const { command, argument, typed } = place;
        const found = await completions(command.name, argument.name, typed, signal).catch(() => []);
        if (!signal.aborted && found.length > 0) {
            const chosen = this.#items[this.#selected]?.value;
            this.#showArgument(found);
            this.#select(this.#items.findIndex((item) => item.value === chosen));
        }
    }

    #show(selected) {
        this.#list.replaceChildren(...this.#items.map(option));
        this.#panel.hidden = this.#items.length === 0 && this.#place === null;
        this.#select(selected);
    }

    #select(selected) {
        this.#selected = selected;
        [...this.#list.children].forEach((element, place) => {
            element.setAttribute("aria-selected", String(place === selected));
        });
        const chosen = this.#list.children[selected];
        chosen?.scrollIntoView({ block: "nearest" });
        if (chosen) {
            this.#box.setAttribute("aria-activedescendant", chosen.id);
        } else {
            this.#box.removeAttribute("aria-activedescendant");
        }
    }

    #clicked(event) {
        const element = event.target.closest("[role=option]");
        if (element) {
            this.#select([...this.#list.children].indexOf(element));
            this.accept();
        }
    }
}

const KEYS = {
    ArrowDown: (menu) => menu.move(1),
    ArrowUp: (menu) => menu.move(-1),
    Tab: (menu) => menu.fill(),
    Enter: (menu) => menu.accept(),
    Escape: (menu) => menu.close(),
};

function option(item, place) {
    return make(
        "li",
        { id: `option-${place}`, role: "option", "aria-selected": "false" },
        make("code", {}, item.usage),
        item.about && make("span", {}, item.about),
    );
}
