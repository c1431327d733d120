#!/usr/bin/env python3
"""One name, one type: no two files define a type of the same qualified name.

usage: check_types.py TREE

The linker merges the functions of two types with one name without a word, and one of them then runs on the other's
memory. Types in anonymous namespaces belong to their file and may repeat.
"""
# SPDX-License-Identifier: Apache-2.0

import pathlib
import re
import sys

FOLDERS = ["include", "src", "algorithms", "compression", "topology", "transports", "bench", "examples", "python"]
NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
OPENING = re.compile(r"(?P<head>[^;{}]*)(?P<mark>[{};])")
NAMESPACE = re.compile(r"^(?:inline\s+)?namespace(?:\s+([\w:]+))?$")
TYPE = re.compile(r"(?:^|>)\s*(?:struct|class|union|enum(?:\s+class)?)\s+(?:\[\[[^\]]*\]\]\s*)?(?:alignas\([^)]*\)\s*)?(\w+)\s*(?:final\s*)?(?::[^:].*)?$",
                  re.DOTALL)


def types_of(text):
    """The qualified names of the types that a source defines at namespace scope."""
    found, scopes = [], []
    for match in OPENING.finditer(NOISE.sub(" ", text)):
        head = re.sub(r"^\s*#[^\n]*$", "", match["head"], flags=re.MULTILINE).strip()
        if match["mark"] == "}":
            if scopes:
                scopes.pop()
        elif match["mark"] == "{":
            namespace = NAMESPACE.match(head)
            kind = TYPE.search(head)
            if namespace:
                scopes.append(namespace[1] or "(anonymous)")
                continue
            if kind and None not in scopes and "(anonymous)" not in scopes:
                found.append("::".join([*scopes, kind[1]]))
            scopes.append(None)
    return found


def main():
    tree = pathlib.Path(sys.argv[1])
    files = sorted(file for folder in FOLDERS for file in (tree / folder).rglob("*") if file.suffix in (".h", ".cc"))
    places, wrong = {}, 0
    for file in files:
        for name in types_of(file.read_text()):
            places.setdefault(name, []).append(str(file.relative_to(tree)))
    for name, where in sorted(places.items()):
        if len(where) > 1 and not name.startswith("banyan_"):
            print(f"{name} is defined in {' and in '.join(where)}: give one of them another name")
            wrong += 1
    print(f"{len(places)} types in {len(files)} files")
    return 1 if wrong or len(places) < 50 else 0


sys.exit(main())
