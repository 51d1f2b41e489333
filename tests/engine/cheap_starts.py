"""Variables that make a short life of the engine's program cheaper, and change nothing else."""

CHEAP_STARTS = {
    # The program lives for seconds in a test: to optimise its code costs more than it saves.
    "BUN_JSC_useDFGJIT": "0",
    # Memory is collected when much is allocated, and not whenever the program has nothing to do.
    "BUN_GC_TIMER_DISABLE": "1",
}
