"""The distance and the samples."""

import random
import unittest

from ..dtw import distance
from ..series import KINDS, generate, packed, unpacked
from ..verify import textbook


class Distance(unittest.TestCase):
    def test_the_distance_follows_its_definition(self):
        seed = random.SystemRandom().randrange(2**32)
        chance = random.Random(seed)
        for _ in range(150):
            x, y = ([chance.randint(-3000, 3000) for _ in range(chance.randint(1, 24))] for _ in "xy")
            window = chance.randint(0, 8)
            with self.subTest(seed=seed, x=x, y=y, window=window):
                self.assertEqual(distance(x, y, window), textbook(x, y, window))
                self.assertEqual(distance(x, y, window), distance(y, x, window))

    def test_the_distance_of_known_series(self):
        self.assertEqual(distance([1000, 2000, 3000], [1000, 2000, 3000], 2), 0)
        self.assertEqual(distance([0, 0, 1000], [0, 1000, 1000], 1), 0)  # equal after warping
        self.assertEqual(distance([0, 0, 1000], [0, 1000, 1000], 0), 1)  # without a window there is no warping
        self.assertEqual(distance([0], [500, 250], 0), 0.75)
        with self.assertRaises(ValueError):
            distance([], [1], 1)


class Series(unittest.TestCase):
    def test_a_sample_depends_only_on_seed_and_number(self):
        self.assertEqual(generate(7, 40, 1), generate(7, 40, 1))
        self.assertNotEqual(generate(7, 40, 1).values, generate(7, 40, 2).values)
        self.assertEqual([generate(n, 8, 1).kind for n in range(1, 6)], list(KINDS))

    def test_unpacked_is_the_inverse_of_packed(self):
        for number in range(1, 11):
            values = generate(number, 128, 3).values
            self.assertEqual(unpacked(packed(values)), values)
        self.assertEqual(unpacked(packed([40000, -40000])), [32767, -32767])

    def test_series_of_one_kind_are_closer_than_others(self):
        series = [generate(n, 128, 1) for n in range(1, 31) if generate(n, 128, 1).kind != "walk"]
        pairs = [(x, y) for x in series for y in series if x.id < y.id]
        same = [distance(x.values, y.values, 12) for x, y in pairs if x.kind == y.kind]
        other = [distance(x.values, y.values, 12) for x, y in pairs if x.kind != y.kind]
        self.assertLess(2 * sum(same) / len(same), sum(other) / len(other))
