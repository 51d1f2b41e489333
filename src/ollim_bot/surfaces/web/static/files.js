/** Files that came with messages: fetched as this page, since a bare link to one is not let in. */

import { attachment } from "./api.js";
import { Refused } from "./wire.js";

const MOST_PICTURES = 100;
const NEAR = "800px";
const AGAIN_MS = 5000;
const NOT_REACHED = "The bot cannot be reached now, so the file could not be loaded.";

/** @type {Map<string, Promise<string>>} addresses within this page, by those at the server */
const pictures = new Map();

const near = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
        if (isIntersecting) {
            near.unobserve(target);
            show(target);
        }
    }
}, { rootMargin: NEAR });

/** Load the picture when it comes near to what the reader sees. */
export function showWhenNear(image, url) {
    image.dataset.url = url;
    near.observe(image);
    return image;
}

/** @returns {Promise<string>} why it could not be saved; empty if it was */
export async function save(url, name) {
    try {
        const place = URL.createObjectURL(await attachment(url));
        const link = Object.assign(document.createElement("a"), { href: place, download: name });
        link.click();
        setTimeout(() => URL.revokeObjectURL(place), 60_000);
    } catch (error) {
        return error instanceof Refused ? error.message : NOT_REACHED;
    }
    return "";
}

async function show(image) {
    const { url } = image.dataset;
    try {
        image.src = await pictureAt(url);
        image.closest("a")?.setAttribute("href", image.src);
    } catch (error) {
        pictures.delete(url);
        if (!(error instanceof Refused)) {
            setTimeout(() => image.isConnected && near.observe(image), AGAIN_MS);
        }
    }
}

function pictureAt(url) {
    const known = pictures.get(url) ?? attachment(url).then((blob) => URL.createObjectURL(blob));
    pictures.delete(url);
    pictures.set(url, known);
    if (pictures.size > MOST_PICTURES) {
        const [oldest, place] = pictures.entries().next().value;
        pictures.delete(oldest);
        place.then(URL.revokeObjectURL, () => undefined);
    }
    return known;
}
