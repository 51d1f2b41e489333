"""The schedule: the job index, the scheduler, and the dispatch of due occurrences."""
