#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Filters in memory on the CPU: gconv against OpenCV, vips, Pillow and scikit-image, in turns.

usage: PYTHONPATH=BUILD/python PYTHON tests/bench/against_peers.py [--group filters,random,cv] [--only TEXT,...] [--opencv]
                     [--types u8,u16,f32] [--channels 1,3] [--rounds 9] [--threads N] [--all] [--csv FILE]

PYTHON is one that has today's peers, and BUILD a build for it: cmake -DGCONV_PYTHON_MODULE=ON -DGCONV_PYTHON=PYTHON.

The peers are those of the Python that runs it; one that is missing is left out. Groups: `filters` are those of `gconv filters`
and of docs/gallery.md, `random` are random taps, `cv` are the calls of gconv.cv with the same arguments as cv2's.

All contenders of a line take turns in one process; a figure is the median of the rounds, in Gsample/s (output samples). "best"
has the fastest ordinary setting of each side: an array for the result that is used again, a plan for gconv, for OpenCV the
fastest of its functions that make this filter. "as called" has a new result a call and the function that people call. All
borders are reflect101, but for vips and Pillow, which repeat the last pixel. `+N`: a result differs from gconv's by N levels
(u8, u16) or N thousandths of white (f32); the borders do not count. --all prints each contender in a line of its own.
For quiet figures on a machine that others use, run it by `chrt -f 50`, some seconds at a time.
"""
import argparse
import csv
import math
import os
import pathlib
import statistics
import sys
import time

import cv2
import numpy as np

import gconv
import gconv.cv

try:
    import pyvips
except ImportError:
    pyvips = None
try:
    from PIL import Image, ImageFilter, __version__ as pillow_version
except ImportError:
    Image = None
try:
    import skimage
    import skimage.filters
except ImportError:
    skimage = None

HEIGHT, WIDTH = 2160, 3840
TYPES = {"u8": (np.uint8, 255), "u16": (np.uint16, 65535), "f32": (np.float32, 1.0)}
LOW = 1.5  # lines with lower ratios are all named at the end
LONG, FEW = 0.1, 2  # a contender that takes longer than so many seconds gets so many turns


def versions():
    text = {"gconv": gconv.version(), "OpenCV": cv2.__version__}
    if pyvips:
        text["vips"] = ".".join(str(pyvips.version(i)) for i in range(3))
    if Image:
        text["Pillow"] = pillow_version
    if skimage:
        text["scikit-image"] = skimage.__version__
    return text


# ---- What makes the same filter in OpenCV: (name, function of (image, result or None)). The first is what people call. ----

def call(name, *arguments, **options):
    """A function of cv2 that takes the image first, and dst."""
    words = ", ".join([str(a) for a in arguments if not isinstance(a, np.ndarray)] + [f"{k}={v}" for k, v in options.items()])
    return f"{name}({words})" if words else name, lambda image, out: getattr(cv2, name)(image, *arguments, dst=out, **options)


def narrow(values, image, out):
    """float32 to the type of the image, rounded and saturated."""
    if image.dtype == np.uint8:
        return cv2.convertScaleAbs(values, dst=out)
    return cv2.add(values, 0.0, dst=out, dtype=cv2.CV_16U) if image.dtype == np.uint16 else values


def magnitude(name, derivative):
    """derivative(image, dx, dy): float32."""
    return name, lambda image, out: narrow(cv2.magnitude(derivative(image, 1, 0), derivative(image, 0, 1)), image, out)


def lines(column, row):
    return lambda image, dx, dy: cv2.sepFilter2D(image, cv2.CV_32F, *((row, column) if dx else (column, row)))


def planes(plane_x, plane_y):
    return lambda image, dx, dy: cv2.filter2D(image, cv2.CV_32F, plane_x if dx else plane_y)


def largest(taps):
    def run(image, out):
        result = cv2.filter2D(image, -1, taps[0], dst=out)
        for one in taps[1:]:
            result = cv2.max(result, cv2.filter2D(image, -1, one), dst=result)
        return result
    return f"{len(taps)} x filter2D, max", run


def sharpened(sigma, amount):
    """Unsharp masking as people write it."""
    return "GaussianBlur, addWeighted", lambda image, out: cv2.addWeighted(
        image, 1 + amount, cv2.GaussianBlur(image, (0, 0), sigma), -amount, 0, dst=out)


def mixed(size, sigma):
    return "GaussianBlur, addWeighted", lambda image, out: cv2.addWeighted(
        image, 0.5, cv2.GaussianBlur(image, (size, size), sigma), 0.5, 0, dst=out)


SHIPPED = str(pathlib.Path(__file__).resolve().parents[2] / "filters")
SMOOTH, DIFFERENCE = np.array((1, 1, 1), np.float32), np.array((-1, 0, 1), np.float32)
RELIEF = np.array(((-2, -1, 0), (-1, 0, 1), (0, 1, 2)), np.float32)


def taps_of(spec):
    return [np.asarray(one.taps, np.float32) / np.float32(one.divisor) for one in gconv.read_filters(spec)]


# (name, filter of gconv, its options, calls of OpenCV before filter2D and sepFilter2D, which follow from the taps)
FILTERS = [
    *[(f"average {k}", f"average:size={k}", {}, [call("blur", (k, k))]) for k in (3, 5, 31, 201)],
    *[(f"binomial {k}", f"binomial:size={k}", {}, [call("GaussianBlur", (k, k), 0)] if k < 7 else []) for k in (3, 5, 7)],
    *[(f"gaussian {k} sigma {s}", f"gaussian:size={k},sigma={s}", {}, [call("GaussianBlur", (k, k), s)])
      for k, s in ((3, 0.5), (5, 1), (7, 1), (9, 1.5), (15, 2.5), (19, 3), (31, 5), (63, 10))],
    ("disk 5", "disk", {}, []), ("disk 6", "disk:radius=6", {}, []),
    ("motion 9", "motion", {}, []), ("motion 25, 30", "motion:len=25,theta=30", {}, []),
    ("dog", "dog", {}, []), ("gabor", "gabor", {}, []), ("emboss", "emboss", {}, []), ("identity", "identity", {}, []),
    ("sobel_x", "sobel_x", {}, [call("Sobel", -1, 1, 0)]), ("sobel_y", "sobel_y", {}, [call("Sobel", -1, 0, 1)]),
    ("scharr_x", "scharr_x", {}, [call("Scharr", -1, 1, 0)]), ("scharr_y", "scharr_y", {}, [call("Scharr", -1, 0, 1)]),
    ("prewitt_x", "prewitt_x", {}, []), ("prewitt_y", "prewitt_y", {}, []),
    ("roberts_x", "roberts_x", {}, []), ("roberts_y", "roberts_y", {}, []),
    ("sobel", "sobel", {}, [magnitude("Sobel, magnitude", lambda image, dx, dy: cv2.Sobel(image, cv2.CV_32F, dx, dy))]),
    ("scharr", "scharr", {}, [magnitude("Scharr, magnitude", lambda image, dx, dy: cv2.Scharr(image, cv2.CV_32F, dx, dy))]),
    ("prewitt", "prewitt", {}, [magnitude("sepFilter2D, magnitude", lines(SMOOTH, DIFFERENCE))]),
    ("roberts", "roberts", {}, [magnitude("filter2D, magnitude", planes(*taps_of("roberts")))]),
    ("kirsch_n", "kirsch:direction=n", {}, []), ("kirsch, max", "kirsch", {"combine": "max"}, [largest(taps_of("kirsch"))]),
    ("laplacian", "laplacian", {}, []), ("laplacian_4", "laplacian_4", {}, [call("Laplacian", -1)]),
    ("laplacian_8", "laplacian_8", {}, []), ("log 5", "log", {}, []), ("log_5 of integers", f"{SHIPPED}/log_5.txt", {}, []),
    ("log sigma 2", "log:sigma=2", {}, []),
    ("sharpen", "sharpen", {}, []), ("sharpen_8", f"{SHIPPED}/sharpen_8.txt", {}, []), ("unsharp", "unsharp", {}, []),
    ("unsharp_5", f"{SHIPPED}/unsharp_5.txt", {}, []), ("usm sigma 1", "usm", {}, [sharpened(1, 1)]),
    ("usm sigma 2", "usm:sigma=2,amount=1.5", {}, [sharpened(2, 1.5)]),
    ("relief", RELIEF, {"offset": 0.5}, []),
    ("soft", ["identity", "gaussian:sigma=5"], {"combine": "sum", "scale": 0.5}, [mixed(31, 5)]),
]


def general(taps, delta, named):
    """The functions of OpenCV that take any taps; where a function of this very filter is known, only small ones."""
    found, most = [], 9 if named else 1000
    if len(taps) <= most:
        found.append(call("filter2D", -1, taps, **({"delta": delta} if delta else {})))
    u, s, v = np.linalg.svd(taps.astype(float))
    if len(taps) <= 31 and (len(s) == 1 or s[1] < 1e-6 * s[0]):
        row, column = (v[0] * math.sqrt(s[0])).astype(np.float32), (u[:, 0] * math.sqrt(s[0])).astype(np.float32)
        found.append(("sepFilter2D", call("sepFilter2D", -1, row, column, **({"delta": delta} if delta else {}))[1]))
    return found


def others(name, taps, divisor, image):
    """vips, Pillow and scikit-image where they make the same: (program, name of the call, function of the image)."""
    height, width, channels = image.shape if image.ndim == 3 else (*image.shape, 1)
    size = len(taps)
    if pyvips:
        kind = {"uint8": "uchar", "uint16": "ushort", "float32": "float"}[image.dtype.name]
        precision = "integer" if np.array_equal(taps, np.rint(taps)) and kind != "float" else "float"
        source = pyvips.Image.new_from_memory(image.data, width, height, channels, kind)
        matrix = lambda values: pyvips.Image.new_from_array(values.astype(float).tolist(), scale=divisor)
        if name.startswith("gaussian"):
            yield "vips", "gaussblur", lambda: source.gaussblur(float(name.split()[-1])).write_to_memory()
        elif name.startswith("average") and size <= 31:
            line = pyvips.Image.new_from_array([[1] * size], scale=size)
            yield "vips", "convsep", lambda: source.convsep(line, precision=precision).cast(kind).write_to_memory()
        elif size <= 7:
            mask = matrix(taps)
            yield "vips", f"conv, {precision}", lambda: source.conv(mask, precision=precision).cast(kind).write_to_memory()
    if Image and image.dtype == np.uint8:
        picture = Image.fromarray(image)
        if taps.shape in ((3, 3), (5, 5)):
            kernel = ImageFilter.Kernel(taps.shape, taps[::-1].ravel().tolist(), scale=divisor)
            yield "Pillow", "Kernel", lambda: picture.filter(kernel)
        if name.startswith("average"):
            yield "Pillow", "BoxBlur", lambda: picture.filter(ImageFilter.BoxBlur(size // 2))
    if skimage and image.dtype == np.float32 and image.ndim == 2 and name.startswith("gaussian"):
        sigma = float(name.split()[-1])
        yield "scikit-image", "gaussian", lambda: skimage.filters.gaussian(image, sigma, truncate=(size // 2) / sigma)


# ---- gconv.cv against cv2: the same words on both sides ----

CALLS = [
    *[("filter2D", (-1, k)) for k in (3, 5)], ("sepFilter2D", (-1, 9)),
    *[("GaussianBlur", ((k, k), s)) for k, s in ((3, 0), (5, 0), (5, 1.1), (9, 1.5), (15, 2.5), (31, 5))],
    *[("blur", ((k, k),)) for k in (5, 31, 201)], ("boxFilter", (-1, (7, 7))), ("boxFilter", (cv2.CV_32F, (7, 7), None, (-1, -1), False)),
    ("Sobel", (-1, 1, 0)), ("Sobel", (cv2.CV_16S, 1, 0)), ("Sobel", (cv2.CV_32F, 1, 0)), ("Sobel", (-1, 1, 0, None, 5)),
    ("Scharr", (-1, 1, 0)), ("Scharr", (cv2.CV_16S, 1, 0)), ("Laplacian", (-1,)), ("Laplacian", (-1, None, 3)),
    ("Laplacian", (cv2.CV_16S, None, 3)),
]
RESULT_PLACES = {"GaussianBlur": 2, "blur": 1, "Laplacian": 1, "boxFilter": 2, "filter2D": 2, "sepFilter2D": 3, "Sobel": 3,
                 "Scharr": 3}  # where dst stands after the image
DEPTHS = {cv2.CV_16S: "CV_16S", cv2.CV_32F: "CV_32F"}


def cv_cases(generator):
    for name, arguments in CALLS:
        words = [DEPTHS.get(a, a) if i == 0 and type(a) is int else a for i, a in enumerate(arguments)]
        if name == "filter2D":
            arguments = (-1, random_taps(generator, arguments[1]))
        elif name == "sepFilter2D":
            arguments = (-1, np.ones(9, np.float32) / 9, np.hanning(9).astype(np.float32))
        yield f"{name}({', '.join(str(w) for w in words if w is not None)})", name, arguments


def takes(name, arguments, image):
    """Whether OpenCV has that result of these samples."""
    return not (arguments[0] == cv2.CV_16S and image.dtype != np.uint8)


# ---- Measuring ----

class Contender:
    def __init__(self, program, name, best, run):
        self.program, self.name, self.best, self.run, self.times = program, name, best, run, []
        self.result = np.copy(array_of(run()))

    def turn(self):
        if len(self.times) >= FEW and self.times[-1] > LONG:
            return
        begin = time.perf_counter()
        self.run()
        self.times.append(time.perf_counter() - begin)

    @property
    def seconds(self):
        return statistics.median(self.times)


def array_of(result):
    return result if isinstance(result, np.ndarray) else np.frombuffer(
        result if isinstance(result, (bytes, memoryview)) or not hasattr(result, "tobytes") else result.tobytes(), np.uint8)


def random_taps(generator, size):
    taps = generator.standard_normal((size, size)).astype(np.float32)
    return taps / abs(taps).sum()


def off(contender, ours, reach):
    """The largest difference inside, in levels, or in thousandths of white of floats."""
    image = ours.result
    try:
        other = contender.result.view(image.dtype).reshape(image.shape).astype(np.float32)
    except ValueError:
        return math.nan
    inside = (slice(reach, -reach), slice(reach, -reach))
    difference = np.abs(other[inside] - image[inside].astype(np.float32)).max()
    return float(difference) * (1000 if image.dtype == np.float32 else 1)


class Report:
    def __init__(self, arguments):
        self.rounds, self.all, self.opencv_only, self.versions = arguments.rounds, arguments.all, arguments.opencv, versions()
        self.ratios, self.called = [], []
        self.rows = csv.writer(open(arguments.csv, "w")) if arguments.csv else None

    def line(self, name, kind, samples, contenders, algorithm, reach):
        for _ in range(self.rounds):
            for one in contenders:
                one.turn()
        rate = {one: samples / one.seconds * 1e-9 for one in contenders}
        of = lambda program: [c for c in contenders if c.program == program]
        (ours, called), (theirs, usual) = [(max(of(p), key=rate.get), of(p)[0]) for p in ("gconv", "OpenCV")]
        text = [f"{name:26} {kind:8} gconv {self.versions['gconv']} {rate[ours]:6.2f} {algorithm:9}",
                f"OpenCV {self.versions['OpenCV']} {rate[theirs]:6.2f} {theirs.name}", f"{rate[ours] / rate[theirs]:6.2f} x"]
        text.append(f"as called {rate[called]:5.2f} for {rate[usual]:5.2f} {usual.name}, {rate[called] / rate[usual]:5.2f} x")
        for program in ("vips", "Pillow", "scikit-image"):
            other = max(of(program), key=rate.get, default=None)
            if other:
                text.append(f"{program} {self.versions[program]} {rate[other]:5.2f} {other.name}{self.off(other, ours, reach)}")
        text[1] += self.off(theirs, ours, reach)
        print(" | ".join(text), flush=True)
        if self.all:
            for one in contenders:
                print(f"    {one.program} {one.name}{' best' if one.best else ''} {rate[one]:.3f}{self.off(one, ours, reach)}")
        self.ratios.append((rate[ours] / rate[theirs], f"{name} {kind}"))
        self.called.append((rate[called] / rate[usual], f"{name} {kind}"))
        if self.rows:
            for one in contenders:
                self.rows.writerow([name, kind, one.program, self.versions[one.program], one.name, int(one.best),
                                    f"{rate[one]:.4f}", algorithm if one.program == "gconv" else ""])

    @staticmethod
    def off(one, ours, reach):
        difference = off(one, ours, reach)
        return "" if one is ours or difference < 0.05 else f" +{difference:.3g}"

    def end(self):
        for title, ratios in (("at best", self.ratios), ("as called", self.called)):
            if not ratios:
                continue
            mean = statistics.geometric_mean(r for r, _ in ratios)
            low = sorted(one for one in ratios if one[0] < LOW) or sorted(ratios)[:5]
            print(f"{title}: {len(ratios)} lines, mean {mean:.2f} x (geometric); below 1: {sum(r < 1 for r, _ in ratios)}, below "
                  f"{LOW}: {sum(r < LOW for r, _ in ratios)}; least " + ", ".join(f"{r:.2f} {name}" for r, name in low))


def filter_line(report, image, kind, name, spec, options, calls):
    taps = [spec] if isinstance(spec, np.ndarray) else [t for s in ([spec] if isinstance(spec, str) else spec) for t in taps_of(s)]
    kernel = gconv.Filter(spec) if isinstance(spec, np.ndarray) else spec
    white = TYPES[kind.split()[0]][1]
    plan = gconv.Plan(kernel, image.shape, image.dtype.name, border="reflect101", **options)
    result, out = np.empty_like(image), np.empty_like(image)
    contenders = [Contender("gconv", "filter", False, lambda: gconv.filter(image, kernel, border="reflect101", **options)),
                  Contender("gconv", "Plan", True, lambda: plan(image, out=result))]
    if len(taps) == 1:
        calls = calls + general(taps[0], options.get("offset", 0) * white, bool(calls))
    for title, function in calls:
        try:
            contenders.append(Contender("OpenCV", title, False, lambda f=function: f(image, None)))
            contenders.append(Contender("OpenCV", title, True, lambda f=function: f(image, out)))
        except cv2.error:
            pass
    if len(taps) == 1 and not options and not report.opencv_only:
        one = gconv.Filter(spec) if isinstance(spec, np.ndarray) else gconv.read_filters(spec)[0]
        contenders += [Contender(program, title, True, run)
                       for program, title, run in others(name, np.asarray(one.taps), one.divisor, image)]
    report.line(name, kind, image.size, contenders, plan.info["algorithm"], max(len(t) for t in taps))


def cv_line(report, image, kind, title, name, arguments):
    if not takes(name, arguments, image):
        return
    contenders, algorithm = [], ""
    for program, module in (("gconv", gconv.cv), ("OpenCV", cv2)):
        function = getattr(module, name)
        out = np.empty_like(function(image, *arguments))
        place = RESULT_PLACES[name]
        with_out = arguments[:place] + (out,) + arguments[place + 1:]
        contenders.append(Contender(program, name, False, lambda f=function: f(image, *arguments)))
        contenders.append(Contender(program, "dst", True, lambda f=function, a=with_out: f(image, *a)))
    report.line(title, kind, image.size, contenders, algorithm, 16)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--group", default="filters,random,cv")
    parser.add_argument("--only", default="")
    parser.add_argument("--types", default="u8")
    parser.add_argument("--channels", default="3")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--opencv", action="store_true", help="leave the other peers out")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--csv")
    arguments = parser.parse_args()
    gconv.set_threads(arguments.threads)
    cv2.setNumThreads(arguments.threads)
    print(", ".join(f"{program} {version}" for program, version in versions().items()) +
          f"; {gconv.devices()[0]['description']}; {arguments.threads} threads; {WIDTH} x {HEIGHT}; medians of {arguments.rounds}; Gsample/s")
    generator = np.random.default_rng(0)
    report = Report(arguments)
    wanted = lambda name: not arguments.only or any(text in name for text in arguments.only.split(","))
    for type_name in arguments.types.split(","):
        for channels in map(int, arguments.channels.split(",")):
            shape, kind = (HEIGHT, WIDTH, channels)[:2 if channels == 1 else 3], f"{type_name} {'grey' if channels == 1 else 'RGB'}"
            dtype, white = TYPES[type_name]
            image = generator.random(shape, np.float32) if dtype == np.float32 else generator.integers(0, white + 1, shape, dtype)
            for _ in range(3):  # malloc() learns the size, and keeps the memory
                cv2.blur(image, (3, 3))
            cases = []
            if "filters" in arguments.group:
                cases += [(f[0], filter_line, f) for f in FILTERS]
            if "random" in arguments.group:
                cases += [(f"random {k}", filter_line, (f"random {k}", random_taps(generator, k), {}, [])) for k in (3, 5, 7, 9, 15, 31, 63)]
            if "cv" in arguments.group:
                cases += [(case[0], cv_line, case) for case in cv_cases(generator)]
            for name, line, case in cases:
                if wanted(name):
                    line(report, image, kind, *case)
    report.end()


if __name__ == "__main__":
    sys.exit(main())
