"""A hundred things that a person types on the first day, with what is right for each.

It is some minutes past ten in the morning. Two routines are set (take my pills, every day at
20:00; leave for work, every weekday at 18:15), four reminders (email my landlord, tomorrow 9:00;
dentist, tomorrow 15:00; gym, in two days at 18:00, and gym again in five days at 18:00) and three
tasks (eggs and bread; water bill; milk, on the list shopping).

A line of a talk is what the person types and what is right then, first what changes:

- `reminder: TEXT @ WHEN`, `timer: TEXT @ WHEN`, `routine: TEXT @ RHYTHM`, `task: TEXT`: set. WHEN
  is a wall-clock time, in words that the test reads by itself: `+20` (minutes from now), `16:00`
  (the next), `+1d 9:00`, `fri 10:00` (the next Friday), `12-24 18:00` (the next such day).
- `change: TEXT @ WHEN or RHYTHM`, `gone: TEXT`, `done: TEXT`: what is there is changed.
- `asked: A, B`: nothing changes; the answer with its buttons has A and B in it.
- `place: A, B`: the same for what cannot be done here: the answer names where it can be done.
- `told: A, B`: the same for a question of the person.

`press: LABEL` presses a button of the newest card that has it. `+5d` is a weekday by its name.
"""

from __future__ import annotations

Line = tuple[str, str]

TALKS: dict[str, tuple[Line, ...]] = {
    # Questions.
    "today": (("what did I miss today", "told: today, 20:00"),),
    "tomorrow": (("what is on tomorrow", "told: email my landlord, dentist, take my pills"),),
    "week": (("my week", "told: dentist, gym, take my pills"),),
    "next": (("what's next", "told: coming up:, gym, take my pills"),),
    "how many": (("how many reminders do I have", "told: reminders:"),),
    "when": (("when is the dentist", "told: dentist"),),
    "did I": (("did I take my pill", "place: /today"),),
    "overwhelmed": (("I'm so overwhelmed", "told: one thing"),),
    "who": (("who are you", "told: offline model"),),
    "what can you do": (("what can you do", "told: reminders:, /help"),),
    # Reminders, once.
    "45 min": (("remind me in 45 min to move the car", "reminder: move the car @ +45"),),
    "hour and 20": (
        (
            "in an hour and 20 minutes remind me to flip the laundry",
            "reminder: flip the laundry @ +80",
        ),
    ),
    "friday morning": (
        ("remind me friday morning to water the ferns", "reminder: water the ferns @ fri 9:00"),
    ),
    "half past with a point": (
        ("remind me at 6.30pm to feed the cat", "reminder: feed the cat @ 18:30"),
    ),
    "9pm": (("remind me at 9pm to take the bins out", "reminder: take the bins out @ 21:00"),),
    "tonight": (("charge my phone tonight at 8", "reminder: charge my phone @ 20:00"),),
    "at 4": (("call Anna at 4", "asked: 4pm"), ("press: 4pm", "reminder: call Anna @ 16:00")),
    "on the 28th": (
        ("pay the piano teacher on the 28th", "asked: no time of day, 9am"),
        ("never mind", "told: nothing was done"),
    ),
    "next tuesday": (("remind me next tuesday 2pm to ring HR", "asked: tue"),),
    "24th dec": (
        (
            "remind me on the 24th of december at 6pm to call granny",
            "reminder: call granny @ 12-24 18:00",
        ),
    ),
    "umlauts": (
        ("erinnere mich morgen", "place: /tasks"),
        ("remind me tomorrow at 9am to buy Käsespätzle", "reminder: buy Käsespätzle @ +1d 9:00"),
    ),
    "a typing mistake": (("remind me tomorow at 9am to email Sarah", "asked: tomorrow at 9am"),),
    "no such time": (("25:00 call the school", "asked: does not exist"),),
    "day that is not": (("rent on the 31 november at 9am", "asked: does not exist"),),
    "a month first": (
        ("renew my passport in march", "asked: march"),
        ("5th at 9am", "reminder: renew my passport @ 03-05 9:00"),
    ),
    "an age": (("Anna 50th birthday on 5 dec", "asked: on 5 dec"),),
    "a kettle": (
        ("put the kettle on in 12 minutes", "asked: in 12 minutes"),
        ("yes", "reminder: put the kettle on @ +12"),
    ),
    "one minute": (
        ("put the kettle on in 1 minute", "asked: in 1 minute"),
        ("no", "told: nothing was done"),
    ),
    "nag": (
        (
            "remind me at 9pm to take my antibiotic, nag me every 10 minutes",
            "reminder: take my antibiotic @ 21:00",
        ),
    ),
    # Something of the time is left beside it.
    "a zone": (("call bob at 9am pst", "asked: pst"),),
    "a half": (("call bob half tomorrow 9am", "asked: half"),),
    "a number": (
        ("read chapter 5 tomorrow 9am", "asked: is `5` part of the time"),
        ("yes", "reminder: read chapter 5 @ +1d 9:00"),
    ),
    "two days": (("call bob tomorrow 9am friday", "asked: tomorrow"),),
    "two things": (("call mum at 5pm and dad at 6pm", "asked: "),),
    "after lunch": (("remind me after lunch to water the basil", "asked: lunch"),),
    "before an appointment": (
        (
            "ten minutes before my dentist appointment remind me to leave",
            "asked: count back, “leave”",
        ),
        ("tomorrow 2:50pm", "reminder: leave @ +1d 14:50"),
    ),
    "the evening before": (("the evening before at 8", "asked: before what"),),
    "the same time": (("remind me again tomorrow same time", "place: on its card"),),
    "home": (("when I get home remind me to call dad", "place: say a time"),),
    # Timers.
    "timer": (("timer 25 minutes", "timer: the timer is over @ +25"),),
    "timer for": (("set a 15 min timer for pasta", "timer: pasta @ +15"),),
    "timer behind": (("10 minute timer for the bread", "timer: the bread @ +10"),),
    "90 minutes": (("set a timer for 90 minutes", "timer: the timer is over @ +90"),),
    # Routines.
    "every morning": (
        ("every morning at 7:45 remind me to stretch", "routine: stretch @ 45 7 * * *"),
        ("make it 4pm", "change: stretch @ 0 16 * * *"),
        ("undo", "change: stretch @ 45 7 * * *"),
    ),
    "at behind every morning": (
        ("take my vitamins every morning", "routine: take my vitamins @ 0 9 * * *"),
        ("at 7:30", "change: take my vitamins @ 30 7 * * *"),
        ("thanks!", "told: welcome"),
    ),
    "weekday": (
        ("every weekday at 8:15 remind me to pack my bag", "routine: pack my bag @ 15 8 * * 1-5"),
    ),
    "two days of the week": (
        ("go swimming every monday and thursday at 18:30", "routine: go swimming @ 30 18 * * 1,4"),
    ),
    "twice": (
        ("meds 8am & 8pm daily", "routine: meds @ 0 8,20 * * *"),
        ("move it to 9am", "asked: by words, change it"),
        ("not on fridays", "asked: by words, change it"),
    ),
    "last day of the month": (
        (
            "submit my timesheet on the last day of every month at 9am",
            "routine: submit my timesheet @ every last day of the month at 9:00",
        ),
    ),
    "on sundays": (("call grandpa on sundays", "asked: no time of day"),),
    "every 4 days": (("water the cactus every 4 days", "asked: every 4 days"),),
    "at night too": (
        (
            "every 2 hours remind me to drink water",
            "asked: at night too, 8am and 9pm, day and night",
        ),
        ("press: every 2 hours between 8am and 9pm", "routine: drink water @ 0 8-21/2 * * *"),
    ),
    "between": (
        ("every hour between 9 and 5 remind me to look up", "routine: look up @ 0 9-17 * * *"),
    ),
    "90 minutes apart": (
        ("every 90 minutes remind me to stand up", "asked: every hour, every 2 hours"),
        ("never mind", "told: nothing was done"),
    ),
    "until an hour": (
        ("remind me every 20 mins to blink until 6pm", "asked: between 9am and 6pm"),
        ("no", "told: nothing was done"),
    ),
    "until christmas": (
        (
            "gym class at 6 every tue until christmas",
            "asked: 6am until christmas, 6pm until christmas",
        ),
        ("6pm", "routine: gym class @ cron 0 18 * * 2 until 12-25"),
    ),
    "until a day": (
        (
            "every day at 8pm remind me to practise until 24 december",
            "routine: practise @ cron 0 20 * * * until 12-24",
        ),
    ),
    "until easter": (("yoga every tuesday at 6pm until easter", "asked: until 25 dec"),),
    "yearly": (("every year on 3 march remind me of Zoë", "place: set it once"),),
    # What is set.
    "snooze by words": (
        ("move the dentist to +4d 3pm", "change: dentist @ +4d 15:00"),
        ("undo", "change: dentist @ +1d 15:00"),
    ),
    "two of one name": (("cancel the gym", "asked: gym · "), ("the one on +5d", "gone: gym")),
    "time of a routine": (("move my pills to 9pm", "change: take my pills @ 0 21 * * *"),),
    "not there": (("stop reminding me about the unicorns", "asked: there is no"),),
    "there": (("stop reminding me about leaving for work", "asked: "),),
    "no pause for a while": (("pause my pills until monday", "asked: pause it, cancel it"),),
    "all": (("cancel all for today", "asked: one at a time"),),
    "a correction": (
        ("remind me at 3pm to call the vet", "reminder: call the vet @ 15:00"),
        ("no, in 2 hours", "change: call the vet @ +120"),
    ),
    "another day": (
        ("remind me tomorrow at 10am to send the form", "reminder: send the form @ +1d 10:00"),
        ("no, +3d", "change: send the form @ +3d 10:00"),
        ("undo", "change: send the form @ +1d 10:00"),
    ),
    "thanks between": (
        ("remind me to call the bank", "asked: when"),
        ("thanks!", "told: welcome"),
        ("tomorrow", "asked: 9am"),
        ("10am", "reminder: call the bank @ +1d 10:00"),
    ),
    "nothing": (("text Tom", "asked: "), ("never mind", "told: nothing was done")),
    # Lists.
    "a task": (("add a task: pay the plumber", "task: pay the plumber"),),
    "a list": (("add butter to my shopping list", "task: butter"),),
    "things to do": (("put cleaning on my list of things to do", "task: cleaning"),),
    "a task and an order": (("add tea and remove coffee to my list", "asked: more than one"),),
    "half of a task": (
        ("I've bought the eggs", "asked: is all of it done"),
        ("press: All of it", "done: eggs and bread"),
    ),
    "a done task": (("done with the water bill", "done: water bill"),),
    "my list": (("show me my shopping list", "told: shopping:, milk"),),
    "a note": (("note: the plumber's number is 555 0123", "place: /tasks, add a task"),),
    # What another place does.
    "quiet": (
        ("be quiet until 3pm", "asked: quiet until 15:00"),
        ("press: Quiet until 15:00", "told: quiet until today 15:00"),
    ),
    "every night": (("don't disturb me after 10pm", "place: /config quiet_hours"),),
    "flight": (("ask me if I've booked the flight", "place: remind me at"),),
    "break down": (('break down "clean the kitchen"', "place: break it down, /tasks"),),
    "about me": (("I'm allergic to penicillin", "place: about me"),),
    "travel": (("I'm in Tokyo this week", "place: /config timezone Asia/Tokyo"),),
    "a wife": (("remind my wife to buy milk", "place: /tasks"),),
    "hello": (("good morning", "told: hello"),),
    "twice the same": (
        ("lorem ipsum dolor", "place: i did not understand that, /tasks"),
        ("sit amet consectetur", "place: this either, /help"),
    ),
}
