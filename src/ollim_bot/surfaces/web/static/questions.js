/** What waits for the owner to allow it: more of `state.js`. */

export function isAsked(state) {
    return state.messages.some(isQuestion);
}

/** @param {import("./state.js").Message} message */
export function isQuestion(message) {
    const isOpen = (one) => one.custom_id.startsWith("act:approve:") && !one.is_used;
    return message.card?.buttons.some(isOpen) ?? false;
}
