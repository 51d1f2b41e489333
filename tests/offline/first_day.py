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
    "every other friday at 9am remind me to put the blue bin out": (
        "routine: put the blue bin out @ every 2 weeks at 9:00 from 2026-11-20",
    ),
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
    "every 2nd wednesday of the month 6pm book club": (
        "routine: book club @ every second wednesday of the month at 18:00 from 2026-11-16",
    ),
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
    "tmrw 8am put the recycling out": ("remind: put the recycling out @ 11-17 08:00",),
    "remind me tmrw at 10am to ring the GP": ("remind: ring the GP @ 11-17 10:00",),
    "remind me at 14.30 to join the call": ("remind: join the call @ 11-16 14:30", "ask: 14:30"),
    "remind me on 3.12. at 14:00 to renew my railcard": (
        "remind: renew my railcard @ 12-03 14:00",
    ),
    "remind me half six to feed the dog": ("ask: 6:30",),
    "remind me at half past 6 to put the rice on": ("ask: 6:30",),
    "remind me at quarter to nine pm to switch the dishwasher on": (
        "remind: switch the dishwasher on @ 11-16 20:45",
        "ask: 8:45pm",
    ),
    "at quarter past 5 this afternoon leave for nursery": (
        "remind: leave for nursery @ 11-16 17:15",
        "ask: 5:15",
        "ask: quarter past 5",
    ),
    "remind me in 45 to check on the bread": ("ask: 45 minutes",),
    "25 minutes": ("remind: the timer is over @ 11-16 10:40", "ask: 25 minutes"),
    "i need my inhaler at 9pm remind me": (
        "remind: my inhaler @ 11-16 21:00",
        "remind: my inhaler @ 11-16 21:00 +dose",
        "remind: use my inhaler @ 11-16 21:00 +dose",
        "ask: inhaler",
    ),
    "dont let me forget my antibiotics tonight at 10": (
        "remind: my antibiotics @ 11-16 22:00 +dose",
        "remind: my antibiotics @ 11-16 22:00",
        "remind: take my antibiotics @ 11-16 22:00 +dose",
    ),
    "remind me at 5pm to do the dishes and keep at it until i have": (
        "remind: do the dishes @ 11-16 17:00 +nag",
    ),
    "nag me every 10 minutes from 5pm to do the ironing": (
        "remind: do the ironing @ 11-16 17:00 +nag 10m",
        "ask: ironing",
    ),
    "remind me on the 30th at 5pm to submit expenses": ("remind: submit expenses @ 11-30 17:00",),
    "remind me at 9am to eat something": ("remind: eat something @ 11-17 09:00", "ask: tomorrow"),
    "remind me when i get home to text my sister": ("ask: ",),
    "remind me to descale the kettle": ("ask: when",),
    "i keep forgetting to drink water": ("ask: drink water", "ask: water"),
    "remind me this afternoon to call the plumber": (
        "ask: afternoon",
        "ask: pm",
        "remind: call the plumber @ 11-16 14:00",
        "remind: call the plumber @ 11-16 15:00",
    ),
    "8pm bins": ("remind: bins @ 11-16 20:00", "ask: 8pm: bins"),
    "remind me 10 mins before 3pm to log on": ("remind: log on @ 11-16 14:50", "ask: "),
    "remind me at 3pm and 5pm to stretch": (
        "remind: stretch @ 11-16 15:00; remind: stretch @ 11-16 17:00",
        "ask: 3pm",
        "ask: ",
    ),
    "remind em at 7pm to call dad": ("remind: call dad @ 11-16 19:00", "ask: remind me at 7pm"),
    "set a 5 min timer for the eggs": (
        "remind: the eggs @ 11-16 10:20",
        "remind: eggs @ 11-16 10:20",
        "remind: the timer is over @ 11-16 10:20",
        "ask: 5 min",
    ),
    "alarm 6am tmrw": ("remind: alarm @ 11-17 06:00",),
    "remind me to leave at 3": ("ask: 3pm",),
    "weds 7:30am remind me its bin day": (
        "remind: its bin day @ 11-18 07:30",
        "remind: bin day @ 11-18 07:30",
        "ask: bin day",
        "ask: wed",
    ),
    "remind me 24 dec to wrap the presents": ("ask: 24 dec",),
    "remind me 25/11 at 10am to call the school": (
        "remind: call the school @ 11-25 10:00",
        "ask: 25 nov",
    ),
    "remind me on 3/12 at 10am to renew the parking permit": ("ask: dec",),
    "remind me at 17h to fetch the kids": (
        "remind: fetch the kids @ 11-16 17:00",
        "ask: 17:00",
        "ask: 5pm",
    ),
    "take my blood pressure tablet every morning at 7:30": (
        "routine: take my blood pressure tablet @ 30 7 * * * +dose",
    ),
    "vitamins every day at 8am": (
        "routine: vitamins @ 0 8 * * *",
        "routine: vitamins @ 0 8 * * * +dose",
        "routine: take vitamins @ 0 8 * * * +dose",
    ),
    "adderall weekdays 7am": (
        "routine: adderall @ 0 7 * * 1-5",
        "routine: adderall @ 0 7 * * 1-5 +dose",
        "ask: adderall",
    ),
    "every night at 10 take the pill": ("routine: take the pill @ 0 22 * * * +dose",),
    "meds at 8am and 8pm daily": (
        "routine: meds @ 0 8,20 * * * +dose",
        "routine: take meds @ 0 8,20 * * * +dose",
    ),
    "every day at 9pm remind me to take my medication and keep at it till i have": (
        "routine: take my medication @ 0 21 * * * +dose +nag",
    ),
    "remind me every day at 6pm to walk the dog, nag me every 15 minutes": (
        "routine: walk the dog @ 0 18 * * * +nag 15m",
    ),
    "every sunday 8pm remind me to pack my gym bag": ("routine: pack my gym bag @ 0 20 * * 0",),
    "bins every tues 7pm": ("routine: bins @ 0 19 * * 2", "ask: every tuesday"),
    "pay the credit card on the last day of the month": ("ask: month",),
    "first monday of the month at 10am remind me to run the backup": (
        "routine: run the backup @ every first monday of the month at 10:00 from 2026-11-17",
    ),
    "eye drops 3 times a day": ("ask: 3 times a day", "ask: 8am", "ask: times"),
    "every morning check my mail for invoices": (
        "routine: check my mail for invoices @ 0 9 * * * +run",
    ),
    "weekdays at 8:30 look at my calendar and warn me about clashes": (
        "routine: look at my calendar and warn me about clashes @ 30 8 * * 1-5 +run",
        "ask: more than one",
    ),
    "every two hours get up and stretch": (
        "routine: get up and stretch @ 0 */2 * * *",
        "ask: every two hours",
    ),
    "every 20 minutes remind me to look away from the screen": (
        "routine: look away from the screen @ */20 * * * *",
    ),
    "mon wed fri 6pm gym": ("routine: gym @ 0 18 * * 1,3,5", "ask: every mon", "ask: gym"),
    "daily 22.00 lock the back door": ("routine: lock the back door @ 0 22 * * *", "ask: 22:00"),
    "remind me each evening to charge my watch": ("routine: charge my watch @ 0 19 * * *",),
    "remind me every day at 8am and 8.30pm to take my tablets": (
        "ask: 8:30pm",
        "ask: 20:30",
        "routine: take my tablets @ 0 8 * * * +dose; routine: take my tablets @ 30 20 * * * +dose",
        "ask: 8am",
        "ask: 8.30pm",
    ),
    "scrap the dentist one": ("cancel dentist", "ask: dentist"),
    "push the plants to tomorrow": (
        "ask: tomorrow",
        "snooze plants until 11-17 18:00",
        "snooze plants until 11-17 09:00",
    ),
    "can you move the dentist thing to 11am tomorrow": ("snooze dentist until 11-17 11:00",),
    "change the rent reminder to wednesday 9am": ("snooze rent until 11-18 09:00",),
    "make the plants one an hour later": ("snooze plants until 11-16 19:00", "ask: plants"),
    "stop reminding me about the rent": ("cancel rent", "ask: rent"),
    "i already paid the rent": ("cancel rent", "ask: rent"),
    "dont need the dentist reminder any more, they rang": ("cancel dentist", "ask: dentist"),
    "delete rent": ("cancel rent",),
    "pause my meds routine until monday": ("ask: meds", "ask: pause", "ask: until"),
    "cancel the gym reminder": ("ask: gym",),
    "move my meds to 9am": ("ask: meds", "ask: 9am", "change meds to 0 9 * * *"),
    "how many reminders have i got": ("list reminders",),
    "when is the bins reminder": ("ask: bins",),
    "add a task buy cat food": ("task: buy cat food",),
    "put call the gas company on my todo list": ("task: call the gas company",),
    "new todo pick up parcel": ("task: pick up parcel", "ask: pick up parcel"),
    "cross off stamps": ("end task stamps", "ask: stamps"),
    "im so overwhelmed rn": ("ask: /today",),
    "ugh too much on my plate today": ("ask: /today", "list today"),
    "i dont know where to start": ("ask: /today",),
    "stop bugging me": ("ask: quiet", "ask: pause"),
    "be quiet for 2 hours": ("ask: quiet until 12:15, no",),
    # What is not done here names the place that does it.
    "ask me if I've booked the flight": ("ask: remind me at 18:00",),
    "what did I miss today": ("list today",),
    "show me my shopping list": ("ask: shopping:, buy stamps",),
    "note: the plumber's number is 555 0123": ("ask: /tasks, add a task",),
    "don't disturb me after 10pm": ("ask: /config quiet_hours",),
    'break down "clean the kitchen"': ("ask: break it down, /tasks",),
    "I'm allergic to penicillin": ("ask: about me",),
    "when I get home remind me to call mum": ("ask: where you are, remind me at",),
    "remind me again tomorrow same time": ("ask: on its card",),
    "ten minutes before my dentist appointment remind me to leave": (
        "ask: count back, my dentist appointment, “leave”",
    ),
    "the evening before at 8": ("ask: before what",),
    "pause my meds until monday": ("ask: pause it, cancel it",),
    "move it to 9am": ("ask: which",),
    "Anna 50th birthday on 5 dec": ("ask: 5 dec",),
    "remind me every 20 mins to drink water until 6pm": ("ask: between 9am and 6pm",),
    "every 2 hours between 9 and 5 remind me to drink water": (
        "routine: drink water @ 0 9-17/2 * * *",
    ),
    "be quiet until 3pm": ("ask: quiet until 15:00, no",),
    "be quiet until half past six": ("ask: quiet until 6:30, quiet until 18:30",),
    "do i have anything tonight": ("ask: ",),
    "check my calendar tomorrow 8am": ("remind: check my calendar @ 11-17 08:00 +run",),
    "move dentist to 11am": ("ask: today 11am, tomorrow 11am",),
    "cancle the plants one": ("cancel plants",),
    "every tuesday bins 7pm": ("routine: bins @ 0 19 * * 2", "ask: every tuesday 7pm"),
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
        (("/setup", ("ask: ",)), ("skip", ("ask: ",))),
    ),
    (
        "every other friday",
        (),
        (
            (
                "put the recycling out every other friday at 8am",
                ("routine: put the recycling out @ every 2 weeks at 8:00 from 2026-11-20",),
            ),
            (
                "ok every friday at 8am then",
                ("routine: put the recycling out @ 0 8 * * 5", "ask: "),
            ),
        ),
    ),
    (
        "a task in two steps",
        (),
        (("add a task", ("ask: task",)), ("buy cat food", ("task: buy cat food",))),
    ),
    (
        "later",
        ("10:10: call the bank",),
        (("later", ("settle call the bank: until 11-16 11:15",)), ("done", ("ask: ",))),
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
    (
        "the evening is said in a word",
        ("10:05: drink water",),
        (
            ("remind me at half past 7 to call mum", ("ask: 7:30",)),
            ("in the evening", ("remind: call mum @ 11-16 19:30", "ask: 7:30")),
        ),
    ),
    (
        "a typo was meant otherwise",
        (),
        (
            ("remind me wendesday at 9am to post the form", ("ask: wednesday",)),
            ("no", ("ask: ",)),
            ("friday at 9am", ("remind: post the form @ 11-20 09:00", "ask: ")),
        ),
    ),
    (
        "a pill is taken",
        ("10:00 dose: take the heart pill",),
        (
            ("took it", ("settle take the heart pill: taken",)),
            ("undo", ("undo take the heart pill",)),
        ),
    ),
    (
        "the blue one of two",
        ("10:00 dose: take the blue pill", "10:05 dose: take the red pill"),
        (
            ("I took the blue pill", ("settle take the blue pill: taken",)),
            ("and the red one too", ("settle take the red pill: taken", "ask: red pill")),
        ),
    ),
    (
        "done after something else was said",
        ("10:00 dose: take the heart pill",),
        (("what's on tomorrow", ("list tomorrow",)), ("done", ("ask: heart pill", "ask: which"))),
    ),
    (
        "an hour more, and back",
        ("10:05: drink water",),
        (
            ("in an hour", ("settle drink water: until 11-16 11:15",)),
            ("undo", ("undo drink water",)),
        ),
    ),
    (
        "let go of a question",
        (),
        (
            ("remind me to clean the oven", ("ask: when",)),
            ("never mind", ("ask: ",)),
            ("9pm", ("ask: ",)),
        ),
    ),
    (
        "piece by piece",
        (),
        (
            ("remind me", ("ask: ",)),
            ("call the bank", ("ask: when", "ask: call the bank")),
            ("3pm", ("remind: call the bank @ 11-16 15:00",)),
            ("undo", ("undo call the bank", "cancel call the bank", "ask: ")),
        ),
    ),
    (
        "the dentist is cancelled and comes back",
        (),
        (
            ("cancel the dentist thing", ("cancel dentist",)),
            ("undo that", ("undo dentist", "ask: undo")),
        ),
    ),
    (
        "another question between",
        (),
        (
            ("remind me to ring the school", ("ask: when",)),
            ("what's on tomorrow?", ("list tomorrow",)),
            ("tomorrow at 8:30am", ("remind: ring the school @ 11-17 08:30", "ask: ")),
        ),
    ),
    (
        "pills without a time",
        (),
        (
            ("take my pills every day", ("ask: every day at", "ask: when", "ask: what time")),
            ("8am and 8pm", ("routine: take my pills @ 0 8,20 * * * +dose",)),
        ),
    ),
    (
        "a choice is pressed",
        (),
        (
            ("remind me at quarter past 7 to call jo", ("ask: 7:15",)),
            ("press: 7:15pm", ("remind: call jo @ 11-16 19:15",)),
        ),
    ),
    (
        "a card comes between",
        (),
        (
            ("remind me to feed the fish", ("ask: when",)),
            ("card: 10:16: drink water", ()),
            (
                "6pm",
                ("remind: feed the fish @ 11-16 18:00", "ask: feed the fish", "ask: drink water"),
            ),
        ),
    ),
    (
        "a skipped pill",
        ("10:00 dose: take the heart pill",),
        (
            ("skip", ("settle take the heart pill: skipped", "ask: heart pill")),
            ("what's left today", ("list today", "ask: /today")),
        ),
    ),
    (
        "overwhelmed, with a pill open",
        ("10:00 dose: take the heart pill",),
        (
            ("I'm overwhelmed", ("ask: /today",)),
            ("taken", ("settle take the heart pill: taken", "ask: heart pill")),
        ),
    ),
    (
        "a time and a thing that is set",
        (),
        (
            ("dentist got moved to thursday 2pm", ("ask: dentist, thursday 2pm, cancel",)),
            ("press: Move to", ("snooze dentist until 11-19 14:00",)),
        ),
    ),
    (
        "a rhythm answers when",
        (),
        (
            ("i keep forgetting to drink water", ("ask: when",)),
            ("every 2 hours", ("routine: drink water @ 0 */2 * * *",)),
        ),
    ),
    (
        "an order that is asked about stays one",
        (),
        (
            ("check my mail for invoices at 3", ("ask: 3pm",)),
            ("3pm", ("remind: check my mail for invoices @ 11-16 15:00 +run",)),
        ),
    ),
    (
        "the month is said first",
        (),
        (
            ("renew my passport in march", ("ask: when in march",)),
            ("5th at 9am", ("remind: renew my passport @ 03-05 09:00",)),
        ),
    ),
    (
        "the end of a routine is kept",
        (),
        (
            ("gym at 6 every tue until christmas", ("ask: 6am until christmas",)),
            ("6pm", ("routine: gym @ cron 0 18 * * 2 until 2026-12-25",)),
        ),
    ),
    (
        "a routine is put right in words",
        (),
        (
            ("stretch every weekday at 3pm", ("routine: stretch @ 0 15 * * 1-5",)),
            ("make it 4pm", ("change stretch to 0 16 * * 1-5",)),
            ("no, 9:30", ("change stretch to 30 9 * * 1-5",)),
            ("undo", ("change stretch to 0 16 * * 1-5",)),
        ),
    ),
    (
        "a routine is not what a sentence can change",
        (),
        (
            (
                "take my pills every day at 8am and 8pm",
                ("routine: take my pills @ 0 8,20 * * * +dose",),
            ),
            ("make it 9am", ("ask: by words, edit",)),
            ("not on fridays", ("ask: by words, edit",)),
            ("undo", ("cancel take my pills",)),
        ),
    ),
    (
        "a time behind a rhythm",
        (),
        (
            ("take my pills every morning", ("routine: take my pills @ 0 9 * * * +dose",)),
            ("at 7:30", ("change take my pills to 30 7 * * *",)),
        ),
    ),
    (
        "the time of a routine that is set",
        (),
        (("move my meds to 9am", ("change meds to 0 9 * * *",)),),
    ),
    (
        "another day keeps the time",
        (),
        (
            ("remind me tomorrow at 9am to call mum", ("remind: call mum @ 11-17 09:00",)),
            ("no, Wednesday", ("snooze call mum until 11-18 09:00",)),
        ),
    ),
    (
        "thanks leave a question open",
        (),
        (
            ("remind me to call the bank", ("ask: when",)),
            ("thanks!", ("ask: welcome",)),
            ("tomorrow at 10", ("remind: call the bank @ 11-17 10:00",)),
        ),
    ),
    (
        "only one of the open ones is a dose",
        ("10:00 dose: take the heart pill", "10:01: water the basil"),
        (("hello", ()), ("I took it", ("settle take the heart pill: taken",))),
    ),
    (
        "a question is asked twice",
        (),
        (
            ("remind me to call the bank", ("ask: when",)),
            ("remind me to call the bank", ("ask: when",)),
            ("make it 25:00", ("ask: ",)),
        ),
    ),
    (
        "a time that there is not for a routine",
        (),
        (
            ("stretch every weekday at 3pm", ("routine: stretch @ 0 15 * * 1-5",)),
            ("make it 25:00", ("ask: by words",)),
        ),
    ),
    (
        "a refusal is not said twice",
        (),
        (
            ("lorem ipsum dolor", ("ask: i did not understand that, /tasks",)),
            ("sit amet", ("ask: this either, /help",)),
            ("consectetur", ("ask: i did not understand that",)),
        ),
    ),
    (
        "what is not there is not asked about",
        (),
        (
            ("stop reminding me about the bins", ("ask: there is no",)),
            ("stop reminding me about the plants", ("ask: pause, cancel",)),
            ("press: Cancel it", ("cancel plants",)),
        ),
    ),
    (
        "a pause has no length",
        (),
        (("pause my meds until monday", ("ask: meds, pause it, cancel it",)),),
    ),
)
