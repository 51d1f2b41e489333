/** What those who speak are called. */

export function botName(state) {
    return state.status?.bot_name ?? "Ollim";
}

/** @param {import("./state.js").Fork} fork */
export function forkName(fork) {
    return fork.topic ? `Fork: ${fork.topic}` : "Fork — separate from the main conversation";
}

/** @returns {Record<import("./state.js").Author, string>} */
export function speakers(bot) {
    return {
        owner: "You",
        assistant: bot,
        background: `${bot}, in the background`,
        program: "Program",
    };
}
