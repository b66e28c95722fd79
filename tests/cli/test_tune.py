# SPDX-License-Identifier: MIT
"""tune: what is measured is remembered, told, used, and forgotten; files of no use are ignored, and said."""
import re
import unittest

import numpy as np
from helper import CommandTest


class Tune(CommandTest):
    def setUp(self):
        super().setUp()
        self.cache = self.folder / "cache"
        self.file = self.cache / "tune-cpu.txt"

    def run_here(self, *words, **options):
        return self.gconv(*words, env={"GCONV_CACHE": str(self.cache)}, **options)

    def tune(self, *words, **options):
        return self.run_here("tune", "-d", "cpu", "--threads", "1", *words, **options)

    def explain(self):
        if not (self.folder / "a.png").exists():
            self.photo("a.png")
        return self.run_here("-i", "a.png", "-f", "sharpen", "-o", "b.png", "--explain", "--threads", "1").stderr

    def test_tuning_is_remembered_used_and_forgotten(self):
        self.assertIn("not tuned", self.tune("--show").stdout)
        self.assertNotIn("gconv tune", self.explain())
        told = self.tune("--quick").stdout
        self.assertIn(str(self.file), told)
        self.assertRegex(told, r"direct +u8 +x1 +65536 samples: 3:[\d.]+ 7:")
        self.assertRegex(told, r"integer +u8 +x1 +65536 samples: 3:[\d.]+ 5:")
        self.assertEqual(self.tune("--show").stdout, told)
        self.assertEqual(sorted(path.name for path in self.cache.iterdir()), ["tune-cpu.txt"])
        text = self.file.read_text()
        self.file.write_text(re.sub(r"(ratio direct u8 \d \d+ \d+) .*", r"\1 2.5", text))
        self.assertRegex(self.explain(), r"direct +estimated at .* times 2.5 as gconv tune found")
        self.tune("--forget")
        self.assertFalse(self.file.exists())
        self.tune("--forget")
        self.assertNotIn("gconv tune", self.explain())

    def test_layers_are_tuned_as_well(self):
        told = self.tune("--quick").stdout
        self.assertRegex(told, r"direct +layer, few filters +65536 outputs, by taps: 27:[\d.]+ 147:[\d.]+ 576:")
        self.assertRegex(told, r"gemm +layer, many filters +65536 outputs, by taps: 27:")
        text = self.file.read_text()
        self.photo("a.png", 40, 30)
        np.save(self.folder / "w.npy", np.ones((4, 3, 3, 3), "f4"))
        for fast, slow in ("direct", "gemm"), ("gemm", "direct"):
            changed = re.sub(rf"(layer {fast} 1 \d+ \d+) .*", r"\1 0.01", text)
            self.file.write_text(re.sub(rf"(layer {slow} 1 \d+ \d+) .*", r"\1 50", changed))
            said = self.run_here("-i", "a.png", "-f", "w.npy", "-o", "b.npy", "--explain", "--threads", "1").stderr
            self.assertRegex(said, rf"{slow} +estimated at .* times 50 as gconv tune found")
            self.assertIn(f"algorithm {fast}, math fp32", said)
        self.file.write_text(text + "layer direct 3 1 1 1\n")
        self.assertIn("broken", self.explain())

    def test_files_of_no_use_are_ignored(self):
        self.cache.mkdir()
        for text, reason in (("gconv 0.0.0\n", "another version"), ("nonsense\n", "broken"), ("", "not whole"),
                             ("device ENIAC\n", "another device"), ("\0\1\2", "not whole")):
            self.file.write_text(text)
            said = self.explain()
            self.assertIn("warning: ", said, text)
            self.assertIn(reason, said)
            self.assertIn("gconv tune -d cpu", said)
            self.assertTrue((self.folder / "b.png").exists())

    def test_a_file_of_no_use_is_told_of_once(self):
        self.cache.mkdir()
        self.file.write_text("nonsense\n")
        for name in "abcd":
            self.photo(f"in/{name}.png")
        said = self.run_here("-i", "in", "-f", "sharpen", "-o", "out/", "--threads", "2", "--jobs", "2").stderr
        self.assertEqual(said.count("is ignored"), 1, said)
        self.assertIn("gconv tune -d cpu makes", said)

    def test_what_was_measured_holds_for_any_number_of_threads(self):
        self.tune("--quick")
        one = self.explain()
        self.assertIn("tune found", one)
        for words in ("--threads", "2"), ("--jobs", "2"), ("--memory", "50M"):
            other = self.run_here("-i", "a.png", "-f", "sharpen", "-o", "b.png", "--explain", *words).stderr
            self.assertEqual(one, other)

    def test_a_folder_that_cannot_be(self):
        self.cache.write_text("no folder")
        self.assertIn("cannot be written", self.tune("--quick", status=1).stderr)
        self.assertIn("no folder to remember", self.gconv("tune", "-d", "cpu", "--forget", status=1).stderr)

    def test_mistakes(self):
        self.usage_error("exclude each other", "tune", "--show", "--forget")
        self.usage_error("unexpected argument", "tune", "cpu")
        self.gconv("tune", "-d", "nosuch", status=1)


if __name__ == "__main__":
    unittest.main()
