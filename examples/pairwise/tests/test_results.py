"""Deliveries are stored as a whole or refused, and each pair counts once."""

import json

from .. import leases
from ..errors import Refused
from ..results import deliver
from .support import Case


class Results(Case):
    def setUp(self):
        super().setUp()
        self.make(6, length=8, batch_pairs=9)
        self.con = self.connection()
        self.got = leases.take(self.con, "w", 60)
        self.lease = (self.got.batch, self.got.tries)
        self.good = [[a, b, a + b / 2] for a, b in self.got.pairs]

    def table(self):
        self.con.execute("SELECT densite_wait()").fetchone()
        return self.con.execute("SELECT a, b, distance FROM result ORDER BY a, b").fetchall()

    def test_a_delivery_is_stored_and_its_batch_done(self):
        receipt = deliver(self.con, self.lease, "w", self.good)
        self.assertEqual(receipt, (9, True, None))
        self.assertEqual(self.table(), sorted(map(tuple, self.good)))

    def test_a_repeated_delivery_counts_once(self):
        deliver(self.con, self.lease, "w", self.good)
        again = deliver(self.con, self.lease, "w", [[a, b, 99] for a, b, _ in self.good])
        self.assertEqual((again.taken, again.done), (9, True))
        self.assertIn("is done", again.note)
        self.assertEqual(self.table(), sorted(map(tuple, self.good)))
        self.assertEqual(self.con.execute("SELECT done_pairs FROM work").fetchone(), (9,))
        self.assertEqual(self.con.execute("SELECT pairs FROM worker").fetchall(), [(9,)])

    def test_a_batch_can_be_delivered_in_parts(self):
        self.assertFalse(deliver(self.con, self.lease, "w", self.good[:4]).done)
        self.assertTrue(deliver(self.con, self.lease, "w", self.good[4:]).done)

    def test_results_of_an_unknown_lease_count_if_they_are_missing(self):
        deliver(self.con, self.lease, "w", self.good[:2])
        for lease, note in (((1, 7), "no lease 1.7"), ((500, 1), "no batch 500")):
            receipt = deliver(self.con, lease, "stranger", [[a, b, 7] for a, b, _ in self.good[:5]])
            self.assertEqual(receipt.taken, 5)
            self.assertIn(note, receipt.note)
        self.assertEqual(self.table(), sorted([tuple(r) for r in self.good[:2]] + [(a, b, 7.0) for a, b, _ in self.good[2:5]]))

    def test_a_bad_delivery_is_refused_as_a_whole_with_the_reason(self):
        first = self.good[0]
        a, b, _ = first
        for bad, message in (
            ([a, b, float("nan")], "must be finite and not negative"),
            ([a, b, float("inf")], "must be finite"),
            ([a, b, 10**400], "must be finite"),
            ([a, b, -1.0], "not negative"),
            ([a, b, "near"], "the distance must be a number"),
            ([a, b, True], "the distance must be a number"),
            ([a, b, None], "the distance must be a number"),
            ([b, a, 1.0], "a must be less than b"),
            ([a, 2.5, 1.0], "numbers of samples"),
            ([5, 6, 1.0], "batch 1 has no such pair"),
            ([1, 2**70, 1.0], "batch 1 has no such pair"),
            ([a, b], "must be a triple"),
            ("abc", "must be a triple"),
            (self.good[1], "twice"),
        ):
            with self.subTest(bad=bad):
                with self.assertRaises(Refused) as caught:
                    deliver(self.con, self.lease, "w", [self.good[1], bad])
                self.assertIn("result 1 (from 0)", str(caught.exception))
                self.assertIn(message, str(caught.exception))
                self.assertIn(json.dumps(bad)[:70], str(caught.exception))
        for bad in (None, {}, [], "all", [first] * 100_001):
            with self.assertRaises(Refused):
                deliver(self.con, self.lease, "w", bad)
        with self.assertRaises(Refused) as caught:
            deliver(self.con, (500, 1), "stranger", [[3, 70, 1.0]])
        self.assertIn("sample 70 does not exist", str(caught.exception))
        self.assertEqual(self.table(), [])
