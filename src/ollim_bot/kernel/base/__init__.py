"""The ground: time, paths, settings, logs, processes, and files as the system has them."""
