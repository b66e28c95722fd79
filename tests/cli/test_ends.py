# SPDX-License-Identifier: MIT
"""How gconv ends: its exit status where something is missing or the disk is full, and what it does when nobody reads on."""
import os
import signal
import subprocess

from helper import GCONV, CommandTest

TABLE = "a,b,c\n1,2,x\n2,3,y\n3,4,x\n4,5,y\n5,6,x\n6,8,y\n"

# Commands whose results are all on standard output. They change nothing.
PRINTING = """
--version; help; --help; help border; help filter; help exit; compare --help; filters; algorithms; devices; info a.png; info sobel
info net.safetensors; bank info net.safetensors; bank info --json net.safetensors; info m.model; make sobel; make sobel -o -
bank convert net.safetensors:l0.weight; bank show net.safetensors:l0.weight -o -
stats a.png; stats --csv p; stats --json p
compare a.png b.png; compare --json a.png b.png; compare p p; compare --json p p
fit -i a.png -t b.png -s 3; fit -i a.png -t b.png -s 3 --json
classify net.safetensors t.csv; classify net.safetensors -i t.csv --evaluate; classify net.safetensors t.csv --evaluate --json
classify m.model t.csv; classify m.model t.csv --evaluate; classify m.model t.csv --evaluate --json
svm t.csv -v 2; svm t.csv -v 2 --json
bench --sizes 3 --image 64x64 --runs 1 -a direct; bench --sizes 3 --image 64x64 --runs 1 -a direct --csv; bench --experiment list
bench --sizes 3 --image 64x64 --runs 1 -a direct --json
-i a.png -f sharpen -o -; sharpen a.png -; -i a.npy -f net.safetensors --windows 2 -o -; complete gconv he
"""
# Commands that print, and write files besides.
WRITING = """
-i p -f sharpen -o out/ --timings; -i p -f sharpen -o out/ --timings=json; -i a.png -f sharpen -o o.png --verify; tune --show
-i a.png -f sharpen -o o.png -a all; -i p -f sharpen -o out/ --dry-run; compare p q -o d/; stats p --plot h.svg; fit -i a.png -t b.png -s 3 -o k.txt
svm t.csv -o m2.model; svm t.csv -o m2.model --json; classify net.safetensors t.csv -o c.csv --evaluate
train --table t.csv --net dense~2~softmax --epochs 3 -o n2.safetensors
train --table t.csv --net dense~2~softmax --epochs 3 -o n2.safetensors --json
classify net.safetensors t.csv --evaluate --report r.html
"""
# Commands that lack a file.
MISSING = """
info x; info x.png; info d/x.txt; info x.safetensors; info x.npz:a; info x y; bank info x; bank info x.onnx; make x; compare x a.png
compare a.png x; stats x; stats a.png -f x; fit -i x -t a.png -s 3; fit -i a.png -t x -s 3; classify x t.csv; classify net.safetensors x; classify m.model x
svm x -o x.model; svm x a.png --features default -o x.model
bank show x -o x.png; bank convert x; -i x -f sharpen -o o.png; -i a.png -f x -o o.png; -i a.png -f x.txt -o o.png
-i a.png -f sharpen --mask x -o o.png; -i x -f net.safetensors --windows 2 -o -; help x; bench -f x
train --table x --net relu -o x.safetensors; train --table t.csv --validate x --net relu -o x.safetensors
train --classes x --net relu -o x.safetensors; train -i x -t p --net relu -o x.safetensors
train --signal x --windows 2 -t t.csv --net relu -o x.safetensors
"""


def commands(text):
    for line in text.replace("\n", ";").split(";"):
        if line.strip():
            yield [word.replace("~", " ") for word in line.split()]


class Ends(CommandTest):
    def setUp(self):
        super().setUp()
        for i, name in enumerate(("a.png", "b.png", "p/1.png", "p/2.png", "q/1.png", "q/2.png")):
            self.photo(name, seed=i)
        (self.folder / "t.csv").write_text(TABLE)
        (self.folder / "a.npy").write_bytes((b"\x93NUMPY\1\0v\0{'descr': '<f4', 'fortran_order': False, 'shape': (8,), }"
                                             .ljust(127) + b"\n" + bytes(32)))
        self.gconv("train", "--table", "t.csv", "--net", "dense 3 tanh, dense 2 softmax", "--epochs", "2", "-o", "net.safetensors", "-q")
        self.gconv("svm", "t.csv", "-o", "m.model", "-q")

    def run_into(self, output, words):
        """The status, and what was said besides the reports that some commands print on standard error."""
        done = subprocess.run([GCONV, *words], cwd=self.folder, env=self.environment(), stdout=output, stderr=subprocess.PIPE,
                              timeout=120, check=False)
        return done.returncode, [line for line in done.stderr.decode().splitlines() if line.startswith("gconv: ")]

    def test_a_missing_file_is_a_wrong_request(self):
        before = self.snapshot()
        for words in commands(MISSING):
            status, said = self.run_into(subprocess.DEVNULL, words)
            self.assertEqual((status, len(said) > 0), (2, True), (words, said))
            self.assertEqual(self.snapshot(), before, words)
        self.assertEqual(self.run_into(subprocess.DEVNULL, ["info", "a.png", "x"])[0], 3)

    def test_a_full_disk(self):
        with open("/dev/full", "wb") as full:
            for words in [*commands(PRINTING), *commands(WRITING)]:
                if words[0] == "complete" or (words[:2] == ["tune", "--show"]):
                    continue  # there is nothing to print
                status, said = self.run_into(full, words)
                self.assertEqual(status, 2 if words[0] == "compare" and "--help" not in words else 1, (words, said))
                self.assertTrue(any("No space left on device" in line or "is full" in line for line in said), (words, said))

    def test_nobody_reads(self):
        """A command that only prints ends by SIGPIPE, as other programs do. One that writes files finishes them. None says a word."""
        for words in commands(PRINTING + WRITING):
            read, write = os.pipe()
            os.close(read)
            status, said = self.run_into(write, words)
            os.close(write)
            self.assertEqual([line for line in said if "cannot write" in line or "pipe" in line], [], words)
            if words in list(commands(WRITING)):
                self.assertIn(status, (0, 1) if words[0] == "compare" else (0,), (words, said))
            elif words[0] != "complete":
                self.assertEqual(status, -signal.SIGPIPE, (words, said))
        self.assertEqual(self.files("out"), ["1.png", "2.png"])
        for name in ("o.png", "k.txt", "m2.model", "c.csv", "n2.safetensors", "r.html", "d/1.png"):
            self.assertTrue((self.folder / name).stat().st_size > 0, name)


if __name__ == "__main__":
    import unittest
    unittest.main()
