"""Real inference through the shipped binaries: client, local daemon, worker, LibTorch on the CPU."""

import json
import re
import shutil
import unittest

import support


class InferTest(support.ClientTest):
    def test_the_contracts_examples_work_as_written(self):
        self.place_weights()
        flags = ["--device", "cpu", "--warmup", "1", "--runs", "4", "--imgsz", "64"]
        out = self.succeed("profile", "infer", *flags).stdout
        self.assertRegex(out, r"(?m)^latency  p50 [\d.]+ ms \| p90 [\d.]+ ms \| p99 [\d.]+ ms  \|  [\d.]+ img/s$")
        self.assertRegex(out, r"(?m)^stages   preprocess [\d.]+ ms \| forward [\d.]+ ms \| postprocess/NMS [\d.]+ ms$")
        self.assertIn("profile: runs/profile/infer/profile.json\n", out)
        summary = self.succeed("profile", "summary", "runs/profile/infer/profile.json").stdout
        self.assertTrue(summary.startswith("model LibreYOLO9t.pt  |  "), summary)
        self.succeed("profile", "infer", *flags, "--project", "runs/profile/a")
        self.succeed("profile", "infer", *flags, "--batch", "4", "--project", "runs/profile/b")
        compared = self.succeed("profile", "compare", "runs/profile/a/infer/profile.json",
                                "runs/profile/b/infer/profile.json").stdout
        self.assertIn("single run", compared)

    def test_the_profile_is_whole(self):
        self.infer()
        profile = self.read_json("runs/profile/infer/profile.json")
        self.assertEqual(profile["schema"], "libreyolo.profile.analysis/v1")
        self.assertEqual(profile["mode"], "inference")
        self.assertEqual(len(profile["latencies_ns"]), 3)
        self.assertEqual(profile["latency"]["n"], 3)
        self.assertEqual(profile["config"]["device"], "cpu")
        self.assertGreater(profile["img_per_s"], 0)
        self.assertIn(profile["validity"], ("VALID", "SUSPECT", "INVALID"))
        self.assertEqual({row["phase"] for row in profile["phases"]}, {"preprocess", "forward", "postprocess"})
        shares = sum(row["pct_of_cpu_ops"] for row in profile["ops"])
        self.assertAlmostEqual(shares, 100, delta=1.5)
        trace = self.read_json("runs/profile/infer/profile_trace.json")
        markers = [event["name"] for event in trace["traceEvents"] if event.get("name", "").startswith("ProfilerStep#")]
        self.assertEqual(markers, ["ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"])
        # The trace alone gives the same figures.
        alone = self.workspace / "alone"
        alone.mkdir()
        shutil.copy(self.workspace / "runs/profile/infer/profile_trace.json", alone)
        for metric in ("img_per_s", "latency_p50_ms", "forward_ms"):
            self.assertEqual(self.succeed("profile", "get", "alone/profile_trace.json", metric).stdout,
                             self.succeed("profile", "get", "runs/profile/infer/profile.json", metric).stdout)

    def test_readers_and_json(self):
        self.infer()
        path = "runs/profile/infer/profile.json"
        value = self.succeed("profile", "get", path, "img_per_s").stdout
        self.assertEqual(json.loads(self.succeed("profile", "get", path, "img_per_s", "--json").stdout),
                         {"img_per_s": float(value)})
        self.assertEqual(self.succeed("profile", "get", path, "gpu_util").stdout, "None\n")
        for reader in ("summary", "phases", "kernels", "ops"):
            document = json.loads(self.succeed("profile", reader, path, "--json").stdout)
            self.assertIn("trace", document)
            self.assertNotIn("\x1b", self.succeed("profile", reader, path).stdout)
        self.assertIn("aten::", self.succeed("profile", "ops", path, "--phase", "forward").stdout)
        self.assertIn("forward", self.refuse(2, "profile", "ops", path, "--phase", "nope"))
        self.refuse(2, "profile", "get", path, "nope")
        self.refuse(2, "profile", "what-if", path)

    def test_repeat_writes_trials_and_their_mean(self):
        out = json.loads(self.infer("--repeat", 2, "--json").stdout)
        self.assertEqual(out["profile"], "runs/profile/infer_repeat.json")
        self.assertEqual(out["img_per_s_n"], 2)
        trials = [self.read_json(f"runs/profile/infer_{i}/profile.json")["img_per_s"] for i in range(2)]
        repeat = self.read_json("runs/profile/infer_repeat.json")
        self.assertAlmostEqual(repeat["img_per_s"], sum(trials) / 2, delta=0.011)
        self.assertEqual(len(repeat["latencies_ns"]), 6)
        self.assertEqual(self.succeed("profile", "get", "runs/profile", "img_per_s").stdout,
                         f"{repeat['img_per_s']}\n")

    def test_a_replaced_result_stays_in_the_history(self):
        first = json.loads(self.infer("--json").stdout)["job"]
        second = json.loads(self.infer("--json", "--no-trace").stdout)["job"]
        self.assertEqual(self.read_json("runs/profile/infer/profile.json")["job"], second)
        self.assertEqual(self.read_json(f"runs/profile/history/{first}/infer/profile.json")["job"], first)
        self.assertFalse((self.workspace / "runs/profile/infer/profile_trace.json").exists())
        # A job's id finds its own result, wherever that stands now.
        self.assertNotEqual(self.succeed("profile", "get", first, "ops_per_step").stdout, "")
        self.assertFalse((self.workspace / "runs/profile/.staging").exists())

    def test_sources(self):
        images = support.SHARED / "fixtures/yolo9/preprocess"
        if not images.exists():
            self.skipTest("shared fixtures are absent")
        shutil.copytree(images, self.workspace / "images")
        self.infer("images", "--batch", 3)
        self.infer("./images/wide.jpg")
        self.infer(images / "rgba.png")
        (self.workspace / "empty").mkdir()
        self.assertRegex(self.refuse(2, "profile", "infer", "empty", "--device", "cpu",
                                                               "--weights", "random"), r"no images found at: .*empty")
        (self.workspace / "broken.jpg").write_bytes(b"no image")
        self.assertIn("broken.jpg", self.refuse(2, "profile", "infer", "broken.jpg", "--device", "cpu", "--weights",
                                                "random"))

    def test_bad_weights_are_refused_by_name(self):
        folder = support.SHARED / "fixtures/yolo9/ckpt"
        if not folder.exists():
            self.skipTest("shared fixtures are absent")
        for bad in sorted(folder.glob("bad_*.pt")):
            error = self.refuse(2, "profile", "infer", "--device", "cpu", "--imgsz", 64, "--weights", bad)
            self.assertIn(bad.name, error)
        self.place_weights()
        self.assertIn("size", self.refuse(2, "profile", "infer", "--device", "cpu", "--weights",
                                          "weights/LibreYOLO9t.pt", "--size", "s"))

    def test_wrong_arguments(self):
        cases = [
            (2, ["profile", "infer", "weights=LibreYOLO9t.pt"], "--weights LibreYOLO9t.pt"),
            (2, ["profile", "infer", "--device", "cpu", "--half"], "--half"),
            (2, ["profile", "infer", "--device", "cpu", "--runs", "0"], "--runs"),
            (2, ["profile", "infer", "--device", "cpu", "--conf", "2"], "--conf"),
            (2, ["profile", "infer", "--device", "cpu", "--project", "../up"], "--project"),
            (2, ["profile", "infer", "--device", "foo"], "foo"),
            (2, ["profile", "infer", "--device", "cpu", "--weights", "absent.pt"], "--weights random"),
            (2, ["profile", "summary", "absent.json"], "not found: absent.json"),
            (2, ["profile", "infer", "--nonsense"], "--nonsense"),
        ]
        for code, words, expected in cases:
            self.assertIn(expected, self.refuse(code, *words), words)
            if words[1] != "summary" and "--nonsense" not in words:
                error = json.loads(self.refuse(code, *words, "--json"))
                self.assertEqual(sorted(error), ["hints", "message", "reason"])
        self.assertFalse((self.workspace / "runs").exists())

    def test_no_gpu_says_why_and_what_works(self):
        result = self.libreyolo("profile", "infer", "--weights", "random", "--runs", "1")
        if result.returncode == 0:
            self.skipTest("this machine has a GPU")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--device cpu", result.stderr)



class LimitsTest(support.ScriptedTest):
    """A real worker that is allowed too little. The daemon goes on, and what was there stays."""

    JOB = ("profile", "infer", "--weights", "random", "--size", "t", "--device", "cpu", "--warmup", "1", "--runs", "2")

    def serve_real(self, *flags):
        self.start_daemon("--cache", str(self.scratch / "cache"), "--hub", "http://127.0.0.1:9", *map(str, flags))

    def failed(self, *words):
        return json.loads(self.refuse(3, *self.JOB, "--json", *words))

    def test_memory(self):
        self.serve_real("--worker-memory", 600 << 20)
        error = self.failed("--imgsz", "320", "--batch", "64")
        self.assertEqual(error["reason"], "OUT_OF_MEMORY", error)
        hint = next(hint for hint in error["hints"] if "--batch" in hint)
        self.assertLess(int(re.search(r"--batch (\d+)", hint).group(1)), 64)
        self.succeed(*self.JOB, "--imgsz", "64")

    def test_memory_for_less_than_the_records(self):
        self.serve_real("--worker-memory", 128 << 20)
        error = self.failed("--imgsz", "64")
        self.assertIn(error["reason"], ("WORKER_LIMIT", "OUT_OF_MEMORY"), error)
        self.assertIn("--worker-memory", " ".join(error["hints"]))

    def test_a_file_that_is_too_large(self):
        self.serve_real("--worker-file-size", 64 << 10)
        error = self.failed("--imgsz", "64")
        self.assertEqual(error["reason"], "WORKER_LIMIT", error)
        self.assertIn("File too large", error["message"])
        self.assertIn("--worker-file-size", " ".join(error["hints"]))
        self.succeed(*self.JOB, "--imgsz", "64", "--no-trace")

    def test_cpu_time(self):
        self.serve_real("--worker-cpu-time", 1)
        error = self.failed("--imgsz", "640", "--runs", "50")
        self.assertEqual(error["reason"], "WORKER_LIMIT", error)
        self.assertIn("1 s of CPU time", error["message"])


if __name__ == "__main__":
    support.main()
