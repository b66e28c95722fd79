#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Classes of pixels beside scikit-image and scikit-learn, in one run: accuracy, speed, memory.

usage: tests/bench/pixels.py BUILD [PART...]      parts: accuracy speed svm memory; default: all
BUILD: a folder where gconv and its tests are built. Needs numpy, Pillow, scikit-image and scikit-learn (PyPI). Each program
takes as many threads as the machine has processors. Speeds are ratios of programs that ran in turns.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
from PIL import Image
from skimage import data
from skimage.feature import multiscale_basic_features
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC

BUILD = pathlib.Path(sys.argv[1]).resolve()
FEATURES = ", ".join(f"intensity {s}, edges {s}, texture {s}" for s in (1, 2, 4, 8, 16))  # those of sigma_min=1
STEP = 65  # of the pixels of a half, one in so many is a case
NET = "dense 64 relu, dense 3 softmax"


def gconv(folder, *words):
    return subprocess.run([BUILD / "gconv", *map(str, words)], cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


def half_mask(shape, number, right):
    """The cases of a half: one in STEP of its pixels, row by row."""
    mask = np.zeros(shape, np.uint8)
    half = mask[:, shape[1] // 2:] if right else mask[:, :shape[1] // 2]
    flat = np.zeros(half.size, np.uint8)
    flat[::STEP] = number
    half[:] = flat.reshape(half.shape)
    return mask


def pictures(folder):
    for name in ("images", "left", "right"):
        (folder / name).mkdir()
    for k, name in enumerate(("brick", "grass", "gravel")):
        picture = getattr(data, name)()
        Image.fromarray(picture).save(folder / "images" / f"{name}.png")
        Image.fromarray(half_mask(picture.shape, k + 1, False)).save(folder / "left" / f"{name}.png")
        Image.fromarray(half_mask(picture.shape, k + 1, True)).save(folder / "right" / f"{name}.png")


def cases():
    """scikit-image's features of the cases of the left halves and of the right ones, each with mean 0 and deviation 1, and their labels."""
    train, test, labels = [], [], []
    for k, name in enumerate(("brick", "grass", "gravel")):
        features = multiscale_basic_features(getattr(data, name)(), sigma_min=1, sigma_max=16)
        train.append(features[:, :256].reshape(-1, 20)[::STEP])
        test.append(features[:, 256:].reshape(-1, 20)[::STEP])
        labels += [k] * len(train[-1])
    x, tx = np.concatenate(train), np.concatenate(test)
    mean, std = x.mean(0), x.std(0)
    return (x - mean) / std, (tx - mean) / std, labels


def part_accuracy(folder):
    pictures(folder)
    x, tx, labels = cases()
    theirs = [100 * MLPClassifier((64,), random_state=seed, max_iter=300).fit(x, labels).score(tx, labels)
              for seed in range(3)]
    own = []
    for seed in range(3):
        for features in (FEATURES, "default"):
            gconv(folder, "train", "-q", "-i", "images", "-t", "left", "--features", features, "--net", NET, "--epochs", 300, "--batch", 200,
                  "--weight-decay", "1e-4", "--seed", seed, "-o", "p.safetensors")
            found = json.loads(gconv(folder, "classify", "-q", "p.safetensors", "-i", "images", "-o", "maps/", "--evaluate", "right", "--json"))
            own.append((features, 100 * found["accuracy"]))
    for title, values in (("scikit-learn's MLPClassifier, the same 20 features", theirs),
                          ("gconv, these 20 features", [a for f, a in own if f == FEATURES]), ("gconv, default", [a for f, a in own if f == "default"])):
        print(f"accuracy: {title}: {', '.join(f'{a:.2f}%' for a in values)}; mean {np.mean(values):.2f}%", flush=True)


def seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def part_speed(folder):
    tile = data.brick()
    big = np.ascontiguousarray(np.tile(tile, (5, 8))[:2160, :3840])
    Image.fromarray(big).save(folder / "big.png")
    pictures(folder)
    gconv(folder, "train", "-q", "-i", "images", "-t", "left", "--features", FEATURES, "--net", NET, "--epochs", 10, "-o", "p.safetensors")
    gconv(folder, "train", "-q", "-i", "images", "-t", "left", "--features", "default", "--net", NET, "--epochs", 10, "-o", "d.safetensors")
    rng = np.random.default_rng(0)
    many = rng.standard_normal((1 << 20, 20)).astype(np.float32)
    model = MLPClassifier((64,), max_iter=5).fit(many[:3000], np.arange(3000) % 3)
    rates = {"features: scikit-image": [], "features: gconv, the same": [], "features: gconv, default": [], "net: scikit-learn": [],
             "to labels, in memory: gconv, the same": [], "to labels, in memory: gconv, default": []}
    for _ in range(5):
        rates["features: scikit-image"].append(big.size / seconds(lambda: multiscale_basic_features(big, sigma_min=1, sigma_max=16)) / 1e6)
        for name, text in (("features: gconv, the same", FEATURES), ("features: gconv, default", "default")):
            done = subprocess.run([BUILD / "tests/bench_features", folder / "big.png", text, "2"], stdout=subprocess.PIPE, check=True, text=True)
            rates[name].append(float(done.stdout))
        rates["net: scikit-learn"].append(len(many) / seconds(lambda: model.predict(many)) / 1e6)
        for name, net in (("to labels, in memory: gconv, the same", "p"), ("to labels, in memory: gconv, default", "d")):
            done = subprocess.run([BUILD / "tests/bench_features", folder / "big.png", folder / f"{net}.safetensors", "2"],
                                  stdout=subprocess.PIPE, check=True, text=True)
            rates[name].append(float(done.stdout))
    theirs = np.median(rates["features: scikit-image"])
    for name, values in rates.items():
        print(f"{name}: {np.median(values):.2f} Mpix/s ({min(values):.2f} to {max(values):.2f})"
              + (f", {np.median(values) / theirs:.1f} x scikit-image's" if "features: gconv" in name else ""), flush=True)


def part_svm(folder):
    """Support vector machines over the same 20 features, C 1 and gamma 1 / 20, as scikit-learn's SVC: accuracy, and speed to labels."""
    pictures(folder)
    x, tx, labels = cases()
    model = SVC(C=1, gamma=1 / 20)
    fit = seconds(lambda: model.fit(x, labels))
    theirs = 100 * model.score(tx, labels)
    for features in (FEATURES, "default"):
        took = seconds(lambda f=features: gconv(folder, "svm", "-q", "images", "left", "--features", f, "-o", "p.model"))
        found = json.loads(gconv(folder, "classify", "-q", "p.model", "-i", "images", "--evaluate", "right", "--json"))
        print(f"svm: gconv, {'the same' if features == FEATURES else features}: {100 * found['accuracy']:.2f}%, {took:.2f} s with the features; "
              f"scikit-learn's SVC: {theirs:.2f}%, {fit:.2f} s without", flush=True)
    gconv(folder, "svm", "-q", "images", "left", "--features", FEATURES, "-o", "p.model")
    many = tx[:2000]
    own, other = [], []
    for _ in range(3):
        other.append(len(many) / seconds(lambda: model.predict(many)) / 1e6)
        own.append(512 * 512 / seconds(lambda: gconv(folder, "classify", "-q", "p.model", "-i", "images/grass.png", "-o", "map.png")) / 1e6)
    print(f"svm to labels: gconv, from file to file {np.median(own):.3f} Mpix/s; scikit-learn's SVC, of features {np.median(other):.4f}; "
          f"{np.median(own) / np.median(other):.1f} x", flush=True)


def part_memory(folder):
    """Peak memory of folders of different lengths: by way of small processes, as resource counts the largest child."""
    pictures(folder)
    gconv(folder, "train", "-q", "-i", "images", "-t", "left", "--features", "default", "--net", NET, "--epochs", 10, "-o", "p.safetensors")
    picture = np.tile(data.grass(), (2, 2))
    for count in (10, 100):
        (folder / f"{count}").mkdir()
        for i in range(count):
            Image.fromarray(np.roll(picture, 7 * i, 1)).save(folder / f"{count}/{i:03}.png", compress_level=1)
        script = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
                  "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
        done = []
        taken = seconds(lambda c=count, d=done: d.append(subprocess.run(
            [sys.executable, "-c", script, BUILD / "gconv", "classify", "-q", "p.safetensors", "-i", f"{c}", "-o", f"maps{c}/"], cwd=folder,
            check=True, stdout=subprocess.PIPE, text=True).stdout))
        print(f"memory: {count} images of 1024 x 1024: {int(done[0]) / 1024:.0f} MB, {count * 1.048576 / taken:.2f} Mpix/s from file to file", flush=True)


PARTS = {name[5:]: call for name, call in list(globals().items()) if name.startswith("part_")}
for part in sys.argv[2:] or PARTS:
    with tempfile.TemporaryDirectory(prefix="gconv-") as place:
        PARTS[part](pathlib.Path(place))
