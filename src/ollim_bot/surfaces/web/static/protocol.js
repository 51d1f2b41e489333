/**
 * The values that the server sends. Only types are here, so that no page has to load them.
 *
 * @typedef {"owner" | "assistant" | "background" | "program"} Author
 * @typedef {{name: string, url: string, is_image: boolean, size: number}} Attachment
 * @typedef {{id: string, author: Author, excerpt: string}} Quote
 * @typedef {{name: string, html: string, inline: boolean}} Field
 * @typedef {{text: string, heading: string}} Line  `heading` stands above it where a group begins
 *
 * @typedef {object} Button
 * @property {string} label
 * @property {string} custom_id
 * @property {string} style
 * @property {boolean} is_used
 * @property {number} line  the line of the card that it belongs to, from 1; 0 for the whole card
 * @property {string} asks  a question that is answered in words; empty if there is none
 * @property {boolean} [isPressed]  set by the page while the server answers the press
 * @property {Asking} [asking]  set by the page while it asks the question
 *
 * @typedef {object} Asking
 * @property {string} words  what was answered last
 * @property {string} problem  why that was refused
 *
 * @typedef {object} Card
 * @property {string} title
 * @property {string} html
 * @property {string} color
 * @property {Field[]} fields
 * @property {Line[]} lines
 * @property {Button[]} buttons
 * @property {string} earlier_of  the thing for which a newer card asks; empty if it asks itself
 * @property {string | null} until  the moment to which it counts
 * @property {string} job  the id of the job that it is about; empty if it is about none
 *
 * @typedef {object} Message
 * @property {string} id
 * @property {string} at
 * @property {string | null} began  when the first words of an answer came
 * @property {Author} author
 * @property {string} html
 * @property {string} text
 * @property {boolean} is_typed  whether the owner typed it, not a button or a forward
 * @property {Quote | null} reply_to
 * @property {Attachment[]} attachments
 * @property {string | null} turn
 * @property {boolean} is_cut_off
 * @property {string} footer
 * @property {string} [run]  the id of the run that it is of
 * @property {string} job  the name of the job of a background message; else empty
 * @property {boolean} in_fork
 * @property {Card | null} card
 *
 * @typedef {{topic: string, card: string}} Fork  `card` is the message that opened it
 *
 * @typedef {object} Status
 * @property {string} provider
 * @property {boolean} is_offline
 * @property {string} model
 * @property {boolean} is_busy
 * @property {string} bot_name
 * @property {string} version
 * @property {string} program  how it is called in a terminal
 * @property {Fork | null} fork
 * @property {string} quiet  until when it is quiet, such as 7:00; empty if it is not
 * @property {{words: string, key: string} | null} careful  since when and why; null if it is not
 * @property {string} trouble
 * @property {string} zone  the owner's time zone, in which all times are shown
 * @property {boolean} has_jobs  whether a reminder or routine was set, in whatever way
 * @property {boolean} has_sound  whether to play a sound for what asks something
 *
 * @typedef {"running" | "done" | "refused" | "failed"} ToolState
 * @typedef {{id: string, label: string, state: ToolState, reason: string}} Tool
 * @typedef {{phase: string, tools: Tool[], notes: string[]}} Activity
 *
 * @typedef {object} TurnFields
 * @property {string} turn
 * @property {number} elapsed
 * @property {string | null} began  when its first words came
 * @property {string[]} blocks
 * @property {string} tail
 * @typedef {Activity & TurnFields} RunningTurn
 *
 * @typedef {object} Argument
 * @property {string} name
 * @property {string} about
 * @property {string[]} choices
 * @property {boolean} is_required
 * @property {boolean} takes_rest
 *
 * @typedef {{name: string, about: string, usage: string, arguments: Argument[]}} Command
 * @typedef {object} Answer  to a command or a button
 * @property {string} html
 * @property {boolean} is_error
 * @property {boolean} is_shown  whether the card that was pressed says it already
 * @typedef {{messages: Message[], has_more: boolean}} Page
 *
 * @typedef {object} Result  a message that a search has found
 * @property {string} id
 * @property {string} at
 * @property {Author} author
 * @property {string} job
 * @property {{text: string, is_match: boolean}[]} parts  the words around the first match
 *
 * @typedef {object} Greeting
 * @property {"hello"} type
 * @property {string} proof
 * @property {Status} status
 * @property {Command[]} commands
 * @property {Message[] | null} messages  the newest ones, for a page that starts again
 * @property {Message[] | null} missed  those that were added or edited since the last connection,
 *     for a page that continues
 * @property {number} change  the newest change of the log
 * @property {boolean} has_more
 * @property {RunningTurn | null} live
 * @property {string | null} read
 * @property {Panels} panels
 *
 * @typedef {{change: number, open?: number}} PanelState  its newest change; of Today, how many things
 *     are open
 * @typedef {Record<string, PanelState>} Panels  by name
 *
 * @typedef {object} ViewAnswer  to a button or form of a view
 * @property {string} html
 * @property {boolean} is_error
 * @property {string} field  the name of the field that is wrong
 * @property {string} go  the address to go to
 *
 * @typedef {Greeting
 *     | {type: "message", message: Message, change: number}
 *     | {type: "turn", live: RunningTurn}
 *     | {type: "draft", turn: string, began: string | null, keep: number, blocks: string[],
 *         tail: string}
 *     | Activity & {type: "activity", turn: string}
 *     | {type: "ended", turn: string}
 *     | {type: "status", status: Status}
 *     | PanelState & {type: "stale", panel: string}
 *     | {type: "read", id: string}} Frame
 */

export {};
