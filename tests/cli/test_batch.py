# SPDX-License-Identifier: MIT
"""Many images: failures among them, results that exist, threads, progress, interrupts."""
import json
import os
import pty
import re
import resource
import select
import shutil
import signal
import subprocess
import time
import unittest

import numpy
from PIL import Image

from helper import GCONV, CommandTest, needs

SANITIZED = "GCONV_SANITIZED" in os.environ  # by sanitizers, under which all takes ten times as long


class Many(CommandTest):
    COUNT = 12

    def setUp(self):
        super().setUp()
        self.sources = {f"{i:02}": self.photo(f"in/{i:02}.png", 20 + i, 30 - i, seed=i) for i in range(self.COUNT)}

    def assert_results(self, folder="out", names=None):
        names = sorted(self.sources) if names is None else names
        self.assertEqual(self.files(folder), [f"{name}.png" for name in names])
        for name in names:
            self.assert_pixels(f"{folder}/{name}.png", self.sources[name])

    def job(self, *options):
        return ("-i", "in", "-f", "identity", "-o", "out", *options)

    def test_any_number_of_jobs_and_threads(self):
        expected = None
        for jobs, threads in ((None, None), (1, 1), (1, 4), (3, 2), (4, 8), (100, 1)):
            options = (["--jobs", jobs] if jobs else []) + (["--threads", threads] if threads else [])
            folder = f"out-{jobs}-{threads}"
            self.gconv("-i", "in", "-f", "gaussian:size=7,sigma=2", "-o", folder + "/", *options)
            results = [self.pixels(f"{folder}/{name}.png").tobytes() for name in sorted(self.sources)]
            expected = expected or results
            self.assertEqual(results, expected, folder)
        self.assertNotEqual(expected[0], self.sources["00"].tobytes())

    def test_results_belong_to_their_inputs(self):
        self.gconv(*self.job("--jobs", "4"))
        self.assert_results()

    def test_quiet_where_nothing_is_asked_for(self):
        result = self.gconv(*self.job())
        self.assertEqual((result.stdout, result.stderr), ("", f"gconv: {self.COUNT} written\n"))
        result = self.gconv(*self.job("--quiet"))
        self.assertEqual((result.stdout, result.stderr), ("", ""))

    def test_a_bad_file_among_good_ones(self):
        (self.folder / "in/05.png").write_bytes(b"no image")
        result = self.gconv(*self.job(), status=3)
        self.assertEqual(len(result.stderr.splitlines()), 2)
        self.assertIn("gconv: in/05.png: ", result.stderr)
        self.assertTrue(result.stderr.endswith("gconv: 11 of 12 written\n"), result.stderr)
        self.assertEqual(len(self.gconv(*self.job("--quiet"), status=3).stderr.splitlines()), 1)
        self.assert_results(names=[name for name in sorted(self.sources) if name != "05"])

    def test_all_bad(self):
        for name in self.sources:
            (self.folder / f"in/{name}.png").write_bytes(b"no image")
        result = self.gconv(*self.job(), status=1)
        self.assertEqual(len(result.stderr.splitlines()), self.COUNT + 1)
        self.assertTrue(result.stderr.endswith("gconv: 0 of 12 written\n"), result.stderr)
        self.assertEqual(self.files("out") if (self.folder / "out").exists() else [], [])

    def test_fail_fast(self):
        (self.folder / "in/03.png").write_bytes(b"no image")
        result = self.gconv(*self.job("--fail-fast", "--jobs", "1"), status=3)
        self.assertIn("gconv: in/03.png: ", result.stderr)
        self.assertIn("stopped by --fail-fast: 8 of 12 images were not read", result.stderr)
        self.assert_results(names=["00", "01", "02"])
        (self.folder / "in/00.png").write_bytes(b"no image")
        self.gconv("-i", "in", "-f", "identity", "-o", "out2", "--fail-fast", "--jobs", "1", status=1)

    def test_existing_results_are_replaced(self):
        (self.folder / "out").mkdir()
        (self.folder / "out/04.png").write_bytes(b"old")
        (self.folder / "out/04.png").chmod(0o640)
        self.gconv(*self.job())
        self.assert_results()
        self.assertEqual((self.folder / "out/04.png").stat().st_mode & 0o777, 0o640)

    def test_no_clobber(self):
        (self.folder / "out").mkdir()
        (self.folder / "out/04.png").write_bytes(b"old")
        result = self.gconv(*self.job("--no-clobber"), status=3)
        self.assertIn("out/04.png: exists and is kept (--no-clobber)", result.stderr)
        self.assertEqual((self.folder / "out/04.png").read_bytes(), b"old")
        self.assert_results_but("04")
        before = self.snapshot()
        result = self.gconv(*self.job("--no-clobber", "-q"), status=1)
        self.assertEqual(len(result.stderr.splitlines()), self.COUNT)
        self.assertEqual(self.snapshot(), before)

    def test_newer(self):
        """Results older than their images are made again, and missing ones; others stay."""
        words = ("-i", "in", "-f", "identity", "-o", "out/")
        (self.folder / "in").mkdir(exist_ok=True)
        names = sorted(path.name for path in (self.folder / "in").iterdir()) or [f"{i}.png" for i in range(3)]
        for name in names:
            if not (self.folder / "in" / name).exists():
                self.photo(f"in/{name}")
        self.gconv(*words)
        made = sorted((self.folder / "out").iterdir())
        for path in made[1:]:
            path.write_bytes(b"kept")
        os.utime(self.folder / "in" / names[0], ns=(2 ** 61, 2 ** 61))
        made[2].unlink()
        self.gconv(*words, "--newer")
        self.assertNotEqual(made[0].stat().st_mtime_ns, 0)
        self.assertEqual(made[1].read_bytes(), b"kept")
        self.assertTrue(made[2].read_bytes().startswith(b"\x89PNG"))
        made[0].write_bytes(b"old")
        self.gconv(*words, "--newer")
        self.assertTrue(made[0].read_bytes().startswith(b"\x89PNG"))
        self.gconv(*words, "--newer", "--skip-existing", status=2)

    def test_skip_existing(self):
        (self.folder / "out").mkdir()
        (self.folder / "out/04.png").write_bytes(b"old")
        (self.folder / "in/04.png").write_bytes(b"no image")  # it is not read, so it does not fail
        result = self.gconv(*self.job("--skip-existing"))
        self.assertEqual(result.stderr, "gconv: 11 of 12 written, 1 passed over\n")
        self.assertEqual((self.folder / "out/04.png").read_bytes(), b"old")
        self.assert_results_but("04")
        before = self.snapshot()
        self.gconv(*self.job("--skip-existing"))
        self.assertEqual(self.snapshot(), before)

    def test_some_results_of_an_image_exist(self):
        (self.folder / "out").mkdir()
        (self.folder / "out/00_sobel_x.png").write_bytes(b"old")
        words = ("-i", "in/00.png", "-f", "identity", "-f", "sobel_x", "-o", "out/")
        self.gconv(*words, "--skip-existing")
        self.assert_pixels("out/00_identity.png", self.sources["00"])
        self.assertEqual((self.folder / "out/00_sobel_x.png").read_bytes(), b"old")
        (self.folder / "out/00_identity.png").unlink()
        self.gconv(*words, "--no-clobber", status=3)
        self.assert_pixels("out/00_identity.png", self.sources["00"])

    def assert_results_but(self, missing):
        for name in sorted(set(self.sources) - {missing}):
            self.assert_pixels(f"out/{name}.png", self.sources[name])

    def test_dry_run_touches_nothing(self):
        before = self.snapshot()
        result = self.gconv(*self.job("--dry-run", "-f", "sobel_x"))
        self.assertEqual(result.stdout.splitlines()[:2], ["in/00.png -> out/00_identity.png", "in/00.png -> out/00_sobel_x.png"])
        self.assertEqual(len(result.stdout.splitlines()), 2 * self.COUNT)
        self.assertEqual(self.snapshot(), before)

    def test_dry_run_says_what_exists(self):
        (self.folder / "out").mkdir()
        (self.folder / "out/00.png").write_bytes(b"old")
        for options, remark in (((), "replaced"), (("--no-clobber",), "kept"), (("--skip-existing",), "passed over")):
            lines = self.gconv(*self.job("--dry-run", *options)).stdout.splitlines()
            self.assertEqual(lines[:2], [f"in/00.png -> out/00.png (exists: {remark})", "in/01.png -> out/01.png"])

    def test_dry_run_explains_by_the_header(self):
        data = (self.folder / "in/00.png").read_bytes()
        (self.folder / "in/00.png").write_bytes(data[:60])  # the header is whole, the pixels are gone
        result = self.gconv("-i", "in/00.png", "-f", "sobel_x", "-o", "x.png", "--dry-run", "--explain")
        self.assertIn("direct", result.stderr)
        self.assertEqual(result.stdout, "in/00.png -> x.png\n")
        (self.folder / "in/00.png").write_bytes(b"")
        self.gconv("-i", "in/00.png", "-f", "sobel_x", "-o", "x.png", "--dry-run", "--explain", status=1)

    def test_types_and_sizes_mixed(self):
        """A plan is kept for the images that fit it, and no longer."""
        grey = self.photo("in/06.png", 20, 30, channels=1)
        wide = numpy.arange(35 * 40, dtype=numpy.uint16).reshape(35, 40) * 47
        Image.fromarray(wide).save(self.folder / "in/07.png")
        self.sources.update({"06": grey, "07": wide})
        self.gconv(*self.job("--jobs", "1"))
        self.assert_results()

    def test_several_results_each(self):
        self.gconv(*self.job("-f", "sobel_x", "--jobs", "3"))
        self.assertEqual(len(self.files("out")), 2 * self.COUNT)
        self.gconv("-i", "in/03.png", "-f", "sobel_x", "-o", "alone.png")
        self.assert_pixels("out/03_sobel_x.png", self.pixels("alone.png"))

    def on_a_terminal(self, *words, **variables):
        """What gconv writes to a terminal on its standard error."""
        master, slave = pty.openpty()
        environment = self.environment({"TERM": "xterm", "NO_COLOR": "", **variables})
        with subprocess.Popen([GCONV, *words], cwd=self.folder, env=environment, stdout=subprocess.PIPE,
                              stderr=slave) as process:
            os.close(slave)
            text = b""
            while select.select([master], [], [], 60)[0]:
                try:
                    data = os.read(master, 65536)
                except OSError:  # the other side is closed
                    break
                if not data:
                    break
                text += data
            status = process.wait()
        os.close(master)
        return status, text.decode()

    def test_progress(self):
        (self.folder / "in/05.png").write_bytes(b"no image")
        status, text = self.on_a_terminal(*self.job())
        self.assertEqual(status, 3)
        self.assertIn(f"{self.COUNT}/{self.COUNT} images, ", text)
        self.assertRegex(text, r"Mpix/s, \d+ s left")
        self.assertTrue(text.endswith("\r\033[Kgconv: 11 of 12 written\r\n"), repr(text[-80:]))
        self.assertIn("\r\033[Kgconv: in/05.png: ", text)
        self.assertEqual(self.on_a_terminal(*self.job("-q", "-i", "in/00.png", "-o", "{index}.png"))[1].count("left"), 0)
        self.assertEqual(self.on_a_terminal("-i", "in/00.png", "-f", "identity", "-o", "x.png"), (0, ""))
        for variables in ({"TERM": "dumb"}, {"TERM": ""}, {"NO_COLOR": "1"}):  # which get lines alone
            plain = self.on_a_terminal(*self.job(), **variables)[1]
            self.assertNotIn("\033", plain)
            self.assertTrue(plain.endswith("gconv: 11 of 12 written\r\n"), plain)


class Interrupt(CommandTest):
    """Small images and many jobs, so that a signal finds some threads just making a file."""
    COUNT = 1500

    def setUp(self):
        super().setUp()
        self.source = self.photo("in/0000.png", 60, 60)
        for i in range(1, self.COUNT):
            os.link(self.folder / "in/0000.png", self.folder / f"in/{i:04}.png")

    def interrupt(self, number):
        """Ends a run by this signal when it has written a few results; these are whole, and there is nothing else."""
        for _ in range(10):  # on a busy machine, the signal may come too late, or the process may go on for a while behind it
            status, errors = self.signal(number)
            names = self.files("out")
            counted = re.fullmatch(rb"gconv: interrupted: (\d+) of 1500 written; --skip-existing makes the rest\n", errors)
            if counted and abs(int(counted[1]) - len(names)) <= 8:  # a job has one result at a time
                break
            self.assertTrue(counted or status == 0, errors)
            shutil.rmtree(self.folder / "out")
        self.assertEqual(status, -number)  # ended by the signal, as a shell wants to know
        self.assertTrue(names, "the number of results was told wrong ten times")
        self.assertLessEqual(abs(int(counted[1]) - len(names)), 8)
        self.assertGreaterEqual(len(names), 10)
        self.assertLess(len(names), self.COUNT)
        for name in names:
            self.assertRegex(name, r"^\d{4}\.png$")
            self.assert_pixels(f"out/{name}", self.source)
        return names

    def signal(self, number):
        """Runs, and sends the signal after a few results; the status and what was said."""
        with subprocess.Popen([GCONV, "-i", "in", "-f", "identity", "-o", "out", "--jobs", "8"], cwd=self.folder,
                              env=self.environment(), stderr=subprocess.PIPE,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0))) as process:
            while process.poll() is None and (not (self.folder / "out").exists() or len(os.listdir(self.folder / "out")) < 20):
                time.sleep(0.001)
            process.send_signal(number)
            errors = process.stderr.read()
            return process.wait(), errors

    def test_only_whole_results_stay(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGXCPU):
            self.interrupt(number)
            shutil.rmtree(self.folder / "out")

    def test_limit_of_processor_time(self):
        """As `ulimit -t` sets it, hard and soft: at the hard one, the system kills."""
        self.photo("large.png", 60, 150000)  # so that the signal is heard between short rows
        limits = ((resource.RLIMIT_CPU, (2, 2)), (resource.RLIMIT_CORE, (0, 0)))
        result = subprocess.run([GCONV, "-i", "large.png", "-f", "average:size=61", "-o", "out/", "-a", "reference", "--threads", "2", "-q"],
                                cwd=self.folder, env=self.environment(), stderr=subprocess.PIPE, check=False,
                                preexec_fn=lambda: [resource.setrlimit(*limit) for limit in limits])
        self.assertEqual((result.returncode, result.stderr), (-signal.SIGXCPU, b""))
        self.assertEqual(self.files("out"), [])

    def test_going_on(self):
        names = self.interrupt(signal.SIGINT)
        before = {name: (self.folder / "out" / name).stat().st_ino for name in names}
        self.gconv("-i", "in", "-f", "identity", "-o", "out", "--skip-existing")
        self.assertEqual(len(self.files("out")), self.COUNT)
        self.assertEqual({name: (self.folder / "out" / name).stat().st_ino for name in names}, before)


class AnyDevice(CommandTest):
    """-d auto, wherever it leads: a device that is known late must not change what is done."""

    def test_results_are_those_of_the_cpu(self):
        for i in range(5):
            self.photo(f"in/{i}.png", 40 + i % 2, 30, seed=i)
        for words in ((), ("--jobs", "1"), ("--jobs", "3", "--threads", "2")):
            for device in ("cpu", "auto"):
                self.gconv("-i", "in", "-f", "gaussian_5", "-a", "direct", "-d", device, "-o", device + "/", *words)
            for i in range(5):
                self.assert_pixels(f"auto/{i}.png", self.pixels(f"cpu/{i}.png"))

    def test_standard_input_decides_when_it_is_read(self):
        self.photo("a.png", 40, 30)
        photo = (self.folder / "a.png").read_bytes()
        for device in ("cpu", "auto"):
            self.gconv("-i", "-", "-f", "sobel_x", "-d", device, "-o", f"{device}.png", stdin=photo, text=False)
        self.assert_pixels("auto.png", self.pixels("cpu.png"))

    def test_images_that_cannot_be_read_are_told_as_on_the_cpu(self):
        (self.folder / "broken.png").write_bytes(b"no image")
        for device in ("cpu", "auto"):
            result = self.gconv("-i", "broken.png", "-f", "sobel_x", "--border", "zero", "-d", device, "-o", "x.png", status=1)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
            self.assertIn("broken.png: ", result.stderr)
        self.photo("whole.png")
        self.gconv("-i", "broken.png", "-i", "whole.png", "-f", "sobel_x", "-d", "auto", "-o", "out/", status=3)
        self.assertEqual(self.files("out"), ["whole.png"])

    def test_a_device_that_cannot_be_used_is_told_once(self):
        for i in range(6):
            self.photo(f"in/{i}.png", seed=i)
        result = self.gconv("-i", "in", "-f", "sobel_x", "--border", "zero", "-d", "cuda:9999", "-o", "out/", status=1)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertEqual(self.files("out") if (self.folder / "out").exists() else [], [])

    def test_explaining_a_dry_run_on_it(self):
        self.photo("a.png")
        result = self.gconv("-i", "a.png", "-f", "sobel_x", "-d", "auto", "-o", "x.png", "--dry-run", "--explain")
        self.assertIn("algorithm ", result.stderr)
        self.assertEqual(self.files(), ["a.png"])



class Order(CommandTest):
    """Large files first, and told in that order by any number of workers."""

    def setUp(self):
        super().setUp()
        for i, side in enumerate((20, 400, 30, 200, 410, 190, 25)):
            self.photo(f"in/{i}.png", side, side, seed=i)
        self.order = [1, 4, 3, 5, 0, 2, 6]  # 480 kB, 120 kB and 108 kB, and the rest, which is below 64 KiB

    def told(self, *words, status=0):
        lines = self.gconv("-i", "in", "-f", "identity", "-o", "out/", "--timings=json", *words, status=status).stdout.splitlines()
        return [json.loads(line)["input"] for line in lines[:-1]]

    def test_any_number_of_workers(self):
        expected = [f"in/{i}.png" for i in self.order]
        for words in (("--jobs", "1"), ("--jobs", "2"), ("--jobs", "7", "--threads", "3"), ("--memory", "30M", "--jobs", "4")):
            self.assertEqual(self.told(*words), expected, words)

    def test_errors_too(self):
        for i, size in ((0, 1 << 17), (1, 1 << 19), (5, 1 << 10)):
            (self.folder / f"in/{i}.png").write_bytes(bytes(size))
        for jobs in (1, 4):
            result = self.gconv("-i", "in", "-f", "identity", "-o", "out/", "--jobs", jobs, "-q", status=3)
            self.assertEqual([line.split(": ")[1] for line in result.stderr.splitlines()], ["in/1.png", "in/0.png", "in/5.png"])


class Memory(CommandTest):
    """--memory: images wait, go by rows, or are refused."""

    WORDS = ("-f", "gaussian:size=9,sigma=2", "-a", "direct")

    def test_waiting_changes_nothing(self):
        for i in range(6):
            self.photo(f"in/{i}.png", 700 + i, 500, seed=i)
        self.gconv("-i", "in", "-o", "out/", *self.WORDS)
        for memory in ("24M", "40M", "2G"):
            self.gconv("-i", "in", "-o", "less/", *self.WORDS, "--jobs", "6", "--memory", memory)
            for i in range(6):
                self.assertEqual((self.folder / f"less/{i}.png").read_bytes(), (self.folder / f"out/{i}.png").read_bytes())

    @unittest.skipIf(SANITIZED, "sanitizers take memory of their own")
    def test_peak(self):
        """What the whole process has in memory, which is estimated: 93 MB were too much, 55 to 59 were measured."""
        for i in range(6):
            self.photo(f"in/{i}.png", 1700, 1500, seed=i)
        peak = self.peak_bytes("-i", "in", "-o", "out/", *self.WORDS, "--threads", "2", "--memory", "60M", "-d", "cpu")
        self.assertLess(peak, 72e6)

    def test_what_is_too_large_goes_by_rows(self):
        self.photo("a.png", 1600, 1500)  # 7.2 MB, which go whole where there is memory
        self.gconv("-i", "a.png", "-o", "whole.png", "--threads", "1", *self.WORDS)
        devices = ["cpu"] if any(map(os.path.exists, ("/dev/nvidiactl", "/dev/dxg", "/dev/nvmap"))) else ["cpu", "auto"]
        for device in devices:  # without a GPU, auto is the CPU for the first image, too
            self.gconv("-i", "a.png", "-o", "rows.png", "--threads", "1", "--memory", "29M", "-d", device, *self.WORDS)
            self.assertEqual((self.folder / "rows.png").read_bytes(), (self.folder / "whole.png").read_bytes())

    def test_workspaces_of_all_threads_count(self):
        self.photo("a.png", 1600, 1500)
        words = ("-i", "a.png", "-f", "disk:radius=200", "-a", "fft", "-o", "x.png", "--memory", "1M", "-d", "cpu")
        takes = [int(re.search(r"takes about (\d+) MB", self.gconv(*words, "--threads", count, status=1).stderr)[1])
                 for count in (1, 5)]
        self.assertGreater(takes[1] - takes[0], 4 * (5 + 8))  # of each, a writer's 5 MB and tiles of at least 1024 x 2 x 1000 floats

    def test_what_cannot_is_refused(self):
        self.photo("a.png", 1600, 1500)
        self.photo("small.png")
        whole = ("--threads", "1", "--memory", "20M", *self.WORDS)
        for words, reason in ((("--border", "wrap"), "border wrap"), (("--range", "minmax"), "minmax"), (("--verify",), "--verify")):
            result = self.gconv("-i", "a.png", "-i", "small.png", "-o", "out/", "-q", *words, *whole, status=3)
            self.assertRegex(result.stderr, r"^gconv: a\.png: takes about \d+ MB of memory, and --memory allows 20 MB: raise it to \d+M, or let it go by rows.*" + reason)
            self.assertEqual(self.files("out"), ["small.png"])
        self.assertIn("standard output", self.gconv("-i", "a.png", "-o", "-", *whole, status=1, text=False).stderr)
        self.assertIn("raise it", self.gconv("-i", "a.png", "-o", "x.png", *self.WORDS, "--memory", "2M", status=1).stderr)
        self.assertIn("--memory allows 1 kB: raise it", self.gconv("-i", "a.png", "-o", "x.png", *self.WORDS, "--memory", "1k", status=1).stderr)

    def test_sizes(self):
        self.photo("a.png")
        for size in ("0", "-1", "x", "1T", "1.5G", ""):
            self.usage_error("a number of bytes", "-i", "a.png", "-f", "identity", "-o", "b.png", "--memory", size)


class Pipes(CommandTest):
    def test_what_comes_through_a_pipe_is_read_once(self):
        self.photo("a.png", 40, 30)
        photo = (self.folder / "a.png").read_bytes()
        self.gconv("-i", "a.png", "-f", "sobel_x", "-o", "file.png")
        for device in ("cpu", "auto"):
            self.gconv("-i", "/dev/stdin", "-f", "sobel_x", "-d", device, "-o", "pipe.png", stdin=photo, text=False)
            self.assert_pixels("pipe.png", self.pixels("file.png"))
        self.gconv("-i", "/dev/stdin", "-f", "sobel_x", "--then", "-f", "sobel_y", "-o", "chain.png", stdin=photo, text=False)


class Overlapping(CommandTest):
    """Strips that are read, filtered and written at the same time: the same bytes as of a whole image, which one that goes to
    standard output is."""

    CASES = (
        ("-f", "sobel_x", "-f", "sobel_y", "--combine", "magnitude"),
        ("-f", "gaussian:size=63,sigma=9", "-a", "direct"),
        ("-f", "gaussian:size=63,sigma=9", "-a", "fft", "--border", "reflect101"),
        ("-f", "gaussian:size=15,sigma=3", "-a", "separable", "--padding", "full", "--border", "replicate"),
        ("-f", "sharpen", "--padding", "valid", "--stride", "3"),
        ("-f", "1x9: 1,0,0,0,0,0,0,0,-1", "--dilation", "7", "--border", "symmetric", "--depth", "16"),
        ("-f", "gaussian", "--linear", "--gray"),
    )

    def large(self):
        """a.png, of 8.4 MiB: by rows from 8 MiB on."""
        self.photo("a.png", 2100, 1400)

    def test_same_bytes(self):
        self.large()
        Image.open(self.folder / "a.png").save(self.folder / "a.jpg", quality=90)
        for words in self.CASES[::3] if SANITIZED else self.CASES:
            name = "a.jpg" if "sobel_y" in words else "a.png"
            whole = self.gconv("-i", name, "-o", "-", "--format", "png", *words, text=False).stdout
            for threads in (1, 3):
                self.gconv("-i", name, "-o", "b.png", "--threads", threads, *words)
                self.assertEqual((self.folder / "b.png").read_bytes(), whole, (threads, words))

    def test_threads_that_meet_in_other_ways(self):
        """A file that is read in no time: each run has its threads in another order."""
        self.large()
        self.gconv("-i", "a.png", "-f", "identity", "-o", "a.ppm")
        photo = (self.folder / "a.ppm").read_bytes()
        for turn in range(8 if SANITIZED else 60):
            self.gconv("-i", "a.ppm", "-f", "identity", "-o", "b.ppm", "-d", "cpu", "--threads", 2 + turn % 3)
            self.assertTrue((self.folder / "b.ppm").read_bytes() == photo, turn)

    @needs("libwebp")
    def test_webp(self):
        self.large()
        photo = Image.open(self.folder / "a.png")
        with_alpha = photo.convert("RGBA")
        with_alpha.putalpha(photo.getchannel(0))
        for image, options in ((photo, {"method": 0}), (photo, {"lossless": True, "quality": 0, "method": 0}),
                               (with_alpha, {"method": 0})):
            image.save(self.folder / "a.webp", **options)
            for threads in (1, 3):
                self.gconv("-i", "a.webp", "-f", "identity", "-o", "b.png", "--threads", threads)
                self.assert_pixels("b.png", self.pixels("a.webp"))
            data = (self.folder / "a.webp").read_bytes()
            damaged = data[: len(data) // 2] + bytes(2000) + data[len(data) // 2 + 2000 :]
            for told, content in (("ends too early", data[: len(data) // 2]), ("damaged WebP", damaged)):
                (self.folder / "bad.webp").write_bytes(content)
                words = ("-i", "bad.webp", "-f", "identity", "--format", "png")
                whole = self.gconv(*words, "-o", "-", status=(0, 1), text=False)
                rows = self.gconv(*words, "-o", "out/", "--threads", "3", status=whole.returncode)
                if whole.returncode == 0:  # libwebp makes something of many bits that are wrong
                    self.assertEqual((self.folder / "out/bad.png").read_bytes(), whole.stdout)
                    (self.folder / "out/bad.png").unlink()
                    continue
                self.assertIn(told, rows.stderr)
                self.assertEqual(self.files("out"), [])

    def test_formats_that_are_written_by_one_thread(self):
        self.large()
        for name in ("b.ppm", "b.jpg", "b.npy"):
            words = ("-i", "a.png", "-f", "gaussian", "--depth", "8" if name != "b.npy" else "float")
            whole = self.gconv(*words, "-o", "-", "--format", name[2:], text=False).stdout
            self.gconv(*words, "-o", name, "--threads", "3")
            self.assertEqual((self.folder / name).read_bytes(), whole, name)

    def test_one_result_that_cannot_be_written(self):
        self.large()
        os.mkfifo(self.folder / "sobel_x.png")
        with subprocess.Popen(["head", "-c", "1", "sobel_x.png"], cwd=self.folder, stdout=subprocess.DEVNULL):
            result = self.gconv("-i", "a.png", "-f", "identity", "-f", "sobel_x", "-o", "{filter}.png", "--threads", "3", status=3)
        self.assertIn("sobel_x.png: cannot write: Broken pipe", result.stderr)
        self.assert_pixels("identity.png", self.pixels("a.png"))

    def test_a_cut_file(self):
        self.large()
        data = (self.folder / "a.png").read_bytes()
        for kept in (0.1, 0.5, 0.999):
            (self.folder / "a.png").write_bytes(data[: int(len(data) * kept)])
            for threads in (1, 3):
                result = self.gconv("-i", "a.png", "-f", "sobel_x", "-f", "sobel_y", "-o", "out/", "-q", "--threads", threads, status=1)
                self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
                self.assertIn("a.png", result.stderr)
                self.assertEqual(self.files("out"), [])


class ByRows(CommandTest):
    """Images so large that they are carried from file to file by strips of rows."""

    WIDTH, HEIGHT = 7000, 1100 if SANITIZED else 3300  # RGB: 69 MB

    def setUp(self):
        super().setUp()
        row = numpy.random.default_rng(1).integers(0, 256, self.WIDTH * 3 * 2, numpy.uint8)
        with open(self.folder / "big.ppm", "wb") as file:
            file.write(b"P6\n%d %d\n255\n" % (self.WIDTH, self.HEIGHT))
            for y in range(self.HEIGHT):
                file.write(row[y : y + self.WIDTH * 3].tobytes())

    def test_every_row_is_right(self):
        self.gconv("-i", "big.ppm", "-f", "1x7: 1,0,0,0,0,0,-1", "-o", "x.ppm", "-d", "cpu")  # rows 3 above less 3 below
        source = numpy.zeros((self.HEIGHT + 6, self.WIDTH * 3), numpy.int16)
        source[3:-3] = self.rows("big.ppm")
        self.assertTrue(numpy.array_equal(self.rows("x.ppm"), (source[:-6] - source[6:]).clip(0, 255)))

    def rows(self, name):
        return numpy.fromfile(self.folder / name, numpy.uint8)[-self.HEIGHT * self.WIDTH * 3 :].reshape(self.HEIGHT, -1)

    @unittest.skipIf(SANITIZED, "sanitizers take memory of their own")
    def test_memory_does_not_grow_with_height(self):
        usage = self.peak_bytes("-i", "big.ppm", "-f", "sobel_x", "-f", "sobel_y", "-o", "{filter}.png", "-d", "cpu")
        self.assertEqual(self.files(), ["big.ppm", "sobel_x.png", "sobel_y.png"])
        self.assertLess(usage, (self.folder / "big.ppm").stat().st_size)

    def cut_file(self):
        """A .png that ends in its last rows: its header does not tell."""
        self.gconv("-i", "big.ppm", "-f", "identity", "-o", "big.png", "--png-level", "0", "-d", "cpu")
        (self.folder / "big.ppm").unlink()
        with open(self.folder / "big.png", "r+b") as file:
            file.truncate(self.HEIGHT * self.WIDTH * 3 * 9 // 10)
        return "big.png"

    def test_a_cut_file_leaves_nothing(self):
        name = self.cut_file()
        result = self.gconv("-i", name, "-f", "sobel_x", "-o", "x.png", "-d", "cpu", status=1)
        self.assertIn(name, result.stderr)
        self.assertEqual(self.files(), [name])

    def test_a_cut_file_sends_nothing_into_a_pipe(self):
        name = self.cut_file()
        os.mkfifo(self.folder / "pipe.ppm")
        with subprocess.Popen(["cat", "pipe.ppm"], cwd=self.folder, stdout=subprocess.PIPE) as reader:
            self.gconv("-i", name, "-f", "sobel_x", "-o", "pipe.ppm", "-d", "cpu", status=1)
            os.close(os.open(self.folder / "pipe.ppm", os.O_RDWR))  # lets the reader end, as nobody wrote
            self.assertEqual(reader.communicate()[0], b"")


if __name__ == "__main__":
    unittest.main()
