/** Moments in the words of a person: the same words that the bot itself uses. */

const WEEKDAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const NEAR = new Map([[-1, "yesterday"], [0, "today"], [1, "tomorrow"]]);
const LONG_PAUSE = 30 * 60 * 1000;

/** `today 15:00`, `yesterday 9:05`, `Tue 26 Oct 09:00`; the year where it is not this one. */
export function describe(moment, now) {
    const near = NEAR.get(days(now, moment));
    if (near) {
        return `${near} ${moment.getHours()}:${two(moment.getMinutes())}`;
    }
    const year = moment.getFullYear() === now.getFullYear() ? "" : ` ${moment.getFullYear()}`;
    const weekday = WEEKDAYS[moment.getDay()];
    const day = `${moment.getDate()} ${MONTHS[moment.getMonth()]}${year}`;
    return `${weekday} ${day} ${two(moment.getHours())}:${two(moment.getMinutes())}`;
}

/** Whether so much time lies between two messages that the second says when it came. */
export function isApart(before, after) {
    return after - before >= LONG_PAUSE || days(before, after) !== 0;
}

/** `3s`, `2m 5s`: short, since it changes all the time. */
export function elapsed(milliseconds) {
    const seconds = Math.max(0, Math.floor(milliseconds / 1000));
    return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m ${seconds % 60}s`;
}

/** How many days later the calendar says that `other` is; clock changes do not matter. */
function days(one, other) {
    const day = (date) => Date.UTC(date.getFullYear(), date.getMonth(), date.getDate());
    return (day(other) - day(one)) / 86_400_000;
}

function two(number) {
    return String(number).padStart(2, "0");
}
