#!/usr/bin/env python3
"""Writes deploy/systemd/libreyolod.textproto, the service's settings with every other one commented, from the comments of
proto/libreyolo/config/v1/config.proto and the defaults that libreyolod itself tells.

usage: gen_config.py BIN_DIR [--check]

--check writes nothing and exits 1 when the file is not what the daemon in BIN_DIR says.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto/libreyolo/config/v1/config.proto"
FILE = ROOT / "deploy/systemd/libreyolod.textproto"
HOME = "/var/lib/libreyolod"

# What the service sets.
SERVICE = {
    "listen": '"unix:/run/libreyolod/libreyolod.sock"',
    "socket_mode": '"660"',
    "store": f'"{HOME}"',
    "weights_dir": f'"{HOME}/weights"',
    "cache": '"/var/cache/libreyolod"',
    "lock_dir": '"/run/lock"',
}
# Of settings that have no default.
EXAMPLES = {
    "log": '"/var/log/libreyolod.log"',
    "metrics_listen": '"127.0.0.1:9464"',
    "tls_cert": '"/etc/libreyolo/server.crt"',
    "tls_key": '"/etc/libreyolo/server.key"',
    "tls_client_ca": '"/etc/libreyolo/clients.crt"',
    "tokens": '"/etc/libreyolo/tokens"',
    "socket_group": '"libreyolo"',
    "worker_read": '"/opt/drivers/lib"',
}
INTRODUCTION = """\
# Settings of the service libreyolod, in protobuf's text format. Made by scripts/gen_config.py; edit your copy in
# /etc/libreyolo. A line "#name: value" is a setting with its default; take the # away to change it. Flags in
# /etc/default/libreyolod win over this file. Secrets stay in files of their own, mode 600, which this one names.
#
#   libreyolod --check-config --config /etc/libreyolo/libreyolod.textproto    what would hold, or what is wrong and where
"""


def settings_of_proto():
    """(name, comment lines) of each field, in order; those of daemons that a client starts are left out."""
    comment, out = [], []
    for line in PROTO.read_text().split("message DaemonConfig {")[1].splitlines():
        line = line.strip()
        field = re.match(r"(?:optional|repeated) \w+ (\w+) = \d+;", line)
        if line.startswith("//"):
            comment.append(line[2:].strip())
        elif field:
            if field[1] == "local":
                break
            out.append((field[1], comment))
            comment = []
        else:
            comment = []
    return out


def defaults(binary):
    """What holds beside the service's own settings; some defaults follow from those."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": HOME}
    with tempfile.NamedTemporaryFile("w", suffix=".textproto") as file:
        file.write("".join(f"{name}: {value}\n" for name, value in SERVICE.items()))
        file.flush()
        listing = subprocess.run([binary, "--check-config", "--config", file.name], env=environment, check=True,
                                 capture_output=True, text=True).stdout
    return dict(re.match(r"(\w+): (.*)  # ", line).groups() for line in listing.splitlines())


def text_for(binary):
    known = defaults(binary)
    known["worker"] = '"/usr/bin/libreyolo-worker"'
    out = INTRODUCTION
    for name, comment in settings_of_proto():
        out += "\n" + "".join(f"# {line}\n" for line in comment)
        if name in SERVICE:
            out += f"{name}: {SERVICE[name]}\n"
        elif name in known:
            out += f"#{name}: {known[name]}\n"
        elif name not in EXAMPLES:
            sys.exit(f"gen_config.py: {name} has no default: give it an example in EXAMPLES")
        else:
            out += f"# Not set; for example:\n#   {name}: {EXAMPLES[name]}\n"
    return out


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    text = text_for(pathlib.Path(sys.argv[1]) / "libreyolod")
    if "--check" not in sys.argv:
        FILE.write_text(text)
    elif FILE.read_text() != text:
        sys.exit(f"{FILE.relative_to(ROOT)} is not what libreyolod and its proto say: run scripts/gen_config.py BIN_DIR")


if __name__ == "__main__":
    main()
