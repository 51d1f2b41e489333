/** Runs a command that was typed, and shows its answer as a note that passes. */

import { runCommand } from "./api.js";
import { announce } from "./announcer.js";
import { newId } from "./ids.js";
import { escaped, plain } from "./rich.js";
import { noteAnswered, noteDropped, noted } from "./state.js";
import { Refused } from "./wire.js";

const NOT_REACHED = "The bot cannot be reached now, so this was not run.";

/** @param {import("./store.js").Store} store */
export async function run(store, line) {
    const key = newId();
    store.change(noted, key, line);
    const { html, is_error: isError } = await answerTo(runCommand(line), NOT_REACHED);
    if (html === "" && !isError) {
        store.change(noteDropped, key);
        return;
    }
    store.change(noteAnswered, key, html, isError);
    announce(plain(html));
}

/**
 * What the server answers to a request, or why it does not.
 * @param {Promise<{html: string, is_error: boolean}>} request
 */
export async function answerTo(request, notReached) {
    try {
        return await request;
    } catch (error) {
        const sentence = error instanceof Refused ? error.message : notReached;
        return { html: escaped(sentence), is_error: true };
    }
}
