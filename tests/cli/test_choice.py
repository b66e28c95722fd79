# SPDX-License-Identifier: MIT
"""auto: what it takes, and so every byte of a result, follows from the problem and the kind of device alone. Threads, jobs,
memory, vector instructions, batches and what else lies in the folder change nothing. The problems are those near which
choices change, so that a price that depends on any of these shows."""
import json
import platform
import re
import unittest

import numpy as np
from helper import CommandTest

# Height, width, channels and filter: each was chosen otherwise by some number of threads once.
BORDERLINE = [
    (1, 1, 1, "sobel_x"),
    (16, 16, 1, "gabor"),
    (40, 40, 1, "gaussian:size=9,sigma=1.5"),
    (40, 40, 3, "log:size=9,sigma=1.4"),
    (64, 64, 3, "gaussian:size=5,sigma=1"),
    (100, 80, 1, "disk:radius=5"),
    (100, 80, 3, "disk:radius=3"),
    (160, 120, 1, "gaussian:size=7,sigma=1.2"),
    (200, 200, 1, "log:size=7,sigma=1"),
    (250, 400, 1, "motion:len=25,theta=30"),
    (250, 400, 3, "disk:radius=3"),
    (320, 240, 1, "disk:radius=3"),
    (500, 500, 3, "log:size=9,sigma=1.4"),
]

# Channels, height and width of an image, and filters of 3 x 3, of a layer: near winograd, which is not of the exact family.
LAYERS = [(16, 14, 32), (16, 28, 32), (32, 28, 8), (32, 57, 32), (64, 14, 64)]


class Choice(CommandTest):
    def explain(self, *words, **options):
        """Why each algorithm was chosen: all prices, with the algorithms."""
        said = self.gconv(*words, "--explain", **options).stderr
        found = re.search(r"^.*algorithm .*?^work|^layer.*algorithm.*", said, re.MULTILINE | re.DOTALL)
        self.assertIsNotNone(found, said)
        self.assertIn("estimated at", said)
        return re.sub(r"(?m)^device .*\n", "", found[0])

    def test_threads_and_memory_change_nothing(self):
        for height, width, channels, spec in BORDERLINE:
            with self.subTest(height=height, width=width, channels=channels, filter=spec):
                self.photo("a.png", width, height, channels=channels)
                first = None
                for number, words in enumerate((["1"], ["2"], ["4"], ["16"], ["4", "--memory", "50M"])):
                    name = f"{number}.npy"
                    told = self.explain("-i", "a.png", "-f", spec, "-o", name, "--depth", "float", "--threads", *words)
                    made = told, (self.folder / name).read_bytes()
                    first = first or made
                    self.assertEqual(first[0], made[0])
                    self.assertEqual(first[1], made[1])

    def test_vector_instructions_change_no_choice(self):
        for height, width, channels, spec in BORDERLINE:
            self.photo("a.png", width, height, channels=channels)
            words = "-i", "a.png", "-f", spec, "-o", "b.png", "--dry-run", "--threads", "1"
            first = self.explain(*words)
            for isa in "avx2", "avx512":
                self.assertEqual(first, self.explain(*words, env={"GCONV_ISA": isa}), (spec, isa))
            without = self.explain(*words, env={"GCONV_ISA": "plain"})
            if platform.machine() == "x86_64":  # where fmaf() is a call
                self.assertNotEqual(first, without)
            else:
                self.assertEqual(first, without)

    def timed(self, *words):
        """The algorithm for each input, by its name."""
        lines = self.gconv(*words, "--timings=json").stdout.splitlines()
        reports = [json.loads(line) for line in lines if line.startswith("{")]
        return {report["input"]: report["algorithm"] for report in reports if "input" in report}

    def test_a_folder_is_as_its_files(self):
        for number, (height, width, channels, _) in enumerate(BORDERLINE):
            self.photo(f"in/{number:02}.png", width, height, seed=number, channels=channels)
        for spec in "motion:len=25,theta=30", "disk:radius=3", "gaussian:size=5,sigma=1", "log:size=9,sigma=1.4":
            single = {}
            (self.folder / "single").mkdir(exist_ok=True)
            for number in range(len(BORDERLINE)):
                path = f"in/{number:02}.png"
                single.update(self.timed("-i", path, "-f", spec, "-o", f"single/{number:02}.npy", "--depth", "float"))
            for words in ["--jobs", "1"], ["--jobs", "4"], ["--jobs", "4", "--memory", "60M"], ["--threads", "1"]:
                together = self.timed("-i", "in/", "-f", spec, "-o", "all/", "--format", "npy", "--depth", "float", *words)
                self.assertEqual(single, together, words)
                for number in range(len(BORDERLINE)):
                    name = f"{number:02}.npy"
                    self.assertEqual((self.folder / "single" / name).read_bytes(), (self.folder / "all" / name).read_bytes(), name)

    def test_by_rows_is_as_whole(self):
        self.photo("a.png", 2300, 1300)  # above 8 MiB it goes by rows, but to standard output whole
        for spec in "disk:radius=3", "motion:len=25,theta=30", "gaussian:size=31,sigma=5":
            words = "-i", "a.png", "-f", spec, "--format", "npy"
            self.gconv(*words, "-o", "rows.npy")
            whole = self.gconv(*words, "-o", "-", text=False).stdout
            self.assertEqual((self.folder / "rows.npy").read_bytes(), whole, spec)

    def layer(self, channels, side, filters):
        draw = np.random.default_rng(3).standard_normal
        np.save(self.folder / "w.npy", draw((filters, channels, 3, 3), "f4"))
        for number in range(9):
            path = self.folder / "arrays" / f"{number}.npy"
            path.parent.mkdir(exist_ok=True)
            np.save(path, draw((1, channels, side, side), "f4"))

    def test_layers(self):
        for channels, side, filters in LAYERS:
            self.layer(channels, side, filters)
            first = None
            for words in ["--threads", "1"], ["--threads", "4"], ["--threads", "16"], ["--threads", "2", "--memory", "50M"]:
                told = self.explain("-i", "arrays/0.npy", "-f", "w.npy", "-o", "o.npy", *words)
                made = told, (self.folder / "o.npy").read_bytes()
                first = first or made
                self.assertEqual(first, made, words)
            for words in [], ["--batch", "1"], ["--batch", "3"], ["--memory", "50M"], ["--jobs", "4"], ["--threads", "16"]:
                self.gconv("-i", "arrays/", "-f", "w.npy", "-o", "maps/", "--format", "npy", *words)
                self.assertEqual((self.folder / "maps" / "0.npy").read_bytes(), first[1], words)


if __name__ == "__main__":
    unittest.main()
