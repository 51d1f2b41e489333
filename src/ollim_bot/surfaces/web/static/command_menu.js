/**
 * The menu of commands and their arguments, for a line that begins with a slash.
 *
 * @typedef {import("./protocol.js").Argument} Argument
 * @typedef {import("./protocol.js").Command} Command
 *
 * @typedef {object} ArgumentPlace  the argument at the end of the line
 * @property {Command} command
 * @property {Argument} argument
 * @property {string} typed  the part of the argument that is typed
 * @property {string} before  the line before the argument
 *
 * @typedef {{value: string, about: string, usage: string}} Suggestion
 */

import { completions } from "./api.js";
import { byId, closest, make } from "./dom.js";

const ASK_AFTER_MS = 120;

export class CommandMenu {
    #box = byId("box", HTMLTextAreaElement);
    #panel = byId("menu");
    #usage = byId("menu-usage");
    #list = byId("menu-list");
    #commands;
    #write;
    #submit;
    /** @type {Suggestion[]} */
    #items = [];
    #selected = -1;
    /** What the list shows, to be compared. */
    #drawn = "";
    /** @type {ArgumentPlace | null} */
    #place = null;
    /** @type {string | null} the line for which the menu was closed */
    #dismissed = null;
    #asking = new AbortController();

    /**
     * @param {() => Command[]} commands
     * @param {(text: string) => void} write  replaces the text in the box
     * @param {() => void} submit  sends the text in the box
     */
    constructor(commands, write, submit) {
        this.#commands = commands;
        this.#write = write;
        this.#submit = submit;
        // The box keeps the focus; without it a phone would hide its keyboard.
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

    /** Show what fits the line in the box. */
    update() {
        this.#asking.abort();
        const line = this.#box.value;
        this.#dismissed = line === this.#dismissed ? line : null;
        const isWanted = line.startsWith("/") && !line.includes("\n") && this.#dismissed === null;
        this.#place = isWanted ? argumentAt(line, this.#commands()) : null;
        if (this.#place) {
            this.#showArgument(this.#place, []);
            this.#ask(this.#place);
        } else {
            this.#showCommands(isWanted && !/\s/.test(line) ? line.slice(1) : null);
        }
    }

    /**
     * @param {KeyboardEvent} event
     * @returns {boolean} whether the menu has used the key
     */
    take(event) {
        const isTaken = this.isOpen && !event.shiftKey && this.#keyPressed(event.key);
        if (isTaken) {
            event.preventDefault();
        }
        return isTaken;
    }

    /** @param {string} key */
    #keyPressed(key) {
        switch (key) {
            case "ArrowDown":
                return this.#move(1);
            case "ArrowUp":
                return this.#move(-1);
            case "Tab":
                return this.#fill();
            case "Enter":
                return this.#accept();
            case "Escape":
                this.close();
                return true;
            default:
                return false;
        }
    }

    /** @param {number} by */
    #move(by) {
        const count = this.#items.length;
        if (count === 0) {
            return false;
        }
        const from = this.#selected < 0 && by < 0 ? 0 : this.#selected;
        this.#select((from + by + count) % count);
        return true;
    }

    /** Write the selected suggestion, or else the first one, into the box; false without any. */
    #fill() {
        const item = this.#items[Math.max(this.#selected, 0)];
        if (!item) {
            return false;
        }
        this.#write(this.#lineWith(item) + (this.#isComplete(item) ? "" : " "));
        return true;
    }

    /**
     * Fill in the selected suggestion and submit a complete line. Without a selection the line is
     * submitted as it is, except for a slash alone, which says nothing.
     */
    #accept() {
        const item = this.#items[this.#selected];
        if (!item) {
            return this.#box.value === "/";
        }
        const isFinal = this.#isComplete(item) || this.#isWritten(item);
        this.#fill();
        if (isFinal) {
            this.#submit();
        }
        return true;
    }

    /** @param {Suggestion} item */
    #lineWith(item) {
        return this.#place ? this.#place.before + item.value : `/${item.value}`;
    }

    /**
     * Whether no argument can follow the suggestion.
     * @param {Suggestion} item
     */
    #isComplete(item) {
        return this.#place ? isLastArgument(this.#place) : this.#argumentsOf(item).length === 0;
    }

    /**
     * Whether the box holds exactly this command, and it needs no argument.
     * @param {Suggestion} item
     */
    #isWritten(item) {
        const isWhole = this.#place === null && this.#box.value === `/${item.value}`;
        return isWhole && !this.#argumentsOf(item).some((argument) => argument.is_required);
    }

    /** @param {Suggestion} item */
    #argumentsOf(item) {
        return this.#commands().find((command) => command.name === item.value)?.arguments ?? [];
    }

    /** @param {string | null} typed */
    #showCommands(typed) {
        this.#items = typed === null ? [] : commandsFor(typed, this.#commands());
        this.#usage.textContent = "";
        const isFirstMeant = typed && this.#items[0]?.value.startsWith(typed.toLowerCase());
        this.#show(isFirstMeant ? 0 : -1);
    }

    /**
     * @param {ArgumentPlace} place
     * @param {string[]} found
     */
    #showArgument(place, found) {
        const { argument, command } = place;
        this.#items = valuesFor(place, found);
        const usage = command.usage.split(" ").map((word) => {
            const isHere = word.slice(1, -1) === argument.name;
            return make(isHere ? "b" : "span", {}, `${word} `);
        });
        this.#usage.replaceChildren(...usage, make("span", {}, argument.about));
        this.#show(-1);
    }

    /** @param {ArgumentPlace} place */
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
            const selected = this.#items[this.#selected]?.value;
            this.#showArgument(place, found);
            this.#select(this.#items.findIndex((item) => item.value === selected));
        }
    }

    /** @param {number} selected */
    #show(selected) {
        const drawn = JSON.stringify(this.#items);
        // A click is lost if its option is replaced before the button is released.
        if (drawn !== this.#drawn) {
            this.#list.replaceChildren(...this.#items.map(optionElement));
            this.#drawn = drawn;
        }
        this.#panel.hidden = this.#items.length === 0 && this.#place === null;
        this.#select(selected);
    }

    /** @param {number} selected */
    #select(selected) {
        this.#selected = selected;
        [...this.#list.children].forEach((element, place) => {
            element.setAttribute("aria-selected", String(place === selected));
        });
        const option = this.#list.children[selected];
        option?.scrollIntoView({ block: "nearest" });
        if (option) {
            this.#box.setAttribute("aria-activedescendant", option.id);
        } else {
            this.#box.removeAttribute("aria-activedescendant");
        }
    }

    /** @param {Event} event */
    #clicked(event) {
        const element = closest(event, "[role=option]");
        if (element) {
            this.#select([...this.#list.children].indexOf(element));
            this.#accept();
        }
    }
}

/**
 * @param {Suggestion} item
 * @param {number} place
 */
function optionElement(item, place) {
    return make(
        "li",
        { id: `option-${place}`, role: "option", "aria-selected": "false" },
        make("code", {}, item.usage),
        item.about && make("span", {}, item.about),
    );
}

/**
 * @param {string} typed
 * @param {Command[]} commands
 * @returns {Suggestion[]}
 */
function commandsFor(typed, commands) {
    return ranked(typed, commands, (command) => command.name).map((command) => ({
        value: command.name,
        about: command.about,
        usage: command.usage,
    }));
}

/**
 * @param {string} line
 * @param {Command[]} commands
 * @returns {ArgumentPlace | null}
 */
function argumentAt(line, commands) {
    const [, name, after] = /^\/(\S+)\s+(.*)$/.exec(line) ?? [];
    const command = commands.find((one) => one.name === name);
    if (!command) {
        return null;
    }
    let rest = after;
    for (const argument of command.arguments) {
        if (argument.takes_rest || !/\s/.test(rest)) {
            const before = line.slice(0, line.length - rest.length);
            return { command, argument, typed: rest, before };
        }
        rest = rest.replace(/^\S+\s+/, "");
    }
    return null;
}

/**
 * The choices of the argument that fit, then the values that the server has found.
 * @param {ArgumentPlace} place
 * @param {string[]} found
 * @returns {Suggestion[]}
 */
function valuesFor(place, found) {
    const own = ranked(place.typed, place.argument.choices, (choice) => choice);
    return [...new Set([...own, ...found])].map((value) => ({ value, about: "", usage: value }));
}

/** @param {ArgumentPlace} place */
function isLastArgument({ command, argument }) {
    return command.arguments.at(-1) === argument;
}

/**
 * The entries whose name begins with what was typed, then those that contain it.
 * @template Entry
 * @param {string} typed
 * @param {Entry[]} entries
 * @param {(entry: Entry) => string} nameOf
 */
function ranked(typed, entries, nameOf) {
    const wanted = typed.toLowerCase();
    const begins = (/** @type {Entry} */ one) => nameOf(one).toLowerCase().startsWith(wanted);
    const contains = (/** @type {Entry} */ one) => nameOf(one).toLowerCase().includes(wanted);
    return [...entries.filter(begins), ...entries.filter((one) => contains(one) && !begins(one))];
}
