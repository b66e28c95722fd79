# SPDX-License-Identifier: MIT
"""A scripted newcomer: 60 tasks of five people in their first hour, typed as they would type them. Results are judged by numpy,
scipy, OpenCV and Pillow, messages by what a reader needs of them. A task waits for a part of gconv that the build has not: it is
skipped, and said.

usage: first_hour.py [WORD]      only the tasks with this word; finds gconv in $GCONV, its build in $GCONV_BUILD
"""
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import cv2
import numpy as np
from PIL import Image
from scipy import ndimage, signal

SOURCE = pathlib.Path(__file__).resolve().parents[1]
GCONV = pathlib.Path(os.environ["GCONV"]).resolve()
BUILD = pathlib.Path(os.environ.get("GCONV_BUILD", GCONV.parent))
TASKS = []
LAPLACE = np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]], float)
SHARPEN = np.array([[0, -1, 0], [-1, 5, -1], [0, -1, 0]], float)
EMBOSS = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]], float)
SKEW = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 10]], float)


def task(person, command, needs="", status=0, says=()):
    """A command, what it needs that not every build has, its exit status, and words that it must print."""
    def add(judge):
        TASKS.append((person, command, needs, status, (says,) if isinstance(says, str) else says, judge))
        return judge
    return add


def say(person, command, says, status=2, needs=""):
    """A task whose answer is a text, and that writes nothing."""
    task(person, command, needs, status, says)(None)


# ---- What there is to work on ----

def read(name):
    with Image.open(name) as image:
        return np.asarray(image).copy()


def levels(values, most=255):
    return np.clip(np.rint(values), 0, most)


def by_channel(function, image):
    image = image.astype(float)
    return function(image) if image.ndim == 2 else np.stack([function(image[..., c]) for c in range(image.shape[2])], axis=-1)


def correlate(image, taps, mode="constant"):
    return by_channel(lambda plane: ndimage.correlate(plane, np.asarray(taps, float), mode=mode), image)


def gaussian(image, sigma, mode="constant"):
    sigma = sigma if isinstance(sigma, tuple) else (sigma, sigma)
    rows = [np.exp(-np.arange(-np.ceil(3 * s), np.ceil(3 * s) + 1) ** 2 / (2 * s * s)) for s in sigma]
    taps = np.outer(rows[0] / rows[0].sum(), rows[1] / rows[1].sum())
    return correlate(image, taps, mode)


def grey(image):
    return image.astype(float) @ [0.299, 0.587, 0.114]


def gradient(image, name="sobel"):
    side = {"sobel": (1, 2, 1), "scharr": (3, 10, 3), "prewitt": (1, 1, 1)}[name]
    taps = np.outer(side, (-1, 0, 1))
    return np.hypot(correlate(image, taps), correlate(image, taps.T))


def near(got, expected, most=0.5, name=""):
    """Integer results are the nearest levels; `most` is for rounding on the way."""
    got, expected = np.asarray(got, float), np.asarray(expected, float)
    assert got.shape == expected.shape, f"{name} {got.shape}, expected {expected.shape}"
    difference = abs(got - expected).max()
    assert difference <= most + 1e-3, f"{name} differs by {difference}"


def roughly(got, expected, most):
    """For JPEG, whose coding changes pixels."""
    assert got.shape == expected.shape, (got.shape, expected.shape)
    difference = abs(got.astype(float) - expected).mean()
    assert difference <= most, f"differs by {difference} in the mean"


def save_multipage(name, pages):
    images = [Image.fromarray(page) for page in pages]
    images[0].save(name, save_all=True, append_images=images[1:], compression="tiff_lzw")


def make_inputs():
    rng = np.random.default_rng(60)
    y, x = np.mgrid[0:72, 0:96]
    smooth = np.stack([128 + 90 * np.sin(x / 9 + c) * np.cos(y / 7 - c) for c in range(3)], axis=-1)
    photo = np.clip(smooth + rng.normal(0, 6, smooth.shape), 0, 255).astype(np.uint8)
    Image.fromarray(photo).save("photo.png", dpi=(300, 300))
    Image.fromarray(photo).save("photo.jpg", quality=95, subsampling=0, dpi=(300, 300))
    exif = Image.Exif()
    exif[0x010F], exif[0x0112] = "Camera & Co", 6
    Image.fromarray(photo).save("camera.jpg", quality=95, subsampling=0, exif=exif)
    Image.fromarray(photo).save("photo.webp", lossless=True)
    Image.fromarray(np.dstack([photo, np.full(photo.shape[:2], 77, np.uint8)])).save("logo.png")
    deep = (photo[..., 1].astype(np.uint16) << 8) + 17
    Image.fromarray(deep).save("deep.png")
    Image.fromarray(deep).save("deep.tif")
    save_multipage("pages.tif", [photo[..., c] for c in range(3)])
    mask = np.zeros(photo.shape[:2], np.uint8)
    mask[20:50, 30:60] = 255
    Image.fromarray(mask).save("mask.png")
    for folder in "photos", "album", "mixed":
        pathlib.Path(folder).mkdir()
    for i in range(3):
        turned = np.roll(photo, 7 * i, axis=1)
        Image.fromarray(turned).save(f"photos/{i}.jpg", quality=95, subsampling=0)
        Image.fromarray(turned).save(f"album/{i}.png")
    shutil.copy("photo.jpg", "mixed/a.jpg")
    shutil.copy("photo.png", "mixed/b.png")
    np.save("image.npy", rng.standard_normal((40, 50)).astype(np.float32))
    np.save("stack.npy", rng.integers(0, 255, (5, 30, 40)).astype(np.uint8))
    np.save("ints.npy", rng.integers(-900, 900, (30, 40)).astype(np.int16))
    np.savez("data.npz", image=np.load("image.npy"), other=np.zeros(3))
    for i in range(3):
        Image.fromarray(photo[..., i]).save(f"{i}.pgm")
    pathlib.Path("edge.txt").write_text("1 2 3\n4 5 6\n7 8 10\n")
    storage = cv2.FileStorage("kernel.yml", cv2.FILE_STORAGE_WRITE)
    storage.write("kernel", SHARPEN)
    storage.release()
    pathlib.Path("broken.png").write_bytes(pathlib.Path("photo.png").read_bytes()[:2000])


# ---- A photographer ----

@task("photographer", "gconv gaussian:sigma=2 photo.jpg soft.png --border edge")
def _(told):
    near(read("soft.png"), gaussian(read("photo.jpg"), 2, "nearest"), 1.5)


@task("photographer", "gconv -i photo.png -f Sharpen -o sharp.png")
def _(told):
    near(read("sharp.png"), levels(correlate(read("photo.png"), SHARPEN)), 0)
    with Image.open("sharp.png") as image:
        assert round(image.info["dpi"][0]) == 300


@task("photographer", "gconv -i photos/ -f box:5 -o blurred/")
def _(told):
    assert sorted(os.listdir("blurred")) == ["0.png", "1.png", "2.png"]
    for i in range(3):
        near(read(f"blurred/{i}.png"), correlate(read(f"photos/{i}.jpg"), np.full((5, 5), 1 / 25)), 1.5)


@task("photographer", "gconv -i photo.jpg -f usm:sigma=2,amount=0.8 -o crisp.jpg --jpeg-quality 98")
def _(told):
    photo = read("photo.jpg").astype(float)
    roughly(read("crisp.jpg"), levels(1.8 * photo - 0.8 * gaussian(photo, 2)), 3)


@task("photographer", "gconv -i photo.png -f sobel --grey -o edges.png")
def _(told):
    near(read("edges.png"), levels(gradient(np.rint(grey(read("photo.png"))))), 4)


@task("photographer", "gconv photos/*.jpg -f emboss -o relief/")
def _(told):
    near(read("relief/2.png"), levels(correlate(read("photos/2.jpg"), EMBOSS)), 8)


@task("photographer", "gconv -i camera.jpg -f sharpen -o camera_sharp.jpg", needs="exif")
def _(told):
    with Image.open("camera_sharp.jpg") as image:
        assert image.size == (72, 96), "it stands upright"
        assert image.getexif().get(0x010F) == "Camera & Co"
        assert image.getexif().get(0x0112, 1) == 1, "and is not turned once more"


@task("photographer", "gconv -i mixed/ -f sharpen -o same/ --format same", needs="format same")
def _(told):
    assert sorted(os.listdir("same")) == ["a.jpg", "b.png"]


@task("photographer", "gconv -i album/ -f gaussian:sigma=1 -o album/ --suffix _soft", needs="--suffix")
def _(told):
    assert sorted(os.listdir("album")) == [name for i in range(3) for name in (f"{i}.png", f"{i}_soft.png")]


@task("photographer", "gconv sharpen photo.webp photo_sharp.png", needs="webp")
def _(told):
    near(read("photo_sharp.png"), levels(correlate(read("photo.webp"), SHARPEN)), 0)


@task("photographer", "gconv -i photo.png -f gaussian:sigma=4 --region 30x20+10+15 -o hidden.png", needs="--region")
def _(told):
    expected = read("photo.png").astype(float)
    expected[15:35, 10:40] = gaussian(expected, 4)[15:35, 10:40]
    near(read("hidden.png"), expected)


@task("photographer", "gconv -i photo.png -f gaussian:sigma=3 --mask mask.png -o part.png", needs="--mask")
def _(told):
    photo, inside = read("photo.png").astype(float), read("mask.png")[..., None] > 0
    near(read("part.png"), np.where(inside, gaussian(photo, 3), photo))


# ---- A vision engineer ----

@task("engineer", "gconv -i photo.png -f sobel_x --border reflect101 --depth float -o dx.npy")
def _(told):
    near(np.load("dx.npy"), cv2.Sobel(read("photo.png"), cv2.CV_32F, 1, 0) / 255, 1e-5)


@task("engineer", "gconv -i photo.png -f scharr --border zeros --gray --depth float -o scharr.npy")
def _(told):
    near(np.load("scharr.npy").squeeze(), gradient(grey(read("photo.png")), "scharr") / 255, 0.2)


@task("engineer", "gconv -i photo.png -f 'np.array([[0, -1, 0], [-1, 5, -1], [0, -1, 0]])' --border reflect_101 -o pasted.png")
def _(told):
    near(read("pasted.png"), cv2.filter2D(read("photo.png"), -1, SHARPEN), 0)


@task("engineer", "gconv -i photo.png -f box:size=5x3 --border replicate -o box.png")
def _(told):
    near(read("box.png"), cv2.blur(read("photo.png"), (3, 5), borderType=cv2.BORDER_REPLICATE), 1)


@task("engineer", "gconv -i photo.png -f kernel.yml --border wrap -o yml.png")
def _(told):
    near(read("yml.png"), levels(correlate(read("photo.png"), SHARPEN, "wrap")), 0)


@task("engineer", "gconv -i photo.png -f gaussian:sigma=3x1 --border nearest -o tall.png")
def _(told):
    near(read("tall.png"), gaussian(read("photo.png"), (3, 1), "nearest"))


@task("engineer", "gconv -i photo.png -f laplace,sobel_y --range abs -o two/")
def _(told):
    near(read("two/photo_laplacian_4.png"), levels(abs(correlate(read("photo.png"), LAPLACE))), 0)
    near(read("two/photo_sobel_y.png"), levels(abs(correlate(read("photo.png"), np.outer((-1, 0, 1), (1, 2, 1))))), 0)


@task("engineer", "gconv -i photo.png -f sobel_x -a direct,separable -o raced.png", says=("direct ", "separable ", "the fastest is"))
def _(told):
    near(read("raced.png"), levels(correlate(read("photo.png"), np.outer((1, 2, 1), (-1, 0, 1)))), 0)


@task("engineer", "gconv bench --image 320x240 --runs 5 -f sobel_x,gaussian:sigma=5 -a direct,separable --threads 1,2", says=("+-", "effective"))
def _(told):
    assert len(re.findall(r"(?m)^(?:direct|separable) ", told)) == 8
    assert not re.search(r"\b1\d\d\d+%", told), told


@task("engineer", "gconv -i photo.png -f gaussian:sigma=1 -o smooth.png; gconv compare photo.png smooth.png", needs="compare", status=1)
def _(told):
    a, b = read("photo.png").astype(float), read("smooth.png").astype(float)
    psnr = 10 * np.log10(255 ** 2 / np.mean((a - b) ** 2))
    assert any(abs(float(number) - psnr) < 0.01 for number in re.findall(r"\d+\.\d+", told)), (psnr, told)


say("engineer", "gconv -i photo.png -f average --border mirror -o x.png", ("symmetric    c b a | a b c d | d c b\n".strip(),
    "reflect101   d c b | a b c d | c b a", "OpenCV"))
say("engineer", "gconv -i photo.png -f canny -o x.png", ("Canny()", "the filter sobel"))

# ---- A student ----

say("student", "gconv help border", ("replicate    a a a | a b c d | d d d", "mirror, reflect"), status=0)
say("student", "gconv help anchor; gconv help exact family; gconv help sigma", ("the middle one", "the same bits", "gaussian:size=3"), status=0)
say("student", "gconv filters edges", ("sobel", "kirsch"), status=0)
say("student", "gconv -i photo.png -f blur -o x.png", ("means different things", "gaussian:sigma=2", "average:size=5"))
say("student", "gconv -i photo.png -f gausian -o x.png", "did you mean 'gaussian'?")
say("student", "gconv soble photo.png x.png", "did you mean 'sobel'?")
say("student", "gconv info sobel_x", ("3 x 3", "rank        1 (separable)"), status=0)
say("student", "gconv -i photo.png -f median -o x.png", ("vips", "ImageMagick", "medianBlur()"))


@task("student", "gconv make gauss:sigma=1 > taps.txt")
def _(told):
    row = np.exp(-np.arange(-3, 4) ** 2 / 2)
    near(np.loadtxt("taps.txt"), np.outer(row, row) / row.sum() ** 2, 1e-6)


@task("student", "gconv -i photo.png -f edge.txt --flip --scale 1/46 -o flipped.png")
def _(told):
    photo = read("photo.png")
    near(read("flipped.png"), by_channel(lambda p: ndimage.convolve(p, SKEW / 46, mode="constant"), photo))


@task("student", "gconv -i photo.png -f sobel_x -o dark.png", needs="warnings", says=("below 0", "--range signed"))
def _(told):
    near(read("dark.png"), levels(correlate(read("photo.png"), np.outer((1, 2, 1), (-1, 0, 1)))), 0)


@task("student", "gconv -i photo.png -f '1/9*ones(3)' -o ones.png", needs="ones(3)")
def _(told):
    near(read("ones.png"), correlate(read("photo.png"), np.full((3, 3), 1 / 9)))


# ---- A scientist ----

@task("scientist", "gconv -i image.npy -f gaussian:sigma=2 --border periodic -o smooth.npy")
def _(told):
    near(np.load("smooth.npy"), gaussian(np.load("image.npy"), 2, "wrap"), 1e-5)


@task("scientist", "gconv -i image.npy -f edge.txt --flip --padding full -o full.npy")
def _(told):
    near(np.load("full.npy"), signal.convolve2d(np.load("image.npy"), SKEW, "full"), 1e-3)


@task("scientist", "gconv -i image.npy -f edge.txt --padding valid --stride 2 -o valid.npy --verify")
def _(told):
    near(np.load("valid.npy"), signal.correlate2d(np.load("image.npy"), SKEW, "valid")[::2, ::2], 1e-3)


@task("scientist", "gconv -i deep.png -f average -o deep_mean.png")
def _(told):
    got = read("deep_mean.png")
    assert got.max() > 255, "16 bits stay 16 bits"
    near(got, correlate(read("deep.png"), np.full((3, 3), 1 / 9)))


@task("scientist", "gconv -i photo.png -f gaussian:sigma=1 --then -f laplacian_4 --depth float -o chain.npy")
def _(told):
    near(np.load("chain.npy"), correlate(gaussian(read("photo.png"), 1), LAPLACE) / 255, 1e-5)


@task("scientist", "gconv -i deep.tif -f average -o deep_out.tif", needs="tiff")
def _(told):
    near(read("deep_out.tif"), correlate(read("deep.tif"), np.full((3, 3), 1 / 9)))


@task("scientist", "gconv -i pages.tif -f box:3 -o pages_out.tif", needs="tiff")
def _(told):
    with Image.open("pages.tif") as before, Image.open("pages_out.tif") as after:
        assert after.n_frames == before.n_frames == 3
        for page in range(3):
            before.seek(page)
            after.seek(page)
            near(np.asarray(after), correlate(np.asarray(before), np.full((3, 3), 1 / 9)))


@task("scientist", "gconv -i stack.npy -f box:3 -o stack_out.npy", needs="stacks")
def _(told):
    expected = np.stack([correlate(plane, np.full((3, 3), 1 / 9)) for plane in np.load("stack.npy")])
    near(np.load("stack_out.npy").reshape(expected.shape), expected)


@task("scientist", "gconv -i ints.npy -f edge.txt --depth float -o ints_out.npy", needs="stacks")
def _(told):
    near(np.load("ints_out.npy"), correlate(np.load("ints.npy"), SKEW), 1e-2)


@task("scientist", "gconv -i data.npz:image -f average -o member.npy", needs="npz")
def _(told):
    near(np.load("member.npy"), correlate(np.load("data.npz")["image"], np.full((3, 3), 1 / 9)), 1e-5)


@task("scientist", "cat 0.pgm 1.pgm 2.pgm | gconv -i - -f box:3 -o 'frame_{frame}.png'", needs="frames of PNM")
def _(told):
    frames = sorted(pathlib.Path().glob("frame_*.png"))
    assert len(frames) == 3, frames
    for i, frame in enumerate(frames):
        near(read(frame), correlate(read(f"{i}.pgm"), np.full((3, 3), 1 / 9)))


@task("scientist", "gconv -i photo.png -f average --border edge --device gpu --dry-run -o dry.png", says="photo.png -> dry.png")
def _(told):
    assert not os.path.exists("dry.png")


# ---- A packager ----

say("packager", "gconv --version", "gconv 0.", status=0)
say("packager", "gconv", ("Usage: gconv -i INPUT -f FILTER -o OUTPUT", "gconv FILTER INPUT OUTPUT"))
say("packager", "gconv --help", ("Commands:", "bench", "gconv help WORD"), status=0)
say("packager", "gconv -i nosuch.png -f sobel -o x.png", "nosuch.png: cannot find this input")
say("packager", "gconv -i broken.png -f sobel -o x.png", "broken.png: ", status=1)
say("packager", "gconv bench -a nosuch", ("there is no algorithm 'nosuch'", "direct"))
say("packager", "gconv complete --border re", ("replicate\n", "reflect101"), status=0)
say("packager", "gconv devices && gconv algorithms", ("cpu", "direct"), status=0)


@task("packager", "gconv -i photo.png broken.png -f sobel -o some/", status=3, says="broken.png: ")
def _(told):
    assert os.listdir("some") == ["photo.png"]


@task("packager", "gconv sharpen photo.png one.png --threads 1 && gconv sharpen photo.png two.png --threads 2 && env -i $(command -v gconv) sharpen photo.png three.png -d cpu")
def _(told):
    assert pathlib.Path("one.png").read_bytes() == pathlib.Path("two.png").read_bytes() == pathlib.Path("three.png").read_bytes()


@task("packager", "gconv -i photos/ -f sharpen -o kept/ --resume && gconv -i photos/ -f sharpen -o kept/ --resume --dry-run")
def _(told):
    assert told.count("(done: passed over)") == 3, told


@task("packager", "cmake --install $GCONV_BUILD --prefix $PWD/usr > install.log && PKG_CONFIG_PATH=$(dirname $(find usr -name gconv.pc)) pkg-config --cflags --libs gconv && usr/bin/gconv make kirsch_n", needs="cmake", says="-lgconv")
def _(told):
    assert "5" in told and os.path.exists("usr/share/man/man1/gconv.1")


# ---- The hour ----

def find_features():
    """What this build has of what tasks need. Where no help text lists it, the documents do."""
    def told(*words):
        done = subprocess.run([GCONV, *words], capture_output=True, text=True, check=False)
        return done.stdout if done.returncode == 0 else ""
    options = told("help", "filter")
    formats = set(re.findall(r"(?m)^  ([a-z]+) +\w", options.split("Formats,")[-1]))
    pages = "".join((SOURCE / name).read_text() for name in ("CHANGELOG.md", "docs/gconv.1", "docs/guide.md", "docs/filter-formats.md"))
    frames = "float16" in told("help", "--depth")  # which came with stacks, members of archives and PNM of several images
    return {"--region": "--region" in options, "--mask": "--mask" in options, "--suffix": "--suffix" in options,
            "format same": "same" in told("help", "--format"), "tiff": "tiff" in formats, "webp": "webp" in formats,
            "compare": "\n  compare " in told("help"), "exif": "--strip" in options or "EXIF, XMP and comments" in pages,
            "npz": frames, "stacks": frames, "frames of PNM": frames,
            "ones(3)": "ones(" in pages, "warnings": "became black" in pages or "rim darkens" in pages,
            "cmake": bool(shutil.which("cmake") and shutil.which("pkg-config") and (BUILD / "cmake_install.cmake").exists())}


def run_task(command, status, says, judge):
    before = set(os.listdir())
    done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    told = done.stdout + done.stderr
    assert done.returncode == status, f"exit status {done.returncode}, expected {status}\n{told}"
    for words in says:
        assert words in told, f"it does not say '{words}':\n{told}"
    if judge:
        judge(told)
    else:
        assert set(os.listdir()) == before, "it wrote something"


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    features, failed, waiting, began = find_features(), 0, 0, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gconv-hour-") as folder:
        os.chdir(folder)
        programs = pathlib.Path(folder) / ".bin"
        programs.mkdir()
        (programs / "gconv").symlink_to(GCONV)
        os.environ.update(PATH=f"{programs}:{os.environ['PATH']}", GCONV_DEVICE="cpu", GCONV_CACHE="", GCONV_BUILD=str(BUILD))
        make_inputs()
        for person, command, needs, status, says, judge in TASKS:
            if wanted not in f"{person} {command}":
                continue
            if needs and not features[needs]:
                waiting += 1
                print(f"waits for {needs}: {person}: {command}")
                continue
            try:
                run_task(command, status, says, judge)
            except Exception as error:  # whatever a judge finds, the other tasks go on
                failed += 1
                print(f"FAILED {person}: {command}\n  {type(error).__name__}: {error}")
        os.chdir("/")
    print(f"{len(TASKS)} tasks, {waiting} wait, {failed} failed, {time.monotonic() - began:.1f} s")
    return failed > 0 or len(TASKS) != 60


if __name__ == "__main__":
    sys.exit(main())
