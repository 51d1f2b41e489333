/**
 * Messages on their way to the server. Each is stored in the browser before it is sent, and is sent
 * under one id however often it is tried, so that none is lost and none is delivered twice.
 *
 * @typedef {import("./protocol.js").Quote} Quote
 * @typedef {import("./state.js").Store} Store
 * @typedef {import("./state.js").Unsent} Unsent
 * @typedef {{name: string, blob: Blob}} OutgoingFile
 * @typedef {{text: string, replyTo: Quote | null, files: OutgoingFile[]}} Draft
 */

import { postMessage } from "./api.js";
import { Database } from "./database.js";
import { Foreign, Locked, Refused, Unreachable, multipartForm, newId } from "./http.js";
import {
    messageAccepted, messagesQueued, unsentChanged, unsentDelayed, unsentRemoved,
} from "./reducers.js";

const TEMPORARY = [Unreachable, Locked, Foreign];
const PREFIX = "ollim.unsent.";
const MOST_TRIES = 3;
const NOT_TAKEN = "The bot answered, but did not take the message. Try again.";
const FILES_GONE = "This browser no longer has the files of this message. Add them again.";

/** @type {Database<OutgoingFile[]>} */
const database = new Database("ollim", "files");

export class Outbox {
    #store;
    #onUnreachable;
    #isSending = false;
    /** @type {Map<string, OutgoingFile[]>} for as long as this page lives */
    #files = new Map();
    /** @type {Set<string>} the ids of the stored messages that this page knows of */
    #stored = new Set();

    /**
     * @param {Store} store
     * @param {() => void} onUnreachable
     */
    constructor(store, onUnreachable) {
        this.#store = store;
        this.#onUnreachable = onUnreachable;
        const entries = storedEntries();
        entries.forEach((entry) => this.#stored.add(entry.id));
        store.change(messagesQueued, ...entries);
        store.watch((state) => this.#removeAllBut(state.unsent));
    }

    /** @param {Draft} draft */
    async add({ text, replyTo, files }) {
        const entry = {
            id: newId(),
            at: new Date().toISOString(),
            text,
            replyTo,
            files: files.map(({ name, blob }) => ({ name, size: blob.size })),
            error: "",
            tries: 0,
            isWaiting: false,
            isTaken: false,
        };
        this.#files.set(entry.id, files);
        this.#store.change(messagesQueued, entry);
        // The files first: another tab that finds the entry must find them too.
        if (files.length === 0 || (await isDone(database.put(entry.id, files)))) {
            this.#keep(entry.id);
        }
        await this.send();
    }

    /** Send the waiting messages in order, until one does not reach the server. */
    async send() {
        if (this.#isSending) {
            return;
        }
        this.#isSending = true;
        try {
            while (await this.#sendNext());
        } finally {
            this.#isSending = false;
        }
    }

    /** @param {string} id */
    async retry(id) {
        this.#change(id, { error: "", tries: 0 });
        await this.send();
    }

    /** @param {string} id */
    discard(id) {
        this.#store.change(unsentRemoved, id);
    }

    /**
     * Remove a message and return it to be written anew; null if it has been sent.
     * @param {string} id
     * @returns {Promise<Draft | null>}
     */
    async takeBack(id) {
        const entry = this.#entry(id);
        if (!entry) {
            return null;
        }
        const files = await this.#filesOf(entry).catch(() => []);
        this.discard(id);
        return { text: entry.text, replyTo: entry.replyTo, files };
    }

    /** @returns {Promise<boolean>} whether to go on with the next message */
    async #sendNext() {
        const entry = this.#store.state.unsent.find((one) => one.error === "" && !one.isTaken);
        if (!entry) {
            return false;
        }
        const wasOpen = this.#store.state.connection === "open";
        try {
            const { id, text, replyTo } = entry;
            const fields = { id, text, reply_to: replyTo?.id ?? "" };
            const form = multipartForm(fields, await this.#filesOf(entry));
            const { message } = await postMessage(form);
            this.#store.change(messageAccepted, message);
        } catch (error) {
            return this.#failed(entry, error, wasOpen);
        }
        return true;
    }

    /**
     * @param {Unsent} entry
     * @param {unknown} error
     * @param {boolean} wasOpen
     */
    #failed(entry, error, wasOpen) {
        const tries = entry.tries + (wasOpen ? 1 : 0);
        const isTemporary = TEMPORARY.some((kind) => error instanceof kind);
        if (isTemporary && tries < MOST_TRIES) {
            this.#store.change(unsentChanged, entry.id, { tries });
            this.#store.change(unsentDelayed);
            this.#onUnreachable();
            return false;
        }
        const reason = error instanceof Error ? error.message : String(error);
        this.#change(entry.id, { error: isTemporary ? NOT_TAKEN : reason });
        return true;
    }

    /** @param {string} id */
    #entry(id) {
        return this.#store.state.unsent.find((one) => one.id === id);
    }

    /**
     * @param {string} id
     * @param {Partial<Unsent>} change
     */
    #change(id, change) {
        this.#store.change(unsentChanged, id, change);
        this.#keep(id);
    }

    /** @param {string} id */
    #keep(id) {
        const entry = this.#entry(id);
        if (entry && !entry.isTaken) {
            this.#stored.add(id);
            storeEntry(entry);
        }
    }

    /** @param {Unsent[]} unsent */
    #removeAllBut(unsent) {
        const open = new Set(unsent.filter((one) => !one.isTaken).map((one) => one.id));
        for (const id of [...this.#stored].filter((one) => !open.has(one))) {
            this.#stored.delete(id);
            this.#files.delete(id);
            localStorage.removeItem(PREFIX + id);
            isDone(database.delete(id));
        }
    }

    /** @param {Unsent} entry */
    async #filesOf(entry) {
        if (entry.files.length === 0) {
            return [];
        }
        const inMemory = this.#files.get(entry.id);
        const files = inMemory ?? (await database.get(entry.id).catch(() => [])) ?? [];
        if (files.length !== entry.files.length) {
            throw new Refused(FILES_GONE);
        }
        return files;
    }
}

/**
 * Whether the browser's database did the work; a private window may have none.
 * @param {Promise<void>} work
 */
function isDone(work) {
    return work.then(() => true, () => false);
}

/**
 * Store an entry; where the storage is full, it is kept only as long as the page lives.
 * @param {Unsent} entry
 */
function storeEntry(entry) {
    const key = PREFIX + entry.id;
    try {
        localStorage.setItem(key, JSON.stringify(entry));
    } catch {
        localStorage.removeItem(key);
    }
}

/**
 * The messages that an earlier page or another tab has not sent, oldest first.
 * @returns {Unsent[]}
 */
function storedEntries() {
    return Object.entries(localStorage)
        .filter(([key]) => key.startsWith(PREFIX))
        .map(([, value]) => ({ ...JSON.parse(value), isWaiting: true }))
        .sort((one, other) => one.at.localeCompare(other.at));
}
