/** Tell of each message that comes while the page is open, once; not of those from before. */
export function onArrival(store, tell) {
    let last = null;
    let isOpened = false;
    store.watch((state) => {
        const place = state.messages.findIndex((message) => message.id === last);
        if (isOpened && (place >= 0 || last === null)) {
            state.messages.slice(place + 1).forEach((message) => tell(message));
        }
        isOpened ||= state.connection === "open";
        last = state.messages.at(-1)?.id ?? null;
    });
}
