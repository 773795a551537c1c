#!/usr/bin/env python3
"""`libreyolo profile get` on a warm daemon against a process that makes one empty gRPC call.

Prints the ratio of the whole processes, spawn to exit (at most 2.0).
"""

import argparse
import shutil
import statistics

import bench_util


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--profile", help="the profile.json to read (default: a fixture)")
    parser.add_argument("--field", default="step_ms")
    parser.add_argument("--smoke", action="store_true", help="a few rounds: does it run at all")
    args = parser.parse_args()
    if args.smoke:
        args.rounds = 5
    return args


def measure():
    args = arguments()
    libreyolo = bench_util.find_binary("libreyolo")
    empty_rpc = bench_util.find_binary("empty_rpc", bench_util.bench_dir())
    with bench_util.workspace() as (folder, environment):
        target = folder / "runs" / "profile" / "infer"
        target.mkdir(parents=True)
        source = args.profile or (bench_util.shared_dir() / "fixtures" / "reference-cpu" / "infer" /
                                  "profile.json")
        shutil.copyfile(source, target / "profile.json")
        address = bench_util.local_daemon_address(folder, environment)
        get = [libreyolo, "profile", "get", "runs/profile/infer/profile.json", args.field]
        empty = [empty_rpc, address]
        bench_util.run(get, folder, environment)  # the words of an error, if there is one
        bench_util.run(empty, folder, environment)
        print(f"get on a warm daemon, {args.rounds} rounds, {bench_util.load_text()}")
        values = bench_util.alternate({
            "get": lambda: bench_util.time_process(get, folder, environment),
            "empty": lambda: bench_util.time_process(empty, folder, environment),
        }, args.rounds)
    for name, row in values.items():
        print(f"     {name}: median {statistics.median(row) * 1e3:.2f} ms, "
              f"fastest {min(row) * 1e3:.2f} ms")
    ratio, low, high = bench_util.ratio_interval(values["get"], values["empty"])
    return bench_util.report("get process / empty RPC process", ratio, 2.0,
                             detail=f"95 % {low:.3f} to {high:.3f}")


if __name__ == "__main__":
    bench_util.main(measure)
