"""All pairs of N samples, computed by many workers and stored in one Densite file.

Run it as ``python3 -m pairwise``. README.md explains the design. The modules:

- :mod:`.series`, :mod:`.dtw`: the samples and the distance between two of them;
- :mod:`.schema`: the tables, and the allocation of all pairs; :mod:`.store`: connections to the
  file;
- :mod:`.leases`, :mod:`.results`: handing out batches, storing distances;
- :mod:`.distances`, :mod:`.histogram`, :mod:`.progress`: queries;
- :mod:`.server`, :mod:`.routes`, :mod:`.page`, :mod:`.plot`: the coordinator over HTTP and its
  status page;
- :mod:`.client`, :mod:`.worker`: the workers;
- :mod:`.everything`, :mod:`.verify`: a complete run, and the check of its result;
- :mod:`.cli`: the command line.
"""
