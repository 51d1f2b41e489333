/**
 * Messages on their way to the server. Each is kept in the browser before it is sent, and goes out
 * under one id however often it is tried, so that none is lost and none comes twice.
 */

import { postMessage } from "./api.js";
import * as drawer from "./drawer.js";
import { formOf } from "./form.js";
import { newId } from "./ids.js";
import { accepted, queued, unsentChanged, unsentDelayed, unsentDropped } from "./state.js";
import { Foreign, Locked, Refused, Unreachable } from "./wire.js";

const AWAY = [Unreachable, Locked, Foreign];
const PREFIX = "ollim.unsent.";
const MOST_TRIES = 3;
const NOT_TAKEN = "The bot is there but did not take it.";
const FILES_GONE = "Its files are no longer in this browser. Write it anew.";

export class Outbox {
    #store;
    #doubt;
    #isSending = false;
    /** The files themselves, for as long as this page lives. */
    #files = new Map();
    /** The ids of what is in the browser's storage, as far as this page knows. */
    #kept = new Set();

    /**
     * @param {import("./store.js").Store} store
     * @param {() => void} doubt  called where the server was not there
     */
    constructor(store, doubt) {
        this.#store = store;
        this.#doubt = doubt;
        const entries = left();
        entries.forEach((entry) => this.#kept.add(entry.id));
        store.change(queued, ...entries);
        store.watch((state) => this.#forgetAllBut(state.unsent));
    }

    /** @param {{name: string, blob: Blob}[]} files */
    async add(text, replyTo, files) {
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
        this.#store.change(queued, entry);
        // First the files: another tab that finds the entry must find them too.
        if (files.length === 0 || (await isDone(drawer.put(entry.id, files)))) {
            this.#keep(entry.id);
        }
        await this.send();
    }

    /** Send all that waits, in order, until one does not get through. */
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

    async again(id) {
        this.#change(id, { error: "", tries: 0 });
        await this.send();
    }

    drop(id) {
        this.#store.change(unsentDropped, id);
    }

    /** Take a message back: its text and files, to be written anew. */
    async takeBack(id) {
        const entry = this.#entry(id);
        const files = await this.#filesOf(entry).catch(() => []);
        this.drop(id);
        return { text: entry.text, replyTo: entry.replyTo, files };
    }

    /** @returns {Promise<boolean>} whether to go on with the next one */
    async #sendNext() {
        const entry = this.#store.state.unsent.find((one) => one.error === "" && !one.isTaken);
        if (!entry) {
            return false;
        }
        const wasOpen = this.#store.state.connection === "open";
        try {
            const { id, text, replyTo } = entry;
            const fields = { id, text, reply_to: replyTo?.id ?? "" };
            const { message } = await postMessage(formOf(fields, await this.#filesOf(entry)));
            this.#store.change(accepted, message);
        } catch (error) {
            return this.#failed(entry, error, wasOpen);
        }
        return true;
    }

    #failed(entry, error, wasOpen) {
        const tries = entry.tries + (wasOpen ? 1 : 0);
        const isAway = AWAY.some((kind) => error instanceof kind);
        if (isAway && tries < MOST_TRIES) {
            this.#store.change(unsentChanged, entry.id, { tries });
            this.#store.change(unsentDelayed);
            this.#doubt();
            return false;
        }
        this.#change(entry.id, { error: isAway ? NOT_TAKEN : error.message });
        return true;
    }

    #entry(id) {
        return this.#store.state.unsent.find((one) => one.id === id);
    }

    #change(id, change) {
        this.#store.change(unsentChanged, id, change);
        this.#keep(id);
    }

    #keep(id) {
        const entry = this.#entry(id);
        if (entry && !entry.isTaken) {
            this.#kept.add(id);
            store(PREFIX + id, JSON.stringify(entry));
        }
    }

    #forgetAllBut(unsent) {
        const open = new Set(unsent.filter((one) => !one.isTaken).map((one) => one.id));
        for (const id of [...this.#kept].filter((one) => !open.has(one))) {
            this.#kept.delete(id);
            this.#files.delete(id);
            localStorage.removeItem(PREFIX + id);
            isDone(drawer.drop(id));
        }
    }

    async #filesOf(entry) {
        if (entry.files.length === 0) {
            return [];
        }
        const files = this.#files.get(entry.id) ?? (await drawer.take(entry.id));
        if (files.length !== entry.files.length) {
            throw new Refused(FILES_GONE);
        }
        return files;
    }
}

/** Whether the browser's database did it; a private window may have none. */
function isDone(work) {
    return work.then(() => true, () => false);
}

/** Where the storage is full, a message is kept for as long as the page lives. */
function store(key, value) {
    try {
        localStorage.setItem(key, value);
    } catch {
        localStorage.removeItem(key);
    }
}

/** What an earlier page, or another tab, could not send; it has surely waited by now. */
function left() {
    return Object.keys(localStorage)
        .filter((key) => key.startsWith(PREFIX))
        .map((key) => ({ ...JSON.parse(localStorage.getItem(key)), isWaiting: true }))
        .sort((one, other) => one.at.localeCompare(other.at));
}
