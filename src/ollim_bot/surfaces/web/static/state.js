/**
 * The state of the page, the store that holds it, and the questions that views ask of it.
 * `reducers.js` has the functions that change it.
 *
 * @typedef {import("./protocol.js").Activity} Activity
 * @typedef {import("./protocol.js").Command} Command
 * @typedef {import("./protocol.js").Fork} Fork
 * @typedef {import("./protocol.js").Message} Message
 * @typedef {import("./protocol.js").Quote} Quote
 * @typedef {import("./protocol.js").Status} Status
 *
 * @typedef {"opening" | "open" | "lost" | "locked" | "stale" | "insecure" | "foreign"
 *     } ConnectionState
 *
 * @typedef {object} LiveFields
 * @property {string} turn
 * @property {number} since  when the turn began, in milliseconds of `performance.now`
 * @property {string | null} began  when its first words came
 * @property {string[]} blocks  the finished blocks of its answer, as HTML
 * @property {string} tail  the block that is being written
 * @property {boolean} isAnswered  whether the final message has arrived
 * @typedef {Activity & LiveFields} Live
 *
 * @typedef {object} Unsent
 * @property {string} id
 * @property {string} at
 * @property {string} text
 * @property {Quote | null} replyTo
 * @property {{name: string, size: number}[]} files
 * @property {string} error  why it was not sent; else empty
 * @property {number} tries
 * @property {boolean} isWaiting  whether it waits for the connection
 * @property {boolean} isTaken  whether the server has accepted it
 *
 * @typedef {object} Note
 * @property {string} key
 * @property {string | null} after  the message above it
 * @property {string} title  the line of the command, or the label of the button
 * @property {boolean} isCommand
 * @property {string} html
 * @property {boolean} isError
 * @property {boolean} isRunning
 *
 * @typedef {{card: string, isRequested: boolean, html: string}} ForkExit
 *
 * @typedef {object} State
 * @property {ConnectionState} connection
 * @property {Status | null} status
 * @property {Command[]} commands
 * @property {Message[]} messages  in the order of the log, without a gap
 * @property {number | null} change  the newest change of the log that the page has
 * @property {boolean} hasMore  whether the server has older ones
 * @property {boolean} isLoadingOlder
 * @property {Live | null} live  the turn that runs
 * @property {string | null} lastRead  the newest message that the owner has seen, in any tab
 * @property {string | null} unreadLine  the message above the unread line
 * @property {boolean} isSeen  whether the newest message is in view
 * @property {Unsent[]} unsent
 * @property {Note[]} notes  answers to commands and buttons, which the server does not keep
 * @property {string | null} search  the words with which a search begins; null if none is open
 * @property {Message[] | null} elsewhere  messages around an older one, shown in place of the newest
 * @property {Quote | null} replyTo
 * @property {ForkExit | null} forkExit  the last attempt to leave a fork, and its refusal
 * @property {import("./protocol.js").Panels | null} panels  another object for each change
 */

/** Ids of buttons on cards that mean something to the page; all others are only shown. */
export const BUTTON_IDS = Object.freeze({
    forkSave: "act:fork_save:",
    forkReport: "act:fork_report:",
    forkExit: "act:fork_exit:",
    /** The id of the question follows. */
    approvePrefix: "act:approve:",
});

/** @type {State} */
export const INITIAL_STATE = Object.freeze({
    connection: "opening",
    status: null,
    commands: [],
    messages: [],
    change: null,
    hasMore: false,
    isLoadingOlder: false,
    live: null,
    lastRead: null,
    unreadLine: null,
    isSeen: false,
    unsent: [],
    notes: [],
    search: null,
    elsewhere: null,
    replyTo: null,
    forkExit: null,
    panels: null,
});

/** Holds the state and calls its watchers once after each batch of changes. */
export class Store {
    #state;
    /** @type {((state: State) => void)[]} */
    #watchers = [];
    #isScheduled = false;

    /** @param {State} state */
    constructor(state) {
        this.#state = state;
    }

    get state() {
        return this.#state;
    }

    /**
     * @template {unknown[]} Details
     * @param {(state: State, ...details: Details) => State} reducer
     * @param {Details} details
     */
    change(reducer, ...details) {
        const before = this.#state;
        this.#state = reducer(before, ...details);
        if (this.#state !== before && !this.#isScheduled) {
            this.#isScheduled = true;
            queueMicrotask(() => this.#notify());
        }
    }

    /** @param {(state: State) => void} watcher */
    watch(watcher) {
        this.#watchers.push(watcher);
    }

    #notify() {
        this.#isScheduled = false;
        for (const watcher of this.#watchers) {
            watcher(this.#state);
        }
    }
}

/**
 * Call `tell` once for each message that arrives while the page is open.
 * @param {Store} store
 * @param {(message: Message) => void} tell
 */
export function onArrival(store, tell) {
    /** @type {string | null} */
    let last = null;
    let wasOpen = false;
    store.watch((state) => {
        const place = state.messages.findIndex((message) => message.id === last);
        if (wasOpen && (place >= 0 || last === null)) {
            state.messages.slice(place + 1).forEach((message) => tell(message));
        }
        wasOpen ||= state.connection === "open";
        last = state.messages.at(-1)?.id ?? null;
    });
}

/**
 * The messages in the order in which they are shown, with the turn that writes. An answer stands
 * where its first words came: above the messages and cards that arrived while it was written.
 * @param {Message[]} messages  in the order of the log
 * @param {Live | null} live
 * @returns {(Message | Live)[]}
 */
export function inReadingOrder(messages, live) {
    /** @type {(Message | Live)[]} */
    const shown = [];
    for (const one of live ? [...messages, live] : messages) {
        const began = one.began === null ? Infinity : Date.parse(one.began);
        let place = shown.length;
        while (place > 0 && arrivedAfter(shown[place - 1], began)) {
            place -= 1;
        }
        shown.splice(place, 0, one);
    }
    return shown;
}

/**
 * @param {Message | Live} one
 * @param {number} moment
 */
function arrivedAfter(one, moment) {
    return "at" in one && Date.parse(one.began ?? one.at) > moment;
}

/**
 * The messages from others that the owner has not seen yet.
 * @param {Pick<State, "messages" | "lastRead">} state
 */
export function unreadMessages({ messages, lastRead }) {
    const place = messages.findIndex((message) => message.id === lastRead);
    return messages.slice(place + 1).filter((message) => message.author !== "owner");
}

/**
 * Whether any message waits for the owner's permission.
 * @param {State} state
 */
export function isAnswerNeeded(state) {
    return state.messages.some(isOpenQuestion);
}

/** @param {Message} message */
export function isOpenQuestion({ card }) {
    return card?.buttons.some(
        (button) => button.custom_id.startsWith(BUTTON_IDS.approvePrefix) && !button.is_used,
    ) ?? false;
}

/**
 * The fork that the owner is in.
 * @param {State} state
 */
export function openFork(state) {
    return state.status?.fork ?? null;
}

/**
 * Why the fork that is open could not be left, as HTML; empty if nothing was refused.
 * @param {State} state
 */
export function forkExitRefusal(state) {
    return currentForkExit(state)?.html ?? "";
}

/**
 * Whether the fork can be left by this button now.
 * @param {State} state
 * @param {string} customId
 */
export function isForkExitOpen(state, customId) {
    const fork = openFork(state);
    if (fork === null || currentForkExit(state)?.isRequested) {
        return false;
    }
    const buttons = forkCard(state)?.buttons;
    const button = buttons?.find((one) => one.custom_id === customId);
    return buttons?.length !== 0 && !button?.is_used && !button?.isPressed;
}

/**
 * Whether the card of the fork has this way out; true while the card is not loaded, and once the
 * fork has ended.
 * @param {State} state
 * @param {string} customId
 */
export function isForkExitOffered(state, customId) {
    const buttons = forkCard(state)?.buttons ?? [];
    return buttons.length === 0 || buttons.some((one) => one.custom_id === customId);
}

/** @param {State} state */
function forkCard(state) {
    const fork = openFork(state);
    return state.messages.find((one) => one.id === fork?.card)?.card ?? null;
}

/** @param {State} state */
function currentForkExit(state) {
    const isCurrent = state.forkExit !== null && state.forkExit.card === openFork(state)?.card;
    return isCurrent ? state.forkExit : null;
}
