# SPDX-License-Identifier: MIT
"""What becomes of a run when calls of the system fail (faults.c): no crash, no half results, honest exit statuses and texts,
and nothing that --resume does not mend."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import numpy
from PIL import Image

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
import helper
from network_helper import Layer, save_network

FAULTY = os.environ.get("GCONV_FAULTY")  # a program whose calls fail, for sanitizers; else GCONV_FAULTS is for LD_PRELOAD
OLD = b"an older result"
JOBS = {
    "png": ("-f", "gaussian:size=5,sigma=1", "-f", "sobel_x", "-o", "out/{stem}_{filter}.png"),
    "jpg": ("-f", "average", "-o", "out/{stem}.jpg", "--gray"),
    "npy": ("-f", "laplacian", "-f", "log", "--combine", "sum", "--range", "minmax", "-o", "out/{stem}.npy", "--depth", "float"),
    "part": ("-f", "average", "--region", "9x8+3-2", "-o", "out/{stem}.png"),
    "bank": ("-f", "sobel_x", "-f", "sobel_y", "--activation", "none", "-o", "out/{stem}_{filter}.png"),
    "mosaic": ("-f", "edge.txt", "--then", "-f", "average", "--combine", "mosaic", "-o", "out/{stem}.png"),
    "verified": ("-f", "edge.txt", "-o", "out/{stem}.pgm", "--format", "pam", "--verify", "--timings", "--explain"),
}


def with_metadata(path):
    """Writes a JPEG again, with EXIF and a comment."""
    with Image.open(path) as image:
        exif = Image.Exif()
        exif[0x10F] = "A camera"
        image.load()
        image.save(path, exif=exif, comment="words")


class Faults(helper.CommandTest):
    def setUp(self):
        super().setUp()
        self.program, self.more = helper.GCONV, {}
        self.photo("p/a.png", 40, 30)
        self.photo("p/b.jpg", 33, 21)
        with_metadata(self.folder / "p/b.jpg")
        self.photo("p/c.png", 20, 20, channels=1)
        (self.folder / "p/d.pgm").write_bytes(b"P5 8 8 65535\n" + bytes(range(128)))
        (self.folder / "edge.txt").write_text("0 -1 0\n-1 4 -1\n0 -1 0\n")

    def run_with(self, fault, words):
        """Runs gconv with these calls failing; returns the result, the calls of this kind, and those that failed. The most slow
        calls at a time are in self.slow."""
        log = self.folder / "faults.log"
        log.unlink(missing_ok=True)
        environment = self.environment({"FAULT": fault, "FAULT_LOG": str(log)})
        environment |= {} if FAULTY else {"LD_PRELOAD": os.environ["GCONV_FAULTS"]}
        environment |= self.more
        words = words if FAULTY or self.program != helper.GCONV else (*words, "--no-sandbox")  # the log lies elsewhere
        result = subprocess.run([FAULTY or self.program, *words], cwd=self.folder, env=environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, timeout=120, check=False)
        self.told = result.stdout
        calls, failed, self.slow = map(int, log.read_text().split()) if log.exists() else (0, 0, 0)
        return result, calls, failed

    def fresh(self):
        """The folder of the results, with an older one in each place."""
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        (self.folder / "out").mkdir()
        for name in self.want:
            (self.folder / "out" / name).write_bytes(OLD)

    def results(self):
        return {name: (self.folder / "out" / name).read_bytes() for name in self.files("out")
                if not name.startswith(".gconv-manifest")}

    def expect(self, words):
        """What a run makes without faults."""
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        self.gconv(*words)
        self.want = self.results()

    def check(self, fault, words):
        """One run with faults; returns how many calls there were."""
        self.fresh()
        result, calls, failed = self.run_with(fault, words)
        text = result.stderr.decode(errors="replace")
        context = f"{fault}: {' '.join(words)}\nended with {result.returncode}\n{text}"
        got = self.results()
        self.assertIn(result.returncode, (0, 1, 2, 3), context)
        self.assertEqual(sorted(got), sorted(self.want), context)  # nothing lost, nothing left over
        made = 0
        for name, content in got.items():
            self.assertTrue(content in (OLD, self.want[name]), f"{name} is neither old nor new; {context}")
            made += content != OLD
        honest = {0: made == len(got), 1: made == 0, 2: made == 0, 3: 0 < made < len(got)}
        self.assertTrue(honest[result.returncode], f"{made} results of {len(got)}; {context}")
        if result.returncode:
            self.assertTrue(any(line.startswith("gconv: ") for line in text.splitlines()), context)
            self.assertNotRegex(text, r"(p/\S+): \1: ", context)  # an image is named once
            if fault.startswith("memory"):  # and not the words of an older error
                self.assertIn("memory", text, context)
        if not failed:
            self.assertEqual(result.returncode, 0, context)
        return calls

    def sweep(self, kind, words, most=60, expected=1):
        """Lets each call fail, but at most `most` of them, at equal distances; then every call, every second, ..."""
        if "GCONV_LONG_TESTS" not in os.environ:
            most = -(-most // 3)
        calls = self.check(f"{kind}:0:0", words)
        self.assertGreaterEqual(calls, expected, f"{kind} is not called")
        step = max(1, -(-calls // most))
        for number in range(1, calls + 1, step):
            self.check(f"{kind}:{number}:0", words)
        for number, period in ((1, 1), (1, 2), (2, 3), (5, 7), (11, 19), (calls // 2, 1), (37, 101)):
            self.check(f"{kind}:{number}:{period}", words)

    def test_memory(self):
        for name, job in JOBS.items():
            words = ("-i", "p", *job, "--threads", "1")
            self.expect(words)
            with self.subTest(name):
                self.sweep("memory", words, 150, 20)

    def test_memory_with_threads(self):
        words = ("-i", "p", *JOBS["png"], "--threads", "3", "--jobs", "2")
        self.expect(words)
        self.sweep("memory", words, 60, 20)

    def test_files_and_threads(self):
        for kind, expected in (("write", 4), ("read", 4), ("open", 4), ("rename", 4), ("close", 4), ("thread", 1)):
            for name, threads in (("png", "3"), ("jpg", "1"), ("bank", "3"), ("verified", "2")):
                words = ("-i", "p", *JOBS[name], "--threads", threads)
                self.expect(words)
                with self.subTest(kind=kind, job=name):
                    self.sweep(kind, words, 20, 0 if threads == "1" else expected)

    def test_windows_of_a_signal(self):
        numbers = numpy.random.default_rng(2)
        numpy.save(self.folder / "s.npy", numbers.normal(size=30000).astype("f4"))
        save_network(self.folder / "n.safetensors", [Layer(numbers.normal(size=(3, 1, 1, 20)), padding="valid", activation="tanh")], 1, 1, 20)
        for output in ("out/o.npy", "out/o.csv"):
            words = ("-i", "s.npy", "-f", "n.safetensors", "--windows", "20:7", "-o", output, "--threads", "2", "-q")
            shutil.rmtree(self.folder / "out", ignore_errors=True)
            (self.folder / "out").mkdir()
            self.gconv(*words)
            self.want = self.results()
            for kind in ("write", "read", "open", "rename", "close", "thread"): # not memory: without it, jansson stops the program
                with self.subTest(kind=kind, output=output):
                    self.sweep(kind, words, 20, 1)

    def test_what_does_not_matter(self):
        """Writes that are short or interrupted, and threads that cannot be had, change nothing."""
        words = ("-i", "p", *JOBS["png"], "--threads", "3", "-q")
        self.expect(words)
        for fault in ("short:1:1", "short:2:3", "interrupt:1:2", "interrupt:3:0", "thread:1:1", "thread:2:0"):
            self.fresh()
            result, _, failed = self.run_with(fault, words)
            self.assertGreater(failed, 0, fault)
            self.assertEqual((result.returncode, result.stderr), (0, b""), fault)
            self.assertTrue(self.results() == self.want, fault)

    def test_large_images_by_rows(self):
        pixels = numpy.random.default_rng(1).integers(0, 256, (1500, 2000, 3), dtype=numpy.uint8)
        shutil.rmtree(self.folder / "p")
        (self.folder / "p").mkdir()
        (self.folder / "p/large.ppm").write_bytes(b"P6 2000 1500 255\n" + pixels.tobytes())
        for output in ("out/{stem}.png", "out/{stem}.ppm"):
            words = ("-i", "p", "-f", "sobel_x", "-o", output, "--threads", "2")
            self.expect(words)
            for kind in ("memory", "write", "read", "close", "thread"):
                with self.subTest(kind=kind, output=output):
                    self.sweep(kind, words, 12, 0)

    @unittest.skipIf(FAULTY, "a GPU is linked into another program")
    def test_results_of_a_gpu(self):
        """They are written as they come, some of them as PNG already, of a GPU for machines that have none (late_gpu.c)."""
        for i in range(3):
            self.photo(f"p/{i}.jpg", 700, 600, seed=i)
        words = ("-i", "p", "-f", "sobel_x", "-f", "sobel_y", "-o", "out/{stem}_{filter}.png", "--threads", "2", "--jobs", "2")
        self.expect((*words, "-d", "cpu"))
        self.program = os.environ["GCONV_LATE"]
        self.more = {"LATE_GPU": str(self.folder), "LATE_GPU_MAKES": "1"}
        for decode in ((), ("--decode", "gpu")):
            for kind in ("memory", "write", "open", "rename", "thread"):
                with self.subTest(kind=kind, decode=decode):
                    self.sweep(kind, (*words, "-d", "cuda", *decode), 15, 0)

    def test_resumed(self):
        """Whatever failed, --resume mends it; what failed in the manifest does not fail the run."""
        words = ("-i", "p", *JOBS["png"], "--threads", "2", "--resume")
        self.expect(words)
        for kind in ("memory", "write", "short", "read", "open", "rename", "close"):
            calls = self.check(f"{kind}:0:0", words)
            for number in range(1, calls + 1, max(1, calls // 15)):
                with self.subTest(kind=kind, number=number):
                    self.check(f"{kind}:{number}:3", words)
                    self.gconv(*words)
                    self.assertTrue(self.results() == self.want)
                    done = self.gconv(*words).stderr
                    self.assertIn(f"{len(self.want)} results were done, which is all", done)

    def test_results_of_banks_are_noted_beside_each_other(self):
        """To note a result, --resume reads it, which takes a while: other threads do not wait for that."""
        numpy.save(self.folder / "w.npy", numpy.ones((12, 3, 3, 3), "f4"))
        result, _, _ = self.run_with("slow:1:1", ("-i", "p/a.png", "-f", "w.npy", "-o", "out/", "--resume", "--threads", "4"))
        self.assertEqual((result.returncode, len(self.files("out"))), (0, 13))
        self.assertGreater(self.slow, 1)

    def test_one_array_that_appears_meanwhile(self):
        """Where all results go into one array: somebody else made it while it was computed."""
        numpy.save(self.folder / "w.npy", numpy.ones((2, 3, 3, 3), "f4"))
        for i in range(3):
            self.photo(f"same/{i}.png", 20, 10, seed=i)
        words = ("-i", "same", "-f", "w.npy", "-o", "y.npy", "--timings=json")
        result, _, failed = self.run_with("exists:1:1", (*words, "--skip-existing"))
        self.assertEqual((result.returncode, result.stderr, failed), (0, b"", 1))
        summary = json.loads(self.told.splitlines()[-1])["summary"]
        self.assertEqual([summary[f"results_{n}"] for n in ("written", "passed_over", "failed")], [0, 1, 0])
        result, _, _ = self.run_with("exists:1:1", (*words, "--no-clobber"))
        self.assertEqual((result.returncode, result.stderr), (1, b"gconv: y.npy: exists and is kept (--no-clobber)\n"))
        self.assertNotIn("y.npy", "".join(self.files()))

    def test_no_clobber(self):
        words = ("-i", "p", *JOBS["png"], "--no-clobber", "--threads", "1")
        self.expect(words)
        shutil.rmtree(self.folder / "out")
        for fault in ("rename:1:1", "rename:2:0"):
            result, _, failed = self.run_with(fault, words)
            self.assertGreater(failed, 0)
            self.assertEqual({name for name in self.files("out") if name.startswith(".")}, set())
            self.assertNotEqual(result.returncode < 0, True)
            shutil.rmtree(self.folder / "out")


if __name__ == "__main__":
    unittest.main()
