# SPDX-License-Identifier: MIT
"""Folders as they lie on disks: files of the user among results, what cannot be looked into, lists of inputs, names given twice,
patterns, what is passed over, and what killed runs leave."""
import os
import shutil
import socket
import subprocess
import unittest

import numpy

import helper


class Own(helper.CommandTest):
    """A result replaces no file in a folder of inputs, but one that a run of gconv has recorded."""

    def setUp(self):
        super().setUp()
        self.a = self.photo("s/sunset.png", seed=1)
        self.mine = self.photo("s/sunset_blur.png", seed=2)
        self.blur = ("-i", "s/", "-f", "identity", "-o", "s/", "--suffix", "_blur")

    def test_a_file_of_the_user_is_not_replaced(self):
        refused = "s/sunset_blur.png: a result would replace this file among the inputs"
        for more in ((), ("--resume",), ("--dry-run",), ("-r",), ("--shard", "1/1")):
            self.usage_error(refused, *self.blur, *more)
        self.usage_error(refused, "-i", "s/sunset.*", "-f", "identity", "-o", "s/", "--suffix", "_blur")
        self.usage_error(refused, "-i", "s", "-f", "identity", "-o", "s/{stem}.png", "--suffix", "_blur")
        self.usage_error(refused, "-i", "s/../s", "-f", "identity", "-o", "./s", "--suffix", "_blur")
        self.photo("s/c.jpg")
        self.photo("s/c.png")
        self.usage_error("s/c.png: a result would replace this file among the inputs", "-i", "s/*.jpg", "-f", "identity", "-o", "s/")
        self.assert_pixels("s/sunset_blur.png", self.mine)

    def test_what_a_run_has_recorded_is_replaced(self):
        (self.folder / "s/sunset_blur.png").unlink()
        self.gconv(*self.blur)
        self.assert_pixels("s/sunset_blur.png", self.a)
        self.gconv(*self.blur)
        self.gconv("-i", "s/", "-f", "[-1]", "-o", "s/", "--suffix", "_blur", "--range", "abs")  # another filter
        self.gconv(*self.blur, "--resume")
        self.assertIn("1 result was done", self.gconv(*self.blur, "--resume").stderr)
        self.gconv("-i", "s/", "-f", "identity", "-o", "s/", "--suffix", "_soft")
        self.photo("s/sunset_blur.png", seed=3)  # drawn into by the user
        self.usage_error("s/sunset_blur.png: a result would replace this file among the inputs", *self.blur)
        (self.folder / "s/sunset_blur.png").unlink()
        self.gconv(*self.blur)

    def test_what_is_kept_need_not_be_known(self):
        self.gconv(*self.blur, "--skip-existing")
        self.gconv(*self.blur, "--no-clobber", status=1)
        self.assert_pixels("s/sunset_blur.png", self.mine)

    def test_elsewhere_results_replace_results(self):
        for output in ("out/", "x.png"):
            for _ in range(2):
                self.gconv("-i", "s/sunset.png", "-f", "identity", "-o", output)
        self.gconv("-i", "s", "-f", "identity", "-o", "out/")
        self.gconv("-i", "s", "-f", "identity", "-o", "out/")
        self.assertEqual(self.files("out"), ["sunset.png", "sunset_blur.png"])

    def test_results_are_marked_and_no_file_is_left(self):
        (self.folder / "s/sunset_blur.png").unlink()
        self.gconv(*self.blur)
        self.assertIn(self.files("s"), (["sunset.png", "sunset_blur.png"], [".gconv-manifest", "sunset.png", "sunset_blur.png"]))
        self.assertIn("user.gconv.result", os.listxattr(self.folder / "s/sunset_blur.png"))


class Missed(helper.CommandTest):
    def setUp(self):
        super().setUp()
        self.folder.chmod(0o777)
        for name in ("p/a.png", "p/closed/b.png", "p/z/c.png"):
            self.photo(name)
        self.job = ("-i", "p", "-r", "-f", "identity", "-o", "out/")

    def close(self):
        (self.folder / "p/closed").chmod(0)
        self.addCleanup((self.folder / "p/closed").chmod, 0o755)

    def test_a_folder_that_cannot_be_looked_into(self):
        self.close()
        for words in (self.job, ("-i", "p/**/*.png", *self.job[3:]), ("-i", "p/*/*.png", "-i", "p/a.png", *self.job[3:])):
            result = self.gconv(*words, status=3, unprivileged=True)
            self.assertIn("p/closed: cannot look into this folder: Permission denied", result.stderr.replace("closed/:", "closed:"))
            self.assertEqual(len(self.files("out")), 2)
            shutil.rmtree(self.folder / "out")
        self.gconv(*self.job, "--dry-run", status=3, unprivileged=True)
        self.gconv(*self.job, "--exclude", "closed", unprivileged=True)
        self.usage_error("p/closed: cannot look into this folder", "-i", "p/closed", *self.job[3:], unprivileged=True)

    def test_results_of_too_long_a_path(self):
        """In a folder whose name is longer than that of the inputs."""
        deep = "d" * 200 + "/"
        here = os.open(self.folder / "p", os.O_RDONLY)
        data = (self.folder / "p/a.png").read_bytes()
        for _ in range(19):
            os.mkdir(deep, dir_fd=here)
            here, old = os.open(deep, os.O_RDONLY, dir_fd=here), here
            os.close(old)
        with open(os.open("x.png", os.O_WRONLY | os.O_CREAT, dir_fd=here), "wb") as file:
            file.write(data)
        os.close(here)
        output = "o" * 250 + "/" + "q" * 200
        result = self.gconv("-i", "p", "-r", "-f", "identity", "-o", output + "/", status=3)
        self.assertIn("and the system takes 4095 at most", result.stderr)
        self.assertEqual(self.files(output), ["a.png", "closed/b.png", "z/c.png"])
        subprocess.run(["rm", "-rf", "p"], cwd=self.folder, check=True)

    def test_exclude(self):
        for name in ("p/raw/d.png", "p/z/raw/e.png", "p/a_old.png", "p/z/c_old.png"):
            self.photo(name)

        def left(*patterns, source=("-i", "p", "-r")):
            words = [word for pattern in patterns for word in ("--exclude", pattern)]
            lines = self.gconv(*source, "-f", "identity", "-o", "out/", "--dry-run", *words).stdout.splitlines()
            return [line.split(" -> ")[0] for line in lines]

        self.assertEqual(left("*_old*", "raw"), ["p/a.png", "p/closed/b.png", "p/z/c.png"])
        self.assertEqual(left("z/*", "a*"), ["p/closed/b.png", "p/raw/d.png"])
        self.assertEqual(left("/raw", "*old.png"), ["p/a.png", "p/closed/b.png", "p/z/c.png", "p/z/raw/e.png"])
        self.assertEqual(left("raw/", "z", "closed"), ["p/a.png", "p/a_old.png"])
        self.assertEqual(left("raw", "*_old*", source=("-i", "p/**/*.png")), ["p/a.png", "p/closed/b.png", "p/z/c.png"])
        self.assertEqual(left("*_old*", source=("-i", "p/a*")), ["p/a.png"])
        self.assertEqual(left("a*", source=("-i", "p/a.png")), ["p/a.png"])  # named by itself
        self.assertEqual(left("**/raw/**", "**/*_old.png"), ["p/a.png", "p/closed/b.png", "p/z/c.png"])
        self.assertEqual(left("z/**/e.png", "./raw", "**/b.png"), ["p/a.png", "p/a_old.png", "p/z/c.png", "p/z/c_old.png"])
        for pattern, told in (("p/raw/*", "has this path, below the folder"), ("[", "has this name"), ("", "has this name"), ("x", "has this name")):
            said = self.gconv(*self.job, "--exclude", pattern, "--dry-run").stderr
            self.assertIn(f"--exclude {pattern}: no file or folder that was found {told}", said)
        self.usage_error("without what --exclude names", *self.job, "--exclude", "*")


class Lists(helper.CommandTest):
    def setUp(self):
        super().setUp()
        for i, name in enumerate(("p/a.png", "p/b c.png", "q/a.png", "p/new\nline.png")):
            self.photo(name, seed=i)
        self.rest = ("-f", "identity", "-o", "out/{index}.png")

    def inputs(self, *words, status=0, **options):
        lines = self.gconv(*words, *self.rest, "--dry-run", status=status, **options).stdout.splitlines()
        return [line.split(" -> ")[0] for line in lines]

    def test_lists(self):
        (self.folder / "list").write_bytes(b"p/a.png\n\nq/a.png\r\np/b c.png")
        self.assertEqual(self.inputs("--files-from", "list"), ["p/a.png", "q/a.png", "p/b c.png"])
        self.assertEqual(self.inputs("--files-from", "-", stdin=b"p\nq/a.png\n")[-1], "q/a.png")
        self.assertEqual(len(self.inputs("--files-from", "-", "-0", stdin=b"p/new\nline.png\0q/a.png\0")), 2)
        self.assertEqual(self.inputs("-i", "q/a.png", "--files-from=-", stdin=b"p/a.png"), ["q/a.png", "p/a.png"])
        self.gconv("sharpen", "--files-from", "list", "made/{index}.png")
        self.assertEqual(self.files("made"), ["1.png", "2.png", "3.png"])
        found = subprocess.run("find p q -name '*.png' -print0 | \"$GCONV\" --files-from - -0 -f identity -o all/{index}.png -q", shell=True,
                               cwd=self.folder, env=self.environment({"GCONV": helper.GCONV}), check=True)
        self.assertEqual((found.returncode, self.files("all")), (0, ["1.png", "2.png", "3.png", "4.png"]))
        self.gconv("--files-from", "-", "-f", "identity", "-o", "one", stdin=b"p/a.png")
        self.assertEqual(self.files("one"), ["a.png"])  # a list is many

    def test_names_that_are_no_files(self):
        result = self.gconv("--files-from", "-", *self.rest, stdin=b"p/a.png\nno.png\n*.png\n", status=3)
        self.assertIn("gconv: no.png: cannot find this input: No such file", result.stderr)
        self.assertIn("gconv: *.png: cannot find this input", result.stderr)
        self.assertEqual(self.files("out"), ["1.png"])
        for text, told in ((b"no.png\n", "none of its files is there: no.png"), (b"\n\n", "has no names"), (b"-\n", "has the name -"),
                           (b"p/a.png\0q/a.png", "-0 says that these end the names")):
            self.usage_error(told, "--files-from", "-", *self.rest, stdin=text)
        self.usage_error("--files-from: nolist: cannot open", "--files-from", "nolist", *self.rest)
        self.usage_error("name the list", "-0", "-i", "p", *self.rest)
        self.usage_error("standard input can be read only once", "--files-from", "-", "-i", "-", *self.rest, stdin=b"p/a.png\n")
        self.usage_error("would both land on this file", "--files-from", "-", "-f", "identity", "-o", "out/", stdin=b"p/a.png\nq/a.png\n")

    def test_a_file_named_twice_is_one(self):
        for words in (("-i", "p/a.png", "-i", "p/a.png"), ("-i", "p/a.png", "./p//a.png", "p/../p/a.png", self.folder / "p/a.png"),
                      ("-i", "p/a*", "-i", "p/[a]*.png"), ("-i", "p/a.png", "--files-from", "-")):
            result = self.gconv(*words, "-f", "identity", "-o", "x.png", stdin=b"p/a.png\np/a.png\n")
            self.assertIn("a.png", result.stderr)
            self.assertIn("named more than once, and taken once", result.stderr)
        self.assertEqual(self.inputs("-i", "q/a.png", "-i", "q", "-i", "q/"), ["q/a.png"])
        os.symlink("a.png", self.folder / "q/link.png")
        os.link(self.folder / "q/a.png", self.folder / "q/other.png")
        self.assertEqual(self.inputs("-i", "q/a.png", "q/link.png", "q/other.png"), ["q/a.png", "q/link.png", "q/other.png"])

    def test_a_list_for_windows_is_refused(self):
        self.usage_error("exclude each other", "--files-from", "x", "-f", "x.safetensors", "--windows", "8", "-o", "x.csv")


class Patterns(helper.CommandTest):
    def setUp(self):
        super().setUp()
        for name in ("p/a.png", "p/b/c.png", "p/b/d/e.png", "p/.h/f.png", "p/b/g.jpg", "p/x[1].png"):
            self.photo(name)

    def found(self, *words):
        lines = self.gconv(*words, "-f", "identity", "-o", "out/", "--dry-run").stdout.splitlines()
        return [line.split(" -> ")[0] for line in lines], [line.split(" -> ")[1].split(" ")[0] for line in lines]

    def test_two_stars_search(self):
        for pattern, want in (("p/**/*.png", ["p/a.png", "p/b/c.png", "p/b/d/e.png", "p/x[1].png"]), ("**/e.png", ["p/b/d/e.png"]),
                              ("p/**/d/*.png", ["p/b/d/e.png"]), ("p/**/**/c.png", ["p/b/c.png"]), ("p/b/**", ["p/b/c.png", "p/b/d/e.png", "p/b/g.jpg"]),
                              ("./p/**/g.*", ["./p/b/g.jpg"]), ("p/*/c.png", ["p/b/c.png"]), ("p/x\\[1\\].p*", ["p/x[1].png"]),
                              ("p/.h/*", ["p/.h/f.png"]), ("p/**.png", ["p/a.png", "p/x[1].png"])):
            self.assertEqual(self.found("-i", pattern)[0], want, pattern)
        self.assertEqual(self.found("-i", "p/**/*.png")[1], ["out/a.png", "out/b/c.png", "out/b/d/e.png", "out/x[1].png"])
        os.symlink("..", self.folder / "p/b/up")
        self.assertEqual(len(self.found("-i", "p/**/*.png")[0]), 4)

    def test_results_of_a_search_are_no_inputs(self):
        for _ in range(2):
            self.gconv("-i", "p/**/*.png", "-f", "identity", "-o", "p/out/")
            self.assertEqual(self.files("p/out"), ["a.png", "b/c.png", "b/d/e.png", "x[1].png"])
        self.usage_error("would lie among the inputs", "-i", "p/**/*.png", "-f", "identity", "-o", "p/{stem}_x.png")

    def test_what_is_no_file_is_passed_over(self):
        """Nobody may ever write into a pipe that a pattern matches."""
        os.mkdir(self.folder / "ff")
        os.mkfifo(self.folder / "ff/pipe.png")
        with socket.socket(socket.AF_UNIX) as own:
            own.bind(str(self.folder / "ff/socket.png"))
        for name, content in (("a.png", (self.folder / "p/a.png").read_bytes()), ("notes.TXT", b""), ("more.txt", b""), ("README", b""),
                              ("raw.cr2", b""), ("x.", b""), (".hidden", b"")):
            (self.folder / "ff" / name).write_bytes(content)
        result = self.gconv("-i", "ff/*.png", "-f", "identity", "-o", "out/")
        self.assertIn("gconv: passed over: 1 pipe, 1 socket; the first is ff/pipe.png\n", result.stderr)
        result = self.gconv("-i", "ff", "-f", "identity", "-o", "out/")
        for kind in ("2 .txt", "1 .cr2", "2 without an extension", "1 pipe", "1 socket"):
            self.assertIn(kind, result.stderr)
        self.assertEqual(self.gconv("-i", "ff", "-f", "identity", "-o", "out/", "-q").stderr, "")
        self.usage_error("only folders and what is no file match", "-i", "ff/[ps]*.png", "-f", "identity", "-o", "out/")

    def test_a_pipe_that_is_named_is_read(self):
        os.mkfifo(self.folder / "pipe.png")
        with subprocess.Popen(["cp", "p/a.png", "pipe.png"], cwd=self.folder):
            self.gconv("-i", "pipe.png", "-f", "identity", "-o", "x.png")
        self.assert_pixels("x.png", self.pixels("p/a.png"))


class Times(helper.CommandTest):
    def test_preserve_times(self):
        for i, name in enumerate(("p/a.png", "p/b.png")):
            self.photo(name, 400, 300)
            os.utime(self.folder / name, ns=(10**18 + i, 10**18 + 1234567890 + i))
        words = ("-i", "p", "-f", "sharpen", "-f", "identity", "-o", "out/")
        self.gconv(*words)
        self.assertGreater((self.folder / "out/a_sharpen.png").stat().st_mtime, 1.2e9)
        self.gconv(*words, "--preserve-times")
        for name in self.files("out"):
            want = 10**18 + 1234567890 + (name[0] == "b")
            self.assertEqual((self.folder / "out" / name).stat().st_mtime_ns, want, name)
        self.gconv("-i", "-", "-f", "identity", "-o", "x.png", "--preserve-times", stdin=(self.folder / "p/a.png").read_bytes())
        self.assertGreater((self.folder / "x.png").stat().st_mtime, 1.2e9)


class Leftovers(helper.CommandTest):
    def test_the_next_run_of_the_same_outputs_removes_them(self):
        self.photo("p/a.png")
        self.photo("p/b.png")
        (self.folder / "out").mkdir()
        other = ("out/.c.png.gconv-Ab12Cd", "out/.a.png.gconv-Ab12C", "out/a.png.gconv-Ab12Cd")
        for name in ("out/.a.png.gconv-Ab12Cd", "out/.b.png.gconv-000000", *other, ".x.png.gconv-Ab12Cd", ".k.txt.gconv-Ab12Cd"):
            (self.folder / name).write_bytes(b"half")
        self.gconv("-i", "p", "-f", "identity", "-o", "out/", "--dry-run")
        self.assertTrue((self.folder / "out/.a.png.gconv-Ab12Cd").exists())
        result = self.gconv("-i", "p", "-f", "identity", "-o", "out/")
        self.assertIn("removed 2 unfinished files that a killed run had left", result.stderr)
        self.assertEqual(self.files("out"), sorted(["a.png", "b.png", *(name[4:] for name in other)]))
        self.assertIn("removed 1 unfinished file that", self.gconv("-i", "p/a.png", "-f", "identity", "-o", "x.png").stderr)
        self.gconv("make", "sobel_x", "-o", "k.txt")
        self.assertEqual([name for name in self.files() if "/" not in name], ["k.txt", "x.png"])


class Case(helper.CommandTest):
    def test_names_that_differ_by_case_alone(self):
        """On a file system that tells them apart; tests/file_systems has others."""
        for i, name in enumerate(("p/x.png", "p/X.png")):
            self.photo(name, seed=i)
        self.gconv("-i", "p", "-f", "identity", "-o", "out/")
        self.assertEqual(self.files("out"), ["X.png", "x.png"])
        self.assertFalse(numpy.array_equal(self.pixels("out/x.png"), self.pixels("out/X.png")))


if __name__ == "__main__":
    unittest.main()
