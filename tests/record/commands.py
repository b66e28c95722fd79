# SPDX-License-Identifier: MIT
"""Reads commands.txt, the table of commands that are recorded, and makes a command of each combination of alternatives."""

import pathlib
import re

TABLE = pathlib.Path(__file__).with_name("commands.txt")
EXACT = {"direct", "integer", "sparse", "im2col", "gemm", "reference"}

# An innermost <a|b> or <NAME>. The < of standard input has a blank behind it, and no | before a >.
CHOICE = re.compile(r"<([A-Z_]+|(?! )[^<>|]*(?:\|[^<>|]*)+)>")


def expanded(template, names):
    """Every command that a template stands for."""
    template = re.sub(r"<([A-Z_]+)>\|", lambda m: names[m[1]] + "|", template)  # names inside of alternatives
    template = re.sub(r"\|<([A-Z_]+)>", lambda m: "|" + names[m[1]], template)
    choice = CHOICE.search(template)
    if not choice:
        return [template]
    words = names[choice[1]] if "|" not in choice[1] else choice[1]
    return [
        command
        for word in words.split("|")
        for command in expanded(template[: choice.start()] + word + template[choice.end() :], names)
    ]


def named_algorithms(command):
    words = command.split()
    return [word for option, word in zip(words, words[1:]) if option in ("-a", "--algorithm")]


def filters_images(command):
    words = command.split()
    return "-f" in words and "-o" in words and words[0] not in ("rm", "cp", "mkdir", "bank", "make")


def pinned(command):
    """The command with `-a direct`, unless it filters nothing or names an algorithm."""
    if not filters_images(command) or named_algorithms(command):
        return command
    line, arrow, source = command.partition(" < ")
    return f"{line} -a direct{arrow}{source}"


def is_exact(line):
    """Whether every algorithm that is named in these commands is of the exact family. The results of the others may
    depend on the processor; `auto` and `all` may choose such."""
    return all(set(named_algorithms(command)) <= EXACT for command in line.split(" && "))


def sections():
    """For each section its commands, each command once."""
    found, names, section = {}, {}, None
    for line in TABLE.read_text().splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            section = line.strip("[]")
        elif section is None:
            name, words = line.split(" = ", 1)
            names[name] = words
        else:
            commands = (" && ".join(pinned(part) for part in text.split(" && ")) for text in expanded(line, names))
            found.setdefault(section, []).extend(command.strip() for command in commands)
    return {name: list(dict.fromkeys(part)) for name, part in found.items()}
