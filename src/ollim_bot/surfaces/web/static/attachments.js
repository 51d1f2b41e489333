/**
 * Files: those of messages, which are fetched with the session of this page, and those that go with
 * the next message.
 *
 * @typedef {import("./outbox.js").OutgoingFile} OutgoingFile
 * @typedef {import("./protocol.js").Attachment} Attachment
 * @typedef {OutgoingFile & {url: string}} ChosenFile
 */

import { attachmentContent } from "./api.js";
import { actionAttribute, byId, closest, icon, iconButton, make } from "./dom.js";
import { sizeInWords } from "./format.js";
import { Refused } from "./http.js";

const LARGEST_BYTES = 25 * 1024 * 1024;
const MOST_FILES = 10;
const MOST_PICTURES = 100;
const NEAR = "800px";
const RETRY_MS = 5000;
const SAVED_MS = 60_000;
const NOT_REACHED = "The bot does not answer, so the page could not load the file. Try again later.";

/** @type {Map<string, Promise<string>>} addresses within this page, by those at the server */
const pictures = new Map();

const nearPictures = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
        if (isIntersecting && target instanceof HTMLImageElement) {
            nearPictures.unobserve(target);
            loadPicture(target);
        }
    }
}, { rootMargin: NEAR });

/** @param {Attachment[]} attachments */
export function attachmentList(attachments) {
    return make("ul", { class: "files" }, ...attachments.map(attachmentItem));
}

/** @param {{name: string, size: number}[]} files */
export function unsentFileList(files) {
    const items = files.map(({ name, size }) =>
        make("li", {}, make("span", { class: "file" }, icon("file"), ...fileLabel(name, size))));
    return make("ul", { class: "files" }, ...items);
}

/**
 * Save the file of a message on this machine.
 * @param {string} url
 * @param {string} name
 * @returns {Promise<string>} why it could not be saved; empty if it was
 */
export async function saveAttachment(url, name) {
    try {
        const place = URL.createObjectURL(await attachmentContent(url));
        const link = Object.assign(document.createElement("a"), { href: place, download: name });
        link.click();
        setTimeout(() => URL.revokeObjectURL(place), SAVED_MS);
    } catch (error) {
        return error instanceof Refused ? error.message : NOT_REACHED;
    }
    return "";
}

/** @param {Attachment} attachment */
function attachmentItem({ name, url, is_image: isImage, size }) {
    const title = `${name}, ${sizeInWords(size)}`;
    if (isImage) {
        const image = make("img", { alt: name, "data-url": url });
        nearPictures.observe(image);
        const link = { target: "_blank", rel: "noopener", title, class: "picture" };
        return make("li", {}, make("a", link, image));
    }
    const action = { ...actionAttribute("save"), "data-name": name };
    const download = { href: url, title, class: "file", ...action };
    return make("li", {}, make("a", download, icon("file"), ...fileLabel(name, size)));
}

/**
 * @param {string} name
 * @param {number} size
 */
function fileLabel(name, size) {
    return [make("span", { class: "name" }, name), make("small", {}, sizeInWords(size))];
}

/** @param {HTMLImageElement} image */
async function loadPicture(image) {
    const url = image.dataset.url ?? "";
    try {
        image.src = await pictureAddress(url);
        image.closest("a")?.setAttribute("href", image.src);
    } catch (error) {
        pictures.delete(url);
        if (!(error instanceof Refused)) {
            setTimeout(() => image.isConnected && nearPictures.observe(image), RETRY_MS);
        }
    }
}

/** @param {string} url */
function pictureAddress(url) {
    const address = pictures.get(url)
        ?? attachmentContent(url).then((content) => URL.createObjectURL(content));
    pictures.delete(url);
    pictures.set(url, address);
    if (pictures.size > MOST_PICTURES) {
        const [[oldest, place]] = pictures;
        pictures.delete(oldest);
        place.then(URL.revokeObjectURL, () => undefined);
    }
    return address;
}

/** The files that go with the next message: added by button, drop or paste, shown as chips. */
export class ChosenFiles {
    #chips = byId("chips");
    #complain;
    /** @type {ChosenFile[]} */
    #files = [];

    /** @param {(sentence: string) => void} complain  says which file cannot be added, and why */
    constructor(complain) {
        this.#complain = complain;
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
        this.#complain(problems.join(" "));
        this.#show();
        byId("box").focus();
    }

    /** Remove and return all of them. */
    take() {
        const files = this.#files.map(({ name, blob }) => ({ name, blob }));
        this.#files.forEach((file) => URL.revokeObjectURL(file.url));
        this.#files = [];
        this.#show();
        return files;
    }

    /** @param {OutgoingFile[]} files */
    restore(files) {
        this.#files = files.map((file) => ({ ...file, url: URL.createObjectURL(file.blob) }));
        this.#show();
    }

    /** @param {File} file */
    #refusal({ name, size }) {
        if (this.#files.length >= MOST_FILES) {
            return `${name} is one file too many. A message takes up to ${MOST_FILES}.`;
        }
        return size > LARGEST_BYTES
            ? `${name} is too large. Files can be up to 25 MB.`
            : null;
    }

    /**
     * Read the file now: it may change or go before the message is sent.
     * @param {File} file
     */
    async #addOne(file) {
        try {
            const blob = new Blob([await file.arrayBuffer()], { type: file.type });
            this.#files.push({ name: file.name, blob, url: URL.createObjectURL(blob) });
        } catch {
            return `The browser could not read ${file.name}. Folders cannot be sent.`;
        }
        return null;
    }

    #show() {
        this.#chips.hidden = this.isEmpty;
        this.#chips.replaceChildren(...this.#files.map(chip));
    }

    /** @param {Event} event */
    #clicked(event) {
        const item = closest(event, "button")?.closest("li");
        if (item) {
            const place = [...this.#chips.children].indexOf(item);
            this.#files.splice(place, 1).forEach((file) => URL.revokeObjectURL(file.url));
            this.#complain("");
            this.#show();
            byId("box").focus();
        }
    }

    #listenToButton() {
        const picker = byId("files", HTMLInputElement);
        byId("attach").addEventListener("click", () => picker.click());
        picker.addEventListener("change", async () => {
            await this.add([...picker.files ?? []]);
            picker.value = "";
        });
    }

    /** Take pasted files, but not the picture that comes beside the text of a copied table. */
    #listenToPaste() {
        document.addEventListener("paste", (event) => {
            const pasted = event.clipboardData;
            if (pasted && pasted.files.length > 0 && pasted.getData("text/plain") === "") {
                event.preventDefault();
                this.add([...pasted.files]);
            }
        });
    }

    /** @param {HTMLElement} overlay */
    #listenToDrop(overlay) {
        const isFiles = (/** @type {DragEvent} */ event) =>
            event.dataTransfer?.types.includes("Files");
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
                this.add([...event.dataTransfer?.files ?? []]);
            }
        });
    }
}

/** @param {ChosenFile} file */
function chip({ name, blob, url }) {
    const sign = blob.type.startsWith("image/")
        ? make("img", { src: url, alt: "" })
        : icon("file");
    const remove = iconButton("close", `Remove ${name}`);
    return make("li", {}, sign, ...fileLabel(name, blob.size), remove);
}
