# SPDX-License-Identifier: MIT
"""Completion: what gconv complete offers, and what bash makes of it."""
import pathlib
import re
import shutil
import subprocess
import unittest

from helper import GCONV, CommandTest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "gconv.bash"


class Complete(CommandTest):
    def offers(self, *words):
        return self.gconv("complete", *words).stdout.split()

    def test_commands_and_options_are_those_of_the_help(self):
        commands = re.findall(r"(?m)^  ([a-z]+) {2,}", self.gconv("help").stdout.split("Commands:")[1])
        self.assertEqual(self.offers(""), commands)
        self.assertEqual(self.offers("help", "be"), ["bench"])
        self.assertEqual(self.offers("fil"), ["filter", "filters"])
        for command in ["bank info", "bank show", "bank convert"] + [c for c in commands if c != "bank"]:
            listed = re.findall(r"(?m)^(?:  -.,|     ) (--[a-z-]+)", self.gconv(*command.split(), "--help").stdout)
            self.assertEqual(self.offers(*command.split(), "-"), listed, command)
            self.assertEqual(self.offers(*command.split(), "--h"), ["--help"])
        self.assertEqual(self.offers("--bo"), ["--border"])
        self.assertEqual(self.offers("-x"), [])

    def test_values(self):
        for words, values in {("--border", "re"): ["replicate", "reflect101"], ("--border=re",): ["--border=replicate", "--border=reflect101"],
                              ("--combine", "m"): ["magnitude", "max", "mosaic"], ("--depth", ""): ["8", "16", "float", "int16", "float16"],
                              ("--timings=",): ["--timings=table", "--timings=json"], ("-d", "cuda"): ["cuda", "cuda:all"],
                              ("--format", "j"): ["jpeg"], ("--activation", "le"): ["leaky"], ("--layout", ""): ["nchw", "nhwc"],
                              ("--range", "s"): ["signed"], ("--filter-format", "sa"): ["safetensors"], ("--decode", "g"): ["gpu"],
                              ("bank", ""): ["info", "show", "convert"], ("bank", "show", "--scale", ""): ["each", "all"],
                              ("bench", "--figure", "l"): ["large-2048", "large-1024"], ("bench", "--sweep", ""): ["block", "grid"],
                              ("bank", "convert", "--format", ""): ["bank", "npy", "safetensors"], ("--without", "al"): [],
                              ("-i", ""): [], ("-o", "x"): [], ("-f", "sobel", "-i", ""): [], ("--threads", ""): []}.items():
            self.assertEqual(self.offers(*words), values, words)
        algorithms = self.offers("-a", "")
        self.assertIn("winograd", algorithms)
        self.assertEqual(len(set(algorithms)), len(algorithms))

    def test_every_value_that_is_offered_is_taken(self):
        self.photo("a.png")
        for option in "--border", "--combine", "--padding", "--range", "--alpha", "--activation", "--math", "--format", "--layout":
            for value in self.offers(option, ""):
                value += {"constant": ":0", "leaky": ":0.1"}.get(value, "")
                self.gconv("-i", "a.png", "-f", "average", option, value, "-o", "out/", "--dry-run")

    def test_filters(self):
        for words in ("-f",), ("-i", "a.png", "-f"), ("-f", "average"), ("make",), ("info", "x.png"), ("help",):
            self.assertEqual(self.offers(*words, "sob"), ["sobel", "sobel_x", "sobel_y"], words)
        self.assertEqual(self.offers("-f", "gabor_"), ["gabor_bank"])
        self.assertEqual(self.offers("-f", "log:"), ["log:size=5,sigma=0.5"])
        self.assertEqual(self.offers("--filter=scharr_"), ["--filter=scharr_x", "--filter=scharr_y"])

    @unittest.skipUnless(shutil.which("bash"), "no bash")
    def test_bash(self):
        text = f"""source '{SCRIPT}'; COMP_WORDS=('{GCONV}' -i a.png -f "it's" --border re); COMP_CWORD=6; _gconv; printf '%s,' "${{COMPREPLY[@]}}" """
        done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True, env=self.environment())
        self.assertEqual((done.stdout, done.stderr), ("replicate,reflect101,", ""))


if __name__ == "__main__":
    unittest.main()
