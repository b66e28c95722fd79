# SPDX-License-Identifier: MIT
"""bench: the rows that are asked for, with figures that fit together."""
import csv
import json
import os
import shutil
import subprocess
import unittest

from helper import GCONV, CommandTest


class Bench(CommandTest):
    def rows(self, *words):
        words = ("bench", "-d", "cpu", "--image", "97x61x3", "--runs", "3", "--csv") + words
        return list(csv.DictReader(self.gconv(*words).stdout.splitlines()))

    def test_algorithms_and_sizes(self):
        rows = self.rows("--sizes", "3,4", "-a", "direct", "im2col", "--verify")
        self.assertEqual([(row["algorithm"], row["rows"]) for row in rows],
                         [("direct", "3"), ("im2col", "3"), ("direct", "4"), ("im2col", "4")])
        for row in rows:
            ms, size = float(row["ms"]), int(row["rows"])
            self.assertGreater(ms, 0)
            self.assertAlmostEqual(float(row["gsample_per_s"]) * ms, 97 * 61 * 3 / 1e6, delta=1e-6)
            self.assertAlmostEqual(float(row["tflop_per_s"]) * ms, 2 * 97 * 61 * 3 * size * size / 1e9, delta=1e-8)
            self.assertAlmostEqual(float(row["gb_per_s"]) * ms, 2 * 97 * 61 * 3 / 1e6, delta=1e-6)
            self.assertGreater(float(row["copy_gb_per_s"]), 0)

    def test_all_but_reference(self):
        names = {row["algorithm"] for row in self.rows("--sizes", "3", "--type", "f32")}
        self.assertLessEqual({"direct", "im2col"}, names)
        self.assertNotIn("reference", names)

    def test_a_filter_for_people(self):
        text = self.gconv("bench", "-d", "cpu", "--image", "64x32", "--runs", "1", "-f", "sobel_x", "-a", "auto").stdout
        self.assertIn("copy", text)
        self.assertIn("sobel_x", text)

    def test_grids(self):
        rows = self.rows("--image", "31x17x2p", "--type", "u8,f32", "--sizes", "3,5", "-a", "direct")
        self.assertEqual([(row["width"], row["planar"], row["type"], row["rows"]) for row in rows],
                         [(width, planar, kind, size) for width, planar in (("97", "0"), ("31", "1"))
                          for kind in ("u8", "f32") for size in ("3", "5")])
        for row in rows:
            self.assertLessEqual(float(row["error"]), float(row["allowed"]))

    def test_auto_says_what_it_chose(self):
        row, = self.rows("-f", "gaussian:size=31,sigma=5", "-a", "auto")
        self.assertEqual((row["algorithm"], row["chosen"]), ("auto", "separable"))

    def test_several_filters_are_combined(self):
        pair = "3x3: -1,0,1 -2,0,2 -1,0,1; 3x3: -1,-2,-1 0,0,0 1,2,1"
        row, = self.rows("-f", pair, "-a", "direct", "--verify")
        self.assertAlmostEqual(float(row["tflop_per_s"]) * float(row["ms"]), 2 * 2 * 97 * 61 * 3 * 9 / 1e9, delta=1e-8)

    def test_json(self):
        words = ("bench", "-d", "cpu", "--image", "97x61x3", "--runs", "3", "--sizes", "5", "--json")
        report = json.loads(self.gconv(*words).stdout)
        self.assertEqual(report["device"], "cpu")
        self.assertGreater(report["fma_tflop_per_s"], 0)
        rows = {row["algorithm"]: row for row in report["rows"]}
        self.assertIn("rank", rows["separable"]["obstacle"])
        self.assertGreater(rows["direct"]["ms"], 0)
        self.assertEqual(rows["direct"]["image"], [97, 61, 3])

    def test_auto_check(self):
        result = subprocess.run([GCONV, "bench", "-d", "cpu", "--image", "64x48", "--runs", "1", "--sizes", "3",
                                 "--auto-check"], capture_output=True, text=True, timeout=120, check=False,
                                env=self.environment())
        self.assertIn(result.returncode, (0, 1), result.stderr)  # a busy machine is no mistake
        self.assertRegex(result.stdout, r"auto within 10% of the best on \d of 3 points")

    def test_plots(self):
        words = ("bench", "-d", "cpu", "--image", "32x32", "--image", "48x16", "--runs", "1", "--sizes", "3,5", "-a", "direct")
        for kind in ("filter", "image", "block", "grid", "roofline"):
            if shutil.which("gnuplot"):
                self.gconv(*words, "--plot", "it's.svg", "--plot-kind", kind)
                self.assertIn("<svg", (self.folder / "it's.svg").read_text())
                self.assertEqual(self.files(), ["it's.svg"])
            self.gconv(*words, "--plot", "b.png", "--plot-kind", kind, env={"PATH": "/nowhere"}, status=1)
            self.assertIn("$series0", (self.folder / "b.png.gp").read_text())
            (self.folder / "b.png.gp").unlink()

    def test_launch_configurations(self):
        rows = self.rows("--sizes", "3", "-a", "direct", "--block", "32x4,8x8", "--grid", "7,64")
        self.assertEqual([(row["block"], row["grid"]) for row in rows],
                         [("32x4", "7"), ("32x4", "64"), ("8x8", "7"), ("8x8", "64")])
        words = ("bench", "-d", "cpu", "--image", "9x8", "--runs", "1", "--sizes", "3", "-a", "direct", "-a", "im2col")
        self.assertEqual(self.gconv(*words).stderr, "")
        notes = self.gconv(*words, "--grid", "7", "--block", "8x8").stderr.splitlines()
        self.assertEqual(notes, [f"gconv: note: --{name} has no effect on direct, im2col" for name in ("block", "grid")])
        words += ("--grid", "16,1024,65536", "--plot", "x.svg")
        self.gconv(*words, env={"PATH": "/nowhere"}, status=1)
        script = (self.folder / "x.svg.gp").read_text()
        self.assertIn("blocks of the grid", script)
        self.assertEqual(script.count('\n"65536" '), 2)  # a line each of the algorithms, a point each of the grids

    def test_a_sweep_of_what_no_algorithm_has_is_refused(self):
        for words in (("--sweep", "block"), ("--sweep", "grid"), ("--figure", "blocks"), ("--figure", "grids")):
            self.usage_error("this would measure the same again and again", "bench", "-d", "cpu", *words)
        self.usage_error("only kernels of the thesis have grids to choose, on a GPU", "bench", "-d", "cpu", "--experiment", "layer-steps", "--sweep", "grid")

    def test_figures(self):
        rows = self.rows("--figure", "large-2048", "--sizes", "4", "-a", "direct")
        self.assertEqual([(row["type"], row["rows"], row["width"]) for row in rows], [("f32", "4", "97")])
        self.usage_error("did you mean roofline?", "bench", "--figure", "rooflin")

    def test_experiments(self):
        listed = [line.split()[0] for line in self.gconv("bench", "--experiment", "list").stdout.splitlines()]
        figures = [f"figure-5.{i}" for i in ("1a", "1b", "2", "3a", "3b", "4a", "4b", "5", "6", "7", "8", "9", "10")]
        nets = [f"mlp-{i}" for i in ("5.2", "5.3", "5.5", "5.6", "5.7", "16", "17")]
        windows = [f"windows-{i}" for i in ("1a", "1b", "2a", "2b")]
        self.assertEqual(listed, ["batch", "algorithms", "sizes", "chunks", *figures, "layer-steps", "layouts", "backprop", *nets, "rbf", "steps", "transfers",
                                  "windows", *windows])
        for name in (*listed[:4], "figure-5.3a", "figure-5.6"):
            words = ("bench", "--experiment", name, "--image", "9x8x2", "--sizes", "3,4", "--runs", "1")
            report = json.loads(self.gconv(*words, "--json").stdout)
            self.assertEqual((report["experiment"], report["device"]), (name, "cpu"))
            measured = [row for row in report["rows"] if "obstacle" not in row]
            self.assertTrue(any("error" in row for row in measured))
            for row in measured:
                (n, c, h, w), (k, _, r, s) = row["images"], row["filters"]
                self.assertEqual((c, h, w), (2, 8, 9))
                self.assertAlmostEqual(row["tflop_per_s"] * row["ms"],
                                       2 * n * k * c * r * s * (h - r + 1) * (w - s + 1) / 1e9, delta=1e-8)
                self.assertLessEqual(row.get("error", 0), row.get("allowed", 0))

    def test_experiments_cover_their_grid(self):
        words = ("bench", "--experiment", "batch", "--image", "9x8x2", "--sizes", "3,4", "--runs", "1", "-a", "direct")
        rows = list(csv.DictReader(self.gconv(*words, "--csv").stdout.splitlines()))
        self.assertEqual([tuple(int(row[name]) for name in ("filters", "rows", "images")) for row in rows],
                         [(k, size, n) for k in (8, 16, 32, 64) for size in (3, 4) for n in range(1, 11)])
        for row in rows:
            self.assertEqual(row["algorithm"], "direct")
            self.assertLessEqual(float(row["error"]), float(row["allowed"]))
        self.assertIn("64 filters 4x4", self.gconv(*words).stdout)

    def test_batches_and_filters_are_lists(self):
        words = ("bench", "--experiment", "sizes", "--image", "9x8x2", "--sizes", "3", "--runs", "1", "-a", "direct")
        rows = list(csv.DictReader(self.gconv(*words, "--batches", "1,3", "--filters", "2,5,7", "--csv").stdout.splitlines()))
        self.assertEqual([tuple(int(row[name]) for name in ("filters", "images")) for row in rows], [(k, n) for k in (2, 5, 7) for n in (1, 3)])
        for option in ("--batches", "2"), ("--filters", "2"), ("--against", "cpu"):
            self.usage_error("are for experiments with layers", "bench", *option)
            self.usage_error("are for experiments with layers", "bench", "--experiment", "rbf", *option)
        self.usage_error("numbers of images with commas between", *words, "--batches", "0")

    def test_figures_of_the_thesis_have_their_sizes(self):
        """Without a GPU, the CPU's algorithms are measured, and a line says what is left out."""
        words = ("bench", "-d", "cpu", "--runs", "1", "--csv", "-a", "direct", "--experiment")
        shapes = {"figure-5.3a": [("3", "256", "8", "1", "1")], "figure-5.3b": [("3", "512", "16", "1", "1")], "figure-5.4a": [("4", "128", "16", "1", "10")],
                  "figure-5.5": 2 * [("3", "128", "16", "1", "16"), ("3", "128", "32", "1", "4"), ("3", "128", "64", "1", "1")],
                  "figure-5.6": 2 * [("3", "256", "32", "1", "4"), ("3", "256", "16", "1", "16")], "figure-5.7": [("3", "128", "8", "1", "128")]}
        for name, expected in shapes.items():
            done = self.gconv(*words, name, "--batches", "1")
            rows = csv.DictReader(done.stdout.splitlines())
            self.assertEqual([tuple(row[key] for key in ("channels", "width", "rows", "images", "filters")) for row in rows], expected, name)
            self.assertIn("the kernels of the thesis and their launches need a GPU, and are left out on the CPU", done.stderr)
        done = self.gconv("bench", "-d", "cpu", "--runs", "1", "--csv", "--experiment", "layer-steps", "--batches", "2", "--filters", "2", "--image",
                          "16x16x3")
        self.assertEqual([row["algorithm"] for row in csv.DictReader(done.stdout.splitlines())], ["direct", "gemm", "auto"])

    def test_a_filter_a_channel(self):
        """Figure 5.1 filters each channel by itself, and its outputs are as large as the image: sums are held to float64 there, too."""
        report = json.loads(self.gconv("bench", "-d", "cpu", "--runs", "1", "--json", "--experiment", "figure-5.1a", "--image", "13x9x2", "--sizes", "4",
                                       "-a", "direct,gemm,reference").stdout)
        for row in report["rows"]:
            self.assertEqual((row["images"], row["filters"][0]), ([1, 2, 9, 13], 2))
            self.assertLessEqual(row["error"], row["allowed"])
            self.assertAlmostEqual(row["tflop_per_s"] * row["ms"], 2 * 2 * 9 * 13 * 16 / 1e9, delta=1e-12)

    def test_launches_are_of_classic_layers(self):
        words = ("bench", "-d", "cpu", "--experiment")
        self.usage_error("for experiments with the kernels of a thesis", *words, "batch", "--block", "64x2")
        self.usage_error("at most 1024 threads", *words, "figure-5.2", "--block", "64x32")

    def test_a_level_line_is_drawn_for_what_has_no_launches(self):
        self.gconv("bench", "-d", "cpu", "--runs", "1", "--experiment", "figure-5.4a", "--image", "16x16x2", "--sizes", "3", "--plot", "b.svg",
                   env={"PATH": "/nowhere"}, status=1)
        self.assertIn("10 x 2x16x16, 10 filters 3x3", (self.folder / "b.svg.gp").read_text())

    def test_against(self):
        words = ("bench", "-d", "cpu", "--experiment", "batch", "--image", "24x20x3", "--batches", "1,2", "--filters", "8", "--sizes", "3",
                 "--runs", "9", "--against", "cpu", "-a")  # medians of fewer would be of what else the machine does
        report = json.loads(self.gconv(*words, "reference", "--json").stdout)  # slower than what auto chooses
        self.assertEqual([(row["algorithm"], row.get("device")) for row in report["rows"]], [("reference", None), ("auto", "cpu")] * 2)
        self.assertEqual(report["overtakes"], [{"group": "3x20x24, 8 filters 3x3", "from": None}])
        done = self.gconv(*words, "reference")
        self.assertIn("3x20x24, 8 filters 3x3: cpu is not faster than --against", done.stdout)
        self.assertRegex(done.stdout, r"\nagainst: \w+ +batch 2 ")
        self.assertIn("both devices are cpu", done.stderr)
        done = self.gconv(*words, "direct,gemm", "--csv")
        self.assertEqual(len(list(csv.DictReader(done.stdout.splitlines()))), 6)
        self.assertRegex(done.stderr, r"3x20x24, 8 filters 3x3: cpu is (not faster than --against|faster than --against from batch [12] on)")

    def test_experiments_tell_what_cannot_be_measured(self):
        words = ("bench", "--experiment", "chunks", "--image", "9x8x2", "--sizes", "3", "--runs", "1")
        text = self.gconv(*words, "-a", "reference").stdout
        self.assertRegex(text, r"reference +MiB 4 +it takes no workspace")
        self.gconv(*words, "-a", "reference", "--plot", "x.svg", status=1)
        self.assertEqual(self.files(), [])
        self.gconv(*words[:3], "--image", "2x2x1", "--sizes", "3", "-a", "direct", status=1)  # no room for the filter

    def test_plots_of_experiments(self):
        words = ("bench", "--experiment", "batch", "--image", "9x8x2", "--sizes", "3", "--runs", "1", "-a", "direct")
        if shutil.which("gnuplot"):
            self.gconv(*words, "--plot", "it's.svg")
            self.assertIn("64 filters 3x3", (self.folder / "it's.svg").read_text())
            self.assertEqual(self.files(), ["it's.svg"])
        self.gconv(*words, "--plot", "b.svg", env={"PATH": "/nowhere"}, status=1)
        self.assertIn("layout 1,4", (self.folder / "b.svg.gp").read_text())

    def nets(self, name, *words):
        result = self.gconv("bench", "-d", "cpu", "--experiment", name, "--runs", "1", *words)
        self.assertRegex(result.stderr, "^gconv: note: .* left out on the CPU")
        return result.stdout

    def test_rows_of_a_kernel(self):
        report = json.loads(self.nets("rbf", "--sizes", "33,64", "--json"))
        self.assertEqual([(row["numbers"], row["result"], row["method"]) for row in report["rows"]],
                         [(1000 * cases, f"{what} of {cases}", "one-core") for cases in (33, 64) for what in ("rows", "extrema")])
        report = json.loads(self.nets("rbf", "--sizes", "33", "--columns", "7", "--json"))
        self.assertEqual([row["numbers"] for row in report["rows"]], [7 * 33, 7 * 33])
        self.assertRegex(self.nets("rbf", "--sizes", "33"), r"\nmethod +result +ms ")

    def test_backpropagation(self):
        report = json.loads(self.nets("backprop", "--sizes", "40,7", "--threads", "2", "--json"))
        self.assertEqual((report["experiment"], report["device"]), ("backprop", "cpu"))
        names = ["2-511-2", "64-63-26", "120-120-120", "468-468-2"]
        methods = {1: ["one-core"]}.get(os.cpu_count(), ["one-core", "all-cores"])
        self.assertEqual([(row["cases"], row["net"], row["method"]) for row in report["rows"]],
                         [(cases, net, method) for cases in (40, 7) for net in names for method in methods])
        for one, row in zip(report["rows"][::len(methods)], report["rows"][len(methods) - 1::len(methods)]):
            self.assertEqual((one["threads"], one["speed_up"], row["error"]), (1, 1, 0))  # threads change no bit
            self.assertAlmostEqual(row["speed_up"], one["ms"] / row["ms"], delta=1e-6 * row["speed_up"])
            self.assertAlmostEqual(row["cases_per_s"] * row["ms"], 1e3 * row["cases"], delta=1e-3)
        rows = json.loads(self.nets("mlp-5.7", "--sizes", "9", "--net", "5-4-2,7-3", "--json"))["rows"]
        self.assertEqual({row["net"] for row in rows}, {"5-4-2", "7-3"})
        rows = json.loads(self.nets("mlp-5.5", "--sizes", "9", "--net", "5-4-2", "--json"))["rows"]
        self.assertEqual(rows[0]["cases"], 9 * 1000)  # of all epochs
        for net in "5", "5-0-2", "5-x-2", "1-2-3-4-5-6-7-8-9-10":
            self.usage_error("such as 64-63-26", "bench", "-d", "cpu", "--experiment", "backprop", "--sizes", "9", "--net", net)
        self.assertRegex(self.nets("backprop", "--sizes", "9"), r"\n9 cases.*\nmethod +net +ms .* cases/s .*\none-core +2-511-2 ")
        with self.subTest("plot"):
            self.gconv("bench", "-d", "cpu", "--experiment", "backprop", "--runs", "1", "--sizes", "3", "--plot", "b.svg",
                       env={"PATH": "/nowhere"}, status=1)
            self.assertRegex((self.folder / "b.svg.gp").read_text(), "(?s)'468-468-2' 220430.*\n2557 [^ ]+\n5759 [^ ]+\n29040 ")

    def test_windows(self):
        """The article's net has as many outputs as inputs; speeds are of samples, and every window has a latency."""
        rows = list(csv.DictReader(self.nets("windows", "--sizes", "64", "--csv").splitlines()))
        self.assertEqual({(row["net"], row["samples"]) for row in rows}, {("64-64-64-64", str(65536 * 64))})
        for row in rows:
            self.assertEqual((row["device"], float(row["error"])), ("cpu", 0))
            self.assertAlmostEqual(float(row["samples_per_s"]) * float(row["ms"]) / float(row["samples"]), 1e3, delta=0.1)
            self.assertTrue(0 < float(row["p50_ms"]) <= float(row["p99_ms"]) < float(row["ms"]), row)
        self.gconv("bench", "-d", "cpu", "--experiment", "windows", "--runs", "1", "--sizes", "4097", status=2)
        rows = json.loads(self.nets("windows-1a", "--sizes", "400", "--json"))["rows"]
        self.assertTrue(any(row["net"].endswith(" 1 a time") for row in rows) and any(row["net"].endswith(" 256 a time") for row in rows))

    def test_spread(self):
        [row] = self.rows("--sizes", "9", "-a", "direct", "--runs", "9")
        self.assertGreater(float(row["spread_ms"]), 0)
        self.assertLess(float(row["spread_ms"]), 100 * float(row["ms"]))
        text = self.gconv("bench", "--image", "97x61", "--sizes", "9", "-a", "direct", "--runs", "9").stdout
        self.assertRegex(text, r" ms +\+- ")

    def test_separable_filters_are_measured(self):
        rows = self.rows("-a", "direct,separable", "--runs", "1", "--image", "40x30")
        self.assertIn("gaussian:sigma=2", {row["filter"] for row in rows if row["algorithm"] == "separable"})
        self.assertIn("random 3x3", {row["filter"] for row in rows})

    def test_rates_that_are_effective(self):
        words = ("bench", "--image", "400x300x3", "-f", "gaussian:sigma=3", "-a", "reference,separable", "--runs", "3")
        rows = json.loads(self.gconv(*words, "--json").stdout)["rows"]
        self.assertEqual([(row["algorithm"], row["effective"]) for row in rows], [("reference", False), ("separable", True)])
        lines = self.gconv(*words).stdout.splitlines()
        self.assertRegex(lines[-2], r"^reference .* \d+% ")
        self.assertRegex(lines[-1], r"^separable .* effective ")

    def test_steps(self):
        done = self.gconv("bench", "-d", "cpu", "--experiment", "steps", "--sizes", "70", "--runs", "1", "--json")
        rows = json.loads(done.stdout)["rows"]
        self.assertEqual([row["algorithm"] for row in rows], ["direct", "fft", "separable", "direct", "integer"])
        self.assertEqual([(row["type"], row["taps"]) for row in rows], [("f32", [7, 7])] + [("f32", [31, 31])] * 2 + [("u8", [3, 3])] * 2)
        for row in rows:
            self.assertLessEqual(row["error"], row["allowed"])
        self.assertIn("steps that the CPU has no kernel for are left out", done.stderr)
        self.usage_error("has no picture", "bench", "--experiment", "steps", "--plot", "steps.svg")

    def test_profile_needs_a_gpu(self):
        done = self.gconv("bench", "-d", "cpu", "--image", "9x8", "--sizes", "3", "--runs", "1", "--profile", status=1)
        self.assertIn("--profile: only NVIDIA GPUs have counters, and the device is cpu", done.stderr)
        for figure in "figure-5.8", "figure-5.9", "figure-5.10":  # they are of counters by themselves
            done = self.gconv("bench", "-d", "cpu", "--experiment", figure, status=1)
            self.assertIn("only NVIDIA GPUs have counters", done.stderr)
        self.usage_error("measures copies, which no multiprocessor does", "bench", "--experiment", "transfers", "--profile")
        self.usage_error("mlp-5.2 measures parts of epochs: backprop has", "bench", "--experiment", "mlp-5.2", "--profile")
        self.usage_error("mlp-5.6 measures whole runs: backprop has", "bench", "--experiment", "mlp-5.6", "--profile")
        self.usage_error("leave out --csv, --json, --plot, --profile and --algorithm", "bench", "--auto-check", "--profile")

    def test_transfers_need_a_gpu(self):
        done = self.gconv("bench", "-d", "cpu", "--experiment", "transfers", "--json")
        self.assertEqual(json.loads(done.stdout)["rows"], [])
        self.assertIn("copies to a GPU and back need a GPU, and are left out on the CPU", done.stderr)

    def test_numbers_of_threads(self):
        rows = self.rows("--sizes", "3", "-a", "direct", "--threads", "1,2")
        self.assertEqual([row["threads"] for row in rows], ["1", "2"])
        text = self.gconv("bench", "--image", "97x61", "--sizes", "3", "-a", "direct", "--runs", "1", "--threads", "1,2").stdout
        self.assertIn("97x61x1 u8 interleaved, threads 1", text)
        self.usage_error("--experiment and --auto-check take one number", "bench", "--experiment", "sizes", "--threads", "1,2")
        self.usage_error("numbers of threads with commas between: 1,2,4", "bench", "--threads", "0")

    def test_mistakes(self):
        self.usage_error("did you mean sizes?", "bench", "--experiment", "size")
        self.usage_error("--experiment measures layers or nets", "bench", "--experiment", "sizes", "--type", "u8")
        for words in (("-a", "direct"), ("--image", "9x8")):
            self.usage_error("problems and methods of its own", "bench", "--experiment", "windows", *words)
        self.usage_error("must end with .svg or .png", "bench", "--plot", "x.pdf")
        self.usage_error("exclude each other", "bench", "--csv", "--json")
        self.usage_error("table of its own", "bench", "--auto-check", "-a", "direct")
        self.usage_error("such as 32x8", "bench", "--block", "32")
        self.usage_error("numbers of blocks", "bench", "--grid", "0")
        self.usage_error("there are u8, u16, f32", "bench", "--type", "u8,u32768")
        self.usage_error("there are block", "bench", "--sweep", "everything")
        self.usage_error("WIDTHxHEIGHT", "bench", "--image", "640")
        self.usage_error("sizes from 1 to 4096", "bench", "--sizes", "0")
        self.usage_error("nosuch", "bench", "-d", "cpu", "--image", "8x8", "-f", "nosuch")
        self.usage_error("unexpected argument", "bench", "sobel_x")


if __name__ == "__main__":
    unittest.main()
