"""Background runs: one job, one disposable session, in parallel with everything."""
