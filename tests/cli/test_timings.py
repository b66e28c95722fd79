# SPDX-License-Identifier: MIT
"""What is told: --timings, --verify, --explain, -v, -q."""
import json
import os
import re
import unittest

import numpy

from helper import CommandTest

MS = ["decode_ms", "wait_ms", "plan_ms", "prepare_ms", "upload_ms", "kernel_ms", "download_ms", "finish_ms", "encode_ms", "total_ms"]


class Timings(CommandTest):
    def setUp(self):
        super().setUp()
        for i in range(4):
            self.photo(f"in/{i}.png", 320, 200, seed=i)

    def lines(self, *words, status=0):
        return [json.loads(line) for line in self.gconv(*words, "--timings=json", status=status).stdout.splitlines()]

    def test_json_of_one(self):
        line, last = self.lines("-i", "in/0.png", "-f", "sobel_x", "-f", "sobel_y", "-o", "out/", "--padding", "valid")
        self.assertEqual(line["input"], "in/0.png")
        self.assertEqual(line["outputs"], ["out/0_sobel_x.png", "out/0_sobel_y.png"])
        self.assertEqual((line["device"], line["algorithm"], line["math"]), ("cpu", "integer", "fp32"))
        self.assertEqual(line["input_shape"], [1, 3, 200, 320])
        self.assertEqual(line["filter_shape"], [2, 3, 3])
        self.assertEqual(line["output_shape"], [1, 3, 198, 318])
        self.assertIs(line["cold"], True)
        self.assertIsNone(line["error"])
        for name in MS:
            self.assertGreaterEqual(line[name], 0, name)
        for name in ("decode_ms", "kernel_ms", "encode_ms", "total_ms", "gb_per_s", "gflop_per_s"):
            self.assertGreater(line[name], 0, name)
        parts = sum(line[name] for name in MS if name != "total_ms")
        self.assertLessEqual(parts, line["total_ms"] * 1.05 + 0.1)
        flop = 2 * 2 * 3 * 9 * 198 * 318
        self.assertAlmostEqual(line["gflop_per_s"] * line["kernel_ms"] * 1e6, flop, delta=flop * 0.1)
        summary = last["summary"]
        self.assertEqual((summary["images"], summary["failed"], summary["results_written"]), (1, 0, 2))
        self.assertEqual((summary["device"], summary["algorithm"]), ("cpu", "integer"))
        self.assertEqual((summary["cold_images"], summary["warm_images"]), (1, 0))
        self.assertAlmostEqual(summary["mpix"], 0.064)
        self.assertGreaterEqual(summary["wall_ms"], line["total_ms"])
        self.assertGreaterEqual(summary["device_start_ms"], 0)
        self.assertGreaterEqual(summary["device_wait_ms"], 0)
        self.assertIsNone(summary["device_reason"])

    def test_json_of_many(self):
        (self.folder / "in/2.png").write_bytes(b"no image" * 20000)
        *lines, last = self.lines("-i", "in", "-f", "sobel_x", "-o", "out/", "--jobs", "1", status=3)
        self.assertEqual([line["input"] for line in lines], [f"in/{i}.png" for i in range(4)])
        self.assertEqual([line.get("cold") for line in lines], [True, False, None, False])
        self.assertTrue(lines[2]["error"].startswith("in/2.png: "))
        self.assertNotIn("kernel_ms", lines[2])
        summary = last["summary"]
        self.assertEqual((summary["images"], summary["failed"], summary["results_written"], summary["results_failed"]),
                         (4, 1, 3, 1))
        self.assertEqual((summary["cold_images"], summary["warm_images"]), (1, 2))

    def test_plans_of_two_shapes_are_kept(self):
        for i, size in enumerate(((30, 40), (40, 30), (30, 40), (40, 30), (50, 50), (40, 30))):
            self.photo(f"mixed/{i}.png", *size, seed=i)
        *lines, _ = self.lines("-i", "mixed", "-f", "sobel_x", "-o", "out/", "--jobs", "1")
        self.assertEqual([line["cold"] for line in lines], [True, True, False, False, True, False])

    def test_json_of_results_passed_over(self):
        self.gconv("-i", "in/0.png", "-f", "sobel_x", "-o", "out/")
        line, last = self.lines("-i", "in/0.png", "-f", "sobel_x", "-o", "out/", "--skip-existing")
        self.assertEqual((line["passed_over"], line["written"], line["error"]), (1, 0, None))
        self.assertIsNone(last["summary"]["algorithm"])

    def test_json_of_a_name_that_is_not_utf8(self):
        name = os.fsencode(self.folder) + b"/in/\xff.png"
        os.rename(self.folder / "in/0.png", name)
        lines = self.lines("-i", "in", "-f", "sobel_x", "-o", "out/")
        self.assertIn("in/\\xff.png", [line.get("input") for line in lines])

    def test_table(self):
        text = self.gconv("-i", "in", "-f", "sobel_x", "-o", "out/", "--timings", "--jobs", "1").stdout
        lines = text.splitlines()
        self.assertEqual(lines[0].split(), "decode host upload kernel download encode total image (times in ms)".split())
        self.assertTrue(lines[1].endswith("in/0.png (cold)"), text)
        self.assertTrue(lines[2].endswith("in/1.png"), text)
        numbers = [float(word) for word in lines[1].split()[:7]]
        self.assertGreater(min(numbers[0], numbers[3], numbers[5]), 0)
        self.assertLessEqual(sum(numbers[:6]), numbers[6] * 1.05 + 0.1)
        for fragment in ("device     cpu (", "algorithm  integer, fp32", "GB/s", "GFLOP/s (3 warm images)",
                         "images     4, 0 failed, 0.256 Mpix", "Mpix/s"):
            self.assertIn(fragment, text)
        moved, done = map(float, re.search(r"kernel +(\S+) GB/s, (\S+) GFLOP/s", text).groups())
        self.assertAlmostEqual(done / moved, 2 * 9 / 2, delta=0.1)  # nine taps, a byte read and one written
        wall, rate = map(float, re.search(r"in (\S+) ms wall: (\S+) Mpix/s", text).groups())
        self.assertAlmostEqual(rate * wall / 1e3, 0.256, delta=0.01)
        self.assertNotIn("decode", self.gconv("-i", "in", "-f", "sobel_x", "-o", "out/").stdout)

    def test_table_of_failures(self):
        (self.folder / "in/0.png").write_bytes(b"no image")
        text = self.gconv("-i", "in/0.png", "-f", "sobel_x", "-o", "out/", "--timings=table", status=1).stdout
        self.assertIn("in/0.png (failed)", text)
        self.assertIn("images     1, 1 failed", text)

    def test_reports_make_way_for_an_image_on_standard_output(self):
        result = self.gconv("-i", "in/0.png", "-f", "sobel_x", "-o", "-", "--timings", "--verify", text=False)
        self.assertEqual(result.stdout[1:4], b"PNG")
        self.assertIn("algorithm  integer", result.stderr)
        self.assertRegex(result.stderr, r"in/0\.png: equal to float64, \d+ samples compared")


class Verify(CommandTest):
    def setUp(self):
        super().setUp()
        generator = numpy.random.default_rng(3)
        numpy.save(self.folder / "a.npy", generator.random((20, 30, 3), dtype=numpy.float32))

    def test_all_well(self):
        text = self.gconv("-i", "a.npy", "-f", "gaussian:size=9,sigma=2", "-o", "b.npy", "--verify").stdout
        self.assertRegex(text, r"^a\.npy: largest error \S+ of the \S+ allowed: output 0, frame 1, row \d+, column \d+, "
                               r"channel \d is \S+, and float64 gives \S+; 1800 samples compared\n$")
        self.assertEqual(self.files(), ["a.npy", "b.npy"])

    def test_a_mismatch_fails_and_writes_nothing(self):
        words = ("-f", "gaussian:size=9,sigma=2", "-o", "b.npy", "--verify=0", "-q")
        result = self.gconv("-i", "a.npy", *words, status=1)
        self.assertRegex(result.stderr, r"^gconv: a\.npy: output 0, frame 1, row \d+, column \d+, channel \d is \S+, but float64 "
                                        r"gives \S+: the difference \S+ is over the \S+ allowed\n$")
        self.assertEqual(result.stdout, "")
        self.assertEqual(self.files(), ["a.npy"])
        self.gconv("-i", "a.npy", "-f", "identity", "-o", "b.npy", "--verify=0")
        self.assertEqual(self.files(), ["a.npy", "b.npy"])

    def test_json(self):
        line, _ = [json.loads(text) for text in self.gconv("-i", "a.npy", "-f", "sobel_x", "-o", "b.npy", "--verify",
                                                           "--timings=json").stdout.splitlines()]
        self.assertLessEqual(line["max_error"], line["allowed_error"])


class Remarks(CommandTest):
    def setUp(self):
        super().setUp()
        self.photo("a.png")
        self.photo("b.png", 30, 40)

    def test_explain(self):
        result = self.gconv("-i", "a.png", "-f", "sobel_x", "-o", "x.png", "--explain")
        for fragment in ("sobel_x", "integer", "cpu", "rank 1"):
            self.assertIn(fragment, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertEqual(self.gconv("-i", "a.png", "-f", "sobel_x", "-o", "x.png", "-q").stderr, "")

    def test_explain_names_border_and_combine_as_their_options_do(self):
        for option, names in (("border", ("zero", "constant:0.5", "replicate", "symmetric", "reflect101", "wrap")),
                              ("combine", ("none", "magnitude", "sum", "max", "stack"))):
            for name in names:
                result = self.gconv("-i", "a.png", "-f", "sobel_x", "-o", "x.png", "--explain", f"--{option}", name)
                self.assertRegex(result.stderr, rf"\b{option} {name.split(':')[0]}\b")
            self.usage_error(f"There are {', '.join(names)}".replace(":0.5", ""), "-i", "a.png", "-f", "sobel_x", "-o", "x.png",
                             f"--{option}", names[-1] + "s")

    def test_explain_each_plan_of_a_worker(self):
        result = self.gconv("-i", "a.png", "-i", "b.png", "-i", "b.png", "-f", "sobel_x", "-o", "{index}.png", "--explain",
                            "--jobs", "1")
        self.assertEqual(result.stderr.count("algorithm integer"), 2)

    def test_verbose(self):
        result = self.gconv("-i", "a.png", "-f", "sobel_x", "-o", "x.png", "-v")
        self.assertRegex(result.stderr, r"gconv: a\.png: cpu, integer, fp32, [\d.]+ ms")

    def test_a_name_that_is_also_a_file(self):
        (self.folder / "sobel_x").write_text("0 0 0\n0 1 0\n0 0 0\n")
        result = self.gconv("-i", "a.png", "-f", "sobel_x", "-o", "x.png", "--verbose")
        self.assertIn("sobel_x", result.stderr.splitlines()[0])
        self.assert_pixels("x.png", self.pixels("a.png"))
        self.assertEqual(self.gconv("-i", "a.png", "-f", "sobel_x", "-o", "x.png").stderr, "")

    def test_warnings(self):
        # Nine taps of 0.1111, as dlmwrite keeps them, sum to 0.9999.
        (self.folder / "k.txt").write_text("0.1111 0.1111 0.1111\n" * 3)
        words = ("-i", "a.png", "-f", "k.txt", "-o", "x.png")
        self.assertIn("gconv: warning: k.txt", self.gconv(*words).stderr)
        self.assertEqual(self.gconv(*words, "-q").stderr, "")
        self.assertIn("gconv: warning: k.txt", self.gconv(*words, "-v").stderr)


if __name__ == "__main__":
    unittest.main()
