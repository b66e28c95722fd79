# SPDX-License-Identifier: MIT
"""What the tests of docs/cluster share: photos, what an undivided run makes of them, and what a divided one must leave."""
import os
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(os.environ["GCONV_SOURCE_FOLDER"])
sys.path.insert(0, str(SOURCE / "tests" / "cli"))
from helper import GCONV, CommandTest  # noqa: E402

# Slow enough that a task can be met at work.
FILTER, OPTIONS = "gaussian:size=21,sigma=3", ["-a", "reference", "--border", "replicate"]


class ClusterTest(CommandTest):
    def prepare(self, count):
        """`count` photos in two folders, and the results of an undivided run in expected/."""
        self.names = [f"{'night/' if i % 3 == 0 else ''}{i}.png" for i in range(count)]
        for i, name in enumerate(self.names):
            self.photo(f"photos/{name}", 160, 120, seed=i)
        self.gconv("-i", "photos", "-r", "-f", FILTER, *OPTIONS, "-o", "expected/", "-q")
        links = self.folder / "bin"
        links.mkdir()
        (links / "gconv").symlink_to(pathlib.Path(GCONV).resolve())

    def environment(self, extra=None):
        """As that of a cluster's machine: files of docs/cluster find gconv on PATH."""
        return {**super().environment(extra), "PATH": f"{self.folder}/bin:{os.environ['PATH']}:/usr/sbin:/sbin"}

    def run_file(self, *words, extra=None, status=0, expected="$"):
        done = subprocess.run([str(word) for word in words], cwd=self.folder, env=self.environment(extra), text=True,
                              capture_output=True, timeout=120, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertRegex(done.stdout + done.stderr, expected)
        return done.stdout + done.stderr

    def check_results(self, parts):
        """All results have the bytes of the undivided run; each was made by one part, once; nothing else is left."""
        results = self.folder / "results"
        made = {str(path.relative_to(results)) for path in results.rglob("*") if path.is_file()}
        manifests = {name for name in made if re.fullmatch(rf"\.gconv-manifest-\d+-of-{parts}", name)}
        self.assertEqual(made - manifests, set(self.names))
        for name in self.names:
            self.assertEqual((results / name).read_bytes(), (self.folder / "expected" / name).read_bytes(), name)
        lines = [line.split("\t")[6] for name in manifests for line in (results / name).read_text().splitlines()
                 if line[0] != "#"]
        self.assertEqual(sorted(lines), sorted(self.names))
        self.assertGreater(len(manifests), 1)
