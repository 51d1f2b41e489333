/** Follows the end of the conversation for a reader at the end, and holds still for any other. */

const NEAR_PX = 40;

export class Scroll {
    #scroller;
    #content;
    #onMove;
    #top = 0;
    isFollowing = true;

    /**
     * @param {HTMLElement} scroller
     * @param {HTMLElement} content
     * @param {() => void} onMove  called when the reader may be at another place
     */
    constructor(scroller, content, onMove) {
        this.#scroller = scroller;
        this.#content = content;
        this.#onMove = onMove;
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
        this.#onMove();
    }

    /**
     * Bring `element` to the top of the view, or as near to it as the content below allows.
     * @param {Element} element
     * @param {number} above  how many pixels above it stay in view
     */
    toTop(element, above = 0) {
        this.#scroller.scrollTop += this.#offset(element) - above;
        this.isFollowing = this.#isAtEnd;
        this.#onMove();
    }

    /**
     * Change the content, or the elements around it, and keep the visible messages where they are,
     * or the end of them in view: what the browser scrolls while the sizes change is not the reader.
     * @param {() => void} change
     */
    around(change) {
        // The browser reports a scroll only with the next frame; the reader is not pulled back.
        this.#update();
        const anchor = this.isFollowing ? undefined : this.#firstVisible();
        const before = anchor?.getBoundingClientRect().top ?? 0;
        change();
        if (anchor?.isConnected) {
            this.#scroller.scrollTop += anchor.getBoundingClientRect().top - before;
        }
        this.isFollowing ||= this.#isAtEnd;
        this.#keepEnd();
    }

    #settle() {
        this.#update();
        this.#keepEnd();
    }

    #keepEnd() {
        if (this.isFollowing) {
            this.#scroller.scrollTop = this.#scroller.scrollHeight;
        }
        this.#top = this.#scroller.scrollTop;
    }

    #scrolled() {
        this.#update();
        this.#onMove();
    }

    #update() {
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
        return scrollHeight - scrollTop - clientHeight <= NEAR_PX;
    }

    /** @param {Element} element */
    #offset(element) {
        return element.getBoundingClientRect().top - this.#scroller.getBoundingClientRect().top;
    }

    /** Only messages count: the lines and notes between them may be removed. */
    #firstVisible() {
        const top = this.#scroller.getBoundingClientRect().top;
        const messages = [...this.#content.querySelectorAll(":scope > article")];
        return messages.find((message) => message.getBoundingClientRect().bottom > top);
    }
}
