/** Requests to the server, without a session. Unsuccessful answers are thrown. */

/** The server could not be reached; the same request may succeed later. */
export class Unreachable extends Error {}

/** The server refused; the message is its sentence. */
export class Refused extends Error {}

/** The server has not let this browser in, or has shut it out. */
export class Locked extends Error {}

/** The program that answers could not prove that it is the bot. */
export class Foreign extends Error {}

/**
 * @param {string} path
 * @param {RequestInit} [options]
 * @returns {Promise<Response>} a successful one
 */
export async function request(path, options = {}) {
    const response = await reached(fetch(path, options));
    if (response.status === 401) {
        throw new Locked();
    }
    if (!response.ok) {
        const { error } = await response.json().catch(() => ({}));
        throw new Refused(error ?? `The bot could not do that (${response.status}).`);
    }
    return response;
}

/**
 * The content of a response, or `Unreachable` where the network fails or the content is damaged.
 * @template T
 * @param {Promise<T>} reading
 */
export async function reached(reading) {
    try {
        return await reading;
    } catch (error) {
        throw new Unreachable(String(error));
    }
}

/** @param {unknown} value */
export function jsonRequest(value) {
    const headers = { "Content-Type": "application/json" };
    return { method: "POST", headers, body: JSON.stringify(value) };
}

/**
 * A multipart form. The browser's own `FormData` would send a newline of a text as two characters.
 * @param {Record<string, string>} fields
 * @param {{name: string, blob: Blob}[]} files
 */
export function multipartForm(fields, files) {
    const boundary = newId();
    const head = (/** @type {string} */ about) =>
        `--${boundary}\r\nContent-Disposition: form-data; ${about}\r\n`;
    /** @type {BlobPart[]} */
    const parts = [];
    for (const [name, value] of Object.entries(fields)) {
        parts.push(head(`name="${name}"`), "\r\n", value, "\r\n");
    }
    for (const { name, blob } of files) {
        parts.push(head(`name="file"; filename="${escapedName(name)}"`), "\r\n", blob, "\r\n");
    }
    parts.push(`--${boundary}--\r\n`);
    return new Blob(parts, { type: `multipart/form-data; boundary=${boundary}` });
}

/** @param {string} name */
function escapedName(name) {
    return name.replace(/["\r\n]/g, encodeURIComponent);
}

/** A random UUID. `crypto.randomUUID` is missing where the page is served without https. */
export function newId() {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
