"""What the yardstick scripts share: finding binaries, timing processes, a workspace, a report.

Ratios are of medians over rounds in which the two sides take turns, so that a machine that slows
down for a while slows both.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class BenchError(Exception):
    """What keeps a yardstick from being measured, for people."""


def bin_dir():
    return Path(os.environ.get("LIBREYOLO_BIN_DIR", ROOT / "build" / "release" / "bin")).resolve()


def bench_dir():
    """Where Google Benchmark's executables and empty_rpc are: beside bin/."""
    return bin_dir().parent / "bench"


def find_binary(name, folder=None):
    path = (folder or bin_dir()) / name
    if not os.access(path, os.X_OK):
        raise BenchError(f"{path} is missing: build it, or set LIBREYOLO_BIN_DIR")
    return str(path)


def shared_dir():
    path = Path(os.environ.get("LIBREYOLO_SHARED_DIR", ROOT.parent / "shared"))
    if not path.is_dir():
        raise BenchError(f"{path} is missing: set LIBREYOLO_SHARED_DIR")
    return path


def find_peer(path):
    """The peer's command in a virtual environment (peer_env.sh makes one)."""
    command = Path(path or ROOT / ".deps" / "peer") / "bin" / "libreyolo"
    if not os.access(command, os.X_OK):
        raise BenchError(f"{command} is missing: run tests/bench/peer_env.sh, or name one with --peer")
    return str(command)


@contextlib.contextmanager
def workspace(daemon=True):
    """A temporary folder to work in, with state and sockets of its own; its daemon ends with it."""
    folder = Path(tempfile.mkdtemp(prefix="ly-bench-"))
    environment = dict(os.environ)
    for name in ("LIBREYOLO_SERVER", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        environment.pop(name, None)
    environment["XDG_RUNTIME_DIR"] = str(folder / "run")
    environment["XDG_STATE_HOME"] = str(folder / "state")
    (folder / "run").mkdir(mode=0o700)
    (folder / "ws").mkdir()
    try:
        yield folder / "ws", environment
    finally:
        if daemon:
            with contextlib.suppress(BenchError, subprocess.SubprocessError, OSError):
                stop = [find_binary("libreyolo"), "daemon", "stop", "--force"]
                subprocess.run(stop, cwd=folder / "ws", env=environment, capture_output=True,
                               timeout=30, check=False)
        shutil.rmtree(folder, ignore_errors=True)


def place_weights(folder):
    """The fixture's size-t weights under the default name, where both programs look."""
    source = shared_dir() / "fixtures" / "yolo9" / "ckpt" / "yolo9t_nc2_views.pt"
    (folder / "weights").mkdir(exist_ok=True)
    shutil.copyfile(source, folder / "weights" / "LibreYOLO9t.pt")


def run(command, folder, environment, timeout=1800):
    """Runs to the end, quietly; seconds from start to exit. BenchError with its words on failure."""
    start = time.perf_counter()
    result = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, timeout=timeout, check=False)
    seconds = time.perf_counter() - start
    if result.returncode != 0:
        raise BenchError(f"{' '.join(command)}: exit {result.returncode}\n"
                         f"{(result.stderr or result.stdout)[-2000:]}")
    return seconds


def time_process(command, folder, environment):
    """Seconds from spawn to exit with the output thrown away; cheaper and steadier than run()."""
    null = os.open(os.devnull, os.O_RDWR)
    previous = os.getcwd()
    try:
        os.chdir(folder)  # a spawned process has no other way to get its folder
        actions = [(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, null, 1),
                   (os.POSIX_SPAWN_DUP2, null, 2)]
        start = time.perf_counter()
        pid = os.posix_spawn(command[0], command, environment, file_actions=actions)
        _, status = os.waitpid(pid, 0)
        seconds = time.perf_counter() - start
    finally:
        os.chdir(previous)
        os.close(null)
    if os.waitstatus_to_exitcode(status) != 0:
        raise BenchError(f"{' '.join(command)}: exit {os.waitstatus_to_exitcode(status)}")
    return seconds


def alternate(sides, rounds):
    """Calls the named functions in turn, each round in the reverse order of the one before.

    Returns {name: [value, ...]}.
    """
    values = {name: [] for name in sides}
    order = list(sides)
    for _ in range(rounds):
        for name in order:
            values[name].append(sides[name]())
        order.reverse()
    return values


def ratio_interval(ours, theirs, seed=1, resamples=2000):
    """The ratio of medians and a 95 % bootstrap interval over the rounds, which stay paired."""
    ratio = statistics.median(ours) / statistics.median(theirs)
    rng = random.Random(seed)
    count = len(ours)
    ratios = []
    for _ in range(resamples):
        picks = [rng.randrange(count) for _ in range(count)]
        ratios.append(statistics.median([ours[i] for i in picks]) /
                      statistics.median([theirs[i] for i in picks]))
    ratios.sort()
    return ratio, ratios[int(resamples * 0.025)], ratios[int(resamples * 0.975) - 1]


def find_address(value):
    """The first gRPC address (unix:... or host:port under a key "address") in a JSON value."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key in ("address", "socket", "server") and isinstance(item, str) and item:
                return item if ":" in item else "unix:" + item
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            found = find_address(item)
            if found:
                return found
    if isinstance(value, str) and value.startswith("unix:"):
        return value
    return None


def local_daemon_address(folder, environment):
    """Starts the workspace's daemon, if it does not run, and says where it listens."""
    libreyolo = find_binary("libreyolo")
    subprocess.run([libreyolo, "jobs", "list"], cwd=folder, env=environment, capture_output=True,
                   timeout=60, check=False)
    status = subprocess.run([libreyolo, "daemon", "status", "--json"], cwd=folder, env=environment,
                            capture_output=True, text=True, timeout=60, check=False)
    with contextlib.suppress(json.JSONDecodeError):
        address = find_address(json.loads(status.stdout))
        if address:
            return address
    sockets = sorted(Path(environment["XDG_RUNTIME_DIR"]).rglob("*.sock"))
    if len(sockets) == 1:
        return f"unix:{sockets[0]}"
    raise BenchError(f"no local daemon: {status.stdout} {status.stderr}")


@contextlib.contextmanager
def served_store(folder, environment):
    """libreyolod on a socket of its own; yields (process, address)."""
    address = f"unix:{folder.parent / 'run' / 'd.sock'}"
    store = folder.parent / "store"
    store.mkdir(exist_ok=True)
    log = open(folder.parent / "libreyolod.log", "w+", encoding="utf-8")
    process = subprocess.Popen(
        [find_binary("libreyolod"), "--listen", address, "--store", str(store)], cwd=folder,
        env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_for_socket(address[5:], process, log)
        yield process, address
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        log.close()


def wait_for_socket(path, process, log, seconds=30):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            log.seek(0)
            raise BenchError(f"libreyolod ended with {process.returncode}: {log.read()[-2000:]}")
        with socket.socket(socket.AF_UNIX) as probe:
            with contextlib.suppress(OSError):
                probe.connect(path)
                return
        time.sleep(0.02)
    raise BenchError(f"libreyolod does not listen on {path} after {seconds} s")


def load_text():
    return "load " + " ".join(f"{value:.2f}" for value in os.getloadavg())


def report(name, value, limit, unit="", detail=""):
    """Prints one yardstick; True when it is met."""
    met = value <= limit
    print(f"{'ok  ' if met else 'MISS'} {name}: {value:.3f}{unit} (at most {limit:g}{unit})"
          f"{'  ' + detail if detail else ''}", flush=True)
    return met


def main(function):
    """Exit 0: measured and met; 1: measured and missed; 2: could not be measured."""
    # A time limit around the script must not leave its daemon and folder behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(0 if function() else 1)
    except BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
