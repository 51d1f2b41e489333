/**
 * What could come next in a line that begins with a slash. Pure.
 *
 * @typedef {import("./state.js").Command} Command
 * @typedef {{command: Command, argument: import("./state.js").Argument, typed: string,
 *     before: string}} Place
 *     where the line ends: `typed` is what there is of the argument, `before` all that precedes it
 * @typedef {{value: string, about: string, usage: string}} Suggestion
 */

const WHOLE_NAME = /^\/[a-z][a-z-]*$/i;

/** Whether this is for the program; `/etc/hosts is empty` is for the assistant. */
export function isCommand(text) {
    return WHOLE_NAME.test(text.trim().split(/\s/, 1)[0]);
}

/** @returns {Suggestion[]} those that begin with what was typed, then those that contain it */
export function commandsFor(typed, commands) {
    return ranked(typed, commands, (command) => command.name).map((command) => ({
        value: command.name,
        about: command.about,
        usage: command.usage,
    }));
}

/** @returns {Place | null} */
export function argumentAt(line, commands) {
    const [, name, after] = /^\/(\S+)\s+(.*)$/.exec(line) ?? [];
    const command = commands.find((one) => one.name === name);
    let rest = after;
    for (const argument of command?.arguments ?? []) {
        if (argument.takes_rest || !/\s/.test(rest)) {
            const before = line.slice(0, line.length - rest.length);
            return { command, argument, typed: rest, before };
        }
        rest = rest.replace(/^\S+\s+/, "");
    }
    return null;
}

/** @returns {Suggestion[]} of the choices, and of what the server has found */
export function valuesFor(place, found) {
    const own = ranked(place.typed, place.argument.choices, (choice) => choice);
    return [...new Set([...own, ...found])].map((value) => ({ value, about: "", usage: value }));
}

export function isLastArgument(place) {
    return place.command.arguments.at(-1) === place.argument;
}

function ranked(typed, all, nameOf) {
    const wanted = typed.toLowerCase();
    const begins = (one) => nameOf(one).toLowerCase().startsWith(wanted);
    const contains = (one) => nameOf(one).toLowerCase().includes(wanted);
    return [...all.filter(begins), ...all.filter((one) => contains(one) && !begins(one))];
}
