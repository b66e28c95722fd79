# SPDX-License-Identifier: MIT
"""Folders that others can change, names that others chose, and limits of the system: no result leaves the folder of -o, no file
of somebody else is touched, no mode is wider than the user's, and what is too long or too many is told or done by less at a time."""
import fcntl
import os
import resource
import stat
import subprocess
import sys
import termios
import threading
import time

import numpy

import helper

MATRIX = "%YAML:1.0\n---\n..: !!opencv-matrix\n   rows: 1\n   cols: 1\n   dt: f\n   data: [ 1. ]\n"


class Places(helper.CommandTest):
    """A result lies in the folder of -o, whatever its name is made of."""

    def setUp(self):
        super().setUp()
        self.a = self.photo("p/a.png", seed=1)
        self.photo("p/sub/b.png", seed=2)

    def refused(self, *words, **options):
        return self.usage_error("which is not in", *words, **options)

    def test_filters_with_names_of_folders(self):
        (self.folder / "k.yml").write_text(MATRIX)
        self.refused("-i", "p/a.png", "-f", "k.yml", "-o", "out/{filter}/x.png")
        self.refused("-i", "p/a.png", "-f", "k.yml", "-o", "{filter}/x.png")
        self.gconv("-i", "p/a.png", "-f", "k.yml", "-o", "out/{index}/x.png")
        self.gconv("-i", "p/a.png", "-f", "k.yml", "-f", "identity", "-o", "out/")
        self.assertEqual(self.files("out"), ["1/x.png", "a_...png", "a_identity.png"])
        self.assert_pixels("out/1/x.png", self.a)
        (self.folder / "k.txt").write_text("gconv-bank 1\nfilters 2 channels 1 size 1 1\nfilter ..\n1\nfilter b\n1\n")
        self.refused("-i", "p/a.png", "-f", "k.txt", "--gray", "-o", "out/{filter}/x.png")

    def test_stems(self):
        os.rename(self.folder / "p/a.png", self.folder / "p/...png")
        self.refused("-i", "p/...png", "-f", "identity", "-o", "out/{stem}/r.png")
        self.gconv("-i", "p/...png", "-f", "identity", "-o", "out/{stem}_/r.png")
        self.gconv("-i", "p/...png", "-f", "identity", "-o", "out/")
        self.assertEqual(self.files("out"), ["...png", ".._/r.png"])

    def test_patterns(self):
        for name in ("c/1.png", "a/x/1.png"):
            self.photo(name)
        self.refused("-i", "a/*/../../c/*.png", "-f", "identity", "-o", "out/")
        self.refused("-i", "a/*/../../c/*.png", "-f", "identity", "-o", "out/{stem}_{index}.png")
        self.gconv("-i", "a/../c/*.png", "-f", "identity", "-o", "out/")
        self.assertEqual(self.files("out"), ["1.png"])

    def test_templates_may_go_up_inside(self):
        self.gconv("-i", "p/a.png", "-f", "identity", "-o", "out/{stem}/../{filter}.png")
        self.gconv("-i", "p/a.png", "-f", "identity", "-o", "../{0}/up/{{stem}}.png".format(self.folder.name))
        self.assertIn("up/a.png", self.files())
        self.refused("-i", "p/a.png", "-f", "identity", "-o", "out/{stem}/../../{filter}.png")

    def test_links(self):
        """A link in the folder of results may be another user's; that of -o is the user's own."""
        for name in ("out", "there", "elsewhere"):
            (self.folder / name).mkdir()
        os.symlink("../elsewhere", self.folder / "out/sub")
        self.refused("-i", "p", "-r", "-f", "identity", "-o", "out/")
        (self.folder / "out/sub").unlink()
        (self.folder / "mine.png").write_bytes(b"mine")
        os.symlink("../mine.png", self.folder / "out/a.png")
        for output in ("out/", "out/{stem}.png"):
            self.refused("-i", "p/a.png", "-f", "identity", "-o", output)
        self.gconv("-i", "p/a.png", "-f", "identity", "-o", "out/a.png")  # the link is named
        self.assert_pixels("mine.png", self.a)
        os.symlink("there", self.folder / "link")
        self.gconv("-i", "p", "-r", "-f", "identity", "-o", "link/")
        self.assertEqual(self.files("there"), ["a.png", "sub/b.png"])

    def test_a_link_that_appears_meanwhile(self):
        """It is made after the outputs were checked, while the first image of a pipe is awaited."""
        (self.folder / "elsewhere").mkdir()
        run = subprocess.Popen([helper.GCONV, "-i", "-", "-f", "identity", "-o", "out/{filter}/{stem}.png"], cwd=self.folder,
                               env=self.environment(), stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        (self.folder / "out").mkdir(exist_ok=True)
        run.stdin.write(b"\x89")
        run.stdin.flush()
        while fcntl.ioctl(run.stdin, termios.FIONREAD, b"    ") != b"\0\0\0\0":
            time.sleep(0.01)  # once it is read, the names are checked
        os.symlink("../elsewhere", self.folder / "out/identity")
        _, errors = run.communicate((self.folder / "p/a.png").read_bytes()[1:], timeout=60)
        self.assertEqual((run.returncode, self.files("elsewhere")), (1, []), errors)
        self.assertIn(b"which is not in", errors)


class Modes(helper.CommandTest):
    def setUp(self):
        super().setUp()
        for i in range(40):
            self.photo(f"p/{i}/a.png", seed=i)

    def test_modes_follow_the_umask(self):
        for mask in (0o022, 0o077, 0o027):
            output = f"out{mask:o}/"
            subprocess.run([helper.GCONV, "-i", "p", "-r", "-f", "identity", "-o", output, "--jobs", "8", "--threads", "8", "-q"],
                           cwd=self.folder, env=self.environment(), check=True, preexec_fn=lambda mask=mask: os.umask(mask))
            for path in (self.folder / output).rglob("*"):
                want = 0o777 if path.is_dir() else 0o666
                self.assertEqual(path.stat().st_mode & 0o7777, want & ~mask, path)

    def test_a_replaced_file_keeps_its_mode_but_for_set_ids(self):
        words = ("-i", "p/0/a.png", "-f", "identity", "-o", "x.png")
        for mode, want in ((0o6755, 0o755), (0o1640, 0o640), (0o600, 0o600), (0o644, 0o644)):
            (self.folder / "x.png").unlink(missing_ok=True)
            (self.folder / "x.png").write_bytes(b"old")
            (self.folder / "x.png").chmod(mode)
            self.gconv(*words)
            self.assertEqual((self.folder / "x.png").stat().st_mode & 0o7777, want)

    def test_what_replaces_a_private_file_is_private_from_the_beginning(self):
        (self.folder / "x.png").write_bytes(b"old")
        (self.folder / "x.png").chmod(0o600)
        (self.folder / "large.pgm").write_bytes(b"P5 4000 3000 255\n")
        with Fed(self, "x.png") as fed:
            self.assertEqual(stat.S_IMODE(fed.temporary.stat().st_mode), 0o600)
            fed.finish()

    def test_a_manifest_that_is_a_link(self):
        words = ("-i", "p/0", "-f", "identity", "-o", "out/", "--resume")
        (self.folder / "out").mkdir()
        (self.folder / "mine").write_text("mine\n")
        for make, told in ((lambda path: os.symlink("../mine", path), "is a link"), (os.mkfifo, "is no file")):
            make(self.folder / "out/.gconv-manifest")
            result = self.gconv(*words, status=1)
            self.assertIn(told, result.stderr)
            self.assertEqual((self.folder / "mine").read_text(), "mine\n")
            self.assertEqual(self.files("out"), [".gconv-manifest"])
            (self.folder / "out/.gconv-manifest").unlink()
        os.symlink("/dev/zero", self.folder / "out/.gconv-manifest-1-of-2")  # that of another shard is read
        self.gconv(*words)


class Fed:
    """A gconv in mid-work: it writes a large image by rows, of which it has got half."""

    WIDTH, HEIGHT = 4000, 3000

    def __init__(self, test, output):
        self.test, self.output = test, output
        self.rows = b"\x55" * (self.WIDTH * self.HEIGHT)

    def __enter__(self):
        words = [helper.GCONV, "-i", "-", "-f", "identity", "-o", self.output, "--format", "pgm"]
        self.run = subprocess.Popen(words, cwd=self.test.folder, env=self.test.environment(), stdin=subprocess.PIPE,
                                    stderr=subprocess.PIPE)
        self.run.stdin.write(b"P5 %d %d 255\n" % (self.WIDTH, self.HEIGHT) + self.rows[:len(self.rows) // 2])
        self.run.stdin.flush()
        folder, _, name = self.output.rpartition("/")
        deadline = time.monotonic() + 30
        while not (found := list((self.test.folder / folder).glob(f".{name}.gconv-*"))):
            self.test.assertLess(time.monotonic(), deadline, "no file is begun")
            time.sleep(0.01)
        self.temporary = found[0]
        return self

    def finish(self):
        """Feeds the rest; returns the exit status and what was told."""
        _, errors = self.run.communicate(self.rows[len(self.rows) // 2:], timeout=60)
        return self.run.returncode, errors

    def __exit__(self, *_):
        if self.run.poll() is None:
            self.run.kill()
        self.run.wait()
        self.run.stdin.close()
        self.run.stderr.close()


class Leftovers(helper.CommandTest):
    words = ("-i", "p", "-f", "identity", "-o", "out/", "--format", "pgm", "--resume")

    def setUp(self):
        super().setUp()
        for i in range(3):
            self.photo(f"p/{i}.png", seed=i, channels=1)
        (self.folder / "out").mkdir()

    def test_a_plain_run_at_work_keeps_its_files(self):
        with Fed(self, "out/1.pnm") as fed:
            said = self.gconv(*self.words).stderr
            self.assertNotIn("unfinished", said)
            self.assertTrue(fed.temporary.exists())
            self.assertEqual(fed.finish(), (0, b""))
        self.assertEqual((self.folder / "out/1.pnm").stat().st_size, len(b"P5\n4000 3000\n255\n") + 12000000)

    def test_another_division_into_shards_keeps_its_files(self):
        with Fed(self, "out/1.pnm") as fed:
            for shard in ("1/2", "2/2", "1/1"):
                self.gconv(*self.words, "--shard", shard)
            self.assertTrue(fed.temporary.exists())
            self.assertEqual(fed.finish(), (0, b""))

    def test_a_killed_run_leaves_what_is_removed(self):
        with Fed(self, "out/1.pnm") as fed:
            fed.run.kill()
            fed.run.wait()
            self.assertTrue(fed.temporary.exists())
            self.assertIn("removed 1 unfinished", self.gconv(*self.words).stderr)
            self.assertFalse(fed.temporary.exists())

    def test_the_lock_decides(self):
        path = self.folder / "out/.0.pnm.gconv-Ab12Cd"
        path.touch()
        path.chmod(0o600)
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.assertNotIn("unfinished", self.gconv(*self.words).stderr)
            self.assertTrue(path.exists())
        os.symlink("../p/0.png", self.folder / "out/.1.pnm.gconv-Ab12Cd")
        (self.folder / "out/.2.pnm.gconv-Ab12Cd").mkdir()
        self.assertIn("removed 1 unfinished", self.gconv(*self.words).stderr)
        self.assertFalse(path.exists())

    def test_the_lock_is_held_to_the_end(self):
        """Whoever can lock a temporary file while it has its name would remove it. Many small results, and one who tries."""
        for i in range(200):
            self.photo(f"many/{i}.png", seed=i)
        stop, had = threading.Event(), []

        def look():
            while not stop.is_set():
                for entry in os.scandir(self.folder / "out"):
                    if ".gconv-" not in entry.name or entry.name.startswith(".gconv"):
                        continue
                    try:
                        file = os.open(entry.path, os.O_RDONLY)
                    except FileNotFoundError:
                        continue
                    try:
                        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                        if os.fstat(file).st_size > 0 and os.path.exists(entry.path):
                            had.append(entry.name)
                    except BlockingIOError:
                        pass
                    os.close(file)

        looker = threading.Thread(target=look)
        looker.start()
        for _ in range(3):
            self.gconv("-i", "many", "-f", "identity", "-o", "out/", "-q")
        stop.set()
        looker.join()
        self.assertEqual(had, [])


class Links(helper.CommandTest):
    def listed(self, *words):
        result = self.gconv(*words, "-f", "identity", "-o", "out/", "--dry-run")
        return [line.split(" -> ")[0] for line in result.stdout.splitlines()], result.stderr

    def test_folders_that_link_to_each_other(self):
        for i in range(8):
            self.photo(f"p/{i}/a.png")
            for j in range(8):
                os.symlink(f"../{j}", self.folder / f"p/{i}/to{j}")
        for words in (("-i", "p", "-r"), ("-i", "p/*", "-r")):
            found, said = self.listed(*words)
            self.assertEqual(found, [f"p/{i}/a.png" for i in range(8)])
            self.assertIn("to0, and more: another name of a folder that is searched anyway, and passed over", said)
            self.assertEqual(self.listed(*words, "-q")[1], "")

    def test_what_lies_elsewhere_is_found_once_by_its_first_name(self):
        self.photo("else/deep/x.png")
        self.photo("p/m.png")
        os.symlink("../else", self.folder / "p/b")
        os.symlink("../else/deep", self.folder / "p/a")
        os.symlink("../else", self.folder / "p/z")
        self.assertEqual(self.listed("-i", "p", "-r")[0], ["p/a/x.png", "p/m.png"])
        (self.folder / "p/a").unlink()
        self.assertEqual(self.listed("-i", "p", "-r")[0], ["p/b/deep/x.png", "p/m.png"])
        self.assertEqual(self.listed("-i", "p", "-i", "else", "-r")[0], ["p/b/deep/x.png", "p/m.png", "else/deep/x.png"])

    def test_order_is_by_names(self):
        for name in ("b/x.png", "b.png", "b-/x.png", "a/z.png", "b/a/y.png", "c.png"):
            self.photo(f"p/{name}")
        self.assertEqual(self.listed("-i", "p", "-r")[0], ["p/a/z.png", "p/b/a/y.png", "p/b/x.png", "p/b-/x.png", "p/b.png", "p/c.png"])
        self.assertEqual(self.listed("-i", "p/*", "-r")[0], ["p/a/z.png", "p/b/a/y.png", "p/b/x.png", "p/b-/x.png", "p/b.png", "p/c.png"])


class Limits(helper.CommandTest):
    def test_more_results_than_open_files(self):
        (self.folder / "large.pgm").write_bytes(b"P5 3000 2800 255\n" + bytes(range(250)) * 33600)
        filters = [word for k in range(44) for word in ("-f", f"[{k}]")]

        def run(*words, **options):
            command = [helper.GCONV, *words, *filters, "-o", "out/{index}.png", "-q"]
            return subprocess.run(command, cwd=self.folder, env=self.environment(), stderr=subprocess.PIPE, check=False,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (44, 44)), **options)

        for words, options in ((("-i", "large.pgm"), {}), (("-i", "-"), {"input": (self.folder / "large.pgm").read_bytes()})):
            result = run(*words, **options)
            self.assertEqual((result.returncode, result.stderr), (0, b""))
            self.assertEqual(len(self.files("out")), 44)
            for k in (1, 22, 44):
                row = numpy.minimum(numpy.arange(250) * (k - 1), 255)
                self.assertTrue((self.pixels(f"out/{k:02}.png")[-1].reshape(-1, 250) == row).all())
            for name in self.files("out"):
                (self.folder / "out" / name).unlink()

    def test_more_jobs_than_open_files(self):
        for i in range(60):
            self.photo(f"p/{i}.png", 200, 150, seed=i)
        words = [helper.GCONV, "-i", "p", "-f", "identity", "-o", "out/", "--threads", "16", "--jobs", "16", "-q"]
        result = subprocess.run(words, cwd=self.folder, env=self.environment(), stderr=subprocess.PIPE, check=False,
                                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (22, 22)))
        self.assertEqual((result.returncode, result.stderr), (0, b""))

    def test_folders_that_are_deeper_than_paths_may_be_long(self):
        self.photo("p/a.png")
        here, name = os.open(self.folder / "p", os.O_RDONLY), "d" * 200
        for _ in range(25):
            os.mkdir(name, dir_fd=here)
            below = os.open(name, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        os.close(here)
        result = self.gconv("-i", "p", "-r", "-f", "identity", "-o", "out/", status=3)
        self.assertIn("longer than the 4095 bytes that the system takes", result.stderr)
        self.assertEqual(self.files("out"), ["a.png"])
        self.gconv("-i", "p", "-f", "identity", "-o", "out/")

    def test_an_output_in_very_many_folders(self):
        """Refused before anything is done in proportion to the square of their number."""
        self.photo("a.png")
        script = ("import resource, subprocess, sys; run = subprocess.run(sys.argv[1:], stderr=subprocess.PIPE); "
                  "print(run.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, run.stderr.decode())")
        for output in ("a/" * 60000 + "x.png", "a/" * 60000, "a/" * 60000 + "{stem}.png"):
            words = [sys.executable, "-c", script, helper.GCONV, "-i", "a.png", "-f", "identity", "-o", output]
            told = subprocess.run(words, cwd=self.folder, env=self.environment(), stdout=subprocess.PIPE, check=True).stdout.decode()
            status, kilobytes, text = told.split(" ", 2)
            self.assertEqual(status, "2", text)
            self.assertLess(int(kilobytes), 500000)
            self.assertIn("and the system takes 4095 at most", text)

    def test_an_output_in_as_many_folders_as_a_path_can_have(self):
        self.photo("a.png")
        output = "b//./c/../" * 5 + "d/" * 1900
        self.gconv("-i", "a.png", "-f", "identity", "-o", output + "{stem}.png")
        there = os.path.exists(self.folder / ("b/" * 5 + "d/" * 1900 + "a.png"))
        subprocess.run(["rm", "-r", "b"], cwd=self.folder, check=True)  # Python would take a call for each
        self.assertTrue(there)

    def test_a_pattern_of_very_many_folders(self):
        self.usage_error("a pattern with 2000 folders, but 128 are the most", "-i", "*/" * 2000 + "x.png", "-f", "identity", "-o", "out/")
        shell = "ulimit -s 128; exec \"$0\" -i '" + "*/" * 128 + "x.png' -f identity -o out/"
        result = subprocess.run(["sh", "-c", shell, helper.GCONV], cwd=self.folder, stderr=subprocess.PIPE, check=False)
        self.assertIn(b"no file matches this pattern", result.stderr)

    def test_images_that_cannot_be_looked_at(self):
        """In a folder whose names can be read, and nothing else. It was as if it were empty."""
        self.photo("p/a.png")
        self.photo("p/closed/b.png")
        self.folder.chmod(0o777)
        (self.folder / "p/closed").chmod(0o744)
        self.addCleanup((self.folder / "p/closed").chmod, 0o755)
        result = self.gconv("-i", "p", "-r", "-f", "identity", "-o", "out/", status=3, unprivileged=True)
        self.assertIn("p/closed/b.png: cannot open: Permission denied", result.stderr)


if __name__ == "__main__":
    helper.unittest.main()
