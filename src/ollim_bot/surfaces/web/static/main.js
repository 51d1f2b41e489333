/** Puts the page together: one state, those who change it, and those who show it. */

import { announceArrivals } from "./announcer.js";
import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";
import { byId } from "./dom.js";
import { showDoor } from "./door.js";
import { showEmptyState } from "./empty.js";
import { showFork } from "./fork.js";
import { showHeader, showThemeSwitch } from "./header.js";
import { listenToKeys } from "./keys.js";
import { listenToMessages } from "./message_actions.js";
import { Notifications } from "./notifications.js";
import { Older } from "./older.js";
import { Outbox } from "./outbox.js";
import { shareReading } from "./reading.js";
import { Socket } from "./socket.js";
import { START } from "./state.js";
import { showStatusLine } from "./status.js";
import { Store } from "./store.js";

const MINUTE = 60_000;

const store = new Store(START);
const socket = new Socket(store);
const outbox = new Outbox(store, () => socket.doubt());
const older = new Older(store);
const conversation = new Conversation(store, () => older.load());
const composer = new Composer(store, outbox, () => conversation.scroll.toEnd());

showHeader(store);
showDoor(store);
showThemeSwitch();
showStatusLine(store, (sentence) => composer.complain(sentence));
showFork(store, conversation.scroll, () => composer.focus());
showEmptyState(store, (text) => {
    composer.write(text);
    composer.focus();
});
listenToMessages({ store, conversation, composer, outbox, older });
listenToKeys(store, composer);
shareReading(store);
announceArrivals(store);
new Notifications(store);

let before = null;
store.watch((state) => {
    byId("earlier").hidden = !state.isLoadingOlder;
    if (state.connection === "open" && before !== "open") {
        outbox.send();
    }
    before = state.connection;
});
setInterval(() => conversation.refresh(), MINUTE);
socket.open();
