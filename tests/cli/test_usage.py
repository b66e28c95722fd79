# SPDX-License-Identifier: MIT
"""Options: how they are parsed, refused and listed."""
import os
import pathlib
import re
import unittest

from helper import CommandTest

SOURCES = pathlib.Path(__file__).resolve().parents[2]
COMMANDS = ["filter", "make", "bench", "tune", "filters", "info", "compare", "stats", "deconvolve", "volume", "fit", "bank", "devices", "algorithms", "train", "svm", "classify", "help"]


class Usage(CommandTest):
    def job(self, *options):
        return ("-i", "a.png", "-f", "identity", "-o", "b.png", *options)

    def refused(self, fragment, *options):
        return self.usage_error(fragment, *self.job(*options))

    def setUp(self):
        super().setUp()
        self.source = self.photo("a.png")

    def test_nothing_at_all(self):
        result = self.gconv(status=2)
        self.assertEqual(result.stdout, "")
        self.assertIn("Usage: gconv -i INPUT -f FILTER -o OUTPUT", result.stderr)

    def test_version(self):
        version, *built_with = self.gconv("--version").stdout.splitlines()
        self.assertRegex(version, r"^gconv \d+\.\d+\.\d+$")
        for name in "libpng", "libjpeg-turbo", "zlib", "ISA-L", "jansson", "CUDA":
            one = [line for line in built_with if line.strip() == f"no {name}" or re.match(rf"  {name} \d+\.\d+", line)]
            self.assertEqual(len(one), 1, name)

    def test_forms_of_options(self):
        for words in (["-i", "a.png", "-f", "identity", "-o", "b.png"],
                      ["--input", "a.png", "--filter", "identity", "--output", "b.png"],
                      ["--input=a.png", "--filter=identity", "--output=b.png"],
                      ["filter", "-i", "a.png", "-f", "identity", "-o", "b.png", "--"]):
            self.gconv(*words)
            self.assert_pixels("b.png", self.source)
            (self.folder / "b.png").unlink()

    def test_missing(self):
        self.usage_error("no input", "-f", "identity", "-o", "b.png")
        self.usage_error("no filter", "-i", "a.png", "-o", "b.png")
        self.usage_error("no output", "-i", "a.png", "-f", "identity")
        self.usage_error("did you mean -o b.png?", "-i", "a.png", "b.png", "-f", "identity")
        self.assertNotIn("did you mean", self.gconv("-i", "a.png", "a.png", "-f", "identity", status=2).stderr)
        self.usage_error("--border needs a value: --border MODE", *self.job("--border"))
        self.usage_error("-i needs a value: -i PATH...", "-i")

    def test_unknown(self):
        self.refused("unknown option --bordr: did you mean --border?", "--bordr", "zero")
        self.refused("unknown option --outptu: did you mean --output?", "--outptu=x")
        self.refused("unknown option --zzzzzzz: gconv help filter lists all", "--zzzzzzz")
        self.refused("unknown option -x", "-x")
        self.refused("unknown option -ia.png: the value stands apart: -i a.png", "-ia.png")
        self.refused("unknown option -f=sobel_x: the value stands apart: -f sobel_x", "-f=sobel_x")
        self.refused("unknown option -rv: options of one letter stand apart: -r -v\n", "-rv")
        self.refused("unknown option -rvq: options of one letter stand apart: -r -v ...", "-rvq")
        self.refused("unknown option -rx: gconv help filter lists all", "-rx")
        self.refused("--gray takes no value, and got yes", "--gray=yes")
        self.usage_error("mkae: no such command: did you mean make?", "mkae")
        self.usage_error("photo.jpg: no such command", "photo.jpg")
        self.usage_error("a.png: is a file, where a command is expected; images are given with -i: gconv -i a.png -f", "a.png")
        for word, option in (("mono", "gray"), ("Border", "border")):
            self.refused(f"unknown option --{word}: did you mean --{option}?", f"--{word}")
        self.refused("unknown option --algo: did you mean --algorithm?", "--algo", "fft")
        self.usage_error("a.png: unexpected argument", *self.job("--", "a.png"))

    def test_several_values(self):
        self.photo("c.png", seed=2)
        self.gconv("-f", "sobel_x", "sobel_y", "-i", "a.png", "c.png", "-o", "out/")
        self.assertEqual(self.files("out"), ["a_sobel_x.png", "a_sobel_y.png", "c_sobel_x.png", "c_sobel_y.png"])
        self.usage_error("d.png: cannot find this input", "-i", "a.png", "d.png", "-f", "identity", "-o", "out/")
        self.usage_error("a.png: unexpected argument: images follow -i", "-i", "a.png", "-f", "identity", "-o", "b.png", "a.png")
        self.usage_error("a.png: unexpected argument", "--input=c.png", "a.png", "-f", "identity", "-o", "out/")

    def test_given_twice(self):
        self.refused("-o c.png: given twice, before with b.png", "-o", "c.png")
        self.usage_error("--output d.txt: given twice, before with c.txt", "make", "sobel_x", "-o", "c.txt", "--output", "d.txt")
        self.gconv(*self.job("--stride", "2", "--stride", "3"))  # the last counts
        self.assertEqual(self.pixels("b.png").shape[:2], (5, 6))

    def test_numbers_are_strict(self):
        for number in ("1/", "/2", "1/0", "1/2/3", "1 /2", "0.5x", "nan", "inf", "-inf", "0x10", "", "0,5", " 1", "1e999", ".", "-", "e5"):
            self.refused("this takes a number", f"--scale={number}")
        for number in ("1.5", "-1", "10", "", "x", "1x", "99999999999999999999"):
            self.refused("this takes an integer from 0 to 9", f"--png-level={number}")
        self.refused("an integer from 1 to 100", "--jpeg-quality", "101")
        self.refused("an integer from 1 to", "--threads", "0")
        self.refused("an integer from 1 to", "--jobs", "-1")
        for number in ("0", "1T", "1.5M", "M", "-5", "kk", "99999999999999999999", "999999999999999999G"):
            self.refused("this takes a number of pixels", f"--max-pixels={number}")
        for number in ("-1", "x", "nan"):
            self.refused("the largest difference allowed", f"--verify={number}")

    def test_a_scale_of_0(self):
        self.refused("--scale 0: all samples would be the same", "--scale=0")

    def test_jobs_beyond_the_threads_wait(self):
        """A worker that waits for its turn has taken no memory yet."""
        for i in range(8):
            self.photo(f"in/{i}.png", 1200, 1200, i)
        words = ("-i", "in", "-f", "identity", "-o", "out/", "--threads", "1", "--jobs")
        self.assertLess(self.peak_bytes(*words, "8"), self.peak_bytes(*words, "1") + 10e6)

    def test_threads_are_no_more_than_processors(self):
        usable = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, usable)
        os.sched_setaffinity(0, {min(usable)})
        here = {"GCONV_MOST_THREADS": ""}
        for words in (self.job(), ["bench", "-f", "sobel_x", "--image", "64x64", "--runs", "1", "-a", "direct"]):
            said = self.gconv(*words, "--threads", "64", env=here).stderr
            self.assertIn("gconv: --threads 64: 1 is used, as affinity or control groups give this process no more processors", said)
            self.assertEqual(said.count("--threads"), 1, said)
            self.assertNotIn("--threads", self.gconv(*words, "--threads", "1", env=here).stderr)
            self.assertNotIn("--threads", self.gconv(*words, env=here).stderr)
        self.assertEqual(self.gconv(*self.job("--threads", "64", "--quiet"), env=here).stderr, "")
        self.refused("an integer from 1 to 4096", "--threads", "4097")

    def test_numbers_that_are_fine(self):
        for number in ("0.5", "-1", "+2", "1e-3", ".5", "5.", "1E2"):
            self.gconv(*self.job("--scale", number))
        for number in ("221", "1k", "2M", "3G"):
            self.gconv(*self.job("--max-pixels", number))

    def test_shapes(self):
        self.refused("same, valid, full, or pixels", "--padding", "some")
        self.refused("same, valid, full, or pixels", "--padding", "1,2,3")
        self.refused("same, valid, full, or pixels", "--padding", "1,2,3,4,5")
        self.refused("same, valid, full, or pixels", "--padding", "-1")
        self.refused("same, valid, full, or pixels", "--padding", "1,")
        for value in ("2000000000", "0,1073741825", "0,0,0,1073741825"):
            self.refused("pixels up to 1073741824", "--padding", value)
        for option in ("--stride", "--dilation"):
            for value in ("0", "1,0", "1,2,3", "x", "", "1,,2", "99999999999", "2000000000", "1073741825", "1,1073741825"):
                self.refused("one or two integers from 1 to 1073741824", f"{option}={value}")
        self.gconv("-i", "a.png", "-f", "identity:size=1", "-o", "b.png", "--dilation", "1073741824")

    def test_padding_and_stride_reach_the_convolution(self):
        for options, size in ((["--padding", "valid"], (15, 11)), (["--padding", "full"], (19, 15)),
                              (["--padding", "2"], (19, 15)), (["--padding", "1,2"], (19, 13)),
                              (["--padding", "0,1,2,3"], (20, 12)), (["--stride", "2"], (9, 7)),
                              (["--stride", "3,2"], (9, 5)), (["--dilation", "2", "--padding", "valid"], (13, 9)),
                              (["--dilation", "3,1", "--padding", "valid"], (15, 7))):
            self.gconv("-i", "a.png", "-f", "average", "-o", "b.png", *options)
            height, width = self.pixels("b.png").shape[:2]
            self.assertEqual((width, height), size, options)

    def test_choices(self):
        self.refused("did you mean replicate?", "--border", "replicat")
        for option in ("--scale", "--offset", "--mean", "--std", "--activation=leaky:", "--border=constant:"):
            for number in ("1e308", "-1e39", "1e-60", "1e999", "1/1e60"):
                words = (option + number,) if "=" in option else (option, number)
                self.refused("this takes a number that float32 has" if option in ("--scale", "--offset") and number != "1e999" else "", *words)
        self.refused("there are zero, constant, replicate, symmetric, reflect101, wrap", "--border", "mirror-it")
        self.refused("such as constant:0.5", "--border", "constant")
        self.refused("such as constant:0.5", "--border", "constant:x")
        self.refused("scipy's \"mirror\"", "--border", "mirror")
        self.refused("8, 16, float", "--depth", "12")
        self.refused("keep, filter, premultiply", "--alpha", "nothing-like-it")
        self.refused("did you mean magnitude?", "--combine", "magnitud")
        self.refused("clamp, abs, signed, minmax", "--range", "x")
        self.refused("did you mean json?", "--timings=jsn")
        self.refused("did you mean png?", "--format", "pgn")
        self.refused("did you mean direct?", "--algorithm", "dirct")
        self.refused("auto, cpu, cuda", "--device", "tpu")
        self.assertNotIn("did you mean", self.refused("-a foo: there are auto, all, direct", "-a", "foo").stderr)
        self.refused("cuda takes the number of a GPU", "--device", "cuda:x")

    def test_reflect_is_explained(self):
        text = self.refused("two ways to reflect", "--border", "reflect").stderr
        self.assertIn("c b a | a b c d | d c b", text)
        self.assertIn("d c b | a b c d | c b a", text)

    def test_device_from_the_environment(self):
        self.usage_error("GCONV_DEVICE=tpu", *self.job(), env={"GCONV_DEVICE": "tpu"})
        self.gconv(*self.job("-d", "cpu"), env={"GCONV_DEVICE": "tpu"})
        (self.folder / "b.png").unlink()
        self.gconv(*self.job(), env={"GCONV_DEVICE": ""})

    def test_options_that_exclude_each_other(self):
        self.refused("exclude each other", "--no-clobber", "--skip-existing")
        self.refused("exclude each other", "-q", "-v")

    def test_options_that_fit_nothing(self):
        self.refused("--depth float: the format png cannot hold that", "--depth", "float")
        self.refused("--quality: the results are png", "--jpeg-quality", "50")
        self.usage_error("--png-level: the results are", "-i", "a.png", "-f", "identity", "-o", "b.ppm", "--png-level", "3")

    def test_words_after_commands_that_take_none(self):
        for command in ("devices", "algorithms", "tune"):
            self.usage_error("unexpected argument", command, "x")
        self.usage_error("name a filter", "make")
        self.usage_error("name an image or a filter", "info")


class Help(CommandTest):
    def options_of(self, command):
        return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", self.gconv("help", command).stdout))

    def test_overview_lists_every_command(self):
        for words in (["help"], ["--help"], ["-h"]):
            text = self.gconv(*words).stdout
            for command in COMMANDS:
                self.assertRegex(text, rf"(?m)^  {command} ")

    def test_help_of_each_command(self):
        for command in COMMANDS:
            text = self.gconv("help", command).stdout
            self.assertIn("Usage: gconv", text)
            self.assertIn("--help", text)
            self.assertEqual(text, self.gconv(command, "--help").stdout)
            self.assertEqual(text, self.gconv(command, "-h").stdout)
            self.assertLessEqual(max(map(len, text.splitlines())), 110)
        self.usage_error("there is no help on this", "help", "nonsense")

    def test_help_of_the_parts_of_bank(self):
        known = self.options_of("bank")
        for part in ("info", "show", "convert"):
            text = self.gconv("bank", part, "--help").stdout
            self.assertIn(f"Usage: gconv bank {part} SPEC...", text)
            self.assertLessEqual(max(map(len, text.splitlines())), 110)
            self.assertLessEqual(set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", text)), known | {"--output"})

    def test_main_job_has_the_promised_options(self):
        promised = set("""input recursive filter filter-format output format depth flip border padding stride dilation gray files-from null exclude preserve-times
            linear alpha combine scale offset range algorithm without workspace device decode threads jobs memory max-pixels png-level quality lossless tiff-compression no-clobber
            skip-existing newer in-place resume shard fail-fast dry-run timings verify explain verbose quiet help
            then groups activation mean std white order luma output-name math batch layout strip suffix region mask no-sandbox windows raw probabilities nan weights nodata preserve-nan least-weight normalize""".split())
        self.assertEqual({option[2:] for option in self.options_of("filter")}, promised)

    def test_manual_has_every_option_and_command(self):
        manual = (SOURCES / "docs" / "gconv.1").read_text().replace("\\-", "-").replace("\\fB", "").replace("\\fR", "")
        self.assertEqual([command for command in COMMANDS if not re.search(rf"(?m)^\.SS (gconv )?{command}\b", manual)], [])
        listed = {"--version"}.union(*map(self.options_of, COMMANDS))
        self.assertGreater(len(listed), 30)
        self.assertEqual([option for option in sorted(listed) if not re.search(rf"{option}(?![a-z0-9-])", manual)], [])

    def test_manual_has_every_format(self):
        manual = (SOURCES / "docs" / "gconv.1").read_text()
        formats = re.findall(r"(?m)^  (\w+) +\w.*", self.gconv("filter", "--help").stdout.partition("\nFormats, ")[2])
        self.assertIn("png", formats)
        self.assertEqual([name for name in formats if not re.search(rf"(?m)^\.TP\n{name}( |$)", manual)], [])

    def test_manual_has_no_option_of_its_own(self):
        manual = (SOURCES / "docs" / "gconv.1").read_text().replace("\\-", "-").replace("\\fB", "").replace("\\fR", "")
        known = {"--version"}.union(*(self.options_of(command) for command in COMMANDS))
        self.assertEqual(set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", manual)) - known, set())


if __name__ == "__main__":
    unittest.main()
