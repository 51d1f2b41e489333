/** The fork that is open, and what came of trying to leave it: more of `state.js`. */

/** @returns {import("./state.js").Fork | null} the fork that the owner is in */
export function openFork(state) {
    return state.status?.fork ?? null;
}

/** A way out was chosen; no other one can be before the answer is there. */
export function leaving(state, card) {
    return { ...state, wayOut: { card, isAsked: true, html: "" } };
}

/** @param {string} html  why it was not done; else empty */
export function leavingAnswered(state, card, html) {
    return { ...state, wayOut: { card, isAsked: false, html } };
}

/** @returns {{isAsked: boolean, html: string}} of the fork that is open */
export function wayOut(state) {
    const isOfThis = state.wayOut !== null && state.wayOut.card === openFork(state)?.card;
    return isOfThis ? state.wayOut : { isAsked: false, html: "" };
}

/** Whether the button with which the fork can be left so is still to be used. */
export function isWayOpen(state, customId) {
    const fork = openFork(state);
    if (fork === null || wayOut(state).isAsked) {
        return false;
    }
    const message = state.messages.find((one) => one.id === fork.card);
    const button = message?.card?.buttons.find((one) => one.custom_id === customId);
    return !button?.is_used && !button?.isPressed;
}
