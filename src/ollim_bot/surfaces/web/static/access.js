/**
 * How this page is let in. The address from the terminal holds a code that gives this browser its
 * key, once; with the key it answers a fresh question of the bot's, and is given a session. The
 * session is here, in the page's memory, and nowhere else.
 */

import { imported, isSigned, keepKey, ownKey, randomText, sign } from "./key.js";
import { Foreign, Locked, Refused, postJson } from "./wire.js";

const PATIENCE_MS = 10_000;

/** The address was used already, or is too old. */
export class Stale extends Locked {}

/** Without https, or this machine's own address, the browser gives no page a key. */
export class Insecure extends Locked {}

let code = takeCode();
let session = null;
let coming = null;
/** How the bot that let this page in shows that it is the same one. */
let bot = null;

/**
 * The session of this page, made if there is none.
 * @returns {Promise<string>} throws `Locked`, `Foreign`, `Unreachable`
 */
export function ownSession() {
    if (session !== null) {
        return Promise.resolve(session);
    }
    coming ??= begun().finally(() => { coming = null; });
    return coming;
}

/** Whoever is reached next has to show first that it is the bot. */
export function forgetSession() {
    session = null;
}

/** Whether who answers on a socket knows what the bot knows. */
export async function isBot(proof, nonce) {
    return bot !== null && (await isSigned(bot.key, proof, "socket", nonce).catch(() => false));
}

/** At once, so that the code is neither in the address bar nor in the history. */
function takeCode() {
    const given = location.hash.slice(1);
    if (location.hash !== "" || location.search !== "") {
        history.replaceState(null, "", "/");
    }
    return given;
}

async function begun() {
    if (!globalThis.isSecureContext || !crypto.subtle) {
        throw new Insecure();
    }
    await withoutServiceWorkers();
    // One tab at a time: what another one makes new, this one would else take for stolen.
    session = await navigator.locks.request("ollim-key", proved);
    return session;
}

async function proved() {
    let own = (await entered()) ?? (await ownKey());
    if (own === null) {
        throw new Locked();
    }
    const first = await answered(own);
    if (first.next) {
        own = await keepKey(first.next);
    }
    const { session: given, bot: key } = first.next ? await answered(own) : first;
    bot ??= { browser: own.browser, key: await imported(key, ["verify"]) };
    return given;
}

/** @returns {Promise<import("./key.js").Key | null>} the key for the code, if there was one */
async function entered() {
    if (code === "") {
        return null;
    }
    const given = code;
    try {
        const key = await keepKey(await ask("/api/enter", { code: given }));
        code = "";
        return key;
    } catch (error) {
        if (!(error instanceof Locked || error instanceof Refused)) {
            throw error;
        }
        code = "";
        if ((await ownKey()) === null) {
            throw new Stale();
        }
        return null;
    }
}

/** The bot's answer to who shows that it has the key; the bot shows first that it is the bot. */
async function answered({ browser, generation, key }) {
    const nonce = randomText();
    const known = bot?.browser ?? browser;
    const { challenge, proof } = await ask("/api/challenge", { browser: known, nonce });
    if (bot && !(await isSigned(bot.key, proof, "challenge", challenge, nonce).catch(() => false))) {
        throw new Foreign();
    }
    return ask("/api/session", {
        browser,
        generation: String(generation),
        challenge,
        proof: await sign(key, "session", challenge),
    });
}

function ask(path, value) {
    return postJson(path, value, { signal: AbortSignal.timeout(PATIENCE_MS) });
}

/** The bot has none; one that is there was left by somebody else. */
async function withoutServiceWorkers() {
    const found = (await navigator.serviceWorker?.getRegistrations().catch(() => [])) ?? [];
    await Promise.all(found.map((one) => one.unregister()));
}
