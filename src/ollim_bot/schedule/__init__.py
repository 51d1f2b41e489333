"""Time to work: the job index, the scheduler, and the dispatch of what is due."""
