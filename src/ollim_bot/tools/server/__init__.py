"""The tools of ours that the agent is given, each a closure over the run that it belongs to."""
