# SPDX-License-Identifier: MIT
"""gconv fit: its taps against numpy's lstsq in float64, what it says of shifts and of what is not linear, and every error."""
import json
import os
import unittest

import numpy as np
from helper import CommandTest, needs
from PIL import Image

MODES = {"zero": {"mode": "constant"}, "constant:0.25": {"mode": "constant", "constant_values": 0.25}, "replicate": {"mode": "edge"},
         "symmetric": {"mode": "symmetric"}, "reflect101": {"mode": "reflect"}, "wrap": {"mode": "wrap"}}


def white(array):
    return {"uint8": 255, "uint16": 65535}.get(array.dtype.name, 1)


def pad(x, shape, border):
    (r, s), y = shape, x
    rows, columns = (r // 2, r - 1 - r // 2), (s // 2, s - 1 - s // 2)
    return np.pad(y, (rows, columns), **MODES[border])


def windows(x, shape):
    return np.lib.stride_tricks.sliding_window_view(x, shape)


def apply(x, taps, border="zero"):
    """Correlation in float64."""
    return np.einsum("yxrs,rs->yx", windows(pad(x.astype(np.float64), taps.shape, border), taps.shape), taps)


def channels(array):
    return [array] if array.ndim == 2 else [array[..., c] for c in range(array.shape[2])]


def least_squares(before, after, shape, bias=False, border=None, ridge=0.0):
    """{taps, bias, r2, residual, samples, clipped}, by numpy's lstsq; of RGB, each channel has its samples."""
    inputs, targets, clipped = [], [], 0
    for x, t in zip(channels(before), channels(after)):
        w, inside = x / white(x), t / white(t)
        if border:
            w = windows(pad(w, shape, border), shape)
        else:
            w = windows(w, shape)
            inside = inside[shape[0] // 2:, shape[1] // 2:][:w.shape[0], :w.shape[1]]
        counts = (inside > 0) & (inside < 1) if t.dtype.kind == "u" else np.ones_like(inside, bool)
        inputs.append(w[counts].reshape(-1, shape[0] * shape[1]))
        targets.append(inside[counts])
        clipped += int((~counts).sum())
    a, t = np.concatenate(inputs).astype(np.float64), np.concatenate(targets).astype(np.float64)
    square = np.mean(a * a)
    full = np.hstack([a, np.ones((len(a), 1))]) if bias else a
    if ridge:
        weight = np.sqrt(ridge * square * len(a)) * np.eye(a.shape[1], full.shape[1])
        solution = np.linalg.lstsq(np.vstack([full, weight]), np.concatenate([t, np.zeros(a.shape[1])]), rcond=None)[0]
    else:
        solution = np.linalg.lstsq(full, t, rcond=None)[0]
    errors = t - full @ solution
    return {"taps": solution[:a.shape[1]].reshape(shape), "bias": solution[-1] if bias else 0.0, "samples": len(t), "clipped": clipped,
            "r2": 1 - np.sum(errors**2) / np.sum((t - t.mean())**2), "residual": np.sqrt(np.mean(errors**2)),
            "condition": np.linalg.cond(a.T @ a) if not (bias or ridge) else None}


class Fit(CommandTest):
    def setUp(self):
        super().setUp()
        self.generator = np.random.default_rng(17)

    def save(self, name, array):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".npy"):
            np.save(path, array)
        else:
            Image.fromarray(array).save(path)
        return array

    def photo(self, height, width, colours=None):
        """Smooth, with edges and noise: like a photo, its windows are far from independent."""
        y, x = np.mgrid[:height, :width]
        planes = [0.5 + 0.25 * np.sin(x / 17 + c) * np.cos(y / 11) + 0.15 * ((x // 9 + y // 13) % 2) + 0.03 * self.generator.standard_normal((height, width))
                  for c in range(colours or 1)]
        return np.clip(np.stack(planes, -1) if colours else planes[0], 0.02, 0.98)

    def fit(self, before, after, *words, **options):
        return json.loads(self.gconv("fit", "-i", before, "-t", after, "-o", "filter.txt", "--json", *words, **options).stdout)

    def refused(self, *words, status=2):
        result = self.gconv("fit", *words, status=status)
        self.assertEqual(result.stdout, "")
        self.assertFalse((self.folder / "filter.txt").exists(), "a filter is there after an error")
        return result.stderr

    def assert_equals(self, found, expected, within):
        self.assertLess(np.abs(np.array(found["taps"]) - expected["taps"]).max(), within)
        self.assertEqual((found["samples"], found["clipped"]), (expected["samples"], expected["clipped"]))
        self.assertAlmostEqual(found["bias"], expected["bias"], delta=within)
        self.assertAlmostEqual(found["r2"], expected["r2"], delta=1e-9)
        self.assertAlmostEqual(found["residual"], expected["residual"], delta=1e-7)
        if expected["condition"]:
            self.assertAlmostEqual(found["condition"] / expected["condition"], 1, delta=0.05)

    # ---- What is computed ----

    def test_known_taps_from_floats(self):
        taps = self.generator.standard_normal((7, 7))
        x = self.save("x.npy", self.photo(150, 201).astype(np.float32))
        self.save("y.npy", apply(x, taps).astype(np.float32))
        found = self.fit("x.npy", "y.npy", "--size", 7)
        self.assertLess(np.abs(np.array(found["taps"]) - taps).max(), 1e-7)
        self.assertGreater(found["r2"], 1 - 1e-11)
        self.assertEqual(found["samples"], (150 - 6) * (201 - 6))
        written = np.loadtxt(self.folder / "filter.txt")
        np.testing.assert_array_equal(written.astype(np.float32), np.array(found["taps"]).astype(np.float32))

    def test_gconv_finds_its_own_filters(self):
        x = self.save("x.npy", self.photo(90, 80).astype(np.float32))
        for spec, size in (("gaussian:size=5,sigma=1.2", "5"), ("sobel_x", "3"), ("motion:len=9,theta=30", "5x9"), ("[1 2; 3 4]", "2")):
            self.gconv("-i", "x.npy", "-f", spec, "--depth", "float", "-o", "y.npy", "--border", "replicate")
            self.fit("x.npy", "y.npy", "--size", size)
            self.gconv("-i", "x.npy", "-f", "filter.txt", "--depth", "float", "-o", "z.npy", "--border", "replicate")
            y, z = np.load(self.folder / "y.npy"), np.load(self.folder / "z.npy")
            self.assertLess(np.abs(y - z).max(), 2e-6 * np.abs(y).max(), spec)
        self.assertEqual(x.shape, y.shape)

    def test_against_lstsq(self):
        """Awkward shapes, types, colours, alpha, clipped samples, bias, ridge."""
        cases = [((40, 50), (3, 3), "uint8", None, (), {}), ((61, 37), (5, 2), "uint8", 3, ("--bias",), {"bias": True}),
                 ((33, 140), (1, 9), "uint16", None, (), {}), ((200, 9), (8, 1), "float32", None, ("--bias",), {"bias": True}),
                 ((30, 31), (4, 7), "float32", None, ("--ridge", "0.01"), {"ridge": 0.01}), ((70, 64), (3, 5), "uint16", 3, (), {}),
                 ((1, 9000), (1, 6), "float32", None, ("--bias", "--ridge", "1e-3"), {"bias": True, "ridge": 1e-3}),
                 ((150, 5000), (2, 3), "uint8", None, (), {}), ((7, 7), (3, 3), "float32", None, (), {}), ((12, 11), (1, 1), "uint8", None, (), {})]
        for shape, size, dtype, colours, words, options in cases:
            with self.subTest(shape=shape, size=size, dtype=dtype):
                taps = (0.3 * self.generator.standard_normal(size) + 0.6) / size[0] / size[1]
                x = self.photo(*shape, colours)
                y = np.stack([apply(c, taps, "replicate") for c in channels(x)], -1).reshape(x.shape) + 0.1 * self.generator.standard_normal(x.shape)
                kind = "npy" if dtype == "float32" or dtype == "uint16" and colours else "png"
                a, b = (np.clip(np.rint(v * 255), 0, 255).astype(np.uint8) if dtype == "uint8" else
                        np.clip(np.rint(v * 65535), 0, 65535).astype(np.uint16) if dtype == "uint16" else v.astype(np.float32) for v in (x, y))
                self.save(f"a.{kind}", a)
                self.save(f"b.{kind}", b)
                found = self.fit(f"a.{kind}", f"b.{kind}", "--size", f"{size[0]}x{size[1]}", *words)
                self.assert_equals(found, least_squares(a, b, size, **options), 1e-9)

    def test_borders(self):
        """Filters larger than the image, too: what a border has there repeats."""
        for border in MODES:
            for shape, size in (((23, 31), (5, 4)), ((72, 15), (3, 7)), ((90, 6), (2, 13)), ((5, 70), (9, 3))):
                if border == "reflect101" and min(a - b // 2 for a, b in zip(shape, size)) < 1:
                    continue
                with self.subTest(border=border, shape=shape, size=size):
                    x = self.save("x.npy", self.generator.random(shape).astype(np.float32))
                    taps = self.generator.standard_normal(size)
                    y = self.save("y.npy", (apply(x, taps, border) + 0.01 * self.generator.standard_normal(shape)).astype(np.float32))
                    ridge = 0.01 if size[0] > shape[0] or size[1] > shape[1] else 0  # taps that see the same samples
                    found = self.fit("x.npy", "y.npy", "--size", f"{size[0]}x{size[1]}", "--border", border, "--ridge", ridge)
                    self.assert_equals(found, least_squares(x, y, size, border=border, ridge=ridge), 1e-8)

    def test_clipped_samples_of_8_bits(self):
        """0.7% are black or white in AFTER: the taps are those of before."""
        taps = self.generator.standard_normal((7, 7)) * 0.03
        taps[3, 3] += 1
        x = np.clip(np.rint(255 * (self.photo(700, 900) + 0.1 * self.generator.standard_normal((700, 900)))), 0, 255).astype(np.uint8)
        y = apply(x, taps, "replicate")
        low, high = np.quantile(y, (0.0035, 0.9965))
        taps *= 255 / (high - low)
        y = apply(x, taps, "replicate") - low * 255 / (high - low)
        self.save("x.png", x)
        self.save("y.png", np.clip(np.rint(y), 0, 255).astype(np.uint8))
        found = self.fit("x.png", "y.png", "--size", 7, "--bias")
        share = found["clipped"] / (found["clipped"] + found["samples"])
        self.assertTrue(0.005 < share < 0.02, share)
        self.assertLess(np.abs(np.array(found["taps"]) - taps).max(), 3e-4)
        self.assertAlmostEqual(found["residual_levels"], 0.2887, delta=0.01)  # rounding: 1 / sqrt(12)

    def test_many_clipped_samples(self):
        x = self.generator.integers(0, 256, (120, 200), dtype=np.uint8)
        y = self.generator.integers(-200, 400, (120, 200)).clip(0, 255).astype(np.uint8)
        self.save("x.png", x)
        self.save("y.png", y)
        found = self.fit("x.png", "y.png", "--size", "5x6", "--bias")
        self.assert_equals(found, least_squares(x, y, (5, 6), bias=True), 1e-9)
        self.assertGreater(found["clipped"], found["samples"])

    def test_the_offset_of_the_file(self):
        """A bias is in levels of BEFORE in the file: applied, it gives AFTER."""
        for name, scale, kind in (("u8", 255, np.uint8), ("u16", 65535, np.uint16), ("f32", 1, np.float32)):
            x = (self.photo(60, 70) * 0.5 * scale).astype(kind)
            y = x.astype(np.float64) * 0.5 + 0.2 * scale
            self.save("x.npy", x)
            self.save("y.npy", y.astype(kind) if name == "f32" else np.rint(y).astype(kind))
            found = self.fit("x.npy", "y.npy", "--size", 1, "--bias")
            self.assertAlmostEqual(found["bias"], 0.2, delta=1e-3)
            self.gconv("-i", "x.npy", "-f", "filter.txt", "-o", "z.npy")
            y, z = (np.load(self.folder / n).astype(np.float64) / scale for n in ("y.npy", "z.npy"))
            self.assertLess(np.abs(y - z).max(), 1.01 / 255 if name == "u8" else 1e-4, name)

    def test_types_alpha_planes_frames(self):
        x, taps = self.photo(50, 60, 3), self.generator.standard_normal((3, 3))
        y = np.stack([apply(c, taps) for c in channels(x)], -1)
        expected = least_squares(x.astype(np.float32), y.astype(np.float32), (3, 3))["taps"]
        planes = [v.astype(np.float32).transpose(2, 0, 1)[None] for v in (x, y)]
        self.save("x.npy", planes[0])
        self.save("y.npy", planes[1])
        self.assertLess(np.abs(np.array(self.fit("x.npy", "y.npy", "--size", 3)["taps"]) - expected).max(), 1e-7)
        self.save("x.npy", np.asfortranarray(planes[0][0, 0]))
        self.save("y.npy", planes[1][0, 0])
        self.assertLess(np.abs(np.array(self.fit("x.npy", "y.npy", "--size", 3)["taps"]) - taps).max(), 1e-6)
        colours = self.save("x.png", np.rint(x * 255).astype(np.uint8))
        opaque = np.dstack([colours, self.generator.integers(0, 255, (50, 60), dtype=np.uint8)])
        self.save("a.png", opaque)
        plain, alpha = self.fit("x.png", "x.png", "--size", 3), self.fit("x.png", "a.png", "--size", 3)
        self.assertEqual((plain["taps"], plain["samples"]), (alpha["taps"], alpha["samples"]))

    def test_threads_change_nothing(self):
        x = self.save("x.png", np.rint(255 * self.photo(211, 170, 3)).astype(np.uint8))
        self.save("y.png", 255 - x // 2)
        runs = []
        for threads, isa in ((1, ""), (2, ""), (7, ""), (2, "plain"), (3, "avx2")):
            result = self.gconv("fit", "-i", "x.png", "-t", "y.png", "--size", 5, "--bias", "--json", "--holdout", "30%", "-o", "filter.txt",
                                "--threads", threads, "-q", env={"GCONV_ISA": isa} if isa else None)
            runs.append((result.stdout, (self.folder / "filter.txt").read_text()))
        self.assertEqual(runs[1:], runs[:-1])

    # ---- Pairs ----

    def test_folders(self):
        taps = self.generator.standard_normal((3, 3))
        images = {name: self.generator.random((20 + i, 30)).astype(np.float32) for i, name in enumerate(("a", "b", "sub/c", "sub/d"))}
        for name, x in images.items():
            self.save(f"in/{name}.npy", x)
            self.save(f"out/{name}.npy", apply(x, taps).astype(np.float32))
        self.save("in/alone.npy", images["a"])
        result = self.gconv("fit", "-i", "in", "-t", "out", "-s", 3, "-o", "filter.txt", "--json", "-r")
        self.assertEqual(result.stderr, "gconv: fit: 1 file has no partner, such as in/alone.npy\n")
        found = json.loads(result.stdout)
        self.assertEqual((found["pairs"], found["without_partner"], found["samples"]), (4, 1, sum((18 + i) * 28 for i in range(4))))
        self.assertLess(np.abs(np.array(found["taps"]) - taps).max(), 1e-7)
        self.assertEqual(self.fit("in", "out", "-s", 3, "-q")["pairs"], 2)

    def test_names_that_differ_by_the_extension(self):
        x = self.save("in/a.png", np.rint(255 * self.photo(30, 30)).astype(np.uint8))
        self.save("out/a.npy", (x / np.float32(255)).astype(np.float32))
        found = self.fit("in", "out", "-s", 3)
        self.assertAlmostEqual(found["taps"][1][1], 1, delta=1e-6)
        self.assertIsNone(found["residual_levels"])

    def test_standard_input(self):
        x = self.save("x.png", np.rint(255 * self.photo(30, 30)).astype(np.uint8))
        result = self.gconv("fit", "-i", "-", "-t", "x.png", "-s", 1, stdin=(self.folder / "x.png").read_bytes())
        self.assertEqual(result.stdout.split()[-1], "1")
        self.assertIn("R2", result.stderr)
        self.assertEqual(x.shape, (30, 30))

    # ---- Held out ----

    def test_rows_are_held_out(self):
        x = self.save("x.npy", self.generator.random((160, 40)).astype(np.float32))
        y = self.save("y.npy", (apply(x, np.ones((3, 3)) / 9) + 0.01 * self.generator.standard_normal(x.shape)).astype(np.float32))
        found = self.fit("x.npy", "y.npy", "-s", 3, "--holdout", "20%")
        held = np.zeros(158, bool)  # rows of places of the filter: the fifth block of 16, and the tenth
        held[64:80] = held[144:160] = True
        w, t = windows(x.astype(np.float64), (3, 3)).reshape(158, 38, 9), y[1:-1, 1:-1].astype(np.float64)
        taps = np.linalg.lstsq(w[~held].reshape(-1, 9), t[~held].ravel(), rcond=None)[0]
        self.assertLess(np.abs(np.array(found["taps"]).ravel() - taps).max(), 1e-9)
        errors, kept = t[held] - w[held] @ taps, t[held]
        self.assertEqual((found["samples"], found["held"]["samples"], found["held"]["pairs"]), ((~held).sum() * 38, held.sum() * 38, 0))
        self.assertAlmostEqual(found["held"]["residual"], np.sqrt(np.mean(errors**2)), delta=1e-9)
        self.assertAlmostEqual(found["held"]["r2"], 1 - np.sum(errors**2) / np.sum((kept - kept.mean())**2), delta=1e-9)

    def test_pairs_are_held_out(self):
        for i in range(6):
            x = self.save(f"in/{i}.npy", self.generator.random((20, 20)).astype(np.float32))
            self.save(f"out/{i}.npy", -x if i in (1, 3, 5) else x)
        found = self.fit("in", "out", "-s", 1, "--holdout", "0.5")
        self.assertAlmostEqual(found["taps"][0][0], 1, delta=1e-9)
        self.assertEqual((found["held"]["pairs"], found["held"]["samples"]), (3, 1200))
        self.assertLess(found["held"]["r2"], 0)
        self.assertIn("held out: 3 pairs", self.gconv("fit", "-i", "in", "-t", "out", "-s", 1, "--holdout", "50%", "-o", "f.txt").stdout)

    # ---- What is said ----

    def pair(self, y, *words):
        x = np.rint(255 * self.photo(300, 320)).astype(np.uint8)
        self.save("x.png", x)
        self.save("y.png", np.clip(np.rint(y(x.astype(np.float64))), 0, 255).astype(np.uint8))
        found = self.fit("x.png", "y.png", "--size", 5, "--bias", *words)
        return found, self.gconv("fit", "-i", "x.png", "-t", "y.png", "--size", 5, "--bias", "-o", "f.txt", *words).stdout

    def test_no_linear_filter(self):
        for name, y in (("threshold", lambda x: np.where(x > 128, 200, 60)), ("absolute", lambda x: 20 + 3 * abs(x - 128))):
            found, text = self.pair(y)
            self.assertFalse(found["linear"], name)
            self.assertIn("No linear filter", text, name)
            self.assertGreater(found["correlation"], 0.3)

    def test_noise_is_no_reason(self):
        found, text = self.pair(lambda x: x / 2 + 60 + self.generator.normal(0, 30, x.shape))
        self.assertLess(found["r2"], 0.9)
        self.assertTrue(found["linear"])
        self.assertLess(abs(found["correlation"]), 0.1)
        self.assertEqual((found["shift"], found["cut"]), (None, False), text)

    def test_shifts(self):
        for shift in ((2, -1), (0, 23), (-31, 9)):
            found, text = self.pair(lambda x, s=shift: np.roll(x, s, (0, 1)))
            self.assertAlmostEqual(found["shift"]["y"], shift[0], delta=0.3)
            self.assertAlmostEqual(found["shift"]["x"], shift[1], delta=0.3)
            self.assertIn("AFTER looks shifted", text)
        self.assertIn("9.0 pixels to the right, 31.0 pixels up", text)
        found, text = self.pair(lambda x: apply(x, np.ones((4, 4)) / 16, "replicate"))
        self.assertIsNone(found["shift"], text)

    def test_a_filter_that_is_cut_off(self):
        found, text = self.pair(lambda x: apply(x, np.ones((11, 11)) / 121, "replicate"))
        self.assertTrue(found["cut"])
        self.assertIn("larger --size", text)

    def test_a_constant_target(self):
        x = self.save("x.npy", self.generator.random((30, 30)).astype(np.float32))
        self.save("y.npy", np.full_like(x, 0.25))
        found = self.fit("x.npy", "y.npy", "-s", 3, "--bias")
        self.assertIsNone(found["r2"])
        self.assertAlmostEqual(found["bias"], 0.25, delta=1e-9)
        self.assertIn("not defined", self.gconv("fit", "-i", "x.npy", "-t", "y.npy", "-s", 3, "--bias", "-o", "f.txt").stdout)

    # ---- Errors ----

    def test_what_must_be_given(self):
        self.save("x.png", np.zeros((9, 9), np.uint8))
        self.assertIn("-i", self.refused("-t", "x.png", "--size", 3))
        self.assertIn("-t", self.refused("-i", "x.png", "--size", 3))
        self.assertIn("--size 7", self.refused("-i", "x.png", "-t", "x.png"))
        self.assertIn("unexpected argument", self.refused("x.png", "-i", "x.png", "-t", "x.png", "--size", 3))
        self.assertIn("only once", self.refused("-i", "-", "-t", "-", "--size", 3))
        for size in ("0", "3x", "x3", "3x3x3", "3,3", "-1", "1.5", "", "5000", "seven"):
            self.assertIn("this takes a size from 1 to 4096", self.refused("-i", "x.png", "-t", "x.png", f"--size={size}"))
        self.assertIn("at most 4096", self.refused("-i", "x.png", "-t", "x.png", "--size", "65x64", status=1))
        for share in ("0", "100%", "1", "-5%", "20%%", "x", "%"):
            self.assertIn("this takes a share", self.refused("-i", "x.png", "-t", "x.png", "-s", 3, f"--holdout={share}"))
        self.assertIn("this takes a number from 0 on", self.refused("-i", "x.png", "-t", "x.png", "-s", 3, "--ridge=-1"))

    def test_pairs_that_are_none(self):
        x = self.save("x.png", np.rint(255 * self.photo(30, 40)).astype(np.uint8))
        self.save("small.png", x[:, :30])
        self.save("rgb.png", np.dstack([x] * 3))
        self.save("in/a.png", x)
        self.save("out/b.png", x)
        words = ("-s", 3, "-o", "filter.txt")
        error = self.refused("-i", "x.png", "-t", "small.png", *words)
        self.assertIn("x.png is 40 x 30, 1 channel (grey), and small.png is 30 x 30, 1 channel (grey)", error)
        self.assertIn("3 channels", self.refused("-i", "x.png", "-t", "rgb.png", *words))
        self.assertIn("no pair", self.refused("-i", "in", "-t", "out", *words))
        error = self.refused("-i", "x.png", "small.png", "-t", "out", "x.png", *words)
        self.assertIn("small.png: has no partner among the images of -t", error)
        self.assertIn("no such file", self.refused("-i", "nothing.png", "-t", "x.png", *words).lower())
        (self.folder / "broken.png").write_bytes((self.folder / "x.png").read_bytes()[:500])
        self.assertIn("broken.png", self.refused("-i", "x.png", "-t", "broken.png", *words, status=1))

    def test_too_few_samples(self):
        x = self.save("x.npy", self.generator.random((8, 8)).astype(np.float32))
        self.save("y.npy", x)
        self.assertIn("4 samples are too few for 49 unknowns", self.refused("-i", "x.npy", "-t", "y.npy", "-s", 7, status=1))
        self.assertIn("does not fit into an image of 8 rows", self.refused("-i", "x.npy", "-t", "y.npy", "-s", 9))
        self.save("black.png", np.zeros((40, 40), np.uint8))
        self.save("noise.png", self.generator.integers(0, 256, (40, 40), dtype=np.uint8))
        error = self.refused("-i", "noise.png", "-t", "black.png", "-s", 3, status=1)
        self.assertIn("0 samples are too few", error)
        self.assertIn("black or white", error)
        self.assertIn("too small to hold out", self.refused("-i", "x.npy", "-t", "y.npy", "-s", 1, "--holdout", "20%"))

    def test_equations_without_a_single_solution(self):
        self.save("flat.npy", np.full((40, 40), 0.5, np.float32))
        y, x = np.mgrid[:40, :40]
        self.save("ramp.npy", (x / 64 + y / 128).astype(np.float32))
        self.save("stripes.npy", np.tile(self.generator.random(40).astype(np.float32), (40, 1)))
        for name in ("flat.npy", "ramp.npy", "stripes.npy"):
            for bias in ((), ("--bias",)):
                error = self.refused("-i", name, "-t", name, "-s", 3, *bias, "-o", "filter.txt", status=1)
                self.assertIn("--ridge 1e-6", error, name)
            found = self.fit(name, name, "-s", 3, "--ridge", "1e-6")
            self.assertLess(found["residual"], 1e-3)
            os.remove(self.folder / "filter.txt")

    def test_numbers_that_are_none(self):
        x = self.save("x.npy", self.generator.random((30, 40)).astype(np.float32))
        for value, word in ((np.nan, "NaN"), (np.inf, "infinite")):
            bad = x.copy()
            bad[20, 7] = value
            self.save("bad.npy", bad)
            for pair in (("bad.npy", "x.npy"), ("x.npy", "bad.npy")):
                error = self.refused("-i", pair[0], "-t", pair[1], "-s", 3, "-o", "filter.txt", status=1)
                self.assertIn(f"bad.npy: the sample at x 7, y 20, channel 0 is {word}", error)

    def test_outputs(self):
        x = self.save("x.png", np.rint(255 * self.photo(30, 30)).astype(np.uint8))
        (self.folder / "filter.txt").write_text("old")
        kept = self.gconv("fit", "-i", "x.png", "-t", "x.png", "-s", 3, "-o", "filter.txt", "--no-clobber", status=1)
        self.assertIn("exists", kept.stderr)
        self.assertEqual((self.folder / "filter.txt").read_text(), "old")
        self.fit("x.png", "x.png", "-s", 3)
        self.assertEqual(np.loadtxt(self.folder / "filter.txt").shape, (3, 3))
        before = (self.folder / "x.png").read_bytes()
        self.assertIn("a filter is written as .txt, and this name promises .png", self.gconv("fit", "-i", "x.png", "-t", "x.png", "-s", 3, "-o", "./x.png", status=2).stderr)
        self.assertEqual((self.folder / "x.png").read_bytes(), before)
        self.assertIn("nowhere", self.gconv("fit", "-i", "x.png", "-t", "x.png", "-s", 3, "-o", "nowhere/f.txt", status=1).stderr)
        self.assertEqual(self.gconv("fit", "-i", "x.png", "-t", "x.png", "-s", 3, "-o", "filter.txt", "-q").stdout, "")
        mixed = self.save("y.npy", (x / 255).astype(np.float32))
        self.assertEqual(mixed.shape, x.shape)

    def test_a_bias_of_several_types(self):
        x = self.save("in/a.png", np.rint(255 * self.photo(30, 30)).astype(np.uint8))
        self.save("in/b.npy", self.photo(30, 30).astype(np.float32))
        for name in ("a.png", "b.npy"):
            (self.folder / "out").mkdir(exist_ok=True)
            (self.folder / "out" / name).write_bytes((self.folder / "in" / name).read_bytes())
        self.assertIn("several types", self.refused("-i", "in", "-t", "out", "-s", 1, "--bias", "-o", "filter.txt", status=1))
        self.assertAlmostEqual(self.fit("in", "out", "-s", 1)["taps"][0][0], 1, delta=1e-9)
        self.assertEqual(x.shape, (30, 30))

    @needs("libtiff")
    def test_frames(self):
        frames = [Image.fromarray(self.generator.integers(1, 255, (20, 25), dtype=np.uint8)) for _ in range(3)]
        frames[0].save(self.folder / "x.tif", save_all=True, append_images=frames[1:])
        self.assertEqual(self.fit("x.tif", "x.tif", "-s", 3)["samples"], 3 * 18 * 23)
        frames[0].save(self.folder / "one.tif")
        os.remove(self.folder / "filter.txt")
        self.assertIn("3 frames", self.refused("-i", "x.tif", "-t", "one.tif", "-s", 3))


class Memory(CommandTest):
    def test_large_images_are_read_by_rows(self):
        """Two images of 48 MB in far less: by bands."""
        rows = np.random.default_rng(3).random((64, 3000)).astype(np.float32)
        large = np.tile(rows, (63, 1))
        np.save(self.folder / "x.npy", large)
        np.save(self.folder / "s.npy", rows)
        small, peak = (self.peak_bytes("fit", "-i", name, "-t", name, "-s", "3", "-o", "f.txt", "-q") for name in ("s.npy", "x.npy"))
        self.assertLess(peak - small, 30e6)


if __name__ == "__main__":
    unittest.main()
