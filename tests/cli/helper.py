# SPDX-License-Identifier: MIT
"""What the tests of the command line share: a folder of their own, small photos, and a way to run gconv."""
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

import numpy
from PIL import Image

GCONV = os.environ["GCONV"]
NOBODY = 65534
LONGEST = 600 if "GCONV_LONG_TESTS" in os.environ else 120  # seconds of a command: those tests run with sanitizers, too

# Memory goes with the number of threads: so that limits of it mean the same on every machine, tests have two processors.
PROCESSORS = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, random.sample(PROCESSORS, min(2, len(PROCESSORS))))


def needs(*libraries):
    """Skips tests of what gconv has only with these libraries: "libtiff"."""
    version = subprocess.run([GCONV, "--version"], stdout=subprocess.PIPE, check=True, text=True).stdout
    missing = [library for library in libraries if f"no {library}" in version]
    return unittest.skipIf(missing, f"gconv was built without {' and '.join(missing)}")


def reached_by_nobody(path):
    """Whether all folders on the way to a file let everybody in; /root does not."""
    return all(folder.stat().st_mode & 1 for folder in pathlib.Path(path).resolve().parents)


class CommandTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gconv-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.folder.chmod(0o755)

    def environment(self, extra=None):
        """GCONV_MOST_THREADS: tests of many threads are to have them on any machine."""
        return {**os.environ, "GCONV_DEVICE": "cpu", "GCONV_CACHE": "", "GCONV_MOST_THREADS": "16", **(extra or {})}

    def gconv(self, *words, status=0, stdin=None, env=None, unprivileged=False, text=True):
        """Runs gconv in the folder of the test, and demands the exit status, or one of several."""
        options = {}
        if unprivileged and os.geteuid() == 0:
            options = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            if not reached_by_nobody(GCONV):
                self.skipTest(f"this runs gconv as the user nobody, who cannot reach {GCONV}")
        result = subprocess.run([GCONV, *map(str, words)], cwd=self.folder, env=self.environment(env), input=stdin,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LONGEST, check=False, **options)
        errors = result.stderr.decode()
        self.assertIn(result.returncode, status if isinstance(status, tuple) else (status,), f"gconv {' '.join(map(str, words))}\n{errors}")
        result.stderr = errors
        if text:
            result.stdout = result.stdout.decode()
        return result

    def assertIn(self, member, container, msg=None):
        """As unittest has it; of a long text, such as a manual, only the beginning is shown."""
        if isinstance(container, str) and len(container) > 2000 and member not in container:
            self.fail(f"{member!r} is missing in {container[:60]!r}... ({len(container)} characters){': ' + msg if msg else ''}")
        super().assertIn(member, container, msg)

    def peak_bytes(self, *words):
        """The memory that gconv takes at most: by way of a small process, as what is forked from this one begins with its arrays."""
        script = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
                  "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)")
        return int(subprocess.run([sys.executable, "-c", script, GCONV, *words], cwd=self.folder, env=self.environment(),
                                  stdout=subprocess.PIPE, check=True).stdout)

    def usage_error(self, fragment, *words, **options):
        """A request that is refused: exit status 2, one message with this in it, and no file made or changed."""
        before = self.snapshot()
        result = self.gconv(*words, status=2, **options)
        self.assertIn(fragment, result.stderr)
        self.assertTrue(result.stderr.startswith("gconv: "), result.stderr)
        self.assertEqual(self.snapshot(), before)
        return result

    def photo(self, name, width=17, height=13, seed=0, channels=3):
        """Writes a photo of noise, and returns its pixels."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shape = (height, width, channels) if channels > 1 else (height, width)
        pixels = numpy.random.default_rng(seed).integers(0, 256, shape, dtype=numpy.uint8)
        Image.fromarray(pixels).save(path)
        return pixels

    def pixels(self, name):
        with Image.open(self.folder / name) as image:
            return numpy.asarray(image).copy()

    def assert_pixels(self, name, expected):
        numpy.testing.assert_array_equal(self.pixels(name), expected)

    def files(self, folder="."):
        """The files below a folder, sorted, with the hidden ones: temporaries would show."""
        top = self.folder / folder
        return sorted(str(path.relative_to(top)) for path in top.rglob("*") if not path.is_dir())

    def snapshot(self):
        """Every entry with its size, time of change and inode."""
        entries = {}
        for path in self.folder.rglob("*"):
            status = path.lstat()
            entries[str(path)] = (status.st_size, status.st_mtime_ns, status.st_ino)
        return entries
