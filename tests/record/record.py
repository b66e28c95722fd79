#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Records what the 1,600 commands of commands.txt yield, to show that a change of the code changes no result.

    tests/record/record.py record build/gconv before.json     # before the change; half a minute on two cores
    tests/record/record.py record build/gconv after.json      # after it
    tests/record/record.py compare before.json after.json     # exit status 0 if nothing differs

`record --only TEXT` takes only commands that have this text in them or in the name of their section, such as rows or .jpg;
`compare` then looks at those alone. `record --jobs N` runs N commands at a time (default: 2).

A record holds the exit status, the text on both standard streams without times, and for each file that was written a hash
of the decoded samples, their shape and type, and the metadata. The bytes of PNG and JPEG files do not count. `compare`
lists every difference with its kind:

    result               samples, shape, metadata, names of files or exit status
    inexact algorithm    samples or measured errors, where the algorithm is not of the exact family
    error text           the first line on standard error
    text                 the other lines on the standard streams

`compare --expected FILE` reads differences that are wanted. A line of FILE is `KIND PATTERN: REASON`: PATTERN is
matched with the whole command as by fnmatch, and KIND is one of those above or `*`. These differences are counted, but
not listed.

Both recordings must come from the same machine: OpenCV and Pillow decode the results (python3-opencv, python3-pil), and
algorithms outside the exact family may follow the processor."""

import argparse
import concurrent.futures
import difflib
import fnmatch
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import commands
import contents
import inputs

FILTERS = pathlib.Path(__file__).resolve().parents[2] / "filters"
LIMIT_SECONDS = 60

# What differs from run to run or from machine to machine, and what stands in its place.
REPLACED = [
    (r"\b\d+(\.\d+)?(e[+-]\d+)? (ms|s|us)\b", "TIME"),
    (r"cpu \([^)]*\)", "cpu (...)"),
    (r" \(not here: [^\n]*\)", ""),
    (r"/tmp/gconv-record-\w+", "WORK"),
]
# Lines of --explain, `algorithms` and `devices` that tell estimates, times or the machine.
DROPPED = re.compile(r"estimated at|the cheapest of|^ *\S+ +cannot: |workspace|^device |^cuda")
TIMES = re.compile(r"_ms$|_per_s$|^cold|^warm_images$|^mpix$|^description$")


def words_of(command):
    """The variables, the words and the file for standard input of one command."""
    line, _, source = command.partition(" < ")
    words, variables = shlex.split(line), {}
    while words and re.match(r"[A-Z_]+=", words[0]):
        name, value = words.pop(0).split("=", 1)
        variables[name] = value
    return variables, words, source


# ---- Recording ----


def steady_json(line):
    """A line of JSON without times."""

    def steady(value):
        if isinstance(value, dict):
            return {name: steady(part) for name, part in value.items() if not TIMES.search(name)}
        return value

    return json.dumps(steady(json.loads(line)))


def steady_lines(words, text, version):
    """The lines of a text, without what differs from run to run or from machine to machine."""
    drops = "--explain" in words or "algorithms" in words or "devices" in words
    for pattern, place in REPLACED:
        text = re.sub(pattern, place, text)
    lines = text.replace(str(FILTERS), "FILTERS").replace(version, "VERSION").split("\n")
    lines = [
        steady_json(line) if line.startswith('{"') else line
        for line in lines
        if line.startswith("gconv: ") or not (drops and DROPPED.search(line))
    ]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def stdout_of(words, data, version):
    """Standard output: a described file, or lines of text. Tables of times and of races leave nothing."""
    if data[:1] == b"\x89" or data[:2] in (b"\xff\xd8", b"\x93N", b"P4", b"P5", b"P6", b"P7", b"PF", b"Pf"):
        return contents.describe("-", data)
    if "--timings" in words or ("-a", "all") in zip(words, words[1:]):
        return []
    return steady_lines(words, data.decode("utf-8", "replace"), version)


def run_command(gconv, command, folder, version):
    """Runs one command in the folder, and records what it says."""
    variables, words, source = words_of(command)
    if words and words[0] in ("rm", "cp", "mkdir"):
        return {
            "status": subprocess.run(words, cwd=folder, capture_output=True, check=False).returncode,
            "stdout": [],
            "stderr": [],
        }
    environment = {
        "PATH": os.environ["PATH"],
        "LC_ALL": "C",
        "GCONV_DEVICE": "cpu",
        "GCONV_CACHE": "",
        "GCONV_MOST_THREADS": "16",
        "GCONV_FILTERS": str(FILTERS),
        **variables,
    }
    with open(folder / source if source else os.devnull, "rb") as stdin:
        try:
            done = subprocess.run(
                [gconv, *words],
                cwd=folder,
                env=environment,
                stdin=stdin,
                capture_output=True,
                timeout=LIMIT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"status": "timeout", "stdout": [], "stderr": []}
    said = steady_lines(words, done.stderr.decode("utf-8", "replace"), version)
    return {"status": done.returncode, "stdout": stdout_of(words, done.stdout, version), "stderr": said}


def files_below(folder):
    """Every file that was made, described; in/ is a link and is left out. Empty folders count too."""
    found = {}
    for path, _, names in os.walk(folder):
        place = pathlib.Path(path)
        for name in sorted(names):
            relative = str((place / name).relative_to(folder))
            found[relative] = contents.describe(relative, (place / name).read_bytes())
        if not os.listdir(path) and place != folder:
            found[f"{place.relative_to(folder)}/"] = {"format": "folder"}
    return dict(sorted(found.items()))


def record_line(gconv, line, work, number, version):
    folder = work / f"{number}"
    folder.mkdir()
    (folder / "in").symlink_to(work / "in")
    steps = [run_command(gconv, command, folder, version) for command in line.split(" && ")]
    files = files_below(folder)
    shutil.rmtree(folder)
    return {"steps": steps, "files": files}


def record(options):
    gconv = str(pathlib.Path(options.gconv).resolve())
    version = subprocess.run([gconv, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    lines = {
        line: section
        for section, part in commands.sections().items()
        for line in part
        if options.only in section + " " + line
    }
    with tempfile.TemporaryDirectory(prefix="gconv-record-") as name:
        work = pathlib.Path(name)
        (work / "in").mkdir()
        inputs.make(work / "in")
        before = snapshot(work / "in")
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            records = list(pool.map(lambda item: record_line(gconv, item[1], work, item[0], version), enumerate(lines)))
        if snapshot(work / "in") != before:
            sys.exit("record: a command changed an input: the recording is of no use")
    found = {
        line: {"section": section, "exact": commands.is_exact(line), **entry}
        for (line, section), entry in zip(lines.items(), records)
    }
    pathlib.Path(options.out).write_text(
        json.dumps({"only": options.only, "commands": found}, indent=1, ensure_ascii=False) + "\n"
    )
    late = sum(step["status"] == "timeout" for entry in found.values() for step in entry["steps"])
    print(
        f"{len(found)} commands recorded in {options.out}"
        + (f", of which {late} took more than {LIMIT_SECONDS} s" if late else "")
    )


def snapshot(folder):
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*")}


# ---- Comparing ----


def text_change(one, other):
    return "\n".join(
        line
        for line in difflib.unified_diff(one, other, "before", "after", lineterm="", n=0)
        if not line.startswith(("---", "+++", "@@"))
    )


def file_changes(name, one, other, exact):
    """The differences of one file that is on both sides."""
    for key in sorted(one.keys() | other.keys()):
        if one.get(key) != other.get(key):
            kind = "inexact algorithm" if key == "samples" and not exact else "result"
            yield kind, f"{name}: {key} was {one.get(key)}, is {other.get(key)}"


def changes(one, other):
    """Yields (kind, text) for each difference between two records of a command."""
    exact = one["exact"] and other["exact"]
    for name in sorted(one["files"].keys() | other["files"].keys()):
        if name not in other["files"] or name not in one["files"]:
            yield "result", f"{name}: only {'before' if name in one['files'] else 'after'}"
        else:
            yield from file_changes(name, one["files"][name], other["files"][name], exact)
    for was, now in zip(one["steps"], other["steps"]):
        if was["status"] != now["status"]:
            yield "result", f"the exit status was {was['status']}, is {now['status']}"
        if isinstance(was["stdout"], dict) and isinstance(now["stdout"], dict):
            yield from file_changes("standard output", was["stdout"], now["stdout"], exact)
        elif isinstance(was["stdout"], dict) or isinstance(now["stdout"], dict):
            yield "result", "standard output: a file on one side only"
        elif was["stdout"] != now["stdout"]:
            yield "text" if exact else "inexact algorithm", text_change(
                was["stdout"], now["stdout"]
            )  # such as what --verify says
        if was["stderr"][:1] != now["stderr"][:1]:
            yield "error text", text_change(was["stderr"][:1], now["stderr"][:1])
        if was["stderr"][1:] != now["stderr"][1:]:
            yield "text", text_change(was["stderr"][1:], now["stderr"][1:])


def read_expected(path):
    rules = []
    for line in pathlib.Path(path).read_text().splitlines() if path else []:
        match = re.fullmatch(r"(result|inexact algorithm|error text|text|\*) (.*): (.*)", line)
        if match:
            rules.append(match.groups())
        elif line.strip() and not line.startswith("#"):
            sys.exit(f"{path}: not KIND PATTERN: REASON: {line}")
    return rules


def compare(options):
    before, after = (json.loads(pathlib.Path(path).read_text()) for path in (options.before, options.after))
    rules, counts, expected = read_expected(options.expected), {}, 0
    old, new = before["commands"], after["commands"]
    both = [line for line in old if line in new]
    found = [(line, kind, text) for line in both for kind, text in changes(old[line], new[line])]
    if not (before["only"] or after["only"]):
        found += [(line, "result", "this command is recorded on one side only") for line in old.keys() ^ new.keys()]
    for line, kind, text in found:
        if any(rule[0] in ("*", kind) and fnmatch.fnmatchcase(line, rule[1]) for rule in rules):
            expected += 1
            continue
        counts[kind] = counts.get(kind, 0) + 1
        print(f"{kind}: gconv {line}\n    " + text.replace("\n", "\n    "))
    print(
        f"{len(both)} commands compared; "
        + ", ".join(f"{kind}: {counts.get(kind, 0)}" for kind in ("result", "inexact algorithm", "error text", "text"))
        + f"; expected: {expected}"
    )
    if not both:
        sys.exit("compare: no command is in both recordings")
    sys.exit(1 if counts else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("record", help="run the commands, and write what they yield")
    verb.add_argument("gconv")
    verb.add_argument("out")
    verb.add_argument("--only", default="")
    verb.add_argument("--jobs", type=int, default=2)
    verb.set_defaults(do=record)
    verb = verbs.add_parser("compare", help="list the differences of two recordings")
    verb.add_argument("before")
    verb.add_argument("after")
    verb.add_argument("--expected")
    verb.set_defaults(do=compare)
    options = parser.parse_args()
    options.do(options)


if __name__ == "__main__":
    main()
