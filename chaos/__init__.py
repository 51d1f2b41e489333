"""`make chaos`: the real program, injured in every way there is, and looked at from outside."""
