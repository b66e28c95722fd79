# SPDX-License-Identifier: MIT
"""Banks from the command line: what becomes of their outputs, chains, batches, options, errors."""
import json
import os
import re
import shutil
import unittest

import numpy as np
from bank_helper import BankTest, correlate


class Outputs(BankTest):
    def test_array(self):
        self.gconv("-i", "a.png", "-f", "bank.txt", "-o", "y.npy", "--verify")
        self.assert_close(self.load("y.npy"), correlate(self.planes, self.w, self.b)[None])

    def test_pictures_have_the_names_of_filters_or_their_numbers(self):
        self.gconv("-i", "a.png", "-f", "bank.txt", "-o", "maps/")
        self.assertEqual(self.files("maps"), ["a_2.png", "a_a_b.png", "a_edge_1.png", "a_edge_5.png", "a_red.png"])

    def test_minmax_stretches_from_the_least_to_the_largest(self):
        self.gconv("-i", "a.png", "-f", "bank.txt", "-o", "maps/", "--range", "minmax")
        y = correlate(self.planes, self.w, self.b)[1]
        expected = (y - y.min()) / (y.max() - y.min()) * 255
        self.assertLessEqual(np.abs(self.pixels("maps/a_red.png") - expected).max(), 0.51)

    def test_pictures_are_stretched_to_all_values_but_the_hundredth_on_either_side(self):
        self.gconv("-i", "a.png", "-f", "bank.txt", "-o", "maps/")
        y = correlate(self.planes, self.w, self.b)[1]
        values, tail = np.sort(y, axis=None), y.size // 100
        low, high = values[tail], values[-1 - tail]
        reach, other = max(high, -low), min(high, -low)
        if other * 4 > reach:
            low, high = -reach, reach
        expected = np.clip((y - low) / (high - low), 0, 1) * 255
        self.assertLessEqual(np.abs(self.pixels("maps/a_red.png") - expected).max(), 0.51)

    def test_range_scale_and_depth(self):
        self.gconv("-i", "a.png", "-f", "bank.txt", "-o", "maps/{stem}_{filter}.pgm", "--scale", "0.1", "--offset",
                   "0.5", "--depth", "16")
        raw = (self.folder / "maps/a_red.pgm").read_bytes()
        got = np.frombuffer(raw[-2 * 17 * 23:], ">u2").reshape(17, 23)
        y = np.clip(correlate(self.planes, self.w, self.b)[1] * 0.1 + 0.5, 0, 1) * 65535
        self.assertLessEqual(np.abs(got - y).max(), 1)

    def test_mosaic_without_a_gap(self):
        self.photo("wide.png", 60, 40)
        self.photo("square.png", 40, 40)
        for source, filters, columns, rows in (("wide.png", "gabor_bank", 2, 4), ("square.png", "gabor_bank", 4, 2), ("wide.png", "bank.txt", 2, 3)):
            self.gconv("-i", source, "-f", filters, "--combine", "mosaic", "-o", "m.png")
            one, sheet = self.pixels(source).shape, self.pixels("m.png").shape
            self.assertEqual(((sheet[0] + 2) // (one[0] + 2), (sheet[1] + 2) // (one[1] + 2)), (rows, columns))

    def test_mosaic(self):
        self.gconv("-i", "a.png", "-f", "bank.txt", "-o", "m.png", "--combine", "mosaic", "--range", "clamp")
        got, y = self.pixels("m.png"), np.clip(correlate(self.planes, self.w, self.b), 0, 1) * 255
        columns = (got.shape[1] + 2) // 25
        self.assertEqual(got.shape, (-(-5 // columns) * 19 - 2, columns * 25 - 2))
        for k in range(5):
            top, left = k // columns * 19, k % columns * 25
            self.assertLessEqual(np.abs(got[top:top + 17, left:left + 23] - y[k]).max(), 0.51)

    def test_reductions(self):
        y = correlate(self.planes, self.w, self.b)
        for how, expected in {"sum": y.sum(0), "max": y.max(0), "magnitude": np.sqrt((y**2).sum(0)), "argmax": y.argmax(0)}.items():
            with self.subTest(how):
                self.gconv("-i", "a.png", "-f", "bank.txt", "-o", f"{how}.npy", "--combine", how, "--verify")
                self.assert_close(self.load(f"{how}.npy"), expected[None, None])

    def test_argmax_has_a_colour_for_each_filter(self):
        self.gconv("-i", "a.png", "-f", "bank.txt", "-o", "o.png", "--combine", "argmax")
        labels, colours = correlate(self.planes, self.w, self.b).argmax(0), self.pixels("o.png")
        seen = {label: {tuple(c) for c in colours[labels == label]} for label in np.unique(labels)}
        self.assertTrue(all(len(colour) == 1 for colour in seen.values()), seen)
        self.assertEqual(len({next(iter(c)) for c in seen.values()}), len(seen))
        self.assertEqual(seen.get(0, {(255, 0, 0)}), {(255, 0, 0)})

    def test_plain_filters_are_a_bank_applied_to_each_channel(self):
        self.gconv("-i", "a.png", "-f", "sobel_x", "-f", "laplacian_4", "-o", "y.npy", "--activation", "none")
        y = self.load("y.npy")[0]
        for c in range(3):
            taps = np.array([[[[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]], [[[0, 1, 0], [1, -4, 1], [0, 1, 0]]]], "f4")
            expected = correlate(self.planes[c:c + 1], taps, np.zeros(2))
            for k in range(2):
                got = y[c * 2 + k]
                self.assertTrue(np.allclose(got, expected[k], atol=1e-5) or np.allclose(got, -expected[k], atol=1e-5))
        self.gconv("-i", "a.png", "-f", "sobel_x", "-f", "laplacian_4", "-o", "p/", "--activation", "none")
        self.assertEqual(self.files("p"), ["a_laplacian_4.png", "a_sobel_x.png"])
        self.assertEqual(self.pixels("p/a_sobel_x.png").shape, (17, 23, 3))


class Layers(BankTest):
    def test_stride_padding_activation(self):
        self.gconv("-i", "a.png", "-f", "bank.txt", "--stride", "2", "--padding", "1", "--activation", "leaky:0.1", "-o", "y.npy")
        y = correlate(self.planes, self.w, self.b, stride=2, pad=1)
        self.assert_close(self.load("y.npy"), np.where(y < 0, 0.1 * y, y)[None])

    def test_mean_and_std_leave_zeros_outside(self):
        mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
        self.gconv("-i", "a.png", "-f", "bank.txt", "--mean", "0.485,0.456,0.406", "--std", "0.229,0.224,0.225", "-o", "y.npy", "--verify")
        x = (self.planes - mean[:, None, None]) / std[:, None, None]
        self.assert_close(self.load("y.npy") / 10, correlate(x, self.w, self.b)[None] / 10)

    def test_chain(self):
        random = np.random.default_rng(6)
        w, b = random.normal(size=(4, 5, 2, 2)).astype("f4"), random.normal(size=4).astype("f4")
        self.write("second.txt", w, b, [None] * 4)
        self.gconv("-i", "a.png", "-f", "bank.txt", "--stride", "2", "--activation", "relu", "--then", "-f", "second.txt",
                   "--padding", "valid", "-o", "y.npy", "--verify")
        middle = np.maximum(correlate(self.planes, self.w, self.b, stride=2), 0)
        self.assert_close(self.load("y.npy") / 10, correlate(middle, w, b, pad=0)[None] / 10)

    def test_groups(self):
        w = np.random.default_rng(7).normal(size=(6, 1, 3, 3)).astype("f4")
        np.save(self.folder / "w.npy", w)
        self.gconv("-i", "a.png", "-f", "w.npy", "--groups", "3", "-o", "y.npy")
        expected = np.concatenate([correlate(self.planes[g:g + 1], w[2 * g:2 * g + 2], np.zeros(2)) for g in range(3)])
        self.assert_close(self.load("y.npy"), expected[None])

    def test_alpha_is_left_out(self):
        self.photo("rgba.png", 9, 8, channels=4)
        result = self.gconv("-i", "rgba.png", "-f", "bank.txt", "-o", "y.npy")
        self.assertEqual(result.stderr.count("alpha is left out"), 1)
        self.assertEqual(self.load("y.npy").shape, (1, 5, 8, 9))


class Batches(BankTest):
    def setUp(self):
        super().setUp()
        for i in range(7):
            self.photo(f"in/{i}.png", 23, 17, seed=i)
        self.photo("in/large.png", 31, 9, seed=9)
        self.photo("in/x.png", 23, 17, seed=10)

    def test_results_do_not_depend_on_the_batch(self):
        self.gconv("-i", "in", "-f", "bank.txt", "-o", "all/", "--format", "npy")
        self.assertEqual(len(self.files("all")), 9)
        for batch in ("1", "3", "64"):
            self.gconv("-i", "in", "-f", "bank.txt", "-o", f"b{batch}/", "--format", "npy", "--batch", batch, "--threads", "3")
            for name in self.files("all"):
                self.assertEqual((self.folder / "all" / name).read_bytes(), (self.folder / f"b{batch}" / name).read_bytes())

    def test_spectra_do_not_depend_on_the_batch(self):
        x = np.random.default_rng(2).normal(size=(30, 2, 40, 40)).astype("f4")
        np.save(self.folder / "w.npy", np.random.default_rng(3).normal(size=(4, 2, 5, 5)).astype("f4"))
        results = []
        for images in 30, 1:
            np.save(self.folder / "x.npy", x[:images])
            self.gconv("-i", "x.npy", "-f", "w.npy", "-a", "fft", "-o", f"{images}.npy")
            results.append(self.load(f"{images}.npy")[0])
        np.testing.assert_array_equal(*results)

    def test_one_array_of_all(self):
        self.gconv("-i", "in/[0-9].png", "-f", "bank.txt", "-o", "y.npy", "--batch", "3")
        self.gconv("-i", "in/[0-9].png", "-f", "bank.txt", "-o", "z.npy", "--batch", "3", "--layout", "nhwc")
        y = self.load("y.npy")
        self.assertEqual(y.shape, (7, 5, 17, 23))
        np.testing.assert_array_equal(self.load("z.npy"), y.transpose(0, 2, 3, 1))
        self.gconv("-i", "in/4.png", "-f", "bank.txt", "-o", "four.npy")
        np.testing.assert_array_equal(y[4], self.load("four.npy")[0])
        self.gconv("-i", "y.npy", "-f", "bank.txt", "-o", "bad.npy", status=1)
        self.assertFalse((self.folder / "bad.npy").exists())

    def test_array_with_braces_in_its_name(self):
        self.gconv("-i", "in/[0-3].png", "-f", "bank.txt", "-o", "{{y}}.npy")
        self.assertEqual(self.load("{y}.npy").shape, (4, 5, 17, 23))
        (self.folder / "{maps}").mkdir()
        self.gconv("-i", "in/[0-3].png", "-f", "bank.txt", "-o", "{maps}", "--format", "npy")
        self.assertEqual(self.files("{maps}"), [f"{i}.npy" for i in range(4)])

    def test_sizes_that_one_array_cannot_hold(self):
        result = self.gconv("-i", "in", "-f", "bank.txt", "-o", "y.npy", status=2)
        self.assertIn("differ in size, channels or type: name a folder", result.stderr)
        self.assertFalse((self.folder / "y.npy").exists())

    def test_one_array_has_the_frames_of_all_in_their_order(self):
        arrays = [np.random.default_rng(i).random((frames, 3, 9, 7)).astype("f4") for i, frames in enumerate((1, 2, 1))]
        for name, array in zip("abc", arrays):
            np.save(self.folder / f"{name}.npy", array)
        words = ("-i", "a.npy", "-i", "b.npy", "-i", "c.npy", "-f", "bank.txt", "-o", "y.npy")
        self.gconv(*words)
        self.assert_close(self.load("y.npy"), np.stack([correlate(x, self.w, self.b) for x in np.concatenate(arrays)]))
        before = self.snapshot()
        kept = self.gconv(*words, "--no-clobber", status=1)
        self.assertEqual(kept.stderr, "gconv: y.npy: exists and is kept (--no-clobber)\n")
        lines = self.gconv(*words, "--skip-existing", "--timings=json").stdout.splitlines()
        summary = json.loads(lines[-1])["summary"]
        self.assertEqual((summary["images"], summary["results_passed_over"]), (3, 1))
        self.assertEqual(self.snapshot(), before)
        (self.folder / "b.npy").write_bytes(b"no array")
        self.assertIn("gconv: b.npy: ", self.gconv(*words, status=1).stderr)

    def test_mosaic_of_frames(self):
        np.save(self.folder / "x.npy", np.random.default_rng(3).random((2, 3, 9, 7)).astype("f4"))
        self.gconv("-i", "x.npy", "-f", "bank.txt", "-o", "y.npy", "--combine", "mosaic")
        self.gconv("-i", "x.npy", "-f", "bank.txt", "-o", "out/", "--combine", "mosaic")
        for frame in (0, 1):
            np.testing.assert_array_equal(self.load("y.npy")[frame].squeeze(), self.pixels(f"out/x_{frame + 1}.png").squeeze())

    def test_damaged_image_among_others(self):
        (self.folder / "in/3.png").write_bytes((self.folder / "in/3.png").read_bytes()[:200])
        result = self.gconv("-i", "in", "-f", "bank.txt", "-o", "out/", "--combine", "mosaic", status=3)
        self.assertIn("3.png", result.stderr)
        self.assertEqual(len(self.files("out")), 8)
        result = self.gconv("-i", "in/[0-9].png", "-f", "bank.txt", "-o", "y.npy", status=1)
        self.assertFalse((self.folder / "y.npy").exists())

    def test_existing_results(self):
        self.gconv("-i", "in", "-f", "bank.txt", "-o", "out/", "--combine", "max")
        before = self.snapshot()
        self.gconv("-i", "in", "-f", "bank.txt", "-o", "out/", "--combine", "max", "--skip-existing")
        self.gconv("-i", "in", "-f", "bank.txt", "-o", "out/", "--combine", "max", "--no-clobber", status=1)
        self.assertEqual(self.snapshot(), before)
        (self.folder / "out/5.png").unlink()
        lines = self.gconv("-i", "in", "-f", "bank.txt", "-o", "out/", "--combine", "max", "--skip-existing", "--timings=json").stdout
        summary = json.loads(lines.splitlines()[-1])["summary"]
        self.assertEqual((summary["images"], summary["failed"]), (9, 0))
        self.assertEqual(len(self.files("out")), 9)

    def test_timings(self):
        lines = self.gconv("-i", "in", "-f", "bank.txt", "-o", "out/", "--combine", "max", "--timings=json").stdout.splitlines()
        rows = [json.loads(line) for line in lines]
        self.assertEqual(len(rows), 10)
        self.assertEqual(sorted(row["input"].split("/")[-1] for row in rows[:-1]), self.files("in"))
        self.assertEqual(rows[0]["filter_shape"], [5, 3, 3])

    def test_race(self):
        result = self.gconv("-i", "in/0.png", "-f", "bank.txt", "-o", "y.npy", "-a", "all", "--verify")
        self.assertRegex(result.stdout, r"(?m)^reference +fp32 .* equal|^reference .* exact")
        self.assertIn("the fastest is", result.stdout)

    @unittest.skipIf("GCONV_SANITIZED" in os.environ, "with a sanitizer, the algorithms that are waited for take minutes")
    def test_race_waits_for_no_one(self):
        self.photo("large.png", 400, 300)
        self.write("large.txt", np.ones((16, 3, 9, 9), "f4"), np.zeros(16), [None] * 16)
        race = self.gconv("-i", "large.png", "-f", "large.txt", "--combine", "max", "-o", "y.png", "-a", "all", "--without", "gemm",
                          "--threads", "1").stdout
        self.assertRegex(race, r"(?m)^reference +not waited for: estimated at \d")
        self.assertIn("the fastest is", race)

    def test_race_that_nobody_can_run(self):
        np.save(self.folder / "a.npy", np.zeros((1, 5, 9, 9), np.float32))
        refused = self.gconv("-i", "a.npy", "-f", "bank.txt", "-o", "y.npy", "-a", "all", status=1)
        self.assertEqual(refused.stdout, "")
        self.assertRegex(refused.stderr, r"^gconv: a\.npy: layer 1: the bank takes 3 channels, and gets 5[^\n]*\n$")

    def test_explain_tells_the_bound(self):
        np.save(self.folder / "w.npy", np.ones((8, 3, 3, 3), "f4"))
        for algorithm, of in (("direct", "sum |weight * x| + |bias|"), ("winograd", "(sum |weight|) * (largest |x|) + |bias|")):
            said = self.gconv("-i", "in", "-f", "w.npy", "-o", "out/", "-a", algorithm, "--dry-run", "--explain").stderr
            self.assertRegex(said, rf"error of a sum at most [\d.e-]+ of {re.escape(of)}")

    def test_explain_without_work(self):
        result = self.gconv("-i", "in", "-f", "bank.txt", "-o", "out/", "--dry-run", "--explain")
        self.assertIn("5 filters of 3 x 3 x 3", result.stderr)
        self.assertFalse((self.folder / "out").exists())


class Pipes(BankTest):
    def test_a_bank_from_standard_input(self):
        text = (self.folder / "bank.txt").read_bytes()
        self.gconv("-i", "a.png", "-f", "bank.txt", "-o", "x.npy")
        self.gconv("-i", "a.png", "-f", "-", "--filter-format", "bank", "-o", "y.npy", stdin=text)
        np.testing.assert_array_equal(self.load("y.npy"), self.load("x.npy"))
        self.usage_error("not plain filters: `gconv -f` takes it, from a pipe with --filter-format bank", "-i", "a.png", "-f", "-", "-o", "z.npy",
                         stdin=text)

    def test_standard_input_is_read_once(self):
        np.save(self.folder / "second.npy", np.ones((2, 5, 3, 3), "f4"))
        bank = ("-f", "-", "--filter-format", "bank")
        for words in (("-i", "a.png", *bank, "--then", *bank), ("-i", "-", *bank, "--then", "-f", "second.npy")):
            self.usage_error("-: standard input can be read only once", *words, "-o", "z.npy", stdin=b"gconv-bank 1")


class Errors(BankTest):
    def refuse(self, fragment, *words, status=2):
        result = self.gconv("-i", "a.png", "-f", "bank.txt", "-o", "y.npy", *words, status=status)
        self.assertIn(fragment, result.stderr)
        self.assertFalse((self.folder / "y.npy").exists())

    def test_channels_that_do_not_fit(self):
        self.photo("grey.png", channels=1)
        result = self.gconv("-i", "grey.png", "-f", "bank.txt", "-o", "y.npy", status=1)
        self.assertIn("takes 3 channels, and gets 1: give it an image, a layer before it or --groups that fit; a grey image can be saved "
                      "as RGB", result.stderr)
        np.save(self.folder / "six.npy", np.ones((6, 3, 3, 3), "f4"))
        result = self.gconv("-i", "a.png", "-f", "six.npy", "--groups", "3", "-o", "y.npy", status=1)
        self.assertIn("takes 9 channels (3 in each of 3 groups), and gets 3", result.stderr)

    def test_options(self):
        self.refuse("--linear", "--linear")
        self.refuse("--alpha", "--alpha", "filter")
        self.refuse("stack", "--combine", "stack")
        for words in (("--scale", "2"), ("--offset", "0.5"), ("--range", "abs"), ("--depth", "8")):
            self.refuse(words[0] + " is for the pictures of banks", *words)
            if words[0] != "--depth":
                self.usage_error(words[0] + " is for values: in pictures, --combine argmax gives each pixel the colour of a filter",
                                 "-i", "a.png", "-f", "bank.txt", "-o", "y.png", "--combine", "argmax", *words)
        self.refuse("leaky takes the slope", "--activation", "leaky:x")
        self.refuse("--mean", "--mean", "1,,2")
        self.refuse("no filter follows", "--then")
        self.refuse("put --then between", "-f", "bank.txt")
        self.refuse("did you mean", "--math", "tf23")
        self.refuse("2 groups do not divide the 5 filters", "--groups", "2", status=1)
        self.refuse("2 means", "--mean", "1,2", status=1)
        self.refuse("a mean of 116.28, but of u8 images 0 is black and 1 is white: for level L give L / 255", "--mean", "0.5,116.28,0.5", status=1)
        self.refuse("above 0", "--std", "0")
        self.refuse("above 0", "--std=-1")
        self.refuse("leaves no output", "--padding", "valid", "--dilation", "20", status=1)

    def test_options_of_banks_alone(self):
        result = self.gconv("-i", "a.png", "-f", "sobel_x", "-o", "y.png", "--padding", "same-upper")
        self.assertEqual(self.pixels("y.png").shape, (17, 23, 3))
        self.usage_error("gconv: --then: there is no filter before it", "-i", "a.png", "--then", "-f", "bank.txt", "-o", "y.npy")


class Hints(BankTest):
    def test_padding_beyond_reason(self):
        error = self.gconv("-i", "a.png", "-f", "bank.txt", "-o", "y.npy", "--padding", "100000", status=1).stderr
        self.assertIn("a padding of 100000 (height): beyond 2 pixels, a filter that spans 3 sees nothing of the image", error)
        self.gconv("-i", "a.png", "-f", "bank.txt", "-o", "y.npy", "--padding", "300")

    def test_channels_last_without_saying_so(self):
        np.save(self.folder / "last.npy", np.zeros((1, 20, 30, 3), "f4"))
        error = self.gconv("-i", "last.npy", "-f", "bank.txt", "-o", "y.npy", status=1).stderr
        self.assertIn("gets 20: give it an image, a layer before it or --groups that fit; or, where an array has its channels "
                      "last, --layout nhwc", error)

    def test_channels_first_where_they_are_said_to_be_last(self):
        np.save(self.folder / "first.npy", np.zeros((1, 3, 20, 30), "f4"))
        error = self.gconv("-i", "first.npy", "-f", "bank.txt", "--layout", "nhwc", "-o", "y.npy", status=1).stderr
        self.assertIn("gets 30: give it an image, a layer before it or --groups that fit; or, where an array has its channels "
                      "before its rows, --layout nchw", error)

    def test_depthwise_weights_without_groups(self):
        np.save(self.folder / "four.npy", np.zeros((1, 4, 20, 30), "f4"))
        np.save(self.folder / "weights.npy", np.ones((4, 1, 3, 3), "f4"))
        self.usage_error("if they are the weights of a depthwise layer, say --groups 4", "-i", "four.npy", "-f", "weights.npy",
                         "-o", "y.npy")

    def test_bank_that_is_cut_short(self):
        np.save(self.folder / "w.npy", self.w)
        data = (self.folder / "w.npy").read_bytes()
        (self.folder / "w.npy").write_bytes(data[:-8])
        self.usage_error("its header promises 135 elements of 4 bytes, but 532 bytes follow", "-i", "a.png", "-f", "w.npy", "-o",
                         "y.npy")

    def test_one_array_ends_with_the_first_failure(self):
        for name in "123":
            self.photo(f"in/{name}.png", 40, 30)
        data = (self.folder / "in/1.png").read_bytes()
        (self.folder / "in/1.png").write_bytes(data[:len(data) // 2])
        error = self.gconv("-i", "in", "-f", "bank.txt", "-o", "y.npy", "--batch", "1", "--jobs", 1, status=1).stderr
        self.assertIn("no array is written, as it would not be whole: 2 of 3 images were not read", error)
        self.assertFalse((self.folder / "y.npy").exists())


class Gray(BankTest):
    """--gray gives what the grey image gives, which the main job makes."""
    def setUp(self):
        super().setUp()
        self.photo("in/a.png", 40, 30, seed=3)
        self.photo("in/b.png", 40, 30, seed=4)
        self.photo("in/alpha.png", 40, 30, seed=5, channels=4)
        self.photo("in/grey.png", 40, 30, seed=6, channels=1)
        self.gconv("-i", "in", "-f", "identity", "--gray", "-o", "grey/")

    def check(self, *words):
        for source, extra in ("in", ["--gray"]), ("grey", []):
            self.gconv("-i", source, *words, *extra, "-o", f"of-{source}/", "--verify")
        files = self.files("of-in")
        self.assertGreater(len(files), 0)
        self.assertEqual(files, self.files("of-grey"))
        for name in files:
            self.assertEqual((self.folder / "of-in" / name).read_bytes(), (self.folder / "of-grey" / name).read_bytes(), name)

    def test_maps(self):
        self.check("-f", "gabor_bank", "--combine", "argmax")

    def test_arrays(self):
        """Of grey in float, which is not rounded to levels."""
        (self.folder / "in/alpha.png").unlink()
        shutil.rmtree(self.folder / "grey")
        self.gconv("-i", "in", "-f", "identity", "--gray", "--depth", "float", "--format", "npy", "-o", "grey/")
        self.check("-f", "kirsch", "--format", "npy", "--batch", "3", "--then", "-f", "sobel_x", "--activation", "none")

    def test_by_bands(self):
        self.photo("large.png", 1500, 700, seed=1)
        for algorithm in "direct", "fft": # fft: tiles of bands have other places, so sums are rounded in another way
            words = ["-i", "large.png", "-f", "gabor_bank", "--gray", "-a", algorithm]
            self.gconv(*words, "-o", f"{algorithm}.npy")
            done = self.gconv(*words, "-o", f"{algorithm}-bands.npy", "--memory", "40M", "--explain")
            self.assertIn("by rows", done.stderr)
        whole = self.load("direct.npy")
        np.testing.assert_array_equal(whole, self.load("direct-bands.npy"))
        for name in "fft.npy", "fft-bands.npy":
            np.testing.assert_allclose(whole, self.load(name), atol=2e-6)

    def test_what_cannot_be_grey(self):
        np.save(self.folder / "planes.npy", np.ones((1, 3, 9, 8), "f4"))
        for words in ["-f", "kirsch", "--combine", "argmax", "-o", "y.png"], ["-f", "gabor_bank", "-o", "y.npy"]:
            result = self.gconv("-i", "planes.npy", *words, "--gray", status=1)
            self.assertIn("planes.npy: gray needs pixels of red, green and blue; this image has planes of 3 channels", result.stderr)
            self.assertFalse((self.folder / words[-1]).exists())
        result = self.gconv("-i", "a.png", "-f", "bank.txt", "--gray", "-o", "y.npy", status=1)
        self.assertIn("takes 3 channels, and gets 1", result.stderr)

    def test_explain_and_race(self):
        result = self.gconv("-i", "a.png", "-f", "kirsch", "--combine", "argmax", "--gray", "-o", "y.png", "--dry-run", "--explain")
        self.assertIn("layer 1: 1 x 1 x 17 x 23", result.stderr)
        self.gconv("-i", "a.png", "-f", "gabor_bank", "--gray", "-o", "y.npy", "-a", "all")
        self.gconv("-i", "a.png", "-f", "gabor_bank", "--gray", "-o", "z.npy", "-a", "direct")
        np.testing.assert_allclose(self.load("y.npy"), self.load("z.npy"), atol=1e-5)


class Resume(BankTest):
    def test_what_is_done_is_passed_over(self):
        for memory, width, height in ([], 40, 30), (["--memory", "30M"], 1000, 800):  # by bands
            self.photo("in/1.png", width, height, seed=1)
            self.photo("in/2.png", width, height, seed=2)
            words = ["-i", "in", "-f", "bank.txt", "-o", "maps/", "--resume", "-a", "direct", *memory]
            self.gconv(*words)
            (self.folder / "maps/1_red.png").unlink()
            (self.folder / "maps/1_2.png").write_bytes(b"broken")
            self.photo("in/2.png", width, height, seed=3)
            error = self.gconv(*words).stderr
            self.assertIn("3 results were done; taken up: "
                          "5 of inputs that changed, 2 missing or changed", error)
            error = self.gconv(*words).stderr
            self.assertIn("10 results were done", error)
            self.gconv("-i", "in", "-f", "bank.txt", "-o", "fresh/", "-a", "direct")
            for name in self.files("fresh"):
                self.assertEqual((self.folder / "fresh" / name).read_bytes(), (self.folder / "maps" / name).read_bytes())

    def test_other_jobs_are_done_again(self):
        words = ["-i", "a.png", "-o", "maps/", "--resume"]
        self.gconv(*words, "-f", "bank.txt")
        self.write("other.txt", self.w * 2, self.b, ["edge", "red", None, "a/b", "edge"])
        jobs = (["-f", "other.txt"], ["-f", "bank.txt", "--stride", "2"], ["-f", "bank.txt", "--mean", "0.5"],
                ["-f", "bank.txt", "--activation", "relu"], ["-f", "bank.txt", "--range", "abs"],
                ["-f", "bank.txt", "--std", "0.5"], ["-f", "bank.txt", "--flip"], ["-f", "bank.txt", "-a", "gemm"])
        for job in jobs:
            self.assertIn("taken up: 5 of other filters", self.gconv(*words, *job).stderr, job)
        for option in (["--groups", "1"], ["--math", "tf32"], ["--layout", "nhwc"], ["--padding", "valid"], ["--dilation", "2"],
                       ["--scale", "2"], ["--depth", "16"], ["--range", "clamp"]):
            self.gconv(*words, "-f", "bank.txt")
            self.assertIn("taken up: 5 of other filters", self.gconv(*words, "-f", "bank.txt", *option).stderr, option)
        chain = ["-f", "bank.txt", "-a", "direct", "--then", "-f", "bank5.txt"]
        self.write("bank5.txt", np.ones((5, 5, 3, 3)), np.zeros(5), ["edge", "red", None, "a/b", "edge"])
        self.gconv(*words, *chain)
        for job in (chain[:2] + ["--activation", "relu"] + chain[2:], chain + ["--activation", "relu"], chain[:2] + chain[4:]):
            self.assertIn("taken up: 5 of other filters", self.gconv(*words, *job).stderr, job)
            self.assertIn("5 results were done, which is all", self.gconv(*words, *job).stderr, job)
        words = ["-i", "a.png", "-o", "edges/", "--resume", "-f", "gabor_bank"]
        self.gconv(*words)
        self.assertIn("taken up: 8 of other filters", self.gconv(*words, "--gray").stderr)

    def test_inputs_that_fail_do_not_undo_what_is_done(self):
        """Too large for --memory or --max-pixels now: what was done before counts as done."""
        self.photo("in/1.png", 1200, 900, seed=1)
        words = ["-i", "in", "-f", "bank.txt", "-o", "maps/", "--resume", "--timings=json"]
        self.gconv(*words)
        (self.folder / "maps/1_red.png").unlink()
        for extra in (["--resume", "--memory", "1M"], ["--resume", "--max-pixels", "1000"], ["--skip-existing", "--memory", "1M"],
                      ["--skip-existing", "--max-pixels", "1000"]):
            run = self.gconv(*(w for w in words if w != "--resume"), *extra, status=3)
            summary = json.loads(run.stdout.splitlines()[-1])["summary"]
            self.assertEqual([summary[f"results_{n}"] for n in ("written", "passed_over", "failed")], [0, 4, 1], extra)
            if "--resume" in extra:
                self.assertIn("--resume: 4 results were done; taken up: ", run.stderr)
        self.assertEqual(len([name for name in self.files("maps") if name.endswith(".png")]), 4)

    def test_shards_share_the_work(self):
        for i in range(6):
            self.photo(f"in/{i}.png", 20, 10, seed=i)
        for i in 1, 2:
            self.gconv("-i", "in", "-f", "bank.txt", "-o", "maps/", "--combine", "max", "--resume", "--shard", f"{i}/2")
        self.assertEqual([n for n in self.files("maps") if n.endswith(".png")], [f"{i}.png" for i in range(6)])
        error = self.gconv("-i", "in", "-f", "bank.txt", "-o", "maps/", "--combine", "max", "--resume").stderr
        self.assertIn("6 results were done", error)

    def test_one_array_is_refused(self):
        self.photo("in/1.png", 40, 30)
        self.photo("in/2.png", 40, 30)
        for option in ["--resume"], ["--shard", "1/2"]:
            self.usage_error("name a folder", "-i", "in", "-f", "bank.txt", "-o", "y.npy", *option)


class Chains(BankTest):
    def test_an_algorithm_for_each_layer(self):
        chain = ["-i", "a.png", "-f", "bank.txt", "-a", "gemm", "--then", "-f", "second.txt", "-o", "y.npy", "--explain"]
        self.write("second.txt", np.ones((2, 5, 3, 3)), np.zeros(2), [None, None])
        text = self.gconv(*chain, "-a", "reference").stderr
        self.assertEqual([line.split("algorithm ")[1].split(",")[0] for line in text.splitlines() if "algorithm " in line],
                         ["gemm", "reference"])
        text = self.gconv(*[w for w in chain if w not in ("-a", "gemm")], "-a", "reference").stderr
        self.assertEqual(text.count("algorithm reference"), 2)

    def test_what_is_of_the_whole_chain_stands_behind_it(self):
        second = ["--then", "-f", "bank.txt", "-o", "y.npy"]
        self.usage_error("after the last --then", "-i", "a.png", "-f", "bank.txt", "--combine", "max", *second)
        self.usage_error("after the last --then", "-i", "a.png", "-f", "bank.txt", "-a", "all", *second)
        self.usage_error("layer 1 has an --algorithm of its own", "-i", "a.png", "-f", "bank.txt", "-a", "gemm", *second, "-a",
                         "all")


if __name__ == "__main__":
    unittest.main()
