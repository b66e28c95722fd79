# SPDX-License-Identifier: MIT
"""bench: the rows that are asked for, with figures that fit together."""
import csv
import unittest

from helper import CommandTest


class Bench(CommandTest):
    def rows(self, *words):
        words = ("bench", "-d", "cpu", "--image", "97x61x3", "--runs", "3", "--csv") + words
        return list(csv.DictReader(self.gconv(*words).stdout.splitlines()))

    def test_algorithms_and_sizes(self):
        rows = self.rows("--sizes", "3,4", "-a", "direct", "-a", "im2col", "--verify")
        self.assertEqual([(row["algorithm"], row["rows"]) for row in rows],
                         [("direct", "3"), ("im2col", "3"), ("direct", "4"), ("im2col", "4")])
        for row in rows:
            ms, size = float(row["ms"]), int(row["rows"])
            self.assertGreater(ms, 0)
            self.assertAlmostEqual(float(row["gsample_per_s"]) * ms, 97 * 61 * 3 / 1e6, delta=1e-6)
            self.assertAlmostEqual(float(row["tflop_per_s"]) * ms, 2 * 97 * 61 * 3 * size * size / 1e9, delta=1e-8)
            self.assertAlmostEqual(float(row["gb_per_s"]) * ms, 2 * 97 * 61 * 3 / 1e6, delta=1e-6)
            self.assertGreater(float(row["copy_gb_per_s"]), 0)

    def test_all_but_reference(self):
        names = {row["algorithm"] for row in self.rows("--sizes", "3", "--type", "f32")}
        self.assertLessEqual({"direct", "im2col"}, names)
        self.assertNotIn("reference", names)

    def test_a_filter_for_people(self):
        text = self.gconv("bench", "-d", "cpu", "--image", "64x32", "--runs", "1", "-f", "sobel_x", "-a", "auto").stdout
        self.assertIn("copy", text)
        self.assertIn("sobel_x", text)

    def test_mistakes(self):
        self.usage_error("WIDTHxHEIGHT", "bench", "--image", "640")
        self.usage_error("sizes from 1 to 4096", "bench", "--sizes", "0")
        self.usage_error("nosuch", "bench", "-d", "cpu", "--image", "8x8", "-f", "nosuch")
        self.usage_error("takes no such word", "bench", "sobel_x")


if __name__ == "__main__":
    unittest.main()
