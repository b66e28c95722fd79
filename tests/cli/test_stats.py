# SPDX-License-Identifier: MIT
"""gconv stats: its numbers against numpy in float64; CSV, JSON, the table, histograms, filters, folders."""
import csv
import io
import json
import unittest

import numpy as np
from helper import CommandTest
from PIL import Image

NOISE = np.outer([1, -2, 1], [1, -2, 1])


def respond(x, taps):
    """Correlation inside the image."""
    return sum(taps[r][s] * x[r:x.shape[0] - 2 + r, s:x.shape[1] - 2 + s] for r in range(3) for s in range(3))


def expected(x, white, percentiles):
    """Of one channel, in float64; NaN is missing. Responses at missing samples count in none."""
    x = x.astype(np.float64)
    there = x[np.isfinite(x)]
    with np.errstate(invalid="ignore"):
        even = x[:x.shape[0] // 2 * 2, :x.shape[1] // 2 * 2]
        blocks = np.abs(even[::2, ::2] - even[::2, 1::2] - even[1::2, ::2] + even[1::2, 1::2])
        wide = np.pad(x, 1, mode="reflect") if min(x.shape) > 1 else None
        laplacian = respond(wide, [[0, 1, 0], [1, -4, 1], [0, 1, 0]])
        noise = respond(x, NOISE)
    found = {"count": there.size, "missing": x.size - there.size, "mean": there.mean(), "std": there.std(), "min": there.min(),
             "max": there.max(), "black": (there <= 0).mean(), "white": (there >= white).mean(),
             "noise": np.sqrt(np.pi / 2) / 6 * np.abs(noise[np.isfinite(noise)]).mean(),
             "noise_mad": np.median(blocks[np.isfinite(blocks)]) / 2 / 0.6744897501960817, "focus": laplacian[np.isfinite(laplacian)].var()}
    return found | {f"p{p:g}": np.percentile(there, p) for p in percentiles}


class Stats(CommandTest):
    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(45)

    def json(self, *words):
        return json.loads(self.gconv("stats", *words, "--json").stdout)["images"]

    def check(self, found, want, skip=()):
        for key, value in want.items():
            if key not in skip:  # of floats, differences in blocks are float32
                self.assertAlmostEqual(found[key], value, delta=(1e-7 if key == "noise_mad" else 1e-9) * max(1, abs(value)), msg=key)

    def test_numbers_are_those_of_numpy(self):
        shapes = ((37, 53), (64, 130, 3), (35, 70, 4), (2, 2), (3, 1000), (300, 3))
        for shape in shapes:
            for dtype, white in ((np.uint8, 255), (np.uint16, 65535), (np.float32, 1)):
                image = self.random.normal(0.5, 0.3, shape).clip(-0.2, 1.2)
                image = image.astype(np.float32) if white == 1 else (image.clip(0, 1) * white).round().astype(dtype)
                np.save(self.folder / "a.npy", image)
                for threads in "1", "2":
                    found, = self.json("a.npy", "--percentiles", "0,0.1,33.3,50,100", "--threads", threads)
                    planes = image.reshape(shape[0], shape[1], -1)
                    self.assertEqual(found["white_level"], white)
                    for c in range(planes.shape[2]):
                        channel = found["channels"][c]
                        self.check(channel, expected(planes[..., c], white, (0, 0.1, 33.3, 50, 100)) if min(shape[:2]) > 2 else
                                   {"mean": planes[..., c].astype(np.float64).mean()})
                        bins, _ = np.histogram(planes[..., c], 256, (0, 256) if white == 255 else found["histogram_range"])
                        if white != 1:  # of floats, samples on an edge of bins fall on either side
                            self.assertLessEqual(np.abs(np.cumsum(bins) - np.cumsum(channel["histogram"])).max(), 4 * (white > 255))
                        self.assertEqual(sum(channel["histogram"]), channel["count"])
                    if planes.shape[2] >= 3:
                        self.assertEqual(found["channels"][-1]["channel"], "all")
                        both = planes.astype(np.float64)  # .npy has no alpha
                        self.check(found["channels"][-1], {"count": both.size, "mean": both.mean(), "std": both.std(), "p33.3": np.percentile(both, 33.3)})

    def test_a_region_its_samples_and_the_places_of_extremes(self):
        planes = self.random.integers(1, 255, (3, 20, 30)).astype(np.uint8)
        planes[:, 7, 9], planes[:, 5, 11] = (255, 0, 255), (0, 255, 0)
        Image.fromarray(np.moveaxis(planes, 0, -1)).save(self.folder / "a.png")
        for name, stack in (("a.png", planes[:, None]), ("f.npy", planes[:1, None] / np.float32(255))):
            if name == "f.npy":
                stack[0, 0, 0, 0] = np.nan
                np.save(self.folder / name, stack[0, 0])
            part = stack[:, 0, 5:11, 9:13]
            found, = self.json(name, "--region", "4x6+9+5", "--where")
            for channel, values in zip(found["channels"], part):
                self.assertEqual((channel["count"], channel["max"]), (24, values.max()))
                for key, index in (("min_at", values.argmin()), ("max_at", values.argmax())):
                    self.assertEqual(channel[key], [9 + index % 4, 5 + index // 4, 0])
            text = self.gconv("stats", name, "--region", "4x6+9+5", "--values").stdout
            np.testing.assert_array_equal(np.loadtxt(io.StringIO(text)).reshape(part.shape).astype(part.dtype), part)
        self.assertIn("green: max 255 at column 11, row 5; min 0 at column 9, row 7\n", self.gconv("stats", "a.png", "--where").stdout)
        row, = csv.DictReader(io.StringIO(self.gconv("stats", "f.npy", "--where", "--csv").stdout))
        self.assertEqual((row["max_x"], row["max_y"], row["min_x"], row["min_y"]), ("9", "7", "11", "5"))
        np.save(self.folder / "t.npy", np.array([[0, 0, 0], [0, 0, 1], [0, 0, 0]], np.float32))  # the peak moves to the left
        self.assertIn("max 1 at column 8, row 7", self.gconv("stats", "f.npy", "-f", "t.npy", "--where", "--border", "replicate").stdout)
        self.gconv("stats", "a.png", "--region", "4x6+27+5", status=2)
        for option in "--json", "--channels", "--percentiles=5":
            self.usage_error("--values prints the samples alone", "stats", "a.png", "--values", option)
        text = self.gconv("stats", "f.npy", "t.npy", "--region", "1x1+1+1", "--values").stdout
        self.assertRegex(text, r"\A# f.npy, frame 1, grey\n\S+\n# t.npy, frame 1, grey\n0\n\Z")
        np.save(self.folder / "n.npy", np.full((4, 5), np.nan, np.float32))
        self.assertNotIn("column", self.gconv("stats", "n.npy", "--where").stdout)
        self.assertNotIn("min_at", self.json("n.npy", "--where")[0]["channels"][0])
        self.assertIn(",,,,,,\n", self.gconv("stats", "n.npy", "--where", "--csv").stdout)

    def test_missing_samples_count_in_nothing(self):
        image = self.random.normal(1000, 1, (40, 60)).astype(np.float32)
        image[3, 7], image[20, 20], image[39, 59] = np.nan, np.inf, -np.inf
        np.save(self.folder / "a.npy", image)
        found, = self.json("a.npy")
        want = expected(image, 1, (1, 50, 99))
        self.check(found["channels"][0], want, skip=("focus",))
        self.assertEqual(found["channels"][0]["missing"], 3)
        self.assertAlmostEqual(found["channels"][0]["focus"] / want["focus"], 1, delta=0.02)
        np.save(self.folder / "b.npy", np.full((5, 5), np.nan, np.float32))
        found, = self.json("b.npy")
        self.assertEqual((found["channels"][0]["count"], found["channels"][0]["mean"], found["channels"][0]["p50"]), (0, None, None))

    def test_alpha_outside_the_range_of_the_colours(self):
        """The range of histograms is that of the colours. Alpha beyond it counts in the first and the last bin."""
        pixels = np.full((2, 4, 4), 30000, ">u2")
        pixels[0, 0, 0], pixels[0, :, 3], pixels[1, :, 3] = 30007, 0, 65535
        head = b"P7\nWIDTH 4\nHEIGHT 2\nDEPTH 4\nMAXVAL 65535\nTUPLTYPE RGB_ALPHA\nENDHDR\n"
        (self.folder / "a.pam").write_bytes(head + pixels.tobytes())
        found, = self.json("a.pam")
        histogram = found["channels"][3]["histogram"]
        self.assertEqual((histogram[0], histogram[255], sum(histogram)), (4, 4, 8))

    def test_planes_and_frames(self):
        planes = self.random.integers(0, 65536, (5, 6, 20, 30)).astype(np.uint16)
        np.save(self.folder / "a.npy", planes)
        found, = self.json("a.npy")
        self.assertEqual([c["channel"] for c in found["channels"]], [f"channel {i}" for i in range(1, 7)] + ["all"])
        for c in range(6):
            self.check(found["channels"][c], {"count": 3000, "mean": planes[:, c].mean(), "max": planes[:, c].max(), "p50": np.median(planes[:, c])})
        self.check(found["channels"][6], {"mean": planes.mean(), "p99": np.percentile(planes, 99)})

    def test_behind_a_filter(self):
        image = self.random.integers(0, 256, (40, 50)).astype(np.uint8)
        Image.fromarray(image).save(self.folder / "a.png")
        found, = self.json("a.png", "-f", "3x3: 0,1,0 1,-4,1 0,1,0")
        want = respond(np.pad(image.astype(np.float64), 1, mode="reflect"), [[0, 1, 0], [1, -4, 1], [0, 1, 0]])
        self.assertAlmostEqual(found["channels"][0]["std"], want.std(), delta=1e-4)
        self.assertAlmostEqual(found["channels"][0]["min"], want.min(), delta=1e-3)
        plain, = self.json("a.png")
        self.assertAlmostEqual(plain["channels"][0]["focus"], want.var(), delta=1e-6 * want.var())
        self.gconv("stats", "a.png", "-f", "sobel", "--border", "zero")
        self.assertIn("the result of one", self.gconv("stats", "a.png", "-f", "sobel_x", "-f", "sobel_y", status=2).stderr)

    def test_csv_table_and_plot(self):
        (self.folder / "p").mkdir()
        for name in ("a,b.png", "c.png"):
            Image.fromarray(self.random.integers(0, 256, (20, 30, 3)).astype(np.uint8)).save(self.folder / "p" / name)
        rows = list(csv.DictReader(io.StringIO(self.gconv("stats", "p", "--csv").stdout)))
        self.assertEqual([(r["path"], r["channel"]) for r in rows],
                         [(name, c) for name in ("p/a,b.png", "p/c.png") for c in ("red", "green", "blue", "all")])
        found = self.json("p")
        self.assertEqual(float(rows[3]["mean"]), float(f"{found[0]['channels'][3]['mean']:.10g}"))
        table = self.gconv("stats", "p").stdout.splitlines()
        self.assertEqual((len(table), table[1].split()[:2], table[2].split()[-1]), (3, ["all", "1800"], "p/c.png"))
        self.assertEqual(len(self.gconv("stats", "p", "--channels", "--plot", "h.svg").stdout.splitlines()), 11)
        self.assertIn("a,b.png", (self.folder / "h.svg").read_text())
        self.gconv("stats", "p", "--plot", "h.png", status=2)

    def test_folders_report_in_order_and_failures(self):
        (self.folder / "p").mkdir()
        for i in range(9):
            Image.fromarray(np.full((30, 30), i, np.uint8)).save(self.folder / "p" / f"{i}.png")
        (self.folder / "p" / "4.png").write_bytes(b"\x89PNG\r\n\x1a\n")
        ended = self.gconv("stats", "p", "--csv", status=3)
        self.assertEqual([line.split(",")[4] for line in ended.stdout.splitlines()[1:]], list("01235678"))
        self.assertIn("4.png", ended.stderr)
        for words in (("--percentiles", "101"), ("--percentiles", ",".join("1" * 17)), ("--csv", "--json"), ("-f", "nothing.txt")):
            self.gconv("stats", "p", *words, status=2)


if __name__ == "__main__":
    unittest.main()
