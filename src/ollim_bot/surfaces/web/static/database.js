/**
 * One object store in a database of this browser. Every call fails where the browser keeps no
 * databases, as in some private windows.
 * @template Value
 */
export class Database {
    #name;
    #storeName;

    /**
     * @param {string} name
     * @param {string} storeName
     */
    constructor(name, storeName) {
        this.#name = name;
        this.#storeName = storeName;
    }

    /**
     * @param {string} key
     * @returns {Promise<Value | undefined>}
     */
    get(key) {
        return this.#within("readonly", (store) => store.get(key));
    }

    /**
     * @param {string} key
     * @param {Value} value
     */
    async put(key, value) {
        await this.#within("readwrite", (store) => store.put(value, key));
    }

    /** @param {string} key */
    async delete(key) {
        await this.#within("readwrite", (store) => store.delete(key));
    }

    /**
     * @template Result
     * @param {IDBTransactionMode} mode
     * @param {(store: IDBObjectStore) => IDBRequest<Result>} work
     */
    async #within(mode, work) {
        const database = await this.#open();
        try {
            const transaction = database.transaction(this.#storeName, mode, {
                durability: "strict",
            });
            const request = work(transaction.objectStore(this.#storeName));
            await settled(transaction, "complete");
            return request.result;
        } finally {
            database.close();
        }
    }

    async #open() {
        const request = indexedDB.open(this.#name, 1);
        request.addEventListener("upgradeneeded", () => {
            request.result.createObjectStore(this.#storeName);
        });
        await settled(request, "success");
        return request.result;
    }
}

/**
 * @param {IDBTransaction | IDBOpenDBRequest} target
 * @param {"complete" | "success"} event
 */
function settled(target, event) {
    return new Promise((resolve, reject) => {
        target.addEventListener(event, resolve);
        target.addEventListener("error", () => reject(target.error));
        target.addEventListener("abort", () => reject(target.error));
    });
}
