"""The yardsticks' arithmetic, and each script once in its smoke form on the built binaries."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import bench_util  # noqa: E402

HERE = Path(__file__).resolve().parent


class ArithmeticTest(unittest.TestCase):

    def test_sides_take_turns_in_both_orders(self):
        calls = []
        sides = {name: (lambda name=name: calls.append(name) or len(calls)) for name in "ab"}
        values = bench_util.alternate(sides, 3)
        self.assertEqual(calls, ["a", "b", "b", "a", "a", "b"])
        self.assertEqual(values, {"a": [1, 4, 5], "b": [2, 3, 6]})

    def test_ratio_is_of_medians_within_its_interval(self):
        ours = [1.0, 1.1, 0.9, 5.0, 1.0]
        theirs = [2.0, 2.1, 1.9, 2.0, 2.0]
        ratio, low, high = bench_util.ratio_interval(ours, theirs)
        self.assertAlmostEqual(ratio, 0.5)
        self.assertLessEqual(low, ratio)
        self.assertGreaterEqual(high, ratio)
        self.assertEqual(bench_util.ratio_interval(ours, theirs), (ratio, low, high))

    def test_a_process_is_timed_and_its_failure_reported(self):
        seconds = bench_util.time_process([sys.executable, "-c", "pass"], HERE, dict(os.environ))
        self.assertGreater(seconds, 0)
        with self.assertRaises(bench_util.BenchError):
            bench_util.time_process([sys.executable, "-c", "raise SystemExit(3)"], HERE,
                                    dict(os.environ))
        with self.assertRaisesRegex(bench_util.BenchError, "exit 3\nwhy"):
            script = "import sys; print('why', file=sys.stderr); sys.exit(3)"
            bench_util.run([sys.executable, "-c", script], HERE, dict(os.environ))

    def test_finds_the_address_in_a_status(self):
        self.assertEqual(bench_util.find_address({"a": 1, "daemon": {"address": "unix:/x.sock"}}),
                         "unix:/x.sock")
        self.assertEqual(bench_util.find_address([{"socket": "/x.sock"}]), "unix:/x.sock")
        self.assertIsNone(bench_util.find_address({"running": False}))


class SmokeTest(unittest.TestCase):
    """Exit 1 is a yardstick missed, which a loaded machine may well do; 2 is a broken script."""

    def run_script(self, name, *more):
        result = subprocess.run([sys.executable, "-B", str(HERE / name), "--smoke", *more],
                                capture_output=True, text=True, timeout=280, check=False)
        self.assertIn(result.returncode, (0, 1), result.stdout + result.stderr)
        self.assertRegex(result.stdout, r"(ok|MISS)")

    def setUp(self):
        for name in ("libreyolo", "libreyolod"):
            if not (bench_util.bin_dir() / name).exists():
                self.skipTest(f"{name} is not built")

    def test_load(self):
        self.run_script("load/bench_load.py")

    def test_get(self):
        if not bench_util.ROOT.parent.joinpath("shared").is_dir():
            self.skipTest("no shared fixtures beside the checkout")
        self.run_script("bench_get_vs_empty_rpc.py")

    def test_daemon_memory(self):
        self.run_script("bench_daemon_memory.py")

    def test_tracing_overhead(self):
        if not (bench_util.bin_dir() / "libreyolo-worker").exists():
            self.skipTest("libreyolo-worker is not built")
        if not bench_util.ROOT.parent.joinpath("shared").is_dir():
            self.skipTest("no shared fixtures beside the checkout")
        self.run_script("bench_tracing_overhead.py")

    def test_trace_writer(self):
        yardstick = bench_util.bench_dir() / "trace_writer_yardstick"
        if not yardstick.exists():
            self.skipTest("trace_writer_yardstick is not built")
        result = subprocess.run([yardstick, "--events", "2000", "--rounds", "1"], capture_output=True, text=True,
                                timeout=60, check=False)
        self.assertIn(result.returncode, (0, 1), "2 is: the bytes differ\n" + result.stderr)
        self.assertRegex(result.stdout, r"fprintf .*(ok|MISS)")

    def test_loader(self):
        self.run_script("bench_loader_vs_peer.py", "--peer", self.find_peer())

    def test_analysis(self):
        self.run_script("bench_analysis_vs_peer.py", "--peer", self.find_peer())

    def test_infer(self):
        self.run_script("bench_infer_vs_peer.py", "--peer", self.find_peer())

    def test_run(self):
        self.run_script("bench_run_vs_peer.py", "--peer", self.find_peer())

    def test_loss_memory(self):
        self.run_script("bench_loss_memory_vs_peer.py", "--peer", self.find_peer())

    def find_peer(self):
        peer = os.environ.get("LIBREYOLO_PEER", str(bench_util.ROOT / ".deps" / "peer"))
        if not (Path(peer) / "bin" / "libreyolo").exists():
            self.skipTest("the peer program is not installed (tests/bench/peer_env.sh)")
        return peer


if __name__ == "__main__":
    unittest.main()
