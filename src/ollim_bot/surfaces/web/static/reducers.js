/**
 * Every change of the state. Each function takes a state and returns the next one, without using
 * the document, the network or the clock.
 *
 * @typedef {import("./protocol.js").Frame} Frame
 * @typedef {import("./protocol.js").Greeting} Greeting
 * @typedef {import("./protocol.js").Message} Message
 * @typedef {import("./protocol.js").Quote} Quote
 * @typedef {import("./protocol.js").RunningTurn} RunningTurn
 * @typedef {import("./state.js").ConnectionState} ConnectionState
 * @typedef {import("./state.js").Live} Live
 * @typedef {import("./state.js").Note} Note
 * @typedef {import("./state.js").State} State
 * @typedef {import("./state.js").Unsent} Unsent
 */

import { unreadMessages } from "./state.js";

/**
 * Apply a frame of the server; a frame of an unknown type changes nothing.
 * @param {State} state
 * @param {Frame} frame
 * @param {number} now
 * @returns {State}
 */
export function frameReceived(state, frame, now) {
    switch (frame.type) {
        case "hello":
            return greeted(state, frame, now);
        case "message":
            return {
                ...messageArrived(state, frame.message),
                change: Math.max(state.change ?? 0, frame.change),
            };
        case "turn":
            return { ...state, live: startedTurn(frame.live, now) };
        case "draft":
            return liveChanged(state, frame.turn, ({ blocks }) => ({
                began: frame.began,
                blocks: [...blocks.slice(0, frame.keep), ...frame.blocks],
                tail: frame.tail,
            }));
        case "activity": {
            const { turn, phase, tools, notes } = frame;
            return liveChanged(state, turn, () => ({ phase, tools, notes }));
        }
        case "ended":
            return state.live?.turn === frame.turn ? { ...state, live: null } : state;
        case "status":
            return { ...state, status: frame.status };
        case "stale": {
            const { panel, change, open } = frame;
            return { ...state, panels: { ...state.panels, [panel]: { change, open } } };
        }
        case "read":
            return { ...state, lastRead: laterRead(state, state.lastRead, frame.id) };
        default:
            return state;
    }
}

/**
 * @param {State} state
 * @param {Greeting} hello
 * @param {number} now
 * @returns {State}
 */
function greeted(state, hello, now) {
    const current = hello.missed === null
        ? restarted(state, hello)
        : hello.missed.reduce(messageArrived, state);
    return {
        ...current,
        change: hello.change,
        connection: "open",
        status: hello.status,
        commands: hello.commands,
        panels: hello.panels,
        live: hello.live && startedTurn(hello.live, now),
        lastRead: laterRead(current, current.lastRead, hello.read),
    };
}

/**
 * @param {State} state
 * @param {Greeting} hello
 * @returns {State}
 */
function restarted(state, { messages: given, has_more: hasMore, read }) {
    const messages = given ?? [];
    const ids = new Set(messages.map((message) => message.id));
    const isKnown = (/** @type {string | null} */ id) => id !== null && ids.has(id);
    const lastRead = laterRead({ messages }, state.lastRead, read);
    const hasUnread = unreadMessages({ messages, lastRead }).length > 0;
    return {
        ...state,
        messages,
        hasMore,
        isLoadingOlder: false,
        unreadLine: hasUnread ? lastRead : null,
        unsent: state.unsent.filter((one) => !one.isTaken && !isKnown(one.id)),
        notes: state.notes.map((note) => (isKnown(note.after) ? note : { ...note, after: null })),
    };
}

/**
 * Add a final message at the end of the log, or replace the one with its id. A changed message
 * that is older than the loaded ones is left for `olderLoaded`.
 * @param {State} state
 * @param {Message} message
 * @returns {State}
 */
function messageArrived(state, message) {
    const unsent = state.unsent.filter((one) => one.id !== message.id);
    if (state.messages.some((known) => known.id === message.id)) {
        return { ...messageReplaced(state, message), unsent };
    }
    if (state.hasMore && isBeforeFirst(state, message)) {
        return { ...state, unsent };
    }
    return {
        ...state,
        unsent,
        messages: [...state.messages, message],
        live: liveAfter(state.live, message),
        unreadLine: unreadLineAfter(state, message),
    };
}

/**
 * @param {State} state
 * @param {Message} message
 * @returns {State}
 */
function messageReplaced(state, message) {
    const place = state.messages.findIndex((known) => known.id === message.id);
    return place < 0 ? state : { ...state, messages: state.messages.with(place, message) };
}

/**
 * @param {State} state
 * @param {Message} message
 */
function isBeforeFirst({ messages: [first] }, message) {
    return first !== undefined && new Date(message.at) < new Date(first.at);
}

/**
 * @param {Live | null} live
 * @param {Message} message
 */
function liveAfter(live, message) {
    const isAnswer = live !== null && message.author === "assistant" && message.turn === live.turn;
    return isAnswer ? { ...live, blocks: [], tail: "", isAnswered: true } : live;
}

/**
 * @param {State} state
 * @param {Message} message
 */
function unreadLineAfter(state, message) {
    if (message.author === "owner") {
        return null;
    }
    return state.isSeen ? state.unreadLine : state.unreadLine ?? state.messages.at(-1)?.id ?? null;
}

/**
 * @param {RunningTurn} turn
 * @param {number} now
 * @returns {Live}
 */
function startedTurn(turn, now) {
    return { ...turn, since: now - turn.elapsed * 1000, isAnswered: false };
}

/**
 * @param {State} state
 * @param {string} turn
 * @param {(live: Live) => Partial<Live>} change
 * @returns {State}
 */
function liveChanged(state, turn, change) {
    const live = state.live;
    return live?.turn === turn ? { ...state, live: { ...live, ...change(live) } } : state;
}

/**
 * The later of two read marks.
 * @param {Pick<State, "messages">} state
 * @param {string | null} one
 * @param {string | null} other
 */
function laterRead({ messages }, one, other) {
    const place = (/** @type {string | null} */ id) =>
        messages.findIndex((message) => message.id === id);
    return other === null || place(one) > place(other) ? one : other;
}

/**
 * @param {State} state
 * @param {ConnectionState} connection
 * @returns {State}
 */
export function connectionChanged(state, connection) {
    return { ...state, connection };
}

/**
 * The newest message came into view, or left it. A line above messages that were all read goes
 * when the owner looks away.
 * @param {State} state
 * @param {boolean} isSeen
 * @returns {State}
 */
export function viewChanged(state, isSeen) {
    const isLineRead = state.isSeen && !isSeen && unreadMessages(state).length === 0;
    return { ...state, isSeen, unreadLine: isLineRead ? null : state.unreadLine };
}

/**
 * @param {State} state
 * @param {string | null} id
 * @returns {State}
 */
export function markedRead(state, id) {
    const lastRead = laterRead(state, state.lastRead, id);
    return lastRead === state.lastRead ? state : { ...state, lastRead };
}

/**
 * @param {State} state
 * @returns {State}
 */
export function olderRequested(state) {
    return { ...state, isLoadingOlder: true };
}

/**
 * Add the messages before `first`, unless another message has become the first one since.
 * @param {State} state
 * @param {string} first
 * @param {Message[]} messages
 * @param {boolean} hasMore
 * @returns {State}
 */
export function olderLoaded(state, first, messages, hasMore) {
    if (state.messages[0]?.id !== first) {
        return state;
    }
    const known = new Set(state.messages.map((message) => message.id));
    const older = messages.filter((message) => !known.has(message.id));
    return { ...state, messages: [...older, ...state.messages], hasMore, isLoadingOlder: false };
}

/**
 * @param {State} state
 * @param {Unsent[]} entries
 * @returns {State}
 */
export function messagesQueued(state, ...entries) {
    const known = new Set([...state.unsent, ...state.messages].map((one) => one.id));
    const unsent = [...state.unsent, ...entries.filter((one) => !known.has(one.id))];
    return { ...state, unsent, replyTo: null };
}

/**
 * @param {State} state
 * @param {string} id
 * @param {Partial<Unsent>} change
 * @returns {State}
 */
export function unsentChanged(state, id, change) {
    const unsent = state.unsent.map((one) => (one.id === id ? { ...one, ...change } : one));
    return { ...state, unsent };
}

/**
 * The server has accepted an unsent message. It stays in the list until it arrives as a message,
 * unless it is older than the loaded messages and therefore never arrives.
 * @param {State} state
 * @param {Message} message
 * @returns {State}
 */
export function messageAccepted(state, message) {
    return isBeforeFirst(state, message)
        ? unsentRemoved(state, message.id)
        : unsentChanged(state, message.id, { isWaiting: false, isTaken: true });
}

/**
 * The server cannot be reached: every message that it has not accepted waits.
 * @param {State} state
 * @returns {State}
 */
export function unsentDelayed(state) {
    return { ...state, unsent: state.unsent.map((one) => ({ ...one, isWaiting: !one.isTaken })) };
}

/**
 * @param {State} state
 * @param {string} id
 * @returns {State}
 */
export function unsentRemoved(state, id) {
    return { ...state, unsent: state.unsent.filter((one) => one.id !== id) };
}

/**
 * Add a note, or replace the one with its key.
 * @param {State} state
 * @param {Note} note
 * @returns {State}
 */
export function noteAdded(state, note) {
    return { ...state, notes: [...state.notes.filter((one) => one.key !== note.key), note] };
}

/**
 * @param {State} state
 * @param {string} key
 * @param {string} html
 * @param {boolean} isError
 * @returns {State}
 */
export function noteAnswered(state, key, html, isError) {
    const done = { html, isError, isRunning: false };
    const notes = state.notes.map((note) => (note.key === key ? { ...note, ...done } : note));
    return { ...state, notes };
}

/**
 * @param {State} state
 * @param {string} key
 * @returns {State}
 */
export function noteRemoved(state, key) {
    return { ...state, notes: state.notes.filter((note) => note.key !== key) };
}

/**
 * Change what the page itself knows of a button: that it is pressed, or that it asks its question.
 * @param {State} state
 * @param {string} id
 * @param {string} customId
 * @param {{isPressed?: boolean, asking?: import("./protocol.js").Asking}} change
 * @returns {State}
 */
export function buttonChanged(state, id, customId, change) {
    const message = state.messages.find((one) => one.id === id);
    const card = message?.card;
    const button = card?.buttons.find((one) => one.custom_id === customId);
    if (!message || !card || !button) {
        return state;
    }
    const buttons = card.buttons.map(
        (one) => (one.custom_id === customId ? { ...one, ...change } : one),
    );
    return messageReplaced(state, { ...message, card: { ...card, buttons } });
}

/**
 * @param {State} state
 * @param {Quote | null} replyTo
 * @returns {State}
 */
export function replyChosen(state, replyTo) {
    return { ...state, replyTo };
}

/**
 * @param {State} state
 * @param {string} card
 * @returns {State}
 */
export function forkExitRequested(state, card) {
    return { ...state, forkExit: { card, isRequested: true, html: "" } };
}

/**
 * @param {State} state
 * @param {string} card
 * @param {string} html  why the fork was not left; empty if it was
 * @returns {State}
 */
export function forkExitAnswered(state, card, html) {
    return { ...state, forkExit: { card, isRequested: false, html } };
}

/**
 * @param {State} state
 * @param {string} words
 * @returns {State}
 */
export function searchOpened(state, words) {
    return { ...state, search: words };
}

/**
 * @param {State} state
 * @returns {State}
 */
export function searchClosed(state) {
    return { ...state, search: null };
}

/**
 * Show these messages in place of the newest; null shows the newest again.
 * @param {State} state
 * @param {Message[] | null} messages
 * @returns {State}
 */
export function placeChanged(state, messages) {
    return state.elsewhere === messages ? state : { ...state, elsewhere: messages };
}
