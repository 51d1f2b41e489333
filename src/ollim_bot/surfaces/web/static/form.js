/** A message as the server takes it. */

import { newId } from "./ids.js";

/**
 * A multipart form. The browser's own `FormData` would send a newline of a text as two characters.
 * @param {Record<string, string>} fields
 * @param {{name: string, blob: Blob}[]} files
 */
export function formOf(fields, files) {
    const boundary = newId();
    const head = (about) => `--${boundary}\r\nContent-Disposition: form-data; ${about}\r\n`;
    const parts = [];
    for (const [name, value] of Object.entries(fields)) {
        parts.push(head(`name="${name}"`), "\r\n", value, "\r\n");
    }
    for (const { name, blob } of files) {
        parts.push(head(`name="file"; filename="${quoted(name)}"`), "\r\n", blob, "\r\n");
    }
    parts.push(`--${boundary}--\r\n`);
    return new Blob(parts, { type: `multipart/form-data; boundary=${boundary}` });
}

function quoted(name) {
    return name.replace(/["\r\n]/g, encodeURIComponent);
}
