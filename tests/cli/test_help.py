# SPDX-License-Identifier: MIT
"""gconv help: it knows the words of the documentation, and hints at names that were meant, and at no others. What a build
without CUDA lacks is told."""
import pathlib
import re
import subprocess
import unittest

from helper import GCONV, CommandTest

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
TOO_COMMON = set("that what with from this than they then have come those other others ways nothing".split())
WORDS = """nan infinity pooling epoch online backprop backpropagation occupancy highpass lowpass subtract divide transposed exit
status residual palette hessian checkpoint kubernetes slurm dask border memory security relu adam sse fann libsvm sigma"""
NO_HINTS = """divide variance flat height late rate race lose talk wall held need roof share steep task than mark meanwhile mathematics
adding compile decides measures"""
HINTS = {"bordr": "border", "gausian": "gaussian", "guassian": "gaussian", "sharpn": "sharpen", "mkae": "make", "devcies": "devices",
         "algoritm": "algorithm", "flp": "flip", "fliip": "flip", "paddin": "padding", "classfy": "classify", "laplacian4": "laplacian_4",
         "grey_scale": None, "normalization": None, "optimiser": None}


def has_cuda():
    done = subprocess.run([GCONV, "algorithms"], stdout=subprocess.PIPE, check=True)
    return b"\ncuda" in done.stdout


class Help(CommandTest):
    def answers(self, word):
        done = subprocess.run([GCONV, "help", *word.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                              env=self.environment())
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def documented(self):
        """The words of headings, and the names that tables of the guides begin with."""
        for path in DOCS.glob("*.md"):
            for line in path.read_text().splitlines():
                heading, row = re.match(r"##+ (.*)", line), re.match(r"\| (`[^|]+`) \| [^|]*[a-z][a-z]+ ", line)
                yield from re.findall(r"[^\W\d_]{4,}", heading[1]) if heading else []
                yield from re.findall(r"`([a-z][a-z0-9_-]+)`", row[1]) if row else []
        words = (DOCS / "architecture.md").read_text().split("\n## Words\n")[1].split("\n## ")[0]
        for row in re.findall(r"\n\| ([^|]+) \| [^|]+ \|", words)[2:]:
            yield from row.split(", ")

    def test_words_of_the_documentation(self):
        words = sorted({word for word in self.documented() if word.lower() not in TOO_COMMON} | set(WORDS.split()))
        self.assertGreater(len(words), 250)
        unknown = [word for word in words if self.answers(word)[0] != 0 or not self.answers(word)[1]]
        self.assertEqual(unknown, [])

    def test_answers(self):
        for word, part in (("exit", "3 if some results failed"), ("exit status", "gconv compare\nExit status: 0 if no sample differs"),
                           ("exit", "3 if training diverged"), ("pooling", "mean"), ("online", "--batch 1"), ("divide", "--std"),
                           ("kubernetes", "docs/cluster.md: Kubernetes"), ("fann", "--table-format"), ("hessian", "docs/pixels.md"),
                           ("nan", "not finite"), ("EPOCH", "--epochs"), ("occupancy", "--profile")):
            self.assertIn(part, self.answers(word)[1])

    def test_hints(self):
        for word, meant in HINTS.items():
            said = self.answers(word)[2]
            if meant:
                self.assertIn(f"did you mean {meant}?", said)
        for word in NO_HINTS.split():
            self.assertNotIn("did you mean", self.answers(word)[2], word)
        for word in ("divide", "variance", "flat"):
            said = self.gconv("-i", "a.png", "-f", "sobel", "-o", "x.png", f"--{word}", status=2).stderr
            self.assertNotIn("did you mean", said)


@unittest.skipIf(has_cuda(), "of a build without CUDA")
class WithoutCuda(CommandTest):
    LACKS = "was built without CUDA"

    def test_algorithms_of_gpus(self):
        self.photo("a.png")
        rest = ("-i", "a.png", "-f", "sharpen", "-o", "x.png")
        for words in (("-a", "tiled"), ("-a", "im2col-cublas"), ("-a", "direct,tiled"), ("--without", "tiled"), ("-a", "TILED", "-d", "cuda"),
                      ("-a", "toeplitz")):
            self.usage_error(self.LACKS, *rest, *words)
        for name in ("im2col", "gemm"):  # of filters, and of banks, on the CPU
            self.assertIn(self.LACKS, self.gconv(*rest, "-a", name, "-d", "cuda", status=1).stderr)
        for words in (("-a", "tiled"), ("--sweep", "block"), ("--sweep", "grid"), ("--figure", "blocks"), ("--figure", "grids")):
            self.usage_error(self.LACKS, "bench", *words)
        self.assertNotIn(self.LACKS, self.gconv(*rest, "-a", "bogus", status=2).stderr)
        for name in ("tiled", "cudnn", "gemm-3xfp16"):
            self.assertIn(self.LACKS, self.gconv("help", name).stdout)


if __name__ == "__main__":
    unittest.main()
