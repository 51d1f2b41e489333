/**
 * Signs this page in. The address from the terminal holds a code that the server exchanges once for
 * the key of this browser. With the key the page answers a challenge of the server and gets a
 * session, which stays in the memory of this page.
 *
 * The browser's database lets a page use the key, but not read it: neither this page nor a page
 * that another program serves at the same address while the bot is not running.
 *
 * @typedef {{browser: string, generation: number, key: CryptoKey}} BrowserKey
 * @typedef {{browser: string, generation: number, key: string}} GivenKey  as the server sends it
 * @typedef {{session: string, bot: string, next?: undefined}} GivenSession
 */

import { Database } from "./database.js";
import { Foreign, Locked, Refused, jsonRequest, reached, request } from "./http.js";

const TIMEOUT_MS = 10_000;
const KEY_NAME = "own";
const HMAC = { name: "HMAC", hash: "SHA-256" };

/** The code of the address was used before, or is too old. */
export class Stale extends Locked {}

/** Browsers keep no key for a page without https, unless it comes from this machine itself. */
export class Insecure extends Locked {}

/** @type {Database<BrowserKey>} */
const database = new Database("ollim-key", "keys");

let code = takeCode();
/** @type {string | null} */
let session = null;
/** @type {Promise<string> | null} */
let signingIn = null;
/** @type {{browser: string, key: CryptoKey} | null} how the bot proves that it is still the same */
let bot = null;
/** @type {BrowserKey | null} a key that the browser's database did not accept */
let keyInMemory = null;

/**
 * The session of this page; signs in if there is none.
 * @returns {Promise<string>} throws `Locked`, `Foreign` or `Unreachable`
 */
export function currentSession() {
    if (session !== null) {
        return Promise.resolve(session);
    }
    signingIn ??= signIn().finally(() => { signingIn = null; });
    return signingIn;
}

/** Sign in again before the next request; the server then proves again that it is the bot. */
export function forgetSession() {
    session = null;
}

/**
 * Whether the program at the other end of a socket has proved that it is the bot.
 * @param {string} proof
 * @param {string} nonce
 */
export async function isBot(proof, nonce) {
    return bot !== null && (await isSigned(bot.key, proof, "socket", nonce));
}

export function randomNonce() {
    return encoded(crypto.getRandomValues(new Uint8Array(16)));
}

/** Runs first, so that the code stays neither in the address bar nor in the history. */
function takeCode() {
    const given = location.hash.slice(1);
    // A view has its filters there.
    const kept = location.pathname === "/" ? "" : location.search;
    if (location.hash !== "" || location.search !== kept) {
        history.replaceState(null, "", location.pathname + kept);
    }
    return given;
}

async function signIn() {
    if (!globalThis.isSecureContext || !crypto.subtle) {
        throw new Insecure();
    }
    await removeServiceWorkers();
    // One tab at a time: the server would take the older key of a second tab for a stolen one.
    session = await navigator.locks.request("ollim-key", provenSession);
    return session;
}

async function provenSession() {
    let own = (await enteredKey()) ?? (await storedKey());
    if (own === null) {
        throw new Locked();
    }
    let given = await answerChallenge(own);
    if (given.next) {
        own = await storeKey(given.next);
        given = await answerChallenge(own);
    }
    if (given.next) {
        throw new Locked();
    }
    bot ??= { browser: own.browser, key: await importKey(given.bot, "verify") };
    return given.session;
}

/**
 * Exchange the code of the address for a key.
 * @returns {Promise<BrowserKey | null>} null without a code, or where an earlier key still serves
 */
async function enteredKey() {
    if (code === "") {
        return null;
    }
    try {
        const key = await storeKey(await post("/api/enter", { code }));
        code = "";
        return key;
    } catch (error) {
        if (!(error instanceof Locked || error instanceof Refused)) {
            throw error;
        }
        code = "";
        if ((await storedKey()) === null) {
            throw new Stale();
        }
        return null;
    }
}

/**
 * Let the bot prove itself, then prove to it that this browser has the key.
 * @param {BrowserKey} own
 * @returns {Promise<GivenSession | {next: GivenKey}>}
 */
async function answerChallenge({ browser, generation, key }) {
    const nonce = randomNonce();
    const known = bot?.browser ?? browser;
    const { challenge, proof } = await post("/api/challenge", { browser: known, nonce });
    if (bot && !(await isSigned(bot.key, proof, "challenge", challenge, nonce))) {
        throw new Foreign();
    }
    return post("/api/session", {
        browser,
        generation: String(generation),
        challenge,
        proof: await sign(key, "session", challenge),
    });
}

/**
 * @param {string} path
 * @param {Record<string, string>} value
 */
async function post(path, value) {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const response = await request(path, { ...jsonRequest(value), signal });
    return reached(response.json());
}

/** The bot has no service workers: any that is found belongs to another program. */
async function removeServiceWorkers() {
    const found = (await navigator.serviceWorker?.getRegistrations().catch(() => [])) ?? [];
    await Promise.all(found.map((one) => one.unregister()));
}

async function storedKey() {
    return keyInMemory ?? (await database.get(KEY_NAME).catch(() => null)) ?? null;
}

/** @param {GivenKey} given */
async function storeKey({ browser, generation, key }) {
    const stored = { browser, generation, key: await importKey(key, "sign") };
    try {
        await database.put(KEY_NAME, stored);
        keyInMemory = null;
    } catch {
        keyInMemory = stored;
    }
    return stored;
}

/**
 * @param {string} text
 * @param {KeyUsage} usage
 */
function importKey(text, usage) {
    return crypto.subtle.importKey("raw", decoded(text), HMAC, false, [usage]);
}

/**
 * @param {CryptoKey} key
 * @param {string[]} parts
 */
async function sign(key, ...parts) {
    return encoded(await crypto.subtle.sign(HMAC, key, joined(parts)));
}

/**
 * @param {CryptoKey} key
 * @param {string} signature
 * @param {string[]} parts
 */
async function isSigned(key, signature, ...parts) {
    try {
        return await crypto.subtle.verify(HMAC, key, decoded(signature), joined(parts));
    } catch {
        return false;
    }
}

/** @param {string[]} parts */
function joined(parts) {
    return new TextEncoder().encode(parts.join("\n"));
}

/** @param {string} text  in base64 for URLs */
function decoded(text) {
    const plain = atob(String(text).replaceAll("-", "+").replaceAll("_", "/"));
    return Uint8Array.from(plain, (character) => character.charCodeAt(0));
}

/** @param {ArrayBuffer | Uint8Array<ArrayBuffer>} bytes */
function encoded(bytes) {
    const plain = btoa(String.fromCharCode(...new Uint8Array(bytes)));
    return plain.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
