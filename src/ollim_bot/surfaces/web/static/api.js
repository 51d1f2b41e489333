/** What the page asks of the bot over HTTP. Unsuccessful answers are thrown, as in `wire.js`. */

import { forgetSession, ownSession } from "./access.js";
import { Locked, Unreachable, jsonOf, request } from "./wire.js";

export function postMessage(form) {
    return ask("/api/messages", { method: "POST", body: form });
}

export function runCommand(line) {
    return post("/api/commands", { line });
}

export function postClick(id, customId) {
    return post("/api/clicks", { message_id: id, custom_id: customId });
}

export function interrupt() {
    return post("/api/interrupt", {});
}

export function markRead(id) {
    return post("/api/read", { id });
}

export function olderThan(id, limit) {
    return ask(`/api/messages?${new URLSearchParams({ before: id, limit: String(limit) })}`);
}

/** @returns {Promise<Blob>} a file of a message: a link to it would not be let in */
export async function attachment(url) {
    const response = await asked(url);
    try {
        return await response.blob();
    } catch (error) {
        throw new Unreachable(String(error));
    }
}

export async function completions(command, argument, typed, signal) {
    const query = new URLSearchParams({ command, argument, typed });
    return (await ask(`/api/completions?${query}`, { signal })).values;
}

function post(path, value) {
    const headers = { "Content-Type": "application/json" };
    return ask(path, { method: "POST", headers, body: JSON.stringify(value) });
}

async function ask(path, options) {
    return jsonOf(await asked(path, options));
}

/** A session may have ended meanwhile; then a new one is asked for, once. */
async function asked(path, options = {}) {
    try {
        return await askedNow(path, options);
    } catch (error) {
        if (!(error instanceof Locked)) {
            throw error;
        }
        forgetSession();
        return askedNow(path, options);
    }
}

async function askedNow(path, options) {
    const session = await ownSession();
    const headers = { ...options.headers, Authorization: `Bearer ${session}` };
    return request(path, { ...options, headers });
}
