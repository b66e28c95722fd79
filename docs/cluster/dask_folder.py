#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Filters a folder of images by the workers of a Dask cluster, which share the folders: each task runs gconv on one part.

usage: dask_folder.py [--scheduler ADDRESS] [--parts N] PHOTOS RESULTS FILTER [OPTION OF gconv...]

Without --scheduler, Dask starts workers on this machine: one a processor. A part whose worker is lost runs again on another
one. --resume leaves what is finished; so the same command goes on where it was stopped.
"""
import argparse
import os
import subprocess
import sys

from dask.distributed import Client, LocalCluster, as_completed


def run_part(number, count, arguments):
    """Runs on a worker: gconv does part `number` of `count`. Returns what it printed."""
    photos, results, *rest = arguments
    command = ["gconv", "-i", photos, "-r", "-f", *rest, "-o", results, "--resume", "--shard", f"{number}/{count}",
               "--threads", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"part {number} of {count}: gconv ended with {done.returncode}: {done.stderr}")
    return done.stderr.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scheduler", metavar="ADDRESS", help="of a Dask scheduler, such as tcp://head:8786")
    parser.add_argument("--parts", type=int, default=8, metavar="N", help="into how many tasks the images are divided")
    parser.add_argument("folders", nargs=2, metavar="FOLDER", help="the photos and the results")
    parser.add_argument("filter", nargs=argparse.REMAINDER, help="a filter, and options of gconv behind it")
    options = parser.parse_args()
    if not options.filter:
        parser.error("there is no filter, such as unsharp")
    arguments = [*(os.path.join(os.path.abspath(folder), "") for folder in options.folders), *options.filter]
    cluster = None
    if not options.scheduler:
        cluster = LocalCluster(n_workers=len(os.sched_getaffinity(0)), threads_per_worker=1, dashboard_address=None)
    with Client(options.scheduler or cluster) as client:
        parts = client.map(run_part, range(1, options.parts + 1), count=options.parts, arguments=arguments)
        failed = 0
        for part in as_completed(parts):
            error = part.exception()
            failed += error is not None
            print(error or part.result(), file=sys.stderr)
    if cluster:
        cluster.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
