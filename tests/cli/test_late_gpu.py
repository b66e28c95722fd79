# SPDX-License-Identifier: MIT
"""A GPU that gets ready late (late_gpu.c): which images the CPU takes until then, and that they are the same."""
import json
import os
import threading
import time
import unittest

import helper
from PIL import Image

PHOTOS = 40


class LateGpu(helper.CommandTest):
    FILTERS = ["sobel_x", "sobel_y", "sharpen", "emboss", "laplacian", "prewitt_x", "prewitt_y", "scharr_x", "scharr_y"]

    def setUp(self):
        super().setUp()
        self.photo("photo.png", 250, 200)
        (self.folder / "in").mkdir()
        with Image.open(self.folder / "photo.png") as photo:
            photo.save(self.folder / "in/00.jpg", quality=90)
        for i in range(1, PHOTOS):
            os.link(self.folder / "in/00.jpg", self.folder / f"in/{i:02}.jpg")
        program, helper.GCONV = helper.GCONV, os.environ["GCONV_LATE"]
        self.addCleanup(setattr, helper, "GCONV", program)

    def environment(self, extra=None):
        environment = super().environment({"LATE_GPU": str(self.folder / "out/00.png"), **(extra or {})})
        del environment["GCONV_DEVICE"]
        return environment

    def devices(self, *words, decode=("--decode", "gpu"), device="cuda:0", env=None):
        """Those of the images, in the order in which these were begun."""
        text = self.gconv("-i", "in", "-o", "out/", *decode, "--timings=json", "--jobs", 3, "--threads", 3, *words, env=env).stdout
        *lines, summary = [json.loads(line) for line in text.splitlines()]
        self.assertEqual(len(lines), len(self.files("in")))
        self.assertEqual(summary["summary"]["device"], device)
        return [line["device"] for line in lines], {line["algorithm"] for line in lines}

    def by_auto(self, *words, chosen="gpu", decode=(), **more):
        return self.devices(*words, decode=decode, env={"LATE_GPU_CHOSEN": chosen, **more.pop("env", {})}, **more)

    def test_the_cpu_begins_and_the_gpu_takes_over(self):
        self.gconv("-i", "in", "-f", "sobel_x", "-o", "cpu/", "-d", "cpu")
        expected = (self.folder / "cpu/00.png").read_bytes()
        for words in ((), ("--memory", "39M")):
            for file in (self.folder / "out").glob("*"):
                file.unlink()
            devices, algorithms = self.devices("-f", "sobel_x", *words)
            self.assertLessEqual(algorithms, {"direct", "integer", "sparse"})
            self.assertEqual(devices[0], "cpu")
            self.assertEqual(devices[-1], "cuda:0")
            for name in self.files("cpu"):
                self.assertEqual((self.folder / "out" / name).read_bytes(), expected, name)

    def test_an_early_error_ends_at_once_without_destructors(self):
        """A thread is still starting the GPU, whose driver they would take down under it."""
        log = self.folder / "log"
        begin = time.monotonic()
        env = {"LATE_GPU": str(self.folder / "never"), "LATE_GPU_LOG": str(log)}
        self.gconv("-i", "in", "-f", "sobel_x", "-o", "out/", "-d", "cuda", "-a", "im2col-cublas", status=(1, 2), env=env)
        self.assertLess(time.monotonic() - begin, 20)
        self.assertFalse(log.exists())

    def test_both_filter_a_region(self):
        self.gconv("-i", "in", "-f", "sobel_x", "--region", "99x88+77+66", "-o", "cpu/", "-d", "cpu")
        devices, _ = self.by_auto("-f", "sobel_x", "--region", "99x88+77+66")
        self.assertEqual((devices[0], devices[-1]), ("cpu", "cuda:0"))
        for name in self.files("cpu"):
            self.assertEqual((self.folder / "out" / name).read_bytes(), (self.folder / "cpu" / name).read_bytes(), name)

    def test_auto_begins_on_the_cpu(self):
        self.leave(20)
        self.gconv("-i", "in", "-f", "sobel_x", "-o", "cpu/", "-d", "cpu")
        expected = (self.folder / "cpu/00.png").read_bytes()
        for chosen, makes, asked in (("gpu", "1", {"parts"}), ("decoder", "1", {"start", "jpeg parts"}),
                                     ("decoder", "", {"start", "jpeg parts", "parts"})):
            log = self.folder / "log"
            for file in (log, *(self.folder / "out").glob("*")):
                file.unlink(missing_ok=True)
            devices, algorithms = self.by_auto("-f", "sobel_x", chosen=chosen, decode=("--decode", "auto"),
                                               env={"LATE_GPU_LOG": str(log), **({"LATE_GPU_MAKES": makes} if makes else {})})
            self.assertLessEqual(algorithms, {"direct", "integer", "sparse"})
            self.assertEqual((devices[0], devices[-1]), ("cpu", "cuda:0"))
            self.assertEqual(set(log.read_text().splitlines()), asked)
            for name in self.files("cpu"):
                self.assertEqual((self.folder / "out" / name).read_bytes(), expected, name)

    def test_auto_decodes_only_where_that_is_wanted(self):
        self.leave(20)
        log = self.folder / "log"
        env = {"LATE_GPU_LOG": str(log), "LATE_GPU_MAKES": "1"}
        self.by_auto("-f", "sobel_x", "--gray", chosen="decoder", decode=("--decode", "auto"), env=env)
        self.by_auto("-f", "sobel_x", chosen="decoder", env=env)
        self.assertEqual(set(log.read_text().splitlines()), {"parts"})

    def test_the_cpu_goes_on_where_auto_finds_no_gpu(self):
        self.leave(20)
        for chosen in ("gpu", "decoder"):
            devices, _ = self.by_auto("-f", "sobel_x", chosen=chosen, decode=("--decode", "auto"), device="cpu", env={"LATE_GPU_FAILS": "cpu"})
            self.assertEqual(set(devices), {"cpu"})

    def test_where_it_could_make_a_difference_all_wait(self):
        """The CPU's choice for a Gaussian is separable."""
        (self.folder / "out").mkdir()
        (self.folder / "out/00.png").touch()  # or nobody would ever write it
        for words in (("-f", "sobel_x", "-d", "cuda"), ("-f", "gaussian:size=15,sigma=3")):
            self.assertEqual(set(self.devices(*words)[0]), {"cuda:0"}, words)

        self.leave(20)
        for words in (("-f", "sobel_x", "-d", "cuda"), ("-f", "gaussian:size=15,sigma=3")):
            devices, algorithms = self.by_auto(*words)
            self.assertEqual(set(devices), {"cuda:0"}, words)
            self.assertEqual(algorithms, {"separable"} if "gaussian" in words[1] else {"integer"})

    def test_images_of_both_kinds_in_one_run(self):
        """Each gets the algorithm that it gets alone: some of the exact family, some not."""
        self.leave(6)
        self.photo("in/00_tiny.png", 5, 4)
        text = self.gconv("-i", "in", "-f", "gaussian:size=15,sigma=3", "-o", "out/", "--jobs", 1, "--timings=json",
                          env={"LATE_GPU_CHOSEN": "gpu", "LATE_GPU": str(self.folder)}).stdout
        by_name = {line["input"]: line["algorithm"] for line in map(json.loads, text.splitlines()[:-1])}
        alone = {}
        for name in self.files("in"):
            line, _ = self.gconv("-i", f"in/{name}", "-f", "gaussian:size=15,sigma=3", "-o", "one.png", "-d", "cpu", "--timings=json").stdout.splitlines()
            alone[f"in/{name}"] = json.loads(line)["algorithm"]
        self.assertEqual(by_name, alone)
        self.assertEqual(set(alone.values()), {"direct", "separable"})

    def test_nobody_waits_for_a_gpu_that_is_wanted_by_nobody(self):
        """It never gets ready: $LATE_GPU is no file that anybody writes, and is waited for during a minute."""
        self.leave(20)
        for decode in ((), ("--decode", "gpu")):
            begin = time.monotonic()
            devices, _ = self.by_auto("-f", "sobel_x", decode=decode, device="cpu", env={"LATE_GPU": str(self.folder / "never")})
            self.assertEqual(set(devices), {"cpu"})
            self.assertLess(time.monotonic() - begin, 40)

    def test_one_large_image_among_small_ones(self):
        with Image.open(self.folder / "photo.png") as photo:
            (self.folder / "in/00.jpg").unlink()
            photo.resize((3000, 2400)).save(self.folder / "in/00.jpg", quality=90)
        first, *_ = self.devices("-f", "sobel_x", env={"LATE_GPU": str(self.folder / "out/05.png")})[0]
        self.assertEqual(first, "cpu")

    def test_explain_before_the_gpu_is_ready(self):
        ready = self.folder / "ready"
        timer = threading.Timer(0.5, ready.touch)
        timer.start()
        self.addCleanup(timer.join)
        result = self.gconv("-i", "in", "-f", "sobel_x", "-o", "out/", "--decode", "gpu", "--dry-run", "--explain",
                            env={"LATE_GPU": str(ready)})
        self.assertIn("in/39.jpg -> out/39.png", result.stdout)
        self.assertRegex(result.stderr, "direct|integer|sparse")

    def explained(self, *words, makes=True):
        env = {"LATE_GPU": str(self.folder), **({"LATE_GPU_MAKES": "1"} if makes else {})}
        return self.gconv("-i", "in", "-f", "sobel_x", "-o", "out/", "--dry-run", "--explain", *words, env=env).stderr

    def test_explain_names_what_the_gpu_does(self):
        for words in ((), ("-d", "cuda")):
            said = self.explained("--decode", "gpu", *words)
            self.assertIn("device cuda:0 (", said)
            self.assertIn("PNG made by cuda:0, which takes 12.3 MB more there", said)
            self.assertRegex(said, "JPEG decoded by cuda:0, if it is baseline, once .*; until then the CPU decodes" + ("\n" if words else ", and"))
        many = [word for name in self.FILTERS[1:] for word in ("-f", name)]
        for words, makes in ((("--png-level", "6"), True), (("--verify",), True), (many, True), ((), False)):
            self.assertIn("PNG made by the CPU\n", self.explained("-d", "cuda", *words, makes=makes))
        self.assertNotIn("JPEG", self.explained("-d", "cuda"))
        self.assertIn("JPEG decoded by the CPU, as pixels are wanted there\n", self.explained("-d", "cuda", "--decode", "gpu", "--gray"))
        self.assertNotIn("made by", self.explained("-d", "cuda", "--format", "npy"))
        self.assertNotIn("made by", self.explained("-d", "cpu"))

    def test_the_rule(self):
        """Of photos like these, a GPU is worth its start from about 75 on, whatever the numbers of threads and jobs."""
        self.leave(0)
        with Image.open(self.folder / "photo.png") as photo:
            photo.resize((3840, 2160)).save(self.folder / "photo.jpg", quality=90)
        words = ("-f", "sobel_x", "-o", "out/", "--dry-run", "--explain")
        env = {"LATE_GPU": str(self.folder), "LATE_GPU_CHOSEN": "rule"}
        for photos, device in ((1, "cpu"), (60, "cpu"), (95, "cuda:0")):
            for i in range(len(self.files("in")), photos):
                os.link(self.folder / "photo.jpg", self.folder / f"in/{i:02}.jpg")
            for more in ((), ("--threads", 1), ("--jobs", 5), ("--memory", "900M")):
                said = self.gconv("-i", "in", *words, *more, env=env).stderr
                self.assertIn(f"\ndevice {device} (", said, (photos, more))
                self.assertRegex(said, r"this device, because a GPU would take about .* of one thread's work off the CPU, and is started from 3 s on")
        for more in (("--png-level", "6"), ("--format", "jpg")):  # less is left for a GPU
            self.assertIn("\ndevice cpu (", self.gconv("-i", "in", *words, *more, env=env).stderr, more)
        self.assertIn("\ndevice cuda:0 (", self.gconv("-i", "in", *words, "--format", "jpg", "-f", "log_5", "-f", "sobel_y", "-f", "gaussian:size=63,sigma=10", env=env).stderr)

    def test_more_workers_than_the_gpu_has_memory_for(self):
        """They take turns, and nobody's memory is left at the end."""
        self.leave(20)
        self.photo("other.png", 300, 200)
        for i in range(0, 20, 3):
            (self.folder / f"in/{i:02}.jpg").unlink()
            with Image.open(self.folder / "other.png") as photo:
                photo.save(self.folder / f"in/{i:02}.jpg", quality=90)
        self.gconv("-i", "in", "-f", "sobel_x", "-o", "cpu/", "-d", "cpu")
        log = self.folder / "log"
        for most in (1, 3):
            for words in ((), ("--decode", "gpu"), ("--memory", "29M")):
                log.unlink(missing_ok=True)
                result = self.gconv("-i", "in", "-f", "sobel_x", "-o", "out/", "-d", "cuda", "--jobs", 9, "--threads", 3, "-q", *words,
                                    env={"LATE_GPU": str(self.folder), "LATE_GPU_PLANS": str(most), "LATE_GPU_LOG": str(log)})
                self.assertEqual(result.stderr, "")
                self.assertIn("0 plans", log.read_text().splitlines())
                for name in self.files("cpu"):
                    self.assertEqual((self.folder / "out" / name).read_bytes(), (self.folder / "cpu" / name).read_bytes(), name)
        result = self.gconv("-i", "in", "-f", "sobel_x", "-o", "none/", "-d", "cuda", "--jobs", 3, status=1,
                            env={"LATE_GPU": str(self.folder), "LATE_GPU_PLANS": "0"})
        self.assertIn("in/19.jpg: the GPU has no memory", result.stderr)

    def test_a_worker_that_comes_when_all_is_begun_is_not_missed(self):
        """It finds no memory for a device, and needs none."""
        self.leave(3)
        words = ("-i", "in", "-f", "sobel_x", "-o", "out/", "-d", "cpu", "--jobs", 2)
        self.gconv(*words, env={"LATE_WORKER": str(self.folder / "out/02.png")})
        self.assertEqual(self.files("out"), ["00.png", "01.png", "02.png"])

    def test_no_decoder_is_started_for_nobody(self):
        def wait_for_all():
            for _ in range(6000):
                if sum(1 for file in (self.folder / "out").glob("[!.]*")) == PHOTOS:
                    break
                time.sleep(0.01)
            time.sleep(0.5)
            (self.folder / "ready").touch()
        waiter = threading.Thread(target=wait_for_all)
        waiter.start()
        self.addCleanup(waiter.join)
        log = self.folder / "log"
        self.gconv("-i", "in", "-f", "sobel_x", "-o", "out/", "--decode", "gpu", "--jobs", 3,
                   env={"LATE_GPU": str(self.folder / "ready"), "LATE_GPU_LOG": str(log)})
        self.assertFalse(log.exists(), log.exists() and log.read_text())

    def test_the_number_of_workers_makes_no_difference(self):
        (self.folder / "ready").touch()
        for jobs in (3, PHOTOS, 2 * PHOTOS):
            text = self.gconv("-i", "in", "-f", "gaussian:size=15,sigma=3", "-o", "out/", "--depth", "float", "--format", "npy",
                              "--decode", "gpu", "--jobs", jobs, "--timings=json", env={"LATE_GPU": str(self.folder / "ready")}).stdout
            algorithms = {json.loads(line)["algorithm"] for line in text.splitlines()[:-1]}
            self.assertEqual(algorithms, {"separable"}, jobs)

    def test_what_has_no_memory_as_a_whole_goes_by_rows(self):
        with Image.open(self.folder / "photo.png") as photo:
            photo.resize((3600, 3000)).save(self.folder / "in/00_large.jpg", quality=90)
        for i in range(1, 4):
            os.link(self.folder / "in/00_large.jpg", self.folder / f"in/{i:02}_large.jpg")
        ready = self.folder / "ready"
        ready.touch()
        text = self.gconv("-i", "in", "-f", "sobel_x", "-o", "out/", "--decode", "gpu", "--timings=json", "--jobs", 2, "--threads", 2,
                          "--memory", "69M", env={"LATE_GPU": str(ready)}).stdout
        devices = {line["input"]: line["device"] for line in map(json.loads, text.splitlines()[:-1])}
        self.assertEqual({device for name, device in devices.items() if "large" in name}, {"cpu"})
        self.assertEqual(devices["in/39.jpg"], "cuda:0")

    def asked(self, filters, *words):
        """What is asked of the decoder for each image, with results of so many filters, and what gconv says."""
        (self.folder / "ready").touch()
        log = self.folder / "log"
        log.unlink(missing_ok=True)
        result = self.gconv("-i", "in", *(word for name in self.FILTERS[:filters] for word in ("-f", name)), "-o", "out/", "-d", "cuda",
                            "--decode", "gpu", "-v", "--jobs", 3, "--threads", 3, *words,
                            env={"LATE_GPU": str(self.folder / "ready"), "LATE_GPU_LOG": str(log)})
        self.assertEqual(len(self.files("out")), PHOTOS * filters)
        return set(log.read_text().splitlines()), result.stderr

    def test_a_file_that_the_gpu_refuses(self):
        asked, said = self.asked(1)
        self.assertEqual(asked, {"start", "jpeg parts", "parts"})
        self.assertIn("in/39.jpg: not decoded by a GPU: the GPU refuses it", said)

    def test_few_results_come_by_rows(self):
        self.assertEqual(self.asked(9)[0], {"start", "whole"})

    def leave(self, photos):
        for i in range(photos, PHOTOS):
            (self.folder / f"in/{i:02}.jpg").unlink(missing_ok=True)

    def large_photos(self):
        """Fewer photos, some of which have several strips of a PNG."""
        self.leave(7)
        with Image.open(self.folder / "photo.png") as photo:
            photo.resize((1300, 1000)).save(self.folder / "in/00_large.jpg", quality=90)
        for i in range(1, 2):
            os.link(self.folder / "in/00_large.jpg", self.folder / f"in/{i:02}_large.jpg")

    def in_parts(self, makes, *words, status=0, env=None):
        (self.folder / "ready").touch()
        return self.gconv("-i", "in", "-o", "out/", "-d", "cuda", "--jobs", 3, "--threads", 3, *words, status=status,
                          env={"LATE_GPU": str(self.folder / "ready"), "LATE_GPU_MAKES": str(makes), **(env or {})})

    def test_results_in_parts(self):
        self.large_photos()
        job = ("-f", "sobel_x", "-f", "gaussian_5")
        self.gconv("-i", "in", *job, "-o", "cpu/", "-d", "cpu")
        expected = {name: (self.folder / "cpu" / name).read_bytes() for name in self.files("cpu")}
        for makes, *words in ((0,), (1,), (100,), (2, "--decode", "gpu", "--memory", "69M")):
            log = self.folder / "log"
            log.unlink(missing_ok=True)
            self.in_parts(makes, *job, *words, env={"LATE_GPU_LOG": str(log)})
            for name, content in expected.items():
                self.assertTrue((self.folder / "out" / name).read_bytes() == content, (name, makes, words))
                (self.folder / "out" / name).unlink()
            self.assertEqual(set(log.read_text().splitlines()) - {"start", "parts"}, {"jpeg parts"} if words else set())

    def test_parts_that_are_no_png(self):
        self.leave(7)
        for words in (("--format", "npy"), ("--png-level", "6"), ("--format", "jpg")):
            self.gconv("-i", "in", "-f", "sobel_x", "-o", "cpu/", "-d", "cpu", *words)
            self.in_parts(1, "-f", "sobel_x", *words)
            for name in self.files("cpu"):
                self.assertTrue((self.folder / "out" / name).read_bytes() == (self.folder / "cpu" / name).read_bytes(), name)

    def test_what_is_verified_comes_whole(self):
        self.leave(3)
        log = self.folder / "log"
        self.in_parts(1, "-f", "sobel_x", "--verify", env={"LATE_GPU_LOG": str(log)})
        self.assertFalse(log.exists())

    def test_a_gpu_that_breaks_amidst_a_result(self):
        self.large_photos()
        for words in ((), ("--decode", "gpu")):
            result = self.in_parts(1, "-f", "sobel_x", *words, status=1, env={"LATE_GPU_BREAKS": "1"})
            self.assertIn("00_large.jpg: the GPU breaks", result.stderr)
            self.assertEqual(list((self.folder / "out").glob(".*")) + self.files("out"), [])

    def test_a_gpu_that_fails(self):
        result = self.gconv("-i", "in", "-f", "sobel_x", "-o", "out/", "--decode", "gpu", "--jobs", 3, status=3,
                            env={"LATE_GPU_FAILS": "1"})
        self.assertIn("the GPU is too late", result.stderr)
        self.assertIn("00.png", self.files("out"))
        self.assertFalse([name for name in self.files("out") if name.startswith(".")])


if __name__ == "__main__":
    unittest.main()
