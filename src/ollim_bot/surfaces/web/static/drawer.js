/** Files of messages that are not sent yet, in the browser's own database. */

const SHELF = "files";

/** @param {{name: string, blob: Blob}[]} files */
export async function put(id, files) {
    await within("readwrite", (shelf) => shelf.put(files, id));
}

/** @returns {Promise<{name: string, blob: Blob}[]>} none, where they are gone */
export async function take(id) {
    return (await within("readonly", (shelf) => shelf.get(id)).catch(() => undefined)) ?? [];
}

export async function drop(id) {
    await within("readwrite", (shelf) => shelf.delete(id));
}

async function within(mode, work) {
    const database = await opened();
    try {
        const transaction = database.transaction(SHELF, mode, { durability: "strict" });
        const request = work(transaction.objectStore(SHELF));
        await settled(transaction, "complete");
        return request.result;
    } finally {
        database.close();
    }
}

async function opened() {
    const request = indexedDB.open("ollim", 1);
    request.addEventListener("upgradeneeded", () => request.result.createObjectStore(SHELF));
    await settled(request, "success");
    return request.result;
}

function settled(target, event) {
    return new Promise((resolve, reject) => {
        target.addEventListener(event, resolve);
        target.addEventListener("error", () => reject(target.error));
        target.addEventListener("abort", () => reject(target.error));
    });
}
