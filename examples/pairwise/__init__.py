"""All pairs of N samples, computed by many workers, kept in one Densite file.

Run it as ``python3 -m pairwise`` (README.md beside this file explains the design). The modules, from the inside out:

- :mod:`.series`, :mod:`.dtw`: the samples and the distance between two of them;
- :mod:`.schema`: the tables, and the allocation of all pairs; :mod:`.store`: connections to the file;
- :mod:`.leases`, :mod:`.results`: work going out, distances coming in;
- :mod:`.distances`, :mod:`.histogram`, :mod:`.progress`: what can be asked;
- :mod:`.server`, :mod:`.routes`, :mod:`.page`, :mod:`.plot`: the coordinator over HTTP and its status page;
- :mod:`.client`, :mod:`.worker`: the other end of it;
- :mod:`.everything`, :mod:`.verify`: the whole of it in one go, and whether it is right; :mod:`.cli`: the command line.
"""
