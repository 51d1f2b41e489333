/**
 * Moments, durations, sizes and names in the words of a person: the same words that the bot uses.
 *
 * @typedef {import("./protocol.js").Author} Author
 * @typedef {import("./protocol.js").Fork} Fork
 */

const WEEKDAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const NEAR = new Map([[-1, "yesterday"], [0, "today"], [1, "tomorrow"]]);
const LONG_PAUSE_MS = 30 * 60 * 1000;
const DAY_MS = 86_400_000;

/**
 * `today 15:00`, `yesterday 9:05`, `Tue 26 Oct 09:00`; with the year unless it is the current one.
 * @param {Date} moment
 * @param {Date} now
 */
export function momentInWords(moment, now) {
    const near = NEAR.get(daysBetween(now, moment));
    if (near) {
        return `${near} ${moment.getHours()}:${twoDigits(moment.getMinutes())}`;
    }
    const year = moment.getFullYear() === now.getFullYear() ? "" : ` ${moment.getFullYear()}`;
    const weekday = WEEKDAYS[moment.getDay()];
    const day = `${moment.getDate()} ${MONTHS[moment.getMonth()]}${year}`;
    return `${weekday} ${day} ${twoDigits(moment.getHours())}:${twoDigits(moment.getMinutes())}`;
}

/**
 * Whether the time of the second message is shown, because of a long pause or a new day.
 * @param {Date} before
 * @param {Date} after
 */
export function isApart(before, after) {
    const pause = after.getTime() - before.getTime();
    return pause >= LONG_PAUSE_MS || daysBetween(before, after) !== 0;
}

/**
 * `3s`, `2m 5s`.
 * @param {number} milliseconds
 */
export function durationInWords(milliseconds) {
    const seconds = Math.max(0, Math.floor(milliseconds / 1000));
    return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m ${seconds % 60}s`;
}

/** @param {number} bytes */
export function sizeInWords(bytes) {
    const isMegabytes = bytes >= 1024 * 1024;
    if (!isMegabytes && bytes < 1024) {
        return `${bytes} bytes`;
    }
    const amount = bytes / (isMegabytes ? 1024 * 1024 : 1024);
    const rounded = amount < 10 ? Math.round(amount * 10) / 10 : Math.round(amount);
    return `${rounded} ${isMegabytes ? "MB" : "KB"}`;
}

/** @param {import("./state.js").State} state */
export function botName(state) {
    return state.status?.bot_name ?? "Ollim";
}

/** @param {Fork} fork */
export function forkName(fork) {
    return fork.topic
        ? `Side conversation: ${fork.topic}`
        : "Side conversation, apart from the main one";
}

/**
 * @param {string} bot
 * @returns {Record<Author, string>}
 */
export function speakerNames(bot) {
    return {
        owner: "You",
        assistant: bot,
        background: `${bot}, in the background`,
        program: "Program",
    };
}

/**
 * The days between two calendar dates; clock changes between them do not count.
 * @param {Date} one
 * @param {Date} other
 */
function daysBetween(one, other) {
    const day = (/** @type {Date} */ date) =>
        Date.UTC(date.getFullYear(), date.getMonth(), date.getDate());
    return (day(other) - day(one)) / DAY_MS;
}

/** @param {number} number */
function twoDigits(number) {
    return String(number).padStart(2, "0");
}
