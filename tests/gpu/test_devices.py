# SPDX-License-Identifier: MIT
"""The command line on a machine with a GPU: which device is taken, why, and that it makes no difference to the results."""
import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from helper import GCONV, CommandTest

SKIPPED = 77  # as CTest takes it


def has_gpu():
    lines = subprocess.run([GCONV, "devices"], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    return any(line.startswith("cuda:") and "cannot be used" not in line for line in lines)


class DeviceTest(CommandTest):
    """With a cache of its own, and no device in the environment."""
    def environment(self, extra=None):
        environment = super().environment({"GCONV_CACHE": str(self.folder / "cache"), **(extra or {})})
        if "GCONV_DEVICE" not in (extra or {}):
            del environment["GCONV_DEVICE"]
        return environment

    def summary(self, *words, **options):
        text = self.gconv("-i", "in", "-o", "out/", "--timings=json", *words, **options).stdout
        return json.loads(text.splitlines()[-1])["summary"]

    @property
    def start_file(self):
        return self.folder / "cache/cuda-start.txt"


class Choice(DeviceTest):
    def setUp(self):
        super().setUp()
        self.photo("in/a.png", 320, 200)

    def test_a_small_job_is_not_worth_the_start(self):
        result = self.gconv("-i", "in/a.png", "-f", "sobel_x", "-o", "out/", "-v")
        self.assertRegex(result.stderr, r"device cpu: starting CUDA takes about 300 ms \(not measured yet\) and ending it 150 ms, "
                                        r"filtering 1 image on the CPU about [\d.]+ ms")
        self.assertFalse(self.start_file.exists())
        summary = self.summary("-f", "sobel_x")
        self.assertEqual(summary["device"], "cpu")
        self.assertIn("starting CUDA takes about 300 ms", summary["device_reason"])
        for words in (("--explain",), ("--explain", "--dry-run")):
            self.assertIn("this device, because starting CUDA", self.gconv("-i", "in", "-f", "sobel_x", "-o", "out/", *words).stderr)
        self.assertIn("because starting CUDA", self.gconv("-i", "in", "-f", "sobel_x", "-o", "out/", "--timings").stdout)

    def test_what_is_asked_for_is_taken(self):
        for words, env in ((["-d", "cuda"], {}), (["-d", "cuda:0"], {}), ([], {"GCONV_DEVICE": "cuda"})):
            summary = self.summary("-f", "sobel_x", *words, env=env)
            self.assertEqual(summary["device"], "cuda:0")
            self.assertIsNone(summary["device_reason"])
            self.assertGreater(summary["device_start_ms"], 1)
            self.assertLessEqual(summary["device_wait_ms"], summary["device_start_ms"] + 5)

    def test_a_start_is_remembered(self):
        result = self.gconv("-i", "in/a.png", "-f", "sobel_x", "-o", "out/", "-d", "cuda", "-v")
        self.assertRegex(result.stderr, r"cuda:0: CUDA started in \d+ ms, of which \d+ ms were hidden behind reading and decoding")
        milliseconds = float(self.start_file.read_text().split("\t")[0])
        self.assertTrue(10 < milliseconds < 10000, milliseconds)
        reason = self.summary("-f", "sobel_x")["device_reason"]
        self.assertRegex(reason, r"^starting CUDA takes about [\d.]+ m?s and ending it [\d.]+ m?s, filtering")

    def test_a_start_that_costs_nothing_is_worth_it(self):
        self.gconv("-i", "in/a.png", "-f", "sobel_x", "-o", "out/", "-d", "cuda")
        key = self.start_file.read_text().split("\t", 1)[1]
        self.photo("in/a.png", 2000, 1500)
        self.start_file.write_text("0.01\t" + key)
        summary = self.summary("-f", "gaussian:size=63,sigma=10", "-a", "direct")
        self.assertEqual(summary["device"], "cuda:0")
        self.assertIn("starting CUDA takes about 0.0 ms", summary["device_reason"])

    def test_a_broken_cache_is_none(self):
        (self.folder / "cache").mkdir()
        for text in (b"", b"\0\xff\n\n", b"280", b"-5\tbox\n"):
            self.start_file.write_bytes(text)
            self.assertIn("about 300 ms (not", self.summary("-f", "sobel_x")["device_reason"])
        self.gconv("-i", "in/a.png", "-f", "sobel_x", "-o", "out/", "-d", "cuda", env={"GCONV_CACHE": "/proc/nowhere"})

    def test_an_algorithm_that_only_a_gpu_has_chooses_it(self):
        listed = self.gconv("algorithms").stdout.split("\n\nfor banks:\n")[0]
        rows = [line.split()[:2] for line in listed.splitlines()]
        only = {name for device, name in rows if device == "cuda"} - {name for device, name in rows if device == "cpu"}
        for name in only & {"tiled", "gemm", "toeplitz"}:
            self.assertEqual(self.summary("-f", "sobel_x", "-a", name)["device"], "cuda:0", name)


class Results(DeviceTest):
    def test_both_devices_give_the_same_files(self):
        for i, (width, height, channels) in enumerate(((1, 1, 3), (31, 2, 1), (641, 480, 3), (640, 481, 4), (3000, 2000, 3))):
            self.photo(f"in/{i}.png", width, height, seed=i, channels=channels)
        for words in (("-f", "sobel_x"), ("-f", "gaussian_5", "--depth", "16"), ("-f", "log_5", "--depth", "float", "--format", "npy"),
                      ("-f", "sobel_x", "-f", "sobel_y", "--combine", "magnitude"), ("-f", "sharpen", "--gray", "--stride", "2")):
            for device in ("cpu", "cuda"):
                self.gconv("-i", "in", *words, "-a", "direct", "-d", device, "-o", f"{device}/")
            names = self.files("cpu")
            self.assertEqual(names, self.files("cuda"))
            for name in names:
                self.assertEqual((self.folder / "cpu" / name).read_bytes(), (self.folder / "cuda" / name).read_bytes(), name)

    def test_any_number_of_jobs_gives_the_same_files(self):
        for i in range(12):
            self.photo(f"in/{i}.png", 400 + i % 3, 300, seed=i)
        for jobs in (1, 5, 12):
            self.gconv("-i", "in", "-f", "unsharp_5", "-d", "cuda", "-o", f"{jobs}/", "--jobs", jobs)
            for name in self.files("1"):
                self.assertEqual((self.folder / "1" / name).read_bytes(), (self.folder / str(jobs) / name).read_bytes(), name)


if __name__ == "__main__":
    sys.exit(SKIPPED) if not has_gpu() else unittest.main()
