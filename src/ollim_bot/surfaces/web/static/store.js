/** Holds the state. Those who watch are told once after each batch of changes. */
export class Store {
    #state;
    #watchers = [];
    #isTold = true;

    constructor(state) {
        this.#state = state;
    }

    get state() {
        return this.#state;
    }

    /** @param {(state: object, ...details: any[]) => object} step  a function of `state.js` */
    change(step, ...details) {
        const before = this.#state;
        this.#state = step(before, ...details);
        if (this.#state !== before && this.#isTold) {
            this.#isTold = false;
            queueMicrotask(() => this.#tell());
        }
    }

    watch(watcher) {
        this.#watchers.push(watcher);
    }

    #tell() {
        this.#isTold = true;
        for (const watcher of this.#watchers) {
            watcher(this.#state);
        }
    }
}
