#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What folders of photos take by each device: whether auto is the least at every number of photos.

usage: folders.py GCONV PHOTOS WORK [--counts 1,2,5,20,60,400] [--ways cpu,cuda,decode,auto,both] [--rounds 3]
                  [--seconds S] [--same] [--details] [--filter F]

PHOTOS is a folder of a few photos, which stand in WORK (best in memory: /dev/shm) under as many names as are wanted. Each
way (decode: --decode gpu; both: --decode auto) does each number of photos once a round, so that all meet the same hours of
the machine; results are removed between runs. Printed are the medians of whole processes in ms, which way was the least,
and what auto was against it. With --same, the results of all ways must be the same bytes. After --seconds, nothing is begun.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

WAYS = {"cpu": ["-d", "cpu"], "cuda": ["-d", "cuda"], "decode": ["--decode", "gpu"], "auto": [], "both": ["--decode", "auto"]}


def make_inputs(photos, work, count):
    folder = work / f"in{count}"
    folder.mkdir(parents=True, exist_ok=True)
    files = sorted(file for file in photos.iterdir() if file.is_file())
    for i in range(count):
        link = folder / f"{i:04}{files[0].suffix}"
        if not link.exists():
            os.symlink(files[i % len(files)].resolve(), link)
    return folder


def run(gconv, folder, out, words):
    """Wall time of the process in ms, and the summary of its timings."""
    shutil.rmtree(out, ignore_errors=True)
    log = out.parent / "timings.json"
    with open(log, "w") as file:
        begin = time.perf_counter()
        result = subprocess.run([gconv, "-i", folder, "-o", f"{out}/", "--timings=json", *words], stdout=file,
                                stderr=subprocess.PIPE, text=True)
        took = (time.perf_counter() - begin) * 1e3
    if result.returncode != 0:
        sys.exit(f"{words}: {result.stderr}")
    lines = log.read_text().splitlines()
    return took, json.loads(lines[-1])["summary"], [json.loads(line) for line in lines[:-1]]


def digest(out):
    files = sorted(out.iterdir())
    with concurrent.futures.ThreadPoolExecutor() as pool:
        sums = pool.map(lambda file: file.name + hashlib.sha256(file.read_bytes()).hexdigest(), files)
        return hashlib.sha256("".join(sums).encode()).hexdigest()


def describe(summary, lines):
    """Which device did how many, and what a thread took of an image, in ms."""
    text = []
    for device in sorted({line["device"] for line in lines}):
        own = [line for line in lines if line["device"] == device]
        parts = ["decode_ms", "wait_ms", "kernel_ms", "encode_ms", "total_ms"]
        text.append(f"{device} {len(own)}: " + " ".join(f"{p[:-3]} {statistics.median(l[p] for l in own):.1f}" for p in parts))
    reason = summary["device_reason"]
    return (f"wall {summary['wall_ms']:.0f}, start {summary['device_start_ms']:.0f}, waited {summary['device_wait_ms']:.0f}; "
            + "; ".join(text) + (f" [{reason}]" if reason else ""))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gconv")
    parser.add_argument("photos", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--counts", default="1,2,5,20,60,400")
    parser.add_argument("--ways", default="cpu,cuda,decode,auto,both")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--filter", default="sobel_x")
    parser.add_argument("--same", action="store_true")
    parser.add_argument("--details", action="store_true")
    options = parser.parse_args()
    end = time.perf_counter() + options.seconds
    ways = options.ways.split(",")
    out = options.work / "out"
    for count in map(int, options.counts.split(",")):
        folder = make_inputs(options.photos, options.work, count)
        times, told, digests = {way: [] for way in ways}, {}, {}
        for _ in range(options.rounds):
            for way in ways:
                if time.perf_counter() > end:
                    break
                took, summary, lines = run(options.gconv, folder, out, ["-f", options.filter, *WAYS[way]])
                times[way].append(took)
                told[way] = describe(summary, lines)
                if options.same and way not in digests:
                    digests[way] = digest(out)
        medians = {way: statistics.median(taken) for way, taken in times.items() if taken}
        if not medians:
            break
        least = min(medians, key=medians.get)
        text = " ".join(f"{way} {ms:.0f}" for way, ms in medians.items())
        ratio = f", auto is {medians['auto'] / medians[least]:.2f} of it" if "auto" in medians else ""
        print(f"{count:4} photos: {text} ms; least {least}{ratio}", flush=True)
        if options.details:
            for way in medians:
                print(f"       {way}: {[round(t) for t in times[way]]} {told[way]}", flush=True)
        if len(set(digests.values())) > 1:
            sys.exit(f"results differ: {digests}")
    shutil.rmtree(out, ignore_errors=True)


if __name__ == "__main__":
    main()
