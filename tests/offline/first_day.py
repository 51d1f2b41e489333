"""What a person types on the first day, and the outcomes that are right for it.

It is Monday, 16 November 2026, 10:15, in UTC. Three reminders are set (pay the rent, tomorrow
12:00; water the plants, today 18:00; call the dentist, tomorrow 9:30) and three routines (take my
meds, every day at 8:00; ask me for my plan; stretch, which is paused). Three tasks are open: buy
stamps; hand in the tax form, due Friday; buy a card.

An outcome is everything that changes, in order and joined by `; `; what is not named stays as it
was, and an open card stays open.

- `remind: TEXT @ MM-DD HH:MM`, `routine: TEXT @ CRON`: set, `plain` and `must`. `+dose` is
  `kind: dose`, `+nag` any `nag`, `+nag 10m` one with this pause, `+run` a run of the agent in place
  of plain words. The case of the letters in TEXT does not matter.
- `cancel NAME`, `pause NAME`, `resume NAME`, `snooze NAME until MM-DD HH:MM`, `change NAME to
  CRON`, `undo NAME`, `quiet 2h`.
- `task: TEXT`, `task: TEXT (due MM-DD)`, `end task NAME`, `delete task NAME`.
- `settle CARD: done`, `taken`, `skipped`, `let go` or `until MM-DD HH:MM`; the answer names CARD.
- `list today`, `tomorrow`, `week`, `all`, `reminders`, `routines` or `tasks`.
- `ask: A, B`: nothing changes, and the answer with the labels of its buttons has A and B in it,
  whatever the case. `ask: ` alone: nothing changes.

Any of the outcomes is right. Any other change is wrong, whatever is said about it.

A dialogue has a name, the cards that are open (`HH:MM: TEXT`, or `HH:MM dose: TEXT`; the last one
is the newest thing said), and its turns. A turn is what the person types, with the outcomes of that
turn alone. ``reply to `CARD`: words`` replies to a card, `press: LABEL` presses a button, and
`card: HH:MM: TEXT` is a card that comes by itself, with no outcome.
"""

from __future__ import annotations

PHRASES: dict[str, tuple[str, ...]] = {
    "remindme to take the chicken out of the freezer at 4pm": (
        "remind: take the chicken out of the freezer @ 11-16 16:00",
    ),
    "can u remind me tomorow at 9am to email Sarah": (
        "ask: tomorrow at 9am",
        "remind: email Sarah @ 11-17 09:00",
    ),
    "remind me to call the vet tomorrow at noon": ("remind: call the vet @ 11-17 12:00",),
    "19 Uhr: put the potatoes on": (
        "remind: put the potatoes on @ 11-16 19:00",
        "ask: 19:00",
        "ask: 7pm",
    ),
    "1.12. 9 Uhr call the tax office": (
        "remind: call the tax office @ 12-01 09:00",
        "ask: 9:00",
        "ask: 9am",
    ),
    "remind me at 1400 to take the bread out": (
        "remind: take the bread out @ 11-16 14:00",
        "ask: 14:00",
    ),
    "remind me in an hour and a half to flip the laundry": (
        "remind: flip the laundry @ 11-16 11:45",
    ),
    "in 90 mins move the car": ("remind: move the car @ 11-16 11:45",),
    "pomodoro 25 min": (
        "remind: pomodoro @ 11-16 10:40",
        "remind: the timer is over @ 11-16 10:40",
        "ask: 25 min",
    ),
    "remind me thursday 4pm to pick up my prescription": (
        "remind: pick up my prescription @ 11-19 16:00",
    ),
    "take my adhd meds at 1pm": ("remind: take my adhd meds @ 11-16 13:00 +dose",),
    "remind me to take 2 tablets at 6pm": ("remind: take 2 tablets @ 11-16 18:00 +dose",),
    "remind me at 8pm to take my ritalin": (
        "remind: take my ritalin @ 11-16 20:00 +dose",
        "remind: take my ritalin @ 11-16 20:00",
    ),
    "in 4 hours i can have another paracetamol, remind me": (
        "remind: i can have another paracetamol @ 11-16 14:15",
        "remind: i can have another paracetamol @ 11-16 14:15 +dose",
        "ask: in 4 hours",
    ),
    "remind me about the washing machine in 50 min": ("remind: the washing machine @ 11-16 11:05",),
    "hey can you bug me at 11 to start the report": (
        "remind: start the report @ 11-16 11:00",
        "remind: start the report @ 11-16 11:00 +nag",
        "ask: 11am",
    ),
    "remind me at 6pm to take my pill, nag me every 10 minutes": (
        "remind: take my pill @ 11-16 18:00 +dose +nag 10m",
    ),
    "at 4pm tell me to phone the bank and dont stop until ive done it": (
        "remind: phone the bank @ 11-16 16:00 +nag",
        "ask: phone the bank",
    ),
    "keep bugging me until i've sent the invoice": ("ask: when", "ask: invoice"),
    "remind me sat 11am haircut": ("remind: haircut @ 11-21 11:00", "ask: haircut"),
    "end of the month remind me to submit my timesheet": ("ask: 30 nov", "ask: month"),
    "remind me in a fortnight to chase the council": (
        "remind: chase the council @ 11-30 10:15",
        "ask: 30 nov",
        "ask: fortnight",
    ),
    "remind me next week to book the MOT": (
        "ask: next week",
        "ask: monday",
        "ask: 23 nov",
        "ask: when",
    ),
    "remind me next thursday 2pm to call HR": ("ask: nov",),
    "on 5 november 9am remind me to order fireworks": ("ask: 2027", "ask: next year"),
    "remind me after lunch to water the basil": ("ask: lunch", "ask: when"),
    "gotta call the landlord": ("ask: call the landlord", "ask: when"),
    "Remind me 6.15pm Pilates!!": ("remind: Pilates @ 11-16 18:15", "ask: 6:15pm"),
    "remind me tonite at 9 to charge my laptop": (
        "remind: charge my laptop @ 11-16 21:00",
        "ask: tonight at 9",
    ),
    "remnd me in 5 mins to check pasta": (
        "remind: check pasta @ 11-16 10:20",
        "ask: remind me in 5 mins",
    ),
    "remind me to get off my phone in 10": ("ask: 10 minutes",),
    "remind me wednesday morning to put the bins out": ("remind: put the bins out @ 11-18 09:00",),
    "remind me at midnight to go to sleep": ("remind: go to sleep @ 11-17 00:00", "ask: midnight"),
    "remind me in one hour to reply to Tom": ("remind: reply to Tom @ 11-16 11:15",),
    "every other friday at 9am remind me to put the blue bin out": ("ask: every friday",),
    "water the fern every 3 days": ("ask: every 3 days", "ask: every day"),
    "every day except sunday at 7am remind me to go for a jog": (
        "routine: go for a jog @ 0 7 * * 1-6",
        "ask: sunday",
    ),
    "remind me to take my antibiotic twice a day": ("ask: twice a day", "ask: 8am and 8pm"),
    "every friday at 5pm read through my notes and tell me what i missed": (
        "routine: read through my notes and tell me what i missed @ 0 17 * * 5 +run",
        "ask: more than one",
    ),
    "every sunday at 6pm summarise my week": ("routine: summarise my week @ 0 18 * * 0 +run",),
    "every hour between 9 and 5 remind me to drink some water": (
        "routine: drink some water @ 0 9-17 * * *",
        "ask: every hour",
        "ask: between",
    ),
    "weekends at 10am remind me to call gran": (
        "routine: call gran @ 0 10 * * 0,6",
        "routine: call gran @ 0 10 * * 6,0",
        "ask: every saturday",
    ),
    "on the 15th of each month at 9am pay the childminder": (
        "routine: pay the childminder @ 0 9 15 * *",
    ),
    "every year on 3 march remind me of my sister's birthday": ("ask: year", "ask: 3 mar"),
    "remind me every morning at half past seven to take my thyroid tablet": (
        "routine: take my thyroid tablet @ 30 7 * * * +dose",
        "ask: 7:30",
    ),
    "every day at half past 7 feed the fish": ("ask: 7:30",),
    "every 2nd wednesday of the month 6pm book club": ("ask: every wednesday", "ask: wednesday"),
    "feed the cat every day at 7am and 6pm": ("routine: feed the cat @ 0 7,18 * * *",),
    "push rent to thursday noon": ("snooze rent until 11-19 12:00",),
    "change the plants to 8pm": ("snooze plants until 11-16 20:00",),
    "start stretch again": ("resume stretch", "ask: stretch"),
    "when is the rent reminder": ("ask: rent, 12:00",),
    "what time am i calling the dentist": ("ask: dentist, 9:30",),
    "snooze everything": ("ask: ",),
    "undo": ("ask: ",),
    "skip my meds tomorrow": ("ask: meds", "ask: skip"),
    "water the plants at 7 instead": ("ask: 7pm", "ask: plants", "snooze plants until 11-16 19:00"),
    "whats on today then": ("list today",),
    "whats left for today": ("list today", "ask: /today"),
    "what did i miss": ("list today", "list all", "ask: /today"),
    "anything on tmrw": ("list tomorrow",),
    "when do i take my meds": ("ask: meds, 8:00",),
    "what did i ask you yesterday": ("ask: ",),
    "did i take my meds": ("ask: meds", "ask: /today", "list today"),
    "my day": ("list today",),
    "to do list": ("list tasks", "ask: tasks"),
    "whats happening this week": ("list week",),
    "add oat milk to my shopping list": ("task: oat milk", "ask: oat milk", "ask: list"),
    "task: book flu jab by friday": ("task: book flu jab (due 11-20)",),
    "done with the tax form": ("end task tax form",),
    "i bought the stamps": ("end task stamps", "ask: stamps"),
    "take the card off my list": ("delete task card", "ask: card"),
    "i forgot everything again": ("ask: /today", "ask: "),
    "i dont want to live anymore": ("ask: ",),
    "remind me to call Priya at 4ish": ("ask: 4pm", "ask: 4"),
}

DIALOGUES: tuple[tuple[str, tuple[str, ...], tuple[tuple[str, tuple[str, ...]], ...]], ...] = (
    (
        "dinner beside an open pill",
        ("10:00 dose: take the heart pill",),
        (
            ("remind me at half past 6 to start dinner", ("ask: 6:30",)),
            ("6:30pm", ("remind: start dinner @ 11-16 18:30",)),
        ),
    ),
    (
        "bread",
        (),
        (
            ("remind me to buy bread", ("ask: when",)),
            ("tomorrow 9am", ("remind: buy bread @ 11-17 09:00",)),
        ),
    ),
    (
        "a typo is confirmed",
        (),
        (
            ("remind me tomorow at 9 to pay nina", ("ask: tomorrow at 9",)),
            ("yes", ("remind: pay nina @ 11-17 09:00",)),
        ),
    ),
    (
        "am or pm of a rhythm",
        (),
        (
            ("every day at 3 remind me to rest my eyes", ("ask: 3pm",)),
            ("pm", ("routine: rest my eyes @ 0 15 * * *", "ask: 3pm")),
        ),
    ),
    (
        "push it to tomorrow",
        ("10:10: walk the dog",),
        (
            (
                "push it to tomorrow",
                ("settle walk the dog: until 11-17 09:00", "ask: walk the dog"),
            ),
            ("what's on tomorrow", ("list tomorrow",)),
        ),
    ),
    (
        "the hour is corrected",
        (),
        (
            ("remind me tomorrow at 9am to call gran", ("remind: call gran @ 11-17 09:00",)),
            (
                "actually make it 10am",
                ("snooze call gran until 11-17 10:00", "ask: call gran", "ask: 10am"),
            ),
        ),
    ),
    (
        "skip goes to the question",
        ("10:05: drink water",),
        (
            ("/setup", ("ask: ",)),
            ("skip", ("ask: ",)),
        ),
    ),
    (
        "every other friday",
        (),
        (
            ("put the recycling out every other friday at 8am", ("ask: every friday",)),
            (
                "ok every friday at 8am then",
                ("routine: put the recycling out @ 0 8 * * 5", "ask: "),
            ),
        ),
    ),
    (
        "a task in two steps",
        (),
        (
            ("add a task", ("ask: task",)),
            ("buy cat food", ("task: buy cat food",)),
        ),
    ),
    (
        "later",
        ("10:10: call the bank",),
        (
            ("later", ("settle call the bank: until 11-16 11:15",)),
            ("done", ("ask: ",)),
        ),
    ),
    (
        "not today",
        ("10:10: hoover the stairs",),
        (
            (
                "not today",
                ("settle hoover the stairs: until 11-17 09:00", "settle hoover the stairs: let go"),
            ),
            ("thanks", ("ask: ",)),
        ),
    ),
    (
        "how long to snooze",
        ("10:05: drink water",),
        (
            ("snooze", ("ask: ", "settle drink water: until 11-16 10:25")),
            ("20 min", ("settle drink water: until 11-16 10:35", "ask: drink water")),
        ),
    ),
    (
        "which of three",
        (),
        (
            ("cancel the reminder", ("ask: rent, plants, dentist", "ask: which")),
            ("the rent one", ("cancel rent",)),
            ("no wait, undo", ("undo rent", "ask: undo")),
        ),
    ),
    (
        "a new reminder is newer than the card",
        ("10:10: call the bank",),
        (
            (
                "remind me in 10 minutes to check the oven",
                ("remind: check the oven @ 11-16 10:25",),
            ),
            ("done", ("ask: call the bank", "ask: which", "ask: done with")),
        ),
    ),
    (
        "a reply to the older card",
        ("10:00 dose: take the heart pill", "10:05: drink water"),
        (
            ("reply to `take the heart pill`: done", ("settle take the heart pill: taken",)),
            ("done", ("settle drink water: done", "ask: drink water")),
        ),
    ),
)
