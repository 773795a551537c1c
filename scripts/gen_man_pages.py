#!/usr/bin/env python3
"""Writes the manual pages from the client's own table of commands and flags, and from libreyolod's --help.

usage: gen_man_pages.py BIN_DIR OUT_DIR

OUT_DIR/man1 gets libreyolo.1 and a page for each command (libreyolo-profile-infer.1), OUT_DIR/man8 libreyolod.8.
"""

import json
import pathlib
import subprocess
import sys

EXIT_CODES = [
    ("0", "done"),
    ("1", "a trace or profile that cannot be analysed"),
    ("2", "a missing file, an argument that cannot be resolved, a bad flag"),
    ("3", "no profile was produced"),
    ("4", "the server cannot be reached"),
    ("5", "the server is busy"),
    ("6", "not authenticated, or not permitted"),
    ("10", "the condition of compare --fail-on holds"),
    ("130", "interrupted"),
]


def escape(text):
    """As running text of a page: nothing in it is a request or an escape."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text


def heading(name, section, version):
    return [f'.TH {name.upper()} {section} "" "libreyolod {version}" "libreyolod"', ".SH NAME"]


def flag_entries(flags):
    lines = []
    for flag in flags:
        text = flag["help"]
        if flag["default"] not in ("", "off"):
            text += f" [{flag['default']}]"
        lines += [".TP", f".B {escape(flag['names'])}", escape(text)]
    return lines


def exit_section():
    lines = [".SH EXIT STATUS"]
    for code, text in EXIT_CODES:
        lines += [".TP", f".B {code}", escape(text)]
    return lines


def page_name(command):
    return "-".join(["libreyolo", *command["path"].split()])


def command_page(command, table, version):
    name = page_name(command)
    words = [f"<{w['name']}>" if w["required"] else f"[<{w['name']}>]" for w in command["positionals"]]
    lines = heading(name, 1, version)
    lines += [f"{escape(name)} \\- {escape(command['summary'])}", ".SH SYNOPSIS", f".B libreyolo {escape(command['path'])}",
              escape(" ".join([*words, "[--flag value ...]"]))]
    if command["positionals"]:
        lines.append(".SH ARGUMENTS")
        for word in command["positionals"]:
            lines += [".TP", f".I {escape(word['name'])}", escape(word["help"])]
    if command["flags"]:
        lines += [".SH OPTIONS", *flag_entries(command["flags"])]
    lines += [".SH OPTIONS OF EVERY COMMAND", *flag_entries(table["common_flags"]), *exit_section(), ".SH SEE ALSO",
              ".BR libreyolo (1)"]
    return lines


def overview_page(table, version):
    lines = heading("libreyolo", 1, version)
    lines += ["libreyolo \\- profiles YOLO training and inference", ".SH SYNOPSIS", ".B libreyolo",
              escape("<command> [<argument>] [--flag value ...]"), ".SH DESCRIPTION",
              "Asks a libreyolod, of this machine or of another, to measure where the time goes, and reads its profiles.",
              "Each command has a page of its own.", ".SH COMMANDS"]
    for command in table["commands"]:
        lines += [".TP", f".BR {escape(page_name(command))} (1)", escape(command["summary"])]
    lines += [".SH OPTIONS OF EVERY COMMAND", *flag_entries(table["common_flags"]), *exit_section(), ".SH SEE ALSO",
              ".BR libreyolod (8)"]
    return lines


def daemon_page(help_text, version):
    lines = heading("libreyolod", 8, version)
    lines += ["libreyolod \\- profiles YOLO models on this host's devices for clients that call over gRPC", ".SH USAGE", ".nf"]
    lines += [escape(line) for line in help_text.splitlines()]
    return lines + [".fi", ".SH SEE ALSO", ".BR libreyolo (1)"]


def output_of(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    binaries, out = map(pathlib.Path, sys.argv[1:])
    daemon = binaries / "libreyolod"
    table = json.loads(output_of(binaries / "libreyolo", "--dump-flags"))
    version = output_of(daemon, "--version").split()[1]
    write(out / "man1/libreyolo.1", overview_page(table, version))
    for command in table["commands"]:
        write(out / f"man1/{page_name(command)}.1", command_page(command, table, version))
    write(out / "man8/libreyolod.8", daemon_page(output_of(daemon, "--help"), version))


if __name__ == "__main__":
    main()
