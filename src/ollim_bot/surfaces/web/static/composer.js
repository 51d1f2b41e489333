/**
 * The message box and what is sent from it.
 *
 * @typedef {import("./outbox.js").Draft} Draft
 * @typedef {import("./outbox.js").Outbox} Outbox
 * @typedef {import("./state.js").State} State
 * @typedef {import("./state.js").Store} Store
 */

import { runTypedCommand } from "./actions.js";
import { ChosenFiles } from "./attachments.js";
import { byId, closest, icon, iconButton, make, say } from "./dom.js";
import { botName, speakerNames } from "./format.js";
import { LateMenu, isCommand } from "./late_menu.js";
import { quoteText } from "./message.js";
import { replyChosen } from "./reducers.js";

const DRAFT_KEY = "ollim.draft";
const LONGEST = 100_000;
const TOO_LONG = "That message is too long. Send up to 100,000 characters, or a file.";

export class Composer {
    #store;
    #outbox;
    #onSent;
    #resizing;
    #box = byId("box", HTMLTextAreaElement);
    #reply = byId("reply");
    #files;
    /** @type {string | null} */
    #lastLine = null;

    /**
     * @param {Store} store
     * @param {Outbox} outbox
     * @param {() => void} onSent  called when the owner has sent a message or a command
     * @param {(change: () => void) => void} resizing  changes the height of the box
     */
    constructor(store, outbox, onSent, resizing) {
        this.#store = store;
        this.#outbox = outbox;
        this.#onSent = onSent;
        this.#resizing = resizing;
        this.#files = new ChosenFiles((sentence) => this.complain(sentence));
        this.menu = new LateMenu(
            ({ CommandMenu }) => new CommandMenu(
                () => store.state.commands,
                (text) => this.write(text),
                () => this.#submit(),
            ),
            (event) => (event.key.length === 1 ? this.continue(event.key) : this.#keyPressed(event)),
        );
        byId("attach").append(icon("attach"));
        byId("send").append(icon("send"));
        this.#listen();
        this.write(sessionStorage.getItem(DRAFT_KEY) ?? "");
        let shown = store.state.replyTo;
        store.watch((state) => {
            if (state.replyTo !== shown) {
                shown = state.replyTo;
                this.#showReply(state);
            }
        });
    }

    get isEmpty() {
        return this.#box.value === "";
    }

    focus() {
        this.#box.focus();
    }

    /**
     * Replace the text in the box.
     * @param {string} text
     */
    write(text) {
        this.#box.value = text;
        this.#box.setSelectionRange(text.length, text.length);
        this.#changed();
    }

    /**
     * Go on in the box behind these letters.
     * @param {string} letters
     */
    continue(letters) {
        this.write(this.#box.value + letters);
        this.focus();
    }

    /**
     * Send a text that the owner chose, and leave what stands in the box alone.
     * @param {string} text
     */
    send(text) {
        this.#outbox.add({ text, replyTo: null, files: [] });
        this.#onSent();
    }

    /**
     * Show what is wrong, until the next change.
     * @param {string} sentence
     */
    complain(sentence) {
        say(byId("notice"), sentence);
    }

    /**
     * Put an unsent message back into the box.
     * @param {Draft} draft
     */
    restore({ text, replyTo, files }) {
        this.#files.restore(files);
        this.#store.change(replyChosen, replyTo);
        this.write(text);
        this.focus();
    }

    #listen() {
        byId("composer").addEventListener("submit", (event) => {
            event.preventDefault();
            this.#submit();
            this.focus();
        });
        this.#box.addEventListener("input", () => this.#changed());
        this.#box.addEventListener("keydown", (event) => this.#keyPressed(event));
        this.#reply.addEventListener("click", (event) => {
            if (closest(event, "button")) {
                this.#store.change(replyChosen, null);
                this.focus();
            }
        });
    }

    #changed() {
        sessionStorage.setItem(DRAFT_KEY, this.#box.value);
        this.complain("");
        this.#resizing(() => {
            this.#box.style.height = "auto";
            this.#box.style.height = `${this.#box.scrollHeight}px`;
        });
        this.menu.update();
    }

    /** @param {KeyboardEvent} event */
    #keyPressed(event) {
        if (event.isComposing || this.menu.take(event)) {
            event.stopPropagation();
        } else if (event.key === "Enter" && !event.shiftKey) {
            event.preventDefault();
            this.#submit();
        } else if (event.key === "ArrowUp" && this.isEmpty) {
            event.preventDefault();
            this.write(this.#lastTyped());
        }
    }

    #lastTyped() {
        const typed = this.#store.state.messages.findLast((message) => message.is_typed);
        return this.#lastLine ?? typed?.text ?? "";
    }

    #submit() {
        const text = this.#box.value.trim();
        if (text === "" && this.#files.isEmpty) {
            return;
        }
        if (text.length > LONGEST) {
            this.complain(TOO_LONG);
            return;
        }
        if (isCommand(text) && this.#files.isEmpty) {
            runTypedCommand(this.#store, text);
        } else {
            const replyTo = this.#store.state.replyTo;
            this.#outbox.add({ text, replyTo, files: this.#files.take() });
        }
        this.#lastLine = text;
        this.write("");
        this.#onSent();
    }

    /** @param {State} state */
    #showReply(state) {
        const { replyTo } = state;
        this.#reply.hidden = replyTo === null;
        this.#reply.replaceChildren();
        if (replyTo) {
            const names = speakerNames(botName(state));
            const quote = make("p", {}, ...quoteText(replyTo, names));
            this.#reply.append(quote, iconButton("close", "Cancel the reply"));
        }
    }
}
