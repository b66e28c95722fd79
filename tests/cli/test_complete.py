# SPDX-License-Identifier: MIT
"""Completion: what gconv complete offers, and what bash makes of it."""
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import time
import unittest

from helper import GCONV, CommandTest

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


class Complete(CommandTest):
    def offers(self, *words):
        return self.gconv("complete", *words).stdout.split()

    def test_commands_and_options_are_those_of_the_help(self):
        commands = re.findall(r"(?m)^  ([a-z]+) {2,}", self.gconv("help").stdout.split("Commands:")[1])
        self.assertEqual(self.offers(""), [":files", *commands])
        self.assertEqual(self.offers("help", "be"), ["bench"])
        self.assertEqual(self.offers("fil"), [":files", "filter", "filters"])
        for command in ["bank info", "bank show", "bank convert"] + [c for c in commands if c != "bank"]:
            listed = re.findall(r"(?m)^(?:  -.,|     ) (--[a-z0-9-]+)", self.gconv(*command.split(), "--help").stdout)
            self.assertEqual(self.offers(*command.split(), "-"), listed, command)
            self.assertEqual(self.offers(*command.split(), "--he"), ["--help"])
        self.assertEqual(self.offers("--bo"), ["--border"])
        self.assertEqual(self.offers("-i", "a.png", "--bo"), ["--border"])
        self.assertEqual(self.offers("-x"), [])

    def test_values(self):
        for words, values in {("--border", "re"): ["replicate", "reflect101"], ("--border=re",): ["--border=replicate", "--border=reflect101"],
                              ("--combine", "m"): ["magnitude", "max", "mosaic"], ("--depth", ""): ["8", "16", "float", "int16", "float16"],
                              ("--timings=",): ["--timings=table", "--timings=json"], ("-d", "cuda"): ["cuda", "cuda:all"],
                              ("--format", "j"): ["jpeg", "jxl"], ("--activation", "le"): ["leaky"], ("--layout", ""): ["nchw", "nhwc"],
                              ("--range", "s"): ["signed"], ("--filter-format", "sa"): ["safetensors"], ("--decode", "g"): ["gpu"],
                              ("bank", ""): ["info", "show", "convert"], ("bank", "show", "--scale", ""): ["each", "all"],
                              ("bench", "--figure", "l"): ["large-2048", "large-1024"], ("bench", "--sweep", ""): ["block", "grid"],
                              ("bank", "convert", "--format", ""): ["bank", "npy", "safetensors"], ("--without", "al"): [],
                              ("-i", ""): [":files"], ("-o", "x"): [":files"], ("--output=x",): [":files"],
                              ("-f", "sobel", "-i", ""): [":files"], ("bank", "info", ""): [":files"], ("make", "-o", ""): [":files"],
                              ("bench", "--plot", ""): [":files"], ("filters", ""): [], ("--threads", ""): [],
                              ("--threads=",): []}.items():
            self.assertEqual(self.offers(*words), values, words)
        algorithms = self.offers("-a", "")
        self.assertIn("winograd", algorithms)
        self.assertEqual(len(set(algorithms)), len(algorithms))

    def test_every_value_that_is_offered_is_taken(self):
        self.photo("a.png")
        for option in "--border", "--combine", "--padding", "--range", "--alpha", "--activation", "--math", "--format", "--layout":
            for value in self.offers(option, ""):
                if value in ("csv", "f32le"): # of --windows: test_windows.py
                    continue
                value += {"constant": ":0", "leaky": ":0.1"}.get(value, "")
                self.gconv("-i", "a.png", "-f", "average", option, value, "-o", "out/", "--dry-run")

    def test_filters(self):
        for words in ("-f",), ("-i", "a.png", "-f"), ("-f", "average"), ("make",), ("info", "x.png"), ("help",):
            files = [] if words == ("help",) else [":files"]
            self.assertEqual(self.offers(*words, "sob"), ["sobel", "sobel_x", "sobel_y", *files], words)
        self.assertEqual(self.offers("-f", "gabor_"), ["gabor_bank", ":files"])
        self.assertEqual(self.offers("-f", "log:"), ["log:size=5,sigma=0.5", ":files"])
        self.assertEqual(self.offers("--filter=scharr_"), ["--filter=scharr_x", "--filter=scharr_y", ":files"])


# What is typed, and the words of the line when the tabulator key was hit.
TYPED = {
    "gconv --bord": ["gconv", "--border"],
    "gconv --border=repl": ["gconv", "--border=replicate"],
    "gconv --border repl": ["gconv", "--border", "replicate"],
    "gconv -i a.png --combine=mag": ["gconv", "-i", "a.png", "--combine=magnitude"],
    "gconv -d cuda:a": ["gconv", "-d", "cuda:all"],
    "gconv --device=cuda:a": ["gconv", "--device=cuda:all"],
    "gconv -f gabor_": ["gconv", "-f", "gabor_bank"],
    "gconv --filter=log:": ["gconv", "--filter=log:size=5,sigma=0.5"],
    "gconv -f my_": ["gconv", "-f", "my_filter.txt"],
    "gconv --filter=my_": ["gconv", "--filter=my_filter.txt"],
    "gconv -i two\\ w": ["gconv", "-i", "two words.png"],
    "gconv -i 'two w": ["gconv", "-i", "two words.png"],
    "gconv -i photos/de": ["gconv", "-i", "photos/deep.png"],
    "gconv --output=photos/de": ["gconv", "--output=photos/deep.png"],
    "gconv -f gaussian -i photos/de": ["gconv", "-f", "gaussian", "-i", "photos/deep.png"],
    "gconv --threads my_": ["gconv", "--threads", "my_"],
    "gconv bank sh": ["gconv", "bank", "show"],
    "gconv bank show my_": ["gconv", "bank", "show", "my_filter.txt"],
    "gconv alg": ["gconv", "algorithms"],
}


class Shells(CommandTest):
    """Shells, at a terminal, complete what is typed."""

    def setUp(self):
        super().setUp()
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "gconv").symlink_to(GCONV)
        (self.folder / "photos").mkdir()
        for name in ("my_filter.txt", "two words.png", "photos/deep.png"):
            (self.folder / name).touch()

    def talk(self, shell, prepare, lines):
        """Types lines into a shell, with a prompt awaited before each, and returns what it wrote."""
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        environment = {**self.environment(), "PATH": path, "TERM": "dumb", "PS1": "READY> ", "HOME": str(self.folder)}
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(self.folder)
            os.execvpe(shell[0], shell, environment)
        text, prompts = "", 0
        try:
            for line in [prepare, *lines, "exit\n"]:
                text = self.read_until(terminal, text, lambda seen, want=prompts: seen.count("READY> ") > want)
                prompts = text.count("READY> ")
                os.write(terminal, line.encode())
            return self.read_until(terminal, text, lambda seen: False)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(terminal)

    def read_until(self, terminal, text, is_enough):
        end = time.monotonic() + 30
        while not is_enough(text):
            ready, _, _ = select.select([terminal], [], [], end - time.monotonic() if end > time.monotonic() else 0)
            if not ready:
                self.fail(f"the shell says no more than: {text}")
            try:
                text += os.read(terminal, 65536).decode(errors="replace")
            except OSError:  # the shell has ended
                break
        return text

    def check(self, shell, prepare):
        # Behind each line the tabulator key, then, around it, a command that keeps the words of the line in a file.
        keep = "\t\x01printf '%s\\0' \x05 END >> words\n"
        text = self.talk(shell, prepare, [typed + keep for typed in TYPED])
        kept = (self.folder / "words").read_text().split("\0END\0")[:-1]
        self.assertEqual(len(kept), len(TYPED), text)
        for (typed, expected), words in zip(TYPED.items(), kept):
            self.assertEqual(words.split("\0"), expected, typed)

    @unittest.skipUnless(shutil.which("bash"), "no bash")
    def test_bash(self):
        self.check(["bash", "--norc", "--noprofile", "-i"], f"bind 'set bell-style none'; source '{DOCS}/gconv.bash'\n")

    @unittest.skipUnless(shutil.which("zsh"), "no zsh")
    def test_zsh(self):
        self.check(["zsh", "-f", "-i"], f"bindkey -e; autoload -U compinit; compinit -D -u; source '{DOCS}/gconv.zsh'\n")

    @unittest.skipUnless(shutil.which("fish"), "no fish")
    def test_fish(self):
        made = subprocess.run(["fish", "--no-config", "-c", f"source '{DOCS}/gconv.fish'; complete -C 'gconv filters gauss'"], capture_output=True,
                              text=True, check=True, env={**os.environ, "PATH": f"{os.path.dirname(GCONV)}:{os.environ['PATH']}"}).stdout
        self.assertIn("gaussian", made)


if __name__ == "__main__":
    unittest.main()
