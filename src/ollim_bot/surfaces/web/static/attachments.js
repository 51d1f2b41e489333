/** Files that go with the next message: added by button, drop or paste, shown as chips. */

import { byId, icon, iconButton, make, sizeInWords } from "./dom.js";
import { fileLabel } from "./message.js";

const LARGEST = 25 * 1024 * 1024;
const MOST = 10;

export class Attachments {
    #chips = byId("chips");
    #notice;
    /** @type {{name: string, blob: Blob, url: string}[]} */
    #files = [];

    /** @param {(sentence: string) => void} notice  says what cannot be added */
    constructor(notice) {
        this.#notice = notice;
        this.#chips.addEventListener("click", (event) => this.#clicked(event));
        this.#listenToButton();
        this.#listenToPaste();
        this.#listenToDrop(byId("drop"));
    }

    get isEmpty() {
        return this.#files.length === 0;
    }

    /** @param {Iterable<File>} files */
    async add(files) {
        const problems = [];
        for (const file of files) {
            const problem = this.#refusal(file) ?? (await this.#addOne(file));
            if (problem) {
                problems.push(problem);
            }
        }
        this.#notice(problems.join(" "));
        this.#show();
        byId("box").focus();
    }

    /** @returns {{name: string, blob: Blob}[]} all of them, which are then no longer here */
    take() {
        const files = this.#files.map(({ name, blob }) => ({ name, blob }));
        this.#files.forEach((file) => URL.revokeObjectURL(file.url));
        this.#files = [];
        this.#show();
        return files;
    }

    /** Put back what was taken. */
    restore(files) {
        this.#files = files.map((file) => ({ ...file, url: URL.createObjectURL(file.blob) }));
        this.#show();
    }

    #refusal(file) {
        if (this.#files.length >= MOST) {
            return `${file.name} is one too many. A message takes ${MOST} files.`;
        }
        return file.size > LARGEST ? tooLarge(file) : null;
    }

    /** Read at once: the file may have changed or gone by the time it is sent. */
    async #addOne(file) {
        try {
            const blob = new Blob([await file.arrayBuffer()], { type: file.type });
            this.#files.push({ name: file.name, blob, url: URL.createObjectURL(blob) });
        } catch {
            return `${file.name} could not be read. Folders cannot be sent.`;
        }
        return null;
    }

    #show() {
        this.#chips.hidden = this.isEmpty;
        this.#chips.replaceChildren(...this.#files.map(chip));
    }

    #clicked(event) {
        const button = event.target.closest("button");
        if (button) {
            const place = [...this.#chips.children].indexOf(button.closest("li"));
            this.#files.splice(place, 1).forEach((file) => URL.revokeObjectURL(file.url));
            this.#notice("");
            this.#show();
            byId("box").focus();
        }
    }

    #listenToButton() {
        const picker = byId("files");
        byId("attach").addEventListener("click", () => picker.click());
        picker.addEventListener("change", async () => {
            await this.add([...picker.files]);
            picker.value = "";
        });
    }

    /** A table copied from elsewhere is text and a picture of it; then the text is meant. */
    #listenToPaste() {
        document.addEventListener("paste", (event) => {
            const { files } = event.clipboardData;
            if (files.length > 0 && event.clipboardData.getData("text/plain") === "") {
                event.preventDefault();
                this.add([...files]);
            }
        });
    }

    #listenToDrop(overlay) {
        const isFiles = (event) => event.dataTransfer?.types.includes("Files");
        document.addEventListener("dragover", (event) => {
            if (isFiles(event)) {
                event.preventDefault();
                overlay.hidden = false;
            }
        });
        document.addEventListener("dragleave", (event) => {
            overlay.hidden ||= event.relatedTarget === null;
        });
        document.addEventListener("drop", (event) => {
            overlay.hidden = true;
            if (isFiles(event)) {
                event.preventDefault();
                this.add([...event.dataTransfer.files]);
            }
        });
    }
}

function tooLarge(file) {
    return `${file.name} is ${sizeInWords(file.size)}. A file may have 25 MB at most.`;
}

function chip({ name, blob, url }) {
    const sign = blob.type.startsWith("image/")
        ? make("img", { src: url, alt: "" })
        : icon("file");
    const remove = iconButton("close", `Remove ${name}`, "remove");
    return make("li", {}, sign, ...fileLabel(name, blob.size), remove);
}
