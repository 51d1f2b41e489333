/**
 * What the owner can do besides writing: run commands, press the buttons of cards, and use the
 * buttons on messages.
 *
 * @typedef {import("./dom.js").Action} Action
 * @typedef {import("./protocol.js").Answer} Answer
 * @typedef {import("./protocol.js").Message} Message
 * @typedef {import("./protocol.js").Quote} Quote
 * @typedef {import("./state.js").Store} Store
 *
 * @typedef {object} PageParts
 * @property {Store} store
 * @property {import("./conversation.js").Conversation} conversation
 * @property {import("./composer.js").Composer} composer
 * @property {import("./outbox.js").Outbox} outbox
 * @property {import("./connection.js").History} history
 */

import { pressButton, runCommand } from "./api.js";
import { saveAttachment } from "./attachments.js";
import { byId, closest, escaped, icon, plain } from "./dom.js";
import { Refused, newId } from "./http.js";
import { spokenText } from "./message.js";
import { announce } from "./notifications.js";
import {
    buttonChanged, forkExitAnswered, forkExitRequested, noteAdded, noteAnswered, noteRemoved,
    replyChosen, searchOpened,
} from "./reducers.js";

const SEARCH = /^\/search\b\s*(.*)$/is;
const COPIED_MS = 1500;
const LONGEST_EXCERPT = 140;
const COMMAND_NOT_RUN = "The bot does not answer, so the command did not run. Try again later.";
const BUTTON_NOT_PRESSED = "The bot does not answer, so nothing was done. Try again later.";

/**
 * Run a command and show its answer as a note. A search has its own view.
 * @param {Store} store
 * @param {string} line
 */
export async function runTypedCommand(store, line) {
    const search = SEARCH.exec(line);
    if (search) {
        store.change(searchOpened, search[1]);
        return;
    }
    const key = newId();
    const after = store.state.messages.at(-1)?.id ?? null;
    const outcome = { html: "", isError: false, isRunning: true };
    store.change(noteAdded, { key, after, title: line, isCommand: true, ...outcome });
    const { html, is_error: isError } = await answerTo(runCommand(line), COMMAND_NOT_RUN);
    if (html === "" && !isError) {
        store.change(noteRemoved, key);
        return;
    }
    store.change(noteAnswered, key, html, isError);
    announce(plain(html));
}

/**
 * Press a button of a card in the conversation and show its answer as a note. A button that asks
 * asks first; a second press takes the question away.
 * @param {Store} store
 * @param {Message} message
 * @param {string} customId
 */
export async function pressCardButton(store, { id, card }, customId) {
    const button = card?.buttons.find((one) => one.custom_id === customId);
    if (!button || button.is_used || button.isPressed || isAway(store)) {
        return;
    }
    if (button.asks) {
        const asking = button.asking ? undefined : { words: "", problem: "" };
        store.change(buttonChanged, id, customId, { asking });
        return;
    }
    const key = `${id} ${customId}`;
    store.change(noteRemoved, key);
    store.change(buttonChanged, id, customId, { isPressed: true });
    const answer = await answerTo(pressButton(id, customId), BUTTON_NOT_PRESSED);
    const { html, is_error: isError, is_shown: isShown } = answer;
    store.change(buttonChanged, id, customId, { isPressed: false });
    if (!isShown && (html !== "" || isError)) {
        addButtonNote(store, { key, after: id, title: button.label, html, isError });
    }
    announce(plain(html));
}

/**
 * Answer the question of a button; a refusal is shown below the words.
 * @param {Store} store
 * @param {string} id
 * @param {string} customId
 * @param {string} words
 */
async function answerQuestion(store, id, customId, words) {
    store.change(buttonChanged, id, customId, { isPressed: true });
    const answer = await answerTo(pressButton(id, customId, words), BUTTON_NOT_PRESSED);
    const asking = answer.is_error ? { words, problem: plain(answer.html) } : undefined;
    store.change(buttonChanged, id, customId, { isPressed: false, asking });
    if (asking) {
        announce(asking.problem);
    }
}

/**
 * Leave the fork by a button of the card that opened it. A refusal is shown in the banner.
 * @param {Store} store
 * @param {string} card
 * @param {{customId: string, label: string}} exit
 */
export async function leaveFork(store, card, { customId, label }) {
    store.change(forkExitRequested, card);
    const answer = await answerTo(pressButton(card, customId), BUTTON_NOT_PRESSED);
    const { html, is_error: isError } = answer;
    store.change(forkExitAnswered, card, isError ? html : "");
    if (html !== "" && !isError) {
        const after = store.state.messages.at(-1)?.id ?? null;
        addButtonNote(store, { key: `${card} ${customId}`, after, title: label, html, isError });
    }
    announce(plain(html));
}

/**
 * @param {Store} store
 * @param {{key: string, after: string | null, title: string, html: string, isError: boolean}} note
 */
function addButtonNote(store, note) {
    store.change(noteAdded, { ...note, isCommand: false, isRunning: false });
}

/**
 * The answer of the server, or the reason why there is none.
 * @param {Promise<Answer>} request
 * @param {string} notReached
 * @returns {Promise<Answer>}
 */
async function answerTo(request, notReached) {
    try {
        return await request;
    } catch (error) {
        const sentence = error instanceof Refused ? error.message : notReached;
        return { html: escaped(sentence), is_error: true, is_shown: false };
    }
}

/** @param {Store} store */
function isAway({ state }) {
    return state.connection !== "open";
}

/**
 * Without the bot, no button of a card does anything. One with the focus keeps it.
 * @param {Store} store
 */
function switchOffWhileAway(store) {
    let wasAway = false;
    store.watch(() => {
        if (isAway(store) || wasAway) {
            wasAway = isAway(store);
            document.querySelectorAll("#log .card button").forEach((one) => {
                one.ariaDisabled = wasAway ? "true" : null;
            });
        }
    });
}

/** @param {PageParts} page */
export function listenToMessageButtons(page) {
    switchOffWhileAway(page.store);
    byId("log").addEventListener("click", (event) => {
        const button = closest(event, "[data-action]");
        const action = button?.dataset.action ?? "";
        if (button && isAction(action)) {
            ACTIONS[action](page, button, event);
        }
    });
    byId("log").addEventListener("submit", (event) => {
        event.preventDefault();
        const form = closest(event, "form");
        const words = String(new FormData(/** @type {HTMLFormElement} */ (form)).get("words"));
        if (form && words.trim() !== "" && !isAway(page.store)) {
            answerQuestion(page.store, idOf(form), form.dataset.customId ?? "", words);
        }
    });
    byId("log").addEventListener("keydown", (event) => {
        const form = closest(event, "form");
        const message = form && messageOf(page, form);
        if (event.key === "Escape" && message) {
            event.stopPropagation();
            pressCardButton(page.store, message, form.dataset.customId ?? "");
        }
    });
}

/** @type {Record<Action, (page: PageParts, button: HTMLElement, event: Event) => unknown>} */
const ACTIONS = {
    again: ({ outbox }, button) => outbox.retry(idOf(button)),
    copy: (page, button) => copyBy(button, messageOf(page, button)?.text ?? ""),
    "copy-code": (_, button) => copyBy(button, button.previousElementSibling?.textContent ?? ""),
    discard: ({ outbox, composer }, button) => {
        outbox.discard(idOf(button));
        composer.focus();
    },
    "drop-note": ({ store, composer }, button) => {
        store.change(noteRemoved, dataAround(button, "key"));
        composer.focus();
    },
    help: ({ store }) => runTypedCommand(store, "/help"),
    jump: (page, button) => jumpTo(page, button.dataset.to ?? ""),
    press: (page, button) => {
        const message = messageOf(page, button);
        return message && pressCardButton(page.store, message, button.dataset.customId ?? "");
    },
    reply: (page, button) => {
        const message = messageOf(page, button);
        page.store.change(replyChosen, message ? quoteOf(message) : null);
        page.composer.focus();
    },
    save: async ({ composer }, link, event) => {
        event.preventDefault();
        const url = link.getAttribute("href") ?? "";
        const problem = await saveAttachment(url, link.dataset.name ?? "");
        if (problem !== "") {
            composer.complain(problem);
        }
    },
    "take-back": async ({ outbox, composer }, button) => {
        const draft = await outbox.takeBack(idOf(button));
        if (draft) {
            composer.restore(draft);
        }
    },
};

/**
 * @param {string} name
 * @returns {name is Action}
 */
function isAction(name) {
    return Object.hasOwn(ACTIONS, name);
}

/**
 * @param {PageParts} page
 * @param {string} id
 */
async function jumpTo({ history, conversation, composer }, id) {
    if (conversation.pointTo(id)) {
        return;
    }
    const problem = await history.loadUntil(id);
    if (problem !== "" || !conversation.pointTo(id)) {
        composer.complain(problem);
    }
}

/** @param {HTMLElement} button */
function idOf(button) {
    return dataAround(button, "id");
}

/**
 * @param {HTMLElement} button
 * @param {"id" | "key"} name
 */
function dataAround(button, name) {
    return button.closest(`[data-${name}]`)?.getAttribute(`data-${name}`) ?? "";
}

/**
 * @param {PageParts} page
 * @param {HTMLElement} button
 */
function messageOf({ store }, button) {
    const { messages, elsewhere } = store.state;
    return [...messages, ...(elsewhere ?? [])].find((message) => message.id === idOf(button));
}

/**
 * @param {Message} message
 * @returns {Quote}
 */
function quoteOf(message) {
    const { id, author, attachments } = message;
    const line = spokenText(message).replace(/\s+/g, " ").trim() || (attachments[0]?.name ?? "");
    const isLong = line.length > LONGEST_EXCERPT;
    return { id, author, excerpt: isLong ? `${line.slice(0, LONGEST_EXCERPT)}…` : line };
}

/**
 * Copy `text` and let `button` show for a moment that it is done.
 * @param {HTMLElement} button
 * @param {string} text
 */
async function copyBy(button, text) {
    try {
        await navigator.clipboard.writeText(text);
    } catch {
        // A page without https has no clipboard, and the owner may have forbidden it.
        copyBySelection(text);
    }
    button.replaceChildren(icon("done"));
    button.setAttribute("aria-label", "Copied");
    setTimeout(() => {
        button.replaceChildren(icon("copy"));
        button.setAttribute("aria-label", button.title);
    }, COPIED_MS);
}

/** @param {string} text */
function copyBySelection(text) {
    const focused = document.activeElement;
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "unseen";
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    if (focused instanceof HTMLElement) {
        focused.focus();
    }
}
