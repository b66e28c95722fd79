#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A 16-bit 4K photo from TIFF to TIFF through filters of 9 x 9: gconv, OpenCV and vips, whole processes side by side.

usage: tiff.py GCONV PHOTO WORK [--rounds 7]

WORK is a folder for the files, best in memory. The photo becomes 3840 x 2160 pixels of 16 bits with some noise in the last
ones, once stored and once by Deflate. Each program reads that, applies the filter, and writes the same kind. Medians are in
ms; a ratio is the peer's time over gconv's.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

import cv2
import numpy

OPENCV = """
import sys, cv2, numpy
source, target, filter, compression = sys.argv[1:]
image = cv2.imread(source, cv2.IMREAD_UNCHANGED)
if filter == "gaussian":
    image = cv2.GaussianBlur(image, (9, 9), 2, borderType=cv2.BORDER_REPLICATE)
else:
    image = cv2.filter2D(image, -1, numpy.loadtxt(filter, numpy.float32), borderType=cv2.BORDER_REPLICATE)
cv2.imwrite(target, image, [cv2.IMWRITE_TIFF_COMPRESSION, int(compression)])
"""


def make_inputs(photo, work):
    random = numpy.random.default_rng(0)
    small = cv2.resize(cv2.imread(photo), (3840, 2160), interpolation=cv2.INTER_CUBIC)
    image = (small.astype(numpy.uint16) * 257 + random.integers(-100, 101, small.shape)).clip(0, 65535).astype(numpy.uint16)
    for name, number in (("stored", 1), ("deflate", 8)):
        cv2.imwrite(str(work / f"{name}.tif"), image, [cv2.IMWRITE_TIFF_COMPRESSION, number])
    taps = random.integers(1, 101, (9, 9))  # no two rows alike: not separable; whole numbers, as vips rounds taps to them
    numpy.savetxt(work / "dense.txt", taps / taps.sum(), "%.9g")
    numpy.savetxt(work / "dense.mat", taps, "%d", header=f"9 9 {taps.sum()}", comments="")


def commands(gconv, work):
    for packing in ("stored", "deflate"):
        source = str(work / f"{packing}.tif")
        kept = {"stored": ["none", "1", "none"], "deflate": ["deflate", "8", "deflate"]}[packing]
        for filter in ("gaussian", "dense"):
            own = {"gaussian": "gaussian:size=9,sigma=2", "dense": str(work / "dense.txt")}[filter]
            target = {name: str(work / f"{name}.tif") for name in ("gconv", "opencv", "vips")}
            blur = ["gaussblur", source, f"{target['vips']}[compression={kept[2]}]", "2"]
            conv = ["conv", source, f"{target['vips']}[compression={kept[2]}]", str(work / "dense.mat"), "--precision"]
            yield packing, filter, {
                "gconv": [gconv, "-i", source, "-f", own, "--border", "replicate", "-o", target["gconv"], "--tiff-compression",
                          kept[0], "-q"],
                "OpenCV": [sys.executable, "-c", OPENCV, source, target["opencv"],
                           filter if filter == "gaussian" else own, kept[1]],
                "vips": ["vips", *(blur if filter == "gaussian" else [*conv, "integer"])],
                "vips float": ["vips", *([*blur, "--precision", "float"] if filter == "gaussian" else [*conv, "float"])]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gconv")
    parser.add_argument("photo")
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    make_inputs(options.photo, options.work)
    for packing, filter, programs in commands(options.gconv, options.work):
        times = {name: [] for name in programs}
        for _ in range(options.rounds):
            for name, words in programs.items():
                begin = time.perf_counter()
                subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "GCONV_CACHE": ""})
                times[name].append((time.perf_counter() - begin) * 1e3)
        medians = {name: statistics.median(taken) for name, taken in times.items()}
        print(f"{packing:8} {filter:9}" + ", ".join(
            f"{name} {ms:.0f} ms" + (f" ({ms / medians['gconv']:.1f} x)" if name != "gconv" else "")
            for name, ms in medians.items()), flush=True)


if __name__ == "__main__":
    main()
