/**
 * The key of this browser, in its own database. It can be used there, and never be read: not by this
 * page, and not by one that another program shows at the same address while the bot is not running.
 *
 * @typedef {{browser: string, generation: number, key: CryptoKey}} Key
 */

const SHELF = "keys";
const ONLY = "own";
const HMAC = { name: "HMAC", hash: "SHA-256" };

/** Where the database takes nothing, as in some private windows: for as long as the page lives. */
let inMemory = null;

/** @returns {Promise<Key | null>} */
export async function ownKey() {
    return inMemory ?? (await within("readonly", (shelf) => shelf.get(ONLY)).catch(() => null)) ?? null;
}

/** @param {{browser: string, generation: number, key: string}} given  as the server gave it */
export async function keepKey({ browser, generation, key }) {
    const kept = { browser, generation, key: await imported(key, ["sign"]) };
    try {
        await within("readwrite", (shelf) => shelf.put(kept, ONLY));
        inMemory = null;
    } catch {
        inMemory = kept;
    }
    return kept;
}

/** A key that can be used, but not be read again. */
export function imported(text, usages) {
    return crypto.subtle.importKey("raw", bytesOf(text), HMAC, false, usages);
}

export async function sign(key, ...parts) {
    return textOf(await crypto.subtle.sign(HMAC, key, encoded(parts)));
}

export function isSigned(key, signature, ...parts) {
    return crypto.subtle.verify(HMAC, key, bytesOf(signature), encoded(parts));
}

export function randomText() {
    return textOf(crypto.getRandomValues(new Uint8Array(16)));
}

function encoded(parts) {
    return new TextEncoder().encode(parts.join("\n"));
}

function bytesOf(text) {
    const plain = atob(String(text).replaceAll("-", "+").replaceAll("_", "/"));
    return Uint8Array.from(plain, (character) => character.charCodeAt(0));
}

function textOf(bytes) {
    const plain = btoa(String.fromCharCode(...new Uint8Array(bytes)));
    return plain.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function within(mode, work) {
    const database = await opened();
    try {
        const transaction = database.transaction(SHELF, mode, { durability: "strict" });
        const asked = work(transaction.objectStore(SHELF));
        await settled(transaction, "complete");
        return asked.result;
    } finally {
        database.close();
    }
}

async function opened() {
    const asked = indexedDB.open("ollim-key", 1);
    asked.addEventListener("upgradeneeded", () => asked.result.createObjectStore(SHELF));
    await settled(asked, "success");
    return asked.result;
}

function settled(target, event) {
    return new Promise((resolve, reject) => {
        target.addEventListener(event, resolve);
        target.addEventListener("error", () => reject(target.error));
        target.addEventListener("abort", () => reject(target.error));
    });
}
