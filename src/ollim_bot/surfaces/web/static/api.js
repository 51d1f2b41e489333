/** What the page asks of the server over HTTP. Unsuccessful answers are thrown. */

const KNOCK_MS = 3000;

/** The server could not be reached; the same may work later. */
export class Unreachable extends Error {}

/** The server said no; the message is its sentence. */
export class Refused extends Error {}

/** The secret of this page does not count any more. */
export class Locked extends Error {}

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

/** Raises `Locked` or `Unreachable` where a socket only says that it did not open. */
export function knock() {
    return ask("/api/messages?limit=1", { signal: AbortSignal.timeout(KNOCK_MS) });
}

export async function completions(command, argument, typed, signal) {
    const query = new URLSearchParams({ command, argument, typed });
    return (await ask(`/api/completions?${query}`, { signal })).values;
}

function post(path, value) {
    const headers = { "Content-Type": "application/json" };
    return ask(path, { method: "POST", headers, body: JSON.stringify(value) });
}

async function ask(path, options = {}) {
    const response = await reach(path, options);
    if (response.status === 401) {
        throw new Locked();
    }
    const answer = await response.json().catch(() => ({}));
    if (!response.ok) {
        throw new Refused(answer.error ?? `The bot could not do that (${response.status}).`);
    }
    return answer;
}

async function reach(path, options) {
    try {
        return await fetch(path, options);
    } catch (error) {
        throw new Unreachable(String(error));
    }
}
