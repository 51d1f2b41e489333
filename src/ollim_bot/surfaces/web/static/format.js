/**
 * Moments, durations, sizes and names in the words of a person: the same words that the bot uses.
 *
 * @typedef {import("./protocol.js").Author} Author
 * @typedef {import("./protocol.js").Fork} Fork
 */

const WEEKDAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const CLOCK_PARTS = Object.freeze({
    hourCycle: "h23", year: "numeric", month: "numeric", day: "numeric", hour: "numeric",
    minute: "numeric",
});
/** @type {Map<string, Intl.DateTimeFormat>} by zone */
const clocks = new Map();
const NEAR = new Map([[-1, "yesterday"], [0, "today"], [1, "tomorrow"]]);
const LONG_PAUSE_MS = 30 * 60 * 1000;
const DAY_MS = 86_400_000;

/**
 * `today 15:00`, `yesterday 9:05`, `Tue 26 Oct 09:00`; with the year unless it is the current one.
 * @param {Date} moment
 * @param {Date} now
 * @param {string} zone
 */
export function momentInWords(moment, now, zone) {
    const { year, month, day, hour, minute } = wallClock(moment, zone);
    const near = NEAR.get(dayIn(zone, moment) - dayIn(zone, now));
    if (near) {
        return `${near} ${hour}:${twoDigits(minute)}`;
    }
    const weekday = WEEKDAYS[new Date(Date.UTC(year, month - 1, day)).getUTCDay()];
    const ofYear = year === wallClock(now, zone).year ? "" : ` ${year}`;
    const date = `${weekday} ${day} ${MONTHS[month - 1]}${ofYear}`;
    return `${date} ${twoDigits(hour)}:${twoDigits(minute)}`;
}

/**
 * `9:05`, and with the day where it is another than that of the moment before.
 * @param {Date} moment
 * @param {Date} before
 * @param {Date} now
 * @param {string} zone
 */
export function nextMomentInWords(moment, before, now, zone) {
    return dayIn(zone, moment) === dayIn(zone, before)
        ? clockTime(moment, zone)
        : momentInWords(moment, now, zone);
}

/**
 * @param {Date} moment
 * @param {string} zone
 */
export function clockTime(moment, zone) {
    const { hour, minute } = wallClock(moment, zone);
    return `${hour}:${twoDigits(minute)}`;
}

/**
 * Whether the time of the second message is shown, because of a long pause or a new day.
 * @param {Date} before
 * @param {Date} after
 * @param {string} zone
 */
export function isApart(before, after, zone) {
    const pause = after.getTime() - before.getTime();
    return pause >= LONG_PAUSE_MS || dayIn(zone, before) !== dayIn(zone, after);
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

/**
 * The owner's time zone, which the bot knows; the browser may be in another one.
 * @param {import("./state.js").State} state
 */
export function zoneOf(state) {
    return state.status?.zone ?? "UTC";
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
 * The number of the calendar day; clock changes between two days do not count.
 * @param {string} zone
 * @param {Date} moment
 */
export function dayIn(zone, moment) {
    const { year, month, day } = wallClock(moment, zone);
    return Date.UTC(year, month - 1, day) / DAY_MS;
}

/**
 * What the clocks of the zone show.
 * @param {Date} moment
 * @param {string} zone
 */
function wallClock(moment, zone) {
    const shown = clockOf(zone).formatToParts(moment);
    const part = (/** @type {Intl.DateTimeFormatPartTypes} */ name) =>
        Number(shown.find(({ type }) => type === name)?.value);
    return {
        year: part("year"), month: part("month"), day: part("day"), hour: part("hour"),
        minute: part("minute"),
    };
}

/** @param {string} zone */
function clockOf(zone) {
    const known = clocks.get(zone);
    if (known) {
        return known;
    }
    let clock;
    try {
        clock = new Intl.DateTimeFormat("en", { ...CLOCK_PARTS, timeZone: zone });
    } catch {
        // A zone that this browser does not know.
        clock = new Intl.DateTimeFormat("en", CLOCK_PARTS);
    }
    clocks.set(zone, clock);
    return clock;
}

/** @param {number} number */
function twoDigits(number) {
    return String(number).padStart(2, "0");
}

export const NOTIFY_KEY = "ollim.notify";

/** Whether the owner and the browser let this page show notifications. */
export function mayNotify() {
    return "Notification" in window && Notification.permission === "granted" &&
        localStorage.getItem(NOTIFY_KEY) === "on";
}
