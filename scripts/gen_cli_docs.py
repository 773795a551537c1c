#!/usr/bin/env python3
"""Writes docs/cli.md from the client's own table of commands and flags.

usage: gen_cli_docs.py BIN_DIR [--check]

--check writes nothing and exits 1 when docs/cli.md is not what the client in BIN_DIR says.
"""

import json
import pathlib
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "cli.md"

INTRODUCTION = """\
# Commands

Made by `scripts/gen_cli_docs.py` from the table that also parses the command line and makes `--help`
(`client/command_table.cc`). Change it there, then run the script.

    libreyolo profile <subcommand> [<argument>] [--flag value ...]

Flags may stand before or after arguments, also before the command's name for those that every command takes; the last
one of a repeated flag wins. There is no `key=value` form. An argument that starts with `-` is written `./-name`; `-`
alone is standard input.

## Servers

`--server`, else `LIBREYOLO_SERVER`, else the context in use, else a local daemon of the current folder, which is started
when it does not run and ends by itself. An address is `host`, `host:port`, `[v6]:port`, `unix:PATH` or
`ssh://[user@]host[:port][/path/of/the.sock]`; the port is 7430 when none is given. A named server that does not answer is
an error, never a reason to take the local daemon.

TCP off loopback is TLS 1.3; on loopback `--ca` or `--cert` asks for it. A token is read from `--token-file`,
`LIBREYOLO_TOKEN_FILE` or `LIBREYOLO_TOKEN`, in that order, and never stands on the command line. `context add` keeps an
address with the names of such files, never a token; a context's files are used for the context's server only. Over `ssh://`
the client runs `ssh host libreyolo dial-stdio`, which talks to `/run/libreyolod/libreyolod.sock` there, or the socket that
the address names; ssh asks for passwords and keys as ever.

## Words that name files

A profile or trace is a job's id, else a path in the server's workspace: the paths that `run` and `infer` print. A word
that starts with `/`, `./`, `../` or `~` is a file of your own, and so is a relative one that the server does not have; with
a remote server it is uploaded once. Where both exist the server's is read, and stderr says so (under `--json` the key
`source`). Weights, images and datasets are found by the same rule.

## What comes out

Results go to stdout, progress and remarks to stderr. With `--json` stdout carries one document and stderr nothing, or one
error object with `reason`, `message` and `hints`, in which case stdout stays empty. Ctrl-C while a job runs cancels it and
waits; a second one leaves at once. `NO_COLOR` makes the progress plain.

`libreyolo completion bash|zsh|fish` prints a script that lets the shell complete commands, flags, job ids, profiles,
metrics and phases; the packages install it. By hand:

    source <(libreyolo completion bash)                                        # in ~/.bashrc; zsh likewise, after compinit
    libreyolo completion fish >~/.config/fish/completions/libreyolo.fish

A key asks a server that is there, for two seconds at most, and never starts a daemon.

| exit | when |
|---|---|
| 0 | done |
| 1 | a trace or profile that cannot be analysed |
| 2 | a missing file, an argument that cannot be resolved, a bad flag |
| 3 | no profile was produced |
| 4 | the server cannot be reached |
| 5 | the server is busy |
| 6 | not authenticated, or not permitted |
| 10 | the condition of `compare --fail-on` holds |
| 130 | interrupted |
"""


def cell(text):
    return text.replace("|", "\\|")


def flag_rows(flags):
    lines = ["| flag | default | meaning |", "|---|---|---|"]
    for flag in flags:
        default = "" if flag["default"] == "" else f"`{cell(flag['default'])}`"
        lines.append(f"| `{cell(flag['names'])}` | {default} | {cell(flag['help'])} |")
    return lines


def command_section(command):
    words = [f"<{w['name']}>" if w["required"] else f"[<{w['name']}>]" for w in command["positionals"]]
    lines = ["", "### `" + " ".join(["libreyolo", command["path"], *words]) + "`", ""]
    lines.append(command["summary"] + ".")
    if "note" in command:
        lines += ["", f"({command['note']})"]
    if command["positionals"]:
        lines.append("")
        lines += [f"- `<{w['name']}>`: {w['help']}" for w in command["positionals"]]
    if command["flags"]:
        lines += ["", *flag_rows(command["flags"])]
    return lines


def make_page(table):
    lines = [INTRODUCTION, "## Flags of every command", "", *flag_rows(table["common_flags"])]
    lines += ["", "`libreyolo --version` prints the client's version and, where one answers, the server's."]
    group = None
    for command in table["commands"]:
        if command["path"].split()[0] != group:
            group = command["path"].split()[0]
            lines += ["", f"## `libreyolo {group}`"]
        lines += command_section(command)
    return "\n".join(lines) + "\n"


def main():
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    if len(arguments) != 1:
        sys.exit(__doc__)
    dump = subprocess.run([f"{arguments[0]}/libreyolo", "--dump-flags"], check=True, capture_output=True)
    page = make_page(json.loads(dump.stdout))
    if "--check" not in sys.argv:
        PAGE.write_text(page)
    elif not PAGE.exists() or PAGE.read_text() != page:
        sys.exit(f"{PAGE.name} does not match the client: run scripts/gen_cli_docs.py {arguments[0]}")


if __name__ == "__main__":
    main()
