# SPDX-License-Identifier: MIT
"""Runs that are divided (--shard), and runs that go on where one was stopped (--resume)."""
import fcntl
import os
import re
import shutil
import signal
import subprocess
import time
import unittest
import zlib

import helper

SLURM = {"SLURM_ARRAY_TASK_ID": "9", "SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_MAX": "13", "SLURM_ARRAY_TASK_COUNT": "4"}


def shard_of(relative, count):
    """As documented: by the hash of the relative path without its last number, and that number."""
    path = os.fsencode(relative)
    name = path.rsplit(b"/", 1)[-1]
    stem = name.rpartition(b".")[0] or name
    digits = re.findall(rb"[0-9]+", stem)[-1:]
    end = len(path) - len(name) + (stem.rindex(digits[0]) + len(digits[0]) if digits else 0)
    begin = end - len(digits[0]) if digits else end
    value = 0xCBF29CE484222325
    for byte in path[:begin] + path[end:]:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD % 2**64
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 % 2**64
    value = ((value ^ value >> 33) + int(digits[0] if digits else 0) * 0x9E3779B97F4A7C15) % 2**64
    return ((value >> 32) * count >> 32) + 1


class Shard(helper.CommandTest):
    def dry(self, *words, **options):
        lines = self.gconv("-r", "-i", "p", "-f", "identity", "-o", "out/", "--dry-run", *words, **options).stdout.splitlines()
        return {line.split(" -> ")[0].removeprefix("p/"): line.split(" -> ")[1] for line in lines}

    def setUp(self):
        super().setUp()
        self.names = [f"{folder}{i}.pgm" for folder in ("", "a/", "ä b/") for i in range(20)]
        for name in self.names:
            path = self.folder / "p" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"P5 1 1 255\nx")

    def test_every_image_in_one_shard_by_the_documented_hash(self):
        whole = self.dry()
        self.assertEqual(sorted(whole), sorted(self.names))
        for count in (1, 2, 7):
            for number in range(1, count + 1):
                part = self.dry("--shard", f"{number}/{count}")
                self.assertEqual(sorted(part), sorted(name for name in self.names if shard_of(name, count) == number))
                for name, output in part.items():
                    self.assertEqual(output, whole[name])

    def test_parts_are_about_equal(self):
        """Within a few of the mean, whatever the names in sequence are."""
        for pattern, step in (("DSC%05d.jpg", 1), ("%d.png", 1), ("a/IMG_%04d.JPG", 1), ("frame%06d.x.png", 10), ("%03d.tif", 2),
                              ("s1e%02d.png", 3)):
            for count, parts in ((100, 5), (100, 2), (100, 8), (1000, 16)):
                sizes = [0] * parts
                for i in range(count):
                    sizes[shard_of(pattern % (i * step), parts) - 1] += 1
                self.assertLessEqual(max(abs(size - count / parts) for size in sizes), 5, (pattern, sizes))
        for i in range(100):
            (self.folder / f"q/DSC{i:05}.pgm").parent.mkdir(exist_ok=True)
            (self.folder / f"q/DSC{i:05}.pgm").write_bytes(b"P5 1 1 255\nx")
        words = ("-i", "q", "-f", "identity", "-o", "out/", "--dry-run", "--shard")
        sizes = [len(self.gconv(*words, f"{i}/5").stdout.splitlines()) for i in range(1, 6)]
        self.assertEqual(sum(sizes), 100)
        self.assertLessEqual(max(sizes) - min(sizes), 3)

    def test_names_are_those_of_the_whole(self):
        template = ("-o", "out/{index}.png")
        words = ("-i", "p", "-f", "identity", *template, "--dry-run")
        whole = self.gconv(*words).stdout.splitlines()
        parts = [line for number in (1, 2, 3) for line in self.gconv(*words, "--shard", f"{number}/3").stdout.splitlines()]
        self.assertEqual(sorted(parts), sorted(whole))

    def test_slurm(self):
        self.assertEqual(self.dry("--shard", "auto", env=SLURM), self.dry("--shard", "3/4"))
        self.assertEqual(self.dry("--shard", "auto/4", env=SLURM), self.dry("--shard", "3/4"))
        words = ("-i", "p", "-f", "identity", "-o", "out/", "--shard")
        self.usage_error("write I/5", *words, "auto/5", env=SLURM)
        self.usage_error("equal distances", *words, "auto", env={**SLURM, "SLURM_ARRAY_TASK_MAX": "14"})
        self.usage_error("equal distances", *words, "auto", env={**SLURM, "SLURM_ARRAY_TASK_ID": "8"})
        self.usage_error("equal distances", *words, "auto", env={**SLURM, "SLURM_ARRAY_TASK_COUNT": "0"})
        self.usage_error("SLURM_ARRAY_TASK_MIN=x", *words, "auto", env={**SLURM, "SLURM_ARRAY_TASK_MIN": "x"})
        self.usage_error("SLURM_ARRAY_TASK_MIN is not set", *words, "auto", env={"SLURM_ARRAY_TASK_ID": "1"})
        one = {name: "5" for name in SLURM} | {"SLURM_ARRAY_TASK_COUNT": "1"}
        self.assertEqual(len(self.dry("--shard", "auto", env=one)), len(self.names))

    def test_kubernetes(self):
        for index in range(3):
            part = self.dry("--shard", "auto/3", env={"JOB_COMPLETION_INDEX": str(index)})
            self.assertEqual(part, self.dry("--shard", f"{index + 1}/3"))
        words = ("-i", "p", "-f", "identity", "-o", "out/", "--shard")
        self.usage_error("write auto/N", *words, "auto", env={"JOB_COMPLETION_INDEX": "0"})
        self.usage_error("from 0 to 2", *words, "auto/3", env={"JOB_COMPLETION_INDEX": "3"})

    def test_nonsense(self):
        words = ("-i", "p", "-f", "identity", "-o", "out/", "--shard")
        for shard in ("0/4", "5/4"):
            self.usage_error("they are 1/4 to 4/4", *words, shard)
        for shard in ("", "4", "1/0", "1/", "/4", "-1/4", "1/4 ", "+1/4", "1/1000001", "99999999999999999999/4", "auto/", "auto/0"):
            self.usage_error("this takes I/N", *words, shard)
        self.usage_error("neither SLURM_ARRAY_TASK_ID is set", *words, "auto")
        self.usage_error("JOB_COMPLETION_INDEX", *words, "auto/4")

    def test_a_shard_without_images(self):
        empty = next(number for number in range(1, 9) if shard_of("0.pgm", 8) != number)
        result = self.gconv("-i", "p/0.pgm", "-f", "identity", "-o", "out/", "--shard", f"{empty}/8")
        self.assertIn("none of the images", result.stderr)
        self.assertFalse((self.folder / "out").exists())


# Options that change results, with a value that does; all others are in OTHERS.
CHANGES = {"format": ["ppm"], "depth": ["16"], "png-level": ["3"], "jpeg-quality": ["70"], "quality": ["60"], "flip": [],
           "lossless": [], "tiff-compression": ["lzw"],
           "border": ["replicate"], "padding": ["1"], "stride": ["2"], "dilation": ["2"], "gray": [], "luma": [], "linear": [],
           "alpha": ["filter"], "combine": ["sum"], "scale": ["2"], "offset": ["0.5"], "range": ["abs"],
           "algorithm": ["direct"], "without": ["fft"], "strip": [], "region": ["9x8+1+1"],
           "nan": ["zero"], "preserve-nan": [], "normalize": [], "least-weight": ["0.5"]}
OTHERS = {"input", "recursive", "filter", "filter-format", "max-pixels", "output", "no-clobber", "skip-existing", "newer", "in-place", "resume", "suffix",
          "files-from", "null", "exclude", "preserve-times", "shard", "workspace", "device", "threads", "jobs", "memory", "decode", "fail-fast", "dry-run", "timings", "verify",
          "explain", "verbose", "quiet", "help", "mask", "weights", "nodata", "no-sandbox", "windows", "raw"}  # of masks, as of filters, the content counts: test_region.py
BANKS = {"then", "groups", "activation", "mean", "std", "math", "batch", "layout", "probabilities", "white", "order", "output-name"}  # test_banks.py has these, and test_pixels.py the last
OUTPUTS = {"jpeg-quality": "jpg", "quality": "jpg", "lossless": "webp", "tiff-compression": "tif"}
FORMATS = {"jpg", *subprocess.run([helper.GCONV, "filter", "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()}


class Resume(helper.CommandTest):
    words = ("-i", "p", "-f", "gaussian:size=5,sigma=1", "-o", "out/", "--resume")

    def setUp(self):
        super().setUp()
        for i in range(5):
            self.photo(f"p/{i}.png", seed=i)

    def resume(self, *words, **options):
        """The counts that are told: done, new, of another job, of another input, of another result."""
        text = self.gconv(*self.words, *words, **options).stderr
        if "--resume: " not in text:
            return None
        kinds = ("results? w[a-z]+ done", "new", "of other filters, options or another version", "of inputs that changed", "missing or changed")
        counts = [re.search(rf"(\d+) {kind}", text) for kind in kinds]
        self.assertEqual("which is all" in text, not any(counts[1:]))
        return tuple(int(count[1]) if count else 0 for count in counts)

    def results(self, folder="out"):
        return {name: (self.folder / folder / name).read_bytes() for name in self.files(folder) if not name.startswith(".")}

    def test_what_is_done_is_passed_over(self):
        self.assertIsNone(self.resume())
        before = self.snapshot()
        self.assertEqual(self.resume(), (5, 0, 0, 0, 0))
        self.assertEqual(self.snapshot(), before)
        self.photo("p/new.png", seed=9)
        self.assertEqual(self.resume(), (5, 1, 0, 0, 0))
        summary = self.gconv(*self.words, "--timings=json", "-q").stdout.splitlines()[-1]
        self.assertIn('"results_passed_over":6', summary)

    def test_contents_count_not_names_or_times(self):
        self.resume()
        want = self.results()
        for i in range(5):
            os.utime(self.folder / f"p/{i}.png", (1, 1))
            os.utime(self.folder / f"out/{i}.png", (1, 1))
        self.assertEqual(self.resume(), (5, 0, 0, 0, 0))
        (self.folder / "out/0.png").unlink()
        status = (self.folder / "out/1.png").stat()
        damaged = bytearray(want["1.png"])
        damaged[-20] ^= 1
        (self.folder / "out/1.png").write_bytes(damaged)
        os.utime(self.folder / "out/1.png", ns=(status.st_atime_ns, status.st_mtime_ns))
        (self.folder / "out/2.png").write_bytes(want["2.png"][:50])
        self.assertEqual(self.resume(), (2, 0, 0, 0, 3))
        self.assertEqual(self.results(), want)
        self.photo("p/3.png", seed=77)
        self.assertEqual(self.resume(), (4, 0, 0, 1, 0))
        self.assertNotEqual(self.results()["3.png"], want["3.png"])
        shutil.copy(self.folder / "out/0.png", self.folder / "out/4.png")
        self.assertEqual(self.resume(), (4, 0, 0, 0, 1))

    def test_every_option_that_changes_results(self):
        told = set(re.findall(r"^ +(?:-., )?--([a-z-]+)", self.gconv("filter", "--help").stdout, re.MULTILINE))
        self.assertEqual(told - set(CHANGES) - OTHERS - BANKS, set(), "do their rows (src/cli/job_options.c) say CHANGES or KEEPS, and which is right?")
        (self.folder / "sum.txt").write_text("1 2 1\n")
        for name, value in CHANGES.items():
            output = "out/{stem}." + OUTPUTS.get(name, "png")
            if OUTPUTS.get(name) not in (None, *FORMATS):
                continue
            filters = ("-f", "sum.txt") if name == "normalize" else ("-f", "sobel_x", "-f", "sobel_y", "--combine", "max")
            words = ("-i", "p/0.png", *filters, "--resume", "-o", output)
            with self.subTest(name):
                self.gconv(*words)
                self.assertIn("--resume: 1 result was done, which is all", self.gconv(*words).stderr)
                self.assertIn("; taken up: 1 of other filters, options or another version\n", self.gconv(*words, f"--{name}", *value).stderr)
        shutil.rmtree(self.folder / "out")
        self.resume()
        for words in (("--threads", "1"), ("--jobs", "2"), ("--device", "cpu"), ("--verify",)):
            self.assertEqual(self.resume(*words), (5, 0, 0, 0, 0), words)

    def test_filters_count_by_their_taps(self):
        for name, text in (("a.txt", "1 2 1\n"), ("b.txt", "# the same\n1, 2, 1\n"), ("c.txt", "1 2 2\n")):
            (self.folder / name).write_text(text)
        words = ("-i", "p", "-o", "out/", "--resume", "-f")
        self.gconv(*words, "a.txt")
        self.assertIn("5 results were done", self.gconv(*words, "b.txt").stderr)
        self.assertIn("5 of other filters", self.gconv(*words, "c.txt").stderr)

    def test_torn_and_foreign_lines(self):
        self.resume()
        manifest = self.folder / "out/.gconv-manifest"
        whole = manifest.read_bytes()
        for cut in range(len(whole) - 60, len(whole)):
            manifest.write_bytes(whole[:cut])
            done, *others = self.resume()
            self.assertEqual((done, sum(others)), (4, 1) if cut < len(whole) - 1 else (5, 0), cut)
            self.assertEqual(self.resume(), (5, 0, 0, 0, 0), cut)
        for foreign in (b"", b"\0\xff\n\n\n\t\t\t\n", b"1\t2\t3\n", b"-1\t0\t0\t0\t0\tv\t0.png\t0.png\n", b"x" * 100000):
            manifest.write_bytes(foreign)
            self.assertIsNone(self.resume(), foreign[:20])
            self.assertEqual(self.resume(), (5, 0, 0, 0, 0))
        with open(manifest, "wb") as file:  # a long line, of zeros, before the others
            file.truncate(40 << 20)
            file.seek(0, os.SEEK_END)
            file.write(b"\n" + whole)
        self.assertEqual(self.resume(), (5, 0, 0, 0, 0))
        os.truncate(manifest, (1 << 30) + 1)
        self.assertIn("larger than the 1073741824 bytes that a manifest may have: remove it", self.gconv(*self.words, status=1).stderr)
        manifest.unlink()
        os.mkfifo(manifest)
        self.gconv(*self.words, "--dry-run")

    def test_the_manifest_is_as_documented(self):
        self.resume()
        lines = (self.folder / "out/.gconv-manifest").read_text().splitlines()
        version = self.gconv("--version").stdout.split()[1]
        jobs = set()
        for line in lines[1:]:
            bytes_, crc, input_bytes, input_crc, job, made_by, result, source = line.split("\t")
            jobs.add(job)
            self.assertEqual(made_by, version)
            for path, size, checksum in ((f"out/{result}", bytes_, crc), (f"p/{source}", input_bytes, input_crc)):
                content = (self.folder / path).read_bytes()
                self.assertEqual((int(size), int(checksum, 16)), (len(content), zlib.crc32(content)))
        self.assertEqual((lines[0][0], len(lines), len(jobs)), ("#", 6, 1))

    def test_awkward_names(self):
        names = ["#1.png", "a\tb.png", "new\nline.png", "back\\slash.png", "-.png"]
        for i, name in enumerate(names):
            self.photo(f"q/{name}", seed=i)
        with open(os.fsencode(self.folder) + b"/q/not\xffutf8.pgm", "wb") as file:
            file.write(b"P5 1 1 255\nx")
        words = ("-i", "q", "-f", "identity", "-o", "out/", "--resume")
        self.gconv(*words)
        self.assertIn("6 results were done, which is all", self.gconv(*words).stderr)

    def test_the_manifest_lies_in_a_folder_with_braces(self):
        for output, folder in (("x{{1}}/", "x{1}"), ("y{{1}}/{stem}.png", "y{1}"), ("z{{1}}/{filter}/{stem}.png", "z{1}")):
            words = ("-i", "p", "-f", "identity", "-o", output, "--resume")
            self.gconv(*words)
            self.assertIn(".gconv-manifest", self.files(folder))
            self.assertIn("5 results were done", self.gconv(*words).stderr)

    def test_several_results_of_an_input(self):
        words = ("-i", "p", "-f", "sobel_x", "-f", "sobel_y", "-o", "out/{filter}/{stem}.png", "--resume")
        self.gconv(*words)
        (self.folder / "out/sobel_y/2.png").unlink()
        before = (self.folder / "out/sobel_x/2.png").stat().st_ino
        self.assertIn("9 results were done", self.gconv(*words).stderr)
        self.assertEqual((self.folder / "out/sobel_x/2.png").stat().st_ino, before)
        self.assertEqual(self.files("out"), [".gconv-manifest"] + [f"sobel_{k}/{i}.png" for k in "xy" for i in range(5)])

    def test_shards_share_a_folder_and_the_whole_knows_them(self):
        for number in (1, 2, 3):
            self.gconv(*self.words, "--shard", f"{number}/3")
        self.assertEqual([name for name in self.files("out") if name.startswith(".")],
                         sorted(f".gconv-manifest-{number}-of-3" for number in (1, 2, 3)
                                if any(shard_of(f"{i}.png", 3) == number for i in range(5))))
        self.assertEqual(self.resume(), (5, 0, 0, 0, 0))

    def test_one_run_at_a_time(self):
        self.resume()
        with open(self.folder / "out/.gconv-manifest", "rb") as manifest:
            fcntl.flock(manifest, fcntl.LOCK_EX)
            (self.folder / "out/0.png").unlink()
            self.assertIn("another gconv is at work", self.gconv(*self.words, status=1).stderr)
            self.assertFalse((self.folder / "out/0.png").exists())
        self.assertEqual(self.resume(), (4, 0, 0, 0, 1))

    def test_dry_run_changes_nothing(self):
        self.gconv(*self.words, "--dry-run")
        self.assertFalse((self.folder / "out").exists())
        self.resume()
        (self.folder / "out/1.png").write_bytes(b"")
        (self.folder / "out/.0.png.gconv-abc123").touch()
        before = self.snapshot()
        lines = self.gconv(*self.words, "--dry-run").stdout.splitlines()
        self.assertEqual([line.endswith("(done: passed over)") for line in lines], [True, False, True, True, True])
        self.assertEqual(self.snapshot(), before)

    def test_only_own_leftovers_are_removed(self):
        self.resume()
        mine = ["out/.0.png.gconv-Ab12Cd"]
        others = ["out/.0.png.backup", "out/.9.png.gconv-Ab12Cd", "out/.0.png.gconv-Ab12Cd.png", "out/.0.png.gconv-Ab12C",
                  "out/.0.png.gconv-Ab12C_", "out/0.png.gconv-Ab12Cd"]
        for name in mine + others:
            (self.folder / name).touch()
        self.assertIn("removed 1 unfinished", self.gconv(*self.words).stderr)
        self.assertFalse((self.folder / mine[0]).exists())
        for name in others:
            self.assertTrue((self.folder / name).exists(), name)

    def test_failures_are_taken_up_again(self):
        (self.folder / "p/2.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")
        self.gconv(*self.words, status=3)
        self.gconv(*self.words, status=3)
        self.photo("p/2.png", seed=2)
        self.assertEqual(self.resume(), (4, 1, 0, 0, 0))

    def test_what_it_excludes(self):
        words = ("-i", "p/0.png", "-f", "identity", "--resume", "-o")
        self.usage_error("--resume excludes --no-clobber", *words, "out.png", "--no-clobber")
        self.usage_error("--resume excludes --skip-existing", *words, "out.png", "--skip-existing")
        self.usage_error("--resume excludes --algorithm all", *words, "out.png", "--algorithm", "all")
        self.usage_error("standard output has no manifest", *words, "-")

    def test_standard_input_is_always_read(self):
        photo = (self.folder / "p/0.png").read_bytes()
        for _ in range(2):
            self.gconv("-i", "-", "-f", "identity", "-o", "one.png", "--resume", stdin=photo)
        self.assertEqual(self.pixels("one.png").shape, (13, 17, 3))


class Killed(helper.CommandTest):
    """SIGKILL in mid-run, then --resume: as if nothing had been."""

    def is_midway(self, done):
        """Whether more than `done` results are there, and another one is being written."""
        names = os.listdir(self.folder / "out") if (self.folder / "out").exists() else []
        return (sum(not name.startswith(".") for name in names) > done and
                any(".png.gconv-" in name for name in names))

    def test_killed_and_resumed(self):
        for i in range(12):
            self.photo(f"p/{i}.png", 700, 500, seed=i)
        words = ("-i", "p", "-f", "gaussian:size=9,sigma=2", "-o", "out/", "--resume", "--jobs", "3")
        self.gconv("-i", "p", "-f", "gaussian:size=9,sigma=2", "-o", "whole/")
        left = kills = 0
        for round_ in range(6):
            process = subprocess.Popen([helper.GCONV, *words], cwd=self.folder, env=self.environment(),
                                       stderr=subprocess.DEVNULL)
            deadline = time.monotonic() + 20
            while process.poll() is None and time.monotonic() < deadline and not self.is_midway(2 * round_):
                time.sleep(0.0005)
            process.send_signal(signal.SIGKILL)
            kills += process.wait() == -signal.SIGKILL
            left += sum(".png.gconv-" in name for name in os.listdir(self.folder / "out"))
        self.assertGreater(kills, 2, "it is over before it can be killed")
        self.assertGreater(left, 0, "nothing was unfinished")
        self.gconv(*words)
        self.assertEqual(self.files("out"), [".gconv-manifest"] + self.files("whole"))
        for name in self.files("whole"):
            self.assertEqual((self.folder / "out" / name).read_bytes(), (self.folder / "whole" / name).read_bytes(), name)


if __name__ == "__main__":
    unittest.main()
