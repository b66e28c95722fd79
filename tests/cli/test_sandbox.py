#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The command gives up its right to change files elsewhere than below the folder of its results (src/cli/sandbox.c).

A neighbour replaces the folder of the results by a link to another while a job waits for its input. Without the sandbox, the
result lands there.
"""
import ctypes
import os
import pathlib
import subprocess
import time
import unittest

import helper

LANDLOCK_CREATE_RULESET = 444


def landlock_version():
    """0: the kernel has none, or does not tell."""
    version = ctypes.CDLL(None, use_errno=True).syscall(LANDLOCK_CREATE_RULESET, None, 0, 1)
    return max(version, 0)


def no_new_rights(process):
    """Whether one of its threads has given rights up: a sandbox begins so."""
    try:
        tasks = os.listdir(f"/proc/{process.pid}/task")
        return any("NoNewPrivs:\t1" in pathlib.Path(f"/proc/{process.pid}/task/{task}/status").read_text() for task in tasks)
    except FileNotFoundError:
        return False


class Sandbox(helper.CommandTest):
    def setUp(self):
        super().setUp()
        self.photo("a.png")
        self.photo("b.png", seed=1)
        (self.folder / "elsewhere").mkdir()

    def begin(self, *words, output="out/x.png"):
        """A job that waits for its input, when it has its sandbox."""
        process = subprocess.Popen([helper.GCONV, "-i", "-", "-f", "sobel_x", "-o", output, *words], cwd=self.folder,
                                   env=self.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(200):
            if no_new_rights(process) or ("--no-sandbox" in words and os.path.isdir(f"/proc/{process.pid}")):
                break
            time.sleep(0.01)
        return process

    def swap(self, *words):
        """Runs a job whose folder becomes a link to another. Returns what it ends with, what it says, and the files there."""
        (self.folder / "out").mkdir()
        process = self.begin(*words)
        time.sleep(0.3 if "--no-sandbox" in words else 0)
        (self.folder / "out").rename(self.folder / "moved")
        (self.folder / "out").symlink_to("elsewhere")
        _, errors = process.communicate((self.folder / "a.png").read_bytes())
        return process.returncode, errors.decode(), self.files("elsewhere")

    @unittest.skipIf(landlock_version() < 2, "this kernel has no Landlock, or only its first version")
    @unittest.skipIf(os.environ.get("GCONV_COVERAGE"), "a build that counts lines has no sandbox")
    def test_writes_elsewhere_are_refused(self):
        status, errors, written = self.swap()
        self.assertEqual((status, written), (1, []), errors)
        self.assertIn("Permission denied", errors)

    def test_without_it_they_are_not(self):
        self.assertEqual(self.swap("--no-sandbox")[2], ["x.png"])

    @unittest.skipIf(landlock_version() < 2, "this kernel has no Landlock, or only its first version")
    @unittest.skipIf(os.environ.get("GCONV_COVERAGE"), "a build that counts lines has no sandbox")
    def test_every_command_that_reads_files_has_it(self):
        os.mkfifo(self.folder / "pipe")
        for words in (("info", "-"), ("make", "-"), ("make", "-", "-o", "f.txt"), ("bank", "info", "-"), ("bank", "convert", "-"),
                      ("bank", "show", "-", "-o", "s.png"), ("compare", "-", "a.png"), ("compare", "-", "a.png", "-o", "d.png"),
                      ("-i", "-", "-f", "sobel_x", "-o", "-"), ("-i", "a.png", "-f", "sobel_x", "--mask", "-", "-o", "x.png"),
                      ("-i", "a.png", "-f", "-", "-o", "x.png", "--dry-run")):
            process = subprocess.Popen([helper.GCONV, *words], cwd=self.folder, env=self.environment(), stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for _ in range(300):
                if no_new_rights(process):
                    break
                time.sleep(0.01)
            else:
                self.fail(f"gconv {' '.join(words)} has no sandbox")
            process.communicate(b"")

    def test_results_are_written_wherever_they_belong(self):
        """All kinds of -o, with what is there before and after."""
        for output, expected in (("x.png", "x.png"), ("new/x.png", None), ("new/", "new/a.png"), ("n1/n2/n3/", "n1/n2/n3/a.png"),
                                 ("t/{stem}_{filter}.png", "t/a_identity.png"), ("{stem}/{index}.png", "a/1.png"),
                                 (f"{self.folder}/abs/{{stem}}.ppm", "abs/a.ppm"), ("./y.png", "y.png"), ("elsewhere/../z.png", "z.png"),
                                 ("b{{r/{stem}.png", "b{r/a.png")):
            result = self.gconv("-i", "a.png", "-f", "identity", "-o", output, status=0 if expected else 2)
            if expected:
                self.assertTrue((self.folder / expected).is_file(), output)
                self.assertEqual(result.stderr, "")

    def test_links_pipes_and_devices_are_written_through(self):
        (self.folder / "link.png").symlink_to("elsewhere/target.png")
        (self.folder / "elsewhere" / "target.png").write_bytes(b"old")
        self.gconv("-i", "a.png", "-f", "sobel_x", "-o", "link.png")
        self.assertEqual(self.pixels("elsewhere/target.png").shape, (13, 17, 3))
        self.gconv("-i", "a.png", "-f", "sobel_x", "-o", "/dev/null")
        os.mkfifo(self.folder / "p.png")
        reader = subprocess.Popen(["cat", "p.png"], cwd=self.folder, stdout=subprocess.PIPE)
        self.gconv("-i", "a.png", "-f", "sobel_x", "-o", "p.png")
        self.assertEqual(reader.communicate()[0][:4], b"\x89PNG")
        with open(self.folder / "stdout.png", "wb") as out:
            subprocess.run([helper.GCONV, "-i", "a.png", "-f", "sobel_x", "-o", "/dev/stdout", "--format", "png"], cwd=self.folder, stdout=out, check=True,
                           env=self.environment())

    def test_other_commands_write(self):
        self.gconv("make", "sobel_x", "-o", "f.txt")
        self.gconv("make", "sobel_x", "-o", "elsewhere/f.txt")
        self.gconv("bank", "convert", "sobel_x", "-o", "elsewhere/b.npy")
        self.gconv("bank", "show", "sobel_x", "-o", "elsewhere/s.png")
        self.gconv("compare", "a.png", "b.png", "-o", "elsewhere/d.png", status=1)
        for folder in ("one", "two"):
            (self.folder / folder).mkdir()
        self.photo("one/a.png")
        self.photo("two/a.png", seed=2)
        self.gconv("compare", "one", "two", "-o", "differences/deep/", status=1)
        self.assertEqual(self.files("differences"), ["deep/a.png"])
        self.gconv("-i", "a.png", "b.png", "-f", "sobel_x", "-o", "r/", "--resume")
        self.assertEqual(self.files("r"), [".gconv-manifest", "a.png", "b.png"])
        self.gconv("-i", "one", "-f", "sobel_x", "-o", "one/", "--suffix", "_x", "--timings")

    def test_folder_that_another_uses_stays(self):
        """Both begin when the folder is missing; the one that made it fails."""
        first = self.begin(output="out/")
        second = self.begin(output="out/deep/")
        third = self.begin(output="out/")
        first.communicate(b"no image")
        self.assertEqual(first.returncode, 1)
        self.assertTrue((self.folder / "out").is_dir())
        for process in (second, third):
            _, errors = process.communicate((self.folder / "a.png").read_bytes())
            self.assertEqual(process.returncode, 0, errors)
        self.assertEqual(self.files("out"), ["deep/stdin.png", "stdin.png"])

    def test_folder_that_stays_empty_is_removed(self):
        (self.folder / "broken.png").write_bytes((self.folder / "a.png").read_bytes()[:70])
        self.gconv("-i", "broken.png", "-f", "sobel_x", "-o", "empty/deep/", status=1)
        self.assertFalse((self.folder / "empty").exists())
        (self.folder / "kept").mkdir()
        self.gconv("-i", "broken.png", "-f", "sobel_x", "-o", "kept/deep/", status=1)
        self.assertEqual(list((self.folder / "kept").iterdir()), [])


if __name__ == "__main__":
    unittest.main()
