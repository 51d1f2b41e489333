"""Variables that make short runs of the engine's program cheaper, and change nothing else."""

CHEAP_STARTS = {
    # The program runs for seconds in a test, so optimising its code costs more than it saves.
    "BUN_JSC_useDFGJIT": "0",
    # Garbage is collected after many allocations, not whenever the program is idle.
    "BUN_GC_TIMER_DISABLE": "1",
}
