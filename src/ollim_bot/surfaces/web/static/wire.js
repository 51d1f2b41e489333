/** What goes to the server and comes back. Unsuccessful answers are thrown. */

/** The server could not be reached; the same may work later. */
export class Unreachable extends Error {}

/** The server said no; the message is its sentence. */
export class Refused extends Error {}

/** This browser is not let in, or not any more. */
export class Locked extends Error {}

/** Who answers could not show that it is the bot. */
export class Foreign extends Error {}

/** @returns {Promise<Response>} a successful one */
export async function request(path, options = {}) {
    const response = await reach(path, options);
    if (response.status === 401) {
        throw new Locked();
    }
    if (!response.ok) {
        const { error } = await response.json().catch(() => ({}));
        throw new Refused(error ?? `The bot could not do that (${response.status}).`);
    }
    return response;
}

export async function postJson(path, value, options = {}) {
    const headers = { ...options.headers, "Content-Type": "application/json" };
    const body = JSON.stringify(value);
    const response = await request(path, { ...options, method: "POST", headers, body });
    return jsonOf(response);
}

export async function jsonOf(response) {
    try {
        return await response.json();
    } catch (error) {
        throw new Unreachable(String(error));
    }
}

async function reach(path, options) {
    try {
        return await fetch(path, options);
    } catch (error) {
        throw new Unreachable(String(error));
    }
}
