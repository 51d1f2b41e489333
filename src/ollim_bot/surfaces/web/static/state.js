/**
 * What the page knows, and how it changes. Every function here takes a state and gives the next
 * one; nothing in it touches the document, the network or the clock.
 *
 * @typedef {"owner" | "assistant" | "background" | "program"} Author
 * @typedef {{name: string, url: string, is_image: boolean, size: number}} Attachment
 * @typedef {{id: string, author: Author, excerpt: string}} Quote
 * @typedef {{name: string, html: string, inline: boolean}} Field
 * @typedef {{label: string, custom_id: string, style: string, is_used: boolean,
 *     isPressed?: boolean}} Button
 * @typedef {{title: string, html: string, color: string, fields: Field[],
 *     buttons: Button[]}} Card
 * @typedef {{id: string, at: string, author: Author, html: string, text: string, is_typed: boolean,
 *     reply_to: Quote | null, attachments: Attachment[], turn: string | null,
 *     is_cut_off: boolean, footer: string, job: string, in_fork: boolean,
 *     card: Card | null}} Message
 * @typedef {{topic: string, card: string}} Fork
 * @typedef {{id: string, label: string, state: "running" | "done" | "refused" | "failed",
 *     reason: string}} Tool
 * @typedef {{turn: string, since: number, blocks: string[], tail: string, tools: Tool[],
 *     phase: string, notes: string[], isAnswered: boolean}} Live
 * @typedef {{name: string, about: string, choices: string[], is_required: boolean,
 *     takes_rest: boolean}} Argument
 * @typedef {{name: string, about: string, usage: string, arguments: Argument[]}} Command
 * @typedef {{id: string, at: string, text: string, replyTo: Quote | null,
 *     files: {name: string, size: number}[], error: string, tries: number, isWaiting: boolean,
 *     isTaken: boolean}} Unsent
 * @typedef {{key: string, after: string | null, line?: string, label?: string, html: string,
 *     isError: boolean, isRunning?: boolean}} Note
 * @typedef {"opening" | "open" | "lost" | "locked" | "stale" | "insecure" | "foreign"} Connection
 *
 * @typedef {object} State
 * @property {Connection} connection
 * @property {object | null} status
 * @property {Command[]} commands
 * @property {Message[]} messages  in the order of the log, without a gap
 * @property {number | null} change  the newest change of the log that is here
 * @property {boolean} hasMore  whether there are older ones
 * @property {boolean} isLoadingOlder
 * @property {Live | null} live  the turn that runs
 * @property {string | null} read  the newest message that the owner has seen, in any tab
 * @property {string | null} line  the message below which the unread line stands
 * @property {boolean} isSeen  whether the newest message is in front of the owner's eyes
 * @property {Unsent[]} unsent
 * @property {Note[]} notes  answers of commands and buttons, which pass
 * @property {Quote | null} replyTo
 * @property {{card: string, isAsked: boolean, html: string} | null} wayOut  what came of the last
 *     try to leave a fork
 */

/** @type {State} */
export const START = Object.freeze({
    connection: "opening",
    status: null,
    commands: [],
    messages: [],
    change: null,
    hasMore: false,
    isLoadingOlder: false,
    live: null,
    read: null,
    line: null,
    isSeen: false,
    unsent: [],
    notes: [],
    replyTo: null,
    wayOut: null,
});

/** A frame of the server; those of a kind that is not known change nothing. */
export function received(state, frame, now) {
    const step = Object.hasOwn(FRAMES, frame.type) ? FRAMES[frame.type] : null;
    return step ? step(state, frame, now) : state;
}

const FRAMES = {
    hello: greeted,
    message: (state, frame) => ({
        ...arrived(state, frame.message),
        change: Math.max(state.change, frame.change),
    }),
    turn: (state, frame, now) => ({ ...state, live: begun(frame.live, now) }),
    draft: (state, frame) => during(state, frame.turn, (live) => ({
        blocks: [...live.blocks.slice(0, frame.keep), ...frame.blocks],
        tail: frame.tail,
    })),
    activity: (state, frame) => during(state, frame.turn, () => ({
        phase: frame.phase,
        tools: frame.tools,
        notes: frame.notes,
    })),
    ended: (state, frame) => (state.live?.turn === frame.turn ? { ...state, live: null } : state),
    status: (state, frame) => ({ ...state, status: frame.status }),
    read: (state, frame) => ({ ...state, read: later(state, state.read, frame.id) }),
};

function greeted(state, hello, now) {
    const caughtUp = hello.missed === null
        ? restarted(state, hello)
        : hello.missed.reduce(arrived, state);
    return {
        ...caughtUp,
        change: hello.change,
        connection: "open",
        status: hello.status,
        commands: hello.commands,
        live: hello.live && begun(hello.live, now),
        read: later(caughtUp, caughtUp.read, hello.read),
    };
}

function restarted(state, hello) {
    const known = new Set(hello.messages.map((message) => message.id));
    const fresh = { ...state, messages: hello.messages, hasMore: hello.has_more };
    const read = later(fresh, state.read, hello.read);
    return {
        ...fresh,
        isLoadingOlder: false,
        line: read !== null && unreadAfter(hello.messages, read).length > 0 ? read : null,
        unsent: state.unsent.filter((one) => !one.isTaken && !known.has(one.id)),
        notes: state.notes.map((note) => (known.has(note.after) ? note : { ...note, after: null })),
    };
}

/**
 * A final message, in the order of the log. One that is known already takes its old place; one that
 * was changed but is not loaded yet comes with the older ones.
 */
function arrived(state, message) {
    const unsent = state.unsent.filter((one) => one.id !== message.id);
    if (state.messages.some((known) => known.id === message.id)) {
        return { ...renewed(state, message), unsent };
    }
    if (state.hasMore && new Date(message.at) < new Date(state.messages[0].at)) {
        return { ...state, unsent };
    }
    return {
        ...state,
        unsent,
        messages: [...state.messages, message],
        live: answered(state.live, message),
        line: lineAt(state, message),
    };
}

function renewed(state, message) {
    const place = state.messages.findIndex((known) => known.id === message.id);
    return place < 0 ? state : { ...state, messages: state.messages.with(place, message) };
}

function answered(live, message) {
    const isAnswer = live !== null && message.author === "assistant" && message.turn === live.turn;
    return isAnswer ? { ...live, blocks: [], tail: "", isAnswered: true } : live;
}

function lineAt(state, message) {
    if (message.author === "owner") {
        return null;
    }
    return state.isSeen ? state.line : state.line ?? state.messages.at(-1)?.id ?? null;
}

function begun(live, now) {
    return { ...live, since: now - live.elapsed * 1000, isAnswered: false };
}

function during(state, turn, change) {
    const live = state.live;
    return live?.turn === turn ? { ...state, live: { ...live, ...change(live) } } : state;
}

/** Of two read marks the one further down. */
function later(state, one, other) {
    const place = (id) => state.messages.findIndex((message) => message.id === id);
    return other === null || place(one) > place(other) ? one : other;
}

export function connected(state, connection) {
    return { ...state, connection };
}

/** The owner looks at the newest message, or no longer does; a line that was seen then goes. */
export function looked(state, isSeen) {
    const line = state.isSeen && !isSeen && unread(state).length === 0 ? null : state.line;
    return { ...state, isSeen, line };
}

export function marked(state, id) {
    const read = later(state, state.read, id);
    return read === state.read ? state : { ...state, read };
}

/** @returns {Message[]} what the owner has not seen yet */
export function unread(state) {
    return unreadAfter(state.messages, state.read);
}

function unreadAfter(messages, read) {
    const place = messages.findIndex((message) => message.id === read);
    return messages.slice(place + 1).filter((message) => message.author !== "owner");
}

export function askedOlder(state) {
    return { ...state, isLoadingOlder: true };
}

/** What came before the message `first`, unless that is not the first one here any more. */
export function loadedOlder(state, first, messages, hasMore) {
    if (state.messages[0]?.id !== first) {
        return state;
    }
    const known = new Set(state.messages.map((message) => message.id));
    const older = messages.filter((message) => !known.has(message.id));
    return { ...state, messages: [...older, ...state.messages], hasMore, isLoadingOlder: false };
}

/** @param {Unsent[]} entries */
export function queued(state, ...entries) {
    const known = new Set([...state.unsent, ...state.messages].map((one) => one.id));
    const unsent = [...state.unsent, ...entries.filter((one) => !known.has(one.id))];
    return { ...state, unsent, replyTo: null };
}

export function unsentChanged(state, id, change) {
    const unsent = state.unsent.map((one) => (one.id === id ? { ...one, ...change } : one));
    return { ...state, unsent };
}

/**
 * The server has taken it. It leaves the list when it comes as a message, which gives it its place
 * in the log; one from before what is shown here came long ago.
 */
export function accepted(state, message) {
    const first = state.messages[0];
    const isOld = first !== undefined && new Date(message.at) < new Date(first.at);
    return isOld
        ? unsentDropped(state, message.id)
        : unsentChanged(state, message.id, { isWaiting: false, isTaken: true });
}

/** The server is not there: all that is not sent yet will wait. */
export function unsentDelayed(state) {
    return { ...state, unsent: state.unsent.map((one) => ({ ...one, isWaiting: !one.isTaken })) };
}

export function unsentDropped(state, id) {
    return { ...state, unsent: state.unsent.filter((one) => one.id !== id) };
}

/** A note about a command stands where the conversation was when it was typed. */
export function noted(state, key, line) {
    const after = state.messages.at(-1)?.id ?? null;
    const note = { key, after, line, html: "", isError: false, isRunning: true };
    return { ...state, notes: [...state.notes, note] };
}

export function noteAnswered(state, key, html, isError) {
    const done = { html, isError, isRunning: false };
    const notes = state.notes.map((note) => (note.key === key ? { ...note, ...done } : note));
    return { ...state, notes };
}

export function noteDropped(state, key) {
    return { ...state, notes: state.notes.filter((note) => note.key !== key) };
}

/** @param {Note} note  a new one, complete, where the conversation is that it is about */
export function noteGiven(state, note) {
    return { ...state, notes: [...state.notes.filter((one) => one.key !== note.key), note] };
}

/** A button of a card does not take another click before its answer is there. */
export function pressed(state, id, customId) {
    return buttonChanged(state, id, customId, { isPressed: true });
}

export function released(state, id, customId) {
    return buttonChanged(state, id, customId, { isPressed: false });
}

function buttonChanged(state, id, customId, change) {
    const message = state.messages.find((one) => one.id === id);
    const button = message?.card?.buttons.find((one) => one.custom_id === customId);
    if (!button || Boolean(button.isPressed) === change.isPressed) {
        return state;
    }
    const buttons = message.card.buttons.map(
        (one) => (one.custom_id === customId ? { ...one, ...change } : one),
    );
    return renewed(state, { ...message, card: { ...message.card, buttons } });
}

/** @param {Quote | null} replyTo */
export function replying(state, replyTo) {
    return { ...state, replyTo };
}
