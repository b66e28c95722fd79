#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Photos from file to file on the CPU: gconv against OpenCV, vips and ImageMagick 7, in turns.

usage: [PYTHONPATH=BUILD/python] PYTHON tests/bench/files_against_peers.py GCONV PHOTO_OR_FOLDER WORK [--count N] [--rounds 7] [--threads N] [--format png]
                                                [--only gconv,OpenCV,vips]

PYTHON is one that has today's OpenCV and pyvips. WORK is a folder, best in memory (/dev/shm). Each photo goes through Sobel's
3 x 3 to a file of the format. A photo: gconv is a whole process and, where Python has it, a call, gconv.run; the others are
calls in this process, which has started long ago. A folder, whose photos stand in WORK under --count names: gconv is one process, and the others are pools of so many
processes as threads, each with one thread, which have started, too. "as called" has no options of the writer; vips has
compression=1 (PNG) besides, which is its fastest. Printed are medians of milliseconds, the bytes of the results, and how
many times as long as the first each takes.
"""
import argparse
import multiprocessing
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time
import warnings

import cv2
import numpy as np

try:
    import gconv
except ImportError:
    gconv = None
try:
    import pyvips
except ImportError:
    pyvips = None

REST = 0.02  # seconds before each: threads of the one before may still be awake
TAPS = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], np.float32)


def by_opencv(photo, out):
    cv2.imwrite(out, cv2.filter2D(cv2.imread(photo, cv2.IMREAD_UNCHANGED), -1, TAPS, borderType=cv2.BORDER_CONSTANT))


def by_vips(photo, out, **options):
    image = pyvips.Image.new_from_file(photo, access="sequential")
    image.conv(pyvips.Image.new_from_array(TAPS.tolist()), precision="integer").cast("uchar").write_to_file(out, **options)


def by_vips_fast(photo, out):
    by_vips(photo, out, compression=1)


def by_magick(photo, out):
    subprocess.run(["magick", photo, "-define", "convolve:scale=1", "-morphology", "Correlate",
                    "3x3: -1,0,1 -2,0,2 -1,0,1", out], check=True)


def begin_process():
    cv2.setNumThreads(1)


def run_gconv(program, source, out, threads):
    subprocess.run([program, "-q", "-i", source, "-f", "sobel_x", "-o", out, "-d", "cpu", "--threads", str(threads)], check=True)


def peers(suffix, wanted):
    found = {f"OpenCV {cv2.__version__} as called": by_opencv}
    if pyvips:
        name = "vips " + ".".join(str(pyvips.version(i)) for i in range(3))
        found[f"{name} as called"] = by_vips
        if suffix == "png":
            found[f"{name} compression=1"] = by_vips_fast
    if shutil.which("magick"):
        text = subprocess.run(["magick", "--version"], capture_output=True, text=True).stdout
        found["ImageMagick " + text.split()[2]] = by_magick
    return {name: call for name, call in found.items() if not wanted or name.split()[0] in wanted}


def bytes_of(path):
    return sum(f.stat().st_size for f in path.iterdir()) if path.is_dir() else path.stat().st_size


def measure(calls, out, rounds):
    """{name: (median ms, bytes)} of functions that take turns; what they wrote is removed before each."""
    times, sizes = {name: [] for name in calls}, {}
    for turn in range(rounds + 1):
        for name, call in calls.items():
            if out.suffix == "":
                shutil.rmtree(out, ignore_errors=True)
                out.mkdir()
            time.sleep(REST)
            begin = time.perf_counter()
            call()
            if turn > 0:
                times[name].append((time.perf_counter() - begin) * 1e3)
            sizes[name] = bytes_of(out)
    return {name: (statistics.median(taken), sizes[name]) for name, taken in times.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gconv")
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--format", default="png")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    options.work.mkdir(parents=True, exist_ok=True)
    cv2.setNumThreads(options.threads)
    chosen = peers(options.format, options.only.split(",") if options.only else [])
    version = subprocess.run([options.gconv, "--version"], capture_output=True, text=True).stdout.split()[1]
    threads = options.threads
    if options.source.is_file():
        out, source = options.work / f"out.{options.format}", str(options.source)
        calls = {f"gconv {version}, a process": lambda: run_gconv(options.gconv, source, str(out), threads)}
        if gconv:
            calls[f"gconv {gconv.version()} called"] = lambda: gconv.run(source, "sobel_x", str(out), device="cpu", threads=threads)
        calls |= {name: lambda call=call: call(source, str(out)) for name, call in chosen.items()}
        found = measure(calls, out, options.rounds)
    else:
        photos = sorted(f for f in options.source.iterdir() if f.is_file())
        folder, out = options.work / "in", options.work / "out"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        names = [folder / f"{i:04}{photos[i % len(photos)].suffix}" for i in range(options.count or len(photos))]
        for i, name in enumerate(names):
            name.symlink_to(photos[i % len(photos)].resolve())
        pairs = [(str(name), str(out / name.with_suffix("." + options.format).name)) for name in names]
        os.environ["VIPS_CONCURRENCY"] = "1"
        with multiprocessing.get_context("spawn").Pool(threads, begin_process) as pool:
            calls = {f"gconv {version}": lambda: run_gconv(options.gconv, folder, f"{out}/", threads)}
            calls |= {name: lambda call=call: pool.starmap(call, pairs, chunksize=1) for name, call in chosen.items()}
            found = measure(calls, out, options.rounds)
        print(f"{len(names)} photos")
    ours = next(iter(found.values()))[0]
    for name, (ms, size) in found.items():
        print(f"{name:28} {ms:9.1f} ms {size:11} bytes {ms / ours:6.2f} x", flush=True)


if __name__ == "__main__":
    sys.exit(main())
