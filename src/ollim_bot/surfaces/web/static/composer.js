/** The box to write in, and what is sent from it. */

import { Attachments } from "./attachments.js";
import { run } from "./commands.js";
import { byId, icon, iconButton, make, say } from "./dom.js";
import { Menu } from "./menu.js";
import { quoteText } from "./message.js";
import { botName, speakers } from "./names.js";
import { replying } from "./state.js";
import { isCommand } from "./suggestions.js";

const DRAFT = "ollim.draft";
const LONGEST = 100_000;
const TOO_LONG =
    "That text is too long. A message may have 100,000 characters; send more as a file.";

export class Composer {
    #store;
    #outbox;
    #sent;
    #box = byId("box");
    #reply = byId("reply");
    #lastLine = null;

    /**
     * @param {import("./store.js").Store} store
     * @param {import("./outbox.js").Outbox} outbox
     * @param {() => void} sent  called when the owner has said something
     */
    constructor(store, outbox, sent) {
        this.#store = store;
        this.#outbox = outbox;
        this.#sent = sent;
        this.attachments = new Attachments((sentence) => say(byId("notice"), sentence));
        this.menu = new Menu(
            () => store.state.commands,
            (text) => this.write(text),
            () => this.#submit(),
        );
        byId("attach").append(icon("attach"));
        byId("send").append(icon("send"));
        this.#listen();
        this.write(sessionStorage.getItem(DRAFT) ?? "");
        let shown = null;
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

    /** Put a text into the box, in the place of what is there. */
    write(text) {
        this.#box.value = text;
        this.#box.setSelectionRange(text.length, text.length);
        this.#changed();
    }

    /** Say that something is wrong, until the next change. */
    complain(sentence) {
        say(byId("notice"), sentence);
    }

    /** Put a message back that was on its way. */
    restore(taken) {
        this.attachments.restore(taken.files);
        this.#store.change(replying, taken.replyTo);
        this.write(taken.text);
        this.focus();
    }

    #listen() {
        byId("composer").addEventListener("submit", (event) => {
            event.preventDefault();
            this.#submit();
            this.focus();
        });
        this.#box.addEventListener("input", () => this.#changed());
        this.#box.addEventListener("keydown", (event) => this.#pressed(event));
        this.#reply.addEventListener("click", (event) => {
            if (event.target.closest("button")) {
                this.#store.change(replying, null);
                this.focus();
            }
        });
    }

    #changed() {
        sessionStorage.setItem(DRAFT, this.#box.value);
        say(byId("notice"), "");
        this.#box.style.height = "auto";
        this.#box.style.height = `${this.#box.scrollHeight}px`;
        this.menu.update();
    }

    #pressed(event) {
        if (event.isComposing || this.menu.take(event)) {
            event.stopPropagation();
        } else if (event.key === "Enter" && !event.shiftKey) {
            event.preventDefault();
            this.#submit();
        } else if (event.key === "ArrowUp" && this.isEmpty) {
            event.preventDefault();
            this.write(this.#lastSaid());
        }
    }

    #lastSaid() {
        // Not what was forwarded, nor what a button said: that would be a line of somebody else's.
        const said = this.#store.state.messages.findLast((message) => message.is_typed);
        return this.#lastLine ?? said?.text ?? "";
    }

    #submit() {
        const text = this.#box.value.trim();
        if (text === "" && this.attachments.isEmpty) {
            return;
        }
        if (text.length > LONGEST) {
            this.complain(TOO_LONG);
            return;
        }
        if (isCommand(text) && this.attachments.isEmpty) {
            run(this.#store, text);
        } else {
            this.#outbox.add(text, this.#store.state.replyTo, this.attachments.take());
        }
        this.#lastLine = text;
        this.write("");
        this.#sent();
    }

    #showReply({ replyTo, ...state }) {
        this.#reply.hidden = replyTo === null;
        this.#reply.replaceChildren();
        if (replyTo) {
            const names = speakers(botName(state));
            const quote = make("p", {}, ...quoteText(replyTo, { names }));
            this.#reply.append(quote, iconButton("close", "Cancel the reply", "cancel"));
        }
    }
}
