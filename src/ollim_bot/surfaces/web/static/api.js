/**
 * What the page asks of the server within its session. Unsuccessful answers are thrown, as in
 * `http.js`.
 *
 * @typedef {import("./protocol.js").Answer} Answer
 * @typedef {import("./protocol.js").Message} Message
 * @typedef {import("./protocol.js").Page} Page
 * @typedef {import("./protocol.js").Result} Result
 */

import { Locked, jsonRequest, reached, request } from "./http.js";
import { currentSession, forgetSession } from "./session.js";

/**
 * @param {Blob} form
 * @returns {Promise<{message: Message}>}
 */
export function postMessage(form) {
    return json("/api/messages", { method: "POST", body: form });
}

/**
 * @param {string} line
 * @returns {Promise<Answer>}
 */
export function runCommand(line) {
    return json("/api/commands", jsonRequest({ line }));
}

/**
 * @param {string} id
 * @param {string} customId
 * @param {string} [words]  the answer to the question of the button, if it asks one
 * @returns {Promise<Answer>}
 */
export function pressButton(id, customId, words) {
    return json("/api/clicks", jsonRequest({ message_id: id, custom_id: customId, words }));
}

/** @returns {Promise<unknown>} */
export function interrupt() {
    return json("/api/interrupt", jsonRequest({}));
}

/**
 * @param {string} id
 * @returns {Promise<unknown>}
 */
export function markRead(id) {
    return json("/api/read", jsonRequest({ id }));
}

/**
 * @param {string} id
 * @param {number} limit
 * @returns {Promise<Page>}
 */
export function messagesBefore(id, limit) {
    return json(`/api/messages?${new URLSearchParams({ before: id, limit: String(limit) })}`);
}

/**
 * @param {string} id
 * @returns {Promise<{messages: Message[]}>}
 */
export function messagesAround(id) {
    return json(`/api/messages/around?${new URLSearchParams({ id })}`);
}

/**
 * @param {string} words
 * @param {AbortSignal} signal
 * @returns {Promise<{results: Result[]}>}
 */
export function searchMessages(words, signal) {
    return json(`/api/search?${new URLSearchParams({ words })}`, { signal });
}

/**
 * The file of a message. The server refuses a plain link, which carries no session.
 * @param {string} url
 */
export async function attachmentContent(url) {
    const response = await send(url);
    return reached(response.blob());
}

/**
 * @param {string} command
 * @param {string} argument
 * @param {string} typed
 * @param {AbortSignal} signal
 * @returns {Promise<string[]>}
 */
export async function completions(command, argument, typed, signal) {
    const query = new URLSearchParams({ command, argument, typed });
    return (await json(`/api/completions?${query}`, { signal })).values;
}

/**
 * @param {string} path
 * @param {RequestInit} [options]
 */
export async function json(path, options) {
    const response = await send(path, options);
    return reached(response.json());
}

/**
 * Send a request; where the session has ended, sign in again, once.
 * @param {string} path
 * @param {RequestInit} [options]
 */
async function send(path, options = {}) {
    try {
        return await sendNow(path, options);
    } catch (error) {
        if (!(error instanceof Locked)) {
            throw error;
        }
        forgetSession();
        return sendNow(path, options);
    }
}

/**
 * @param {string} path
 * @param {RequestInit} options
 */
async function sendNow(path, options) {
    const session = await currentSession();
    const headers = { ...options.headers, Authorization: `Bearer ${session}` };
    return request(path, { ...options, headers });
}
