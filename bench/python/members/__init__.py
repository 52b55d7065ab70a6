"""The parts of cluster.py: a server, members as processes, and the measures."""
