"""How a command of ours knows that the agent has called it, and in which run."""

from __future__ import annotations

# Set in the environment of every program that the agent starts: `CONVERSATION`, or the id of the
# occurrence whose background run it is.
CALLED_BY = "OLLIM_CALLED_BY"
CONVERSATION = "conversation"
