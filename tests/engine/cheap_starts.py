"""Variables that make a short life of the engine's program cheaper, and change nothing else."""

# The program lives for seconds in a test: to optimise its code costs more than it saves.
CHEAP_STARTS = {"BUN_JSC_useDFGJIT": "0"}
