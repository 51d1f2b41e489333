/** Puts the page together: one store, the parts that change it, and the parts that show it. */

import { listenToMessageButtons } from "./actions.js";
import { Composer } from "./composer.js";
import { Connection, History, shareReadMark } from "./connection.js";
import { Conversation } from "./conversation.js";
import { byId, loadStyle } from "./dom.js";
import { isEmpty, showExclusion } from "./empty_states.js";
import { showHeader, showThemeSwitch } from "./header.js";
import { listenToKeys } from "./keyboard.js";
import { refreshTimesLeft } from "./message.js";
import { DesktopNotifications, announceArrivals } from "./notifications.js";
import { Outbox } from "./outbox.js";
import { offerSearch } from "./search_button.js";
import { INITIAL_STATE, Store, openFork } from "./state.js";
import { TurnStatus } from "./turn_status.js";
import { Views } from "./views.js";

const MINUTE_MS = 60_000;

const store = new Store(INITIAL_STATE);
const connection = new Connection(store);
const outbox = new Outbox(store, () => connection.reset());
const history = new History(store);
const conversation = new Conversation(store, () => history.load());
const composer = new Composer(
    store,
    outbox,
    () => conversation.toEnd(),
    (change) => conversation.scroll.around(change),
);

showHeader(store);
showExclusion(store);
showThemeSwitch();
new TurnStatus(store, (sentence) => composer.complain(sentence));
loadWhen(openFork, async () => {
    const [{ showFork }] = await Promise.all([import("./fork.js"), loadStyle("fork.css")]);
    showFork(store, conversation.scroll, () => composer.focus());
});
loadWhen(({ status }) => status?.careful, async () => {
    const [{ showCareful }] = await Promise.all([import("./careful.js"), loadStyle("careful.css")]);
    showCareful(store, conversation.scroll, composer);
});
loadWhen(isEmpty, async () => (await import("./ideas.js")).showIdeas(store, composer));
listenToMessageButtons({ store, conversation, composer, outbox, history });
const views = new Views(store, () => conversation.refresh());
listenToKeys(store, composer, views);
offerSearch(store, conversation, composer);
shareReadMark(store);
announceArrivals(store);
new DesktopNotifications(
    store,
    (sentence) => composer.complain(sentence),
    () => connection.tellPresence(),
);

let wasOpen = false;
store.watch((state) => {
    byId("earlier").hidden = !state.isLoadingOlder;
    const isOpen = state.connection === "open";
    if (isOpen && !wasOpen) {
        outbox.send();
    }
    wasOpen = isOpen;
});
setInterval(() => {
    conversation.refresh();
    refreshTimesLeft();
}, MINUTE_MS);
connection.open();

/**
 * Load a part when it is first needed.
 * @param {(state: import("./state.js").State) => unknown} isNeeded
 * @param {() => Promise<void>} load
 */
function loadWhen(isNeeded, load) {
    let isBegun = false;
    store.watch(async (state) => {
        if (!isBegun && isNeeded(state)) {
            isBegun = true;
            // While the bot is away, each change tries again.
            await load().catch(() => { isBegun = false; });
        }
    });
}
