/** Where the reader is. Follows the end for who is at the end, and holds still for all others. */

const NEAR = 40;

export class Scroll {
    #scroller;
    #content;
    #moved;
    #top = 0;
    isFollowing = true;

    /** @param {() => void} moved  called when the reader may be somewhere else */
    constructor(scroller, content, moved) {
        this.#scroller = scroller;
        this.#content = content;
        this.#moved = moved;
        scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
        const resized = new ResizeObserver(() => this.#settle());
        resized.observe(scroller);
        resized.observe(content);
    }

    get isNearTop() {
        return this.#scroller.scrollTop < this.#scroller.clientHeight;
    }

    toEnd() {
        this.isFollowing = true;
        this.#top = this.#scroller.scrollTop;
        this.#settle();
        this.#moved();
    }

    /** Bring `element` to the top of the view, as far as what follows it reaches. */
    toTop(element) {
        this.#scroller.scrollTop += this.#offset(element);
        this.isFollowing = this.#isAtEnd;
        this.#moved();
    }

    /** Make a change of the content, or of what stands above it; what the reader sees stays put. */
    around(change) {
        const anchor = this.isFollowing ? null : this.#firstVisible();
        const before = anchor?.getBoundingClientRect().top;
        change();
        if (anchor?.isConnected) {
            this.#scroller.scrollTop += anchor.getBoundingClientRect().top - before;
        }
        this.#settle();
    }

    #settle() {
        // The browser tells of a scroll only with the next frame, and the reader is not pulled back.
        this.#look();
        if (this.isFollowing) {
            this.#scroller.scrollTop = this.#scroller.scrollHeight;
        }
        this.#top = this.#scroller.scrollTop;
    }

    #scrolled() {
        this.#look();
        this.#moved();
    }

    #look() {
        const isUp = this.#scroller.scrollTop < this.#top;
        this.#top = this.#scroller.scrollTop;
        if (this.#isAtEnd) {
            this.isFollowing = true;
        } else if (isUp) {
            this.isFollowing = false;
        }
    }

    get #isAtEnd() {
        const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
        return scrollHeight - scrollTop - clientHeight <= NEAR;
    }

    #offset(element) {
        return element.getBoundingClientRect().top - this.#scroller.getBoundingClientRect().top;
    }

    /** Of the messages: what stands between them may go. */
    #firstVisible() {
        const top = this.#scroller.getBoundingClientRect().top;
        const messages = [...this.#content.querySelectorAll(":scope > article")];
        return messages.find((message) => message.getBoundingClientRect().bottom > top);
    }
}
