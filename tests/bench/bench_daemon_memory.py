#!/usr/bin/env python3
"""Resident memory of an idle libreyolod (at most 30 MB), fresh and after some calls."""

import argparse
import subprocess

import bench_util


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--calls", type=int, default=200, help="calls before the second reading")
    parser.add_argument("--smoke", action="store_true", help="few calls: does it run at all")
    args = parser.parse_args()
    if args.smoke:
        args.calls = 5
    return args


def resident_mb(pid):
    """{name: MB} of VmRSS and its private part."""
    values = {}
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        for line in status:
            name, _, rest = line.partition(":")
            if name in ("VmRSS", "RssAnon", "Threads"):
                values[name] = int(rest.split()[0]) / (1 if name == "Threads" else 1000)
    return values


def measure():
    args = arguments()
    empty_rpc = bench_util.find_binary("empty_rpc", bench_util.bench_dir())
    with bench_util.workspace(daemon=False) as (folder, environment):
        with bench_util.served_store(folder, environment) as (process, address):
            # One call: the server is up and has answered.
            subprocess.run([empty_rpc, address], check=True, timeout=30)
            fresh = resident_mb(process.pid)
            for _ in range(args.calls):
                subprocess.run([empty_rpc, address], check=True, timeout=30)
            later = resident_mb(process.pid)
    for name, values in (("fresh", fresh), (f"after {args.calls} calls", later)):
        print(f"     {name}: resident {values['VmRSS']:.1f} MB, private {values['RssAnon']:.1f} MB, "
              f"{values['Threads']:.0f} threads")
    return (bench_util.report("idle daemon, resident", fresh["VmRSS"], 30, " MB") &
            bench_util.report(f"after {args.calls} calls, resident", later["VmRSS"], 30, " MB"))


if __name__ == "__main__":
    bench_util.main(measure)
