"""Real profiles on a real GPU. Exits 77 (skipped) where there is none. Run by ctest -L gpu and scripts/gpu_check."""

import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
import support  # noqa: E402  (beside the end-to-end tests)

# The GPU machine's LibTorch may lie elsewhere than the one of the build.
PASSED_ON = ("LD_LIBRARY_PATH", "CUDA_HOME", "LIBREYOLO_CUPTI", "LIBREYOLO_NVML")


class GpuTest(support.ClientTest):
    def setUp(self):
        super().setUp()
        self.env.update({name: os.environ[name] for name in PASSED_ON if name in os.environ})
        devices = json.loads(self.succeed("devices", "--json").stdout)
        if devices["cuda_unusable_reason"]:
            print(f"skipped: {devices['cuda_unusable_reason']}", file=sys.stderr)
            self.tearDown()
            os._exit(77)

    def profile(self, *words, command="infer"):
        self.succeed("profile", command, *words)
        name = "infer" if command == "infer" else "prof"
        return self.read_json(f"runs/profile/{name}/profile.json")

    def infer_once(self, *words):
        return self.profile("--device", "0", "--weights", "random", "--warmup", 5, "--runs", 10, *words)

    def check_complete(self, profile):
        complete = profile["completeness"]
        self.assertEqual(profile["gpu"], "recorded")
        self.assertGreater(complete["kernels"], 0)
        self.assertEqual(complete["launches_without_kernel"], 0)
        self.assertEqual(complete["untimed_kernels"], 0)
        self.assertLessEqual(complete["by_time"], complete["kernels"] // 100)
        self.assertEqual(profile["tracing"]["dropped_records"], 0)
        self.assertNotEqual(profile["validity"], "INVALID", profile["findings"])

    def test_every_launch_has_its_kernel(self):
        profile = self.infer_once()
        self.check_complete(profile)
        self.assertGreater(profile["gpu_util"], 0)
        self.assertGreater(profile["peak_vram_mb"], 0)

    def test_half_uses_tensor_cores(self):
        profile = self.infer_once("--half")
        self.check_complete(profile)
        self.assertGreater(profile["tensorcore_pct"], 0)

    def test_without_a_trace_it_measures_all_the_same(self):
        profile = self.infer_once("--no-trace")
        self.assertGreater(profile["latency"]["p50_ms"], 0)

    def test_the_gpu_is_watched_while_latencies_are_taken(self):
        watch = self.infer_once("--runs", 100)["gpu_watch"]
        self.assertEqual(watch["unavailable"], "")
        self.assertGreaterEqual(watch["samples_per_s"], 15)
        self.assertGreater(watch["sm_clock_mean_mhz"], 0)

    def test_training_puts_its_kernels_into_phases(self):
        profile = self.profile("sample", "--device", "0", "--weights", "random", "--batch", 4, "--steps", 4,
                               "--warmup", 2, "--workers", 2, command="run")
        self.check_complete(profile)
        phases = {row["phase"]: row for row in profile["phases"]}
        for name in ("forward", "backward", "optimizer"):
            self.assertGreater(phases[name]["kernels_per_step"], 0, name)


if __name__ == "__main__":
    support.main()
