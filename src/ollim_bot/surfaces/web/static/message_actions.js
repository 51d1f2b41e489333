/** What the buttons on messages do. */

import { copyBy } from "./clipboard.js";
import { press } from "./clicks.js";
import { byId } from "./dom.js";
import { save } from "./files.js";
import { spoken } from "./message.js";
import { noteDropped, replying } from "./state.js";

const EXCERPT = 140;

/**
 * @param {{store: object, conversation: object, composer: object, outbox: object,
 *     older: object}} page
 */
export function listenToMessages(page) {
    byId("log").addEventListener("click", (event) => {
        const button = event.target.closest("[data-action]");
        if (button) {
            ACTIONS[button.dataset.action]?.(page, button, event);
        }
    });
}

const ACTIONS = {
    copy: (page, button) => copyBy(button, messageOf(page, button).text),
    "copy-code": (_, button) => copyBy(button, button.previousElementSibling.textContent),
    reply: (page, button) => {
        page.store.change(replying, quoteOf(messageOf(page, button)));
        page.composer.focus();
    },
    press: (page, button) => press(page.store, messageOf(page, button), button.dataset.customId),
    jump: (page, button) => jump(page, button.dataset.to),
    save: async ({ composer }, link, event) => {
        event.preventDefault();
        const problem = await save(link.getAttribute("href"), link.dataset.name);
        if (problem !== "") {
            composer.complain(problem);
        }
    },
    again: ({ outbox }, button) => outbox.again(idOf(button)),
    discard: ({ outbox, composer }, button) => {
        outbox.drop(idOf(button));
        composer.focus();
    },
    "take-back": async ({ outbox, composer }, button) => {
        composer.restore(await outbox.takeBack(idOf(button)));
    },
    "drop-note": ({ store, composer }, button) => {
        store.change(noteDropped, button.closest("[data-key]").dataset.key);
        composer.focus();
    },
};

async function jump({ older, conversation, composer }, id) {
    const problem = await older.until(id);
    if (problem !== "") {
        composer.complain(problem);
        return;
    }
    const element = conversation.find(id);
    element.focus({ preventScroll: true });
    element.dataset.target = "";
    element.addEventListener("blur", () => delete element.dataset.target, { once: true });
    conversation.scroll.toTop(element);
}

function idOf(button) {
    return button.closest("[data-id]").dataset.id;
}

function messageOf({ store }, button) {
    return store.state.messages.find((message) => message.id === idOf(button));
}

function quoteOf(message) {
    const { id, author, attachments } = message;
    const line = spoken(message).replace(/\s+/g, " ").trim() || (attachments[0]?.name ?? "");
    return { id, author, excerpt: line.length > EXCERPT ? `${line.slice(0, EXCERPT)}…` : line };
}
