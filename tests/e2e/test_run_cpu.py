"""Real trainings through the shipped binaries: client, daemon, worker, LibTorch on the CPU."""

import json
import shutil
import unittest

import support


class RunTest(support.ClientTest):
    def dataset(self, images, folder="data", classes=3):
        """Pictures with one box each, and the YAML file beside them."""
        source = support.pathlib.Path(__file__).resolve().parents[2] / "server/worker/data/sample.jpg"
        top = self.workspace / folder
        (top / "images").mkdir(parents=True)
        (top / "labels").mkdir()
        for i in range(images):
            shutil.copy(source, top / f"images/{i}.jpg")
            (top / f"labels/{i}.txt").write_text(f"{i % classes} 0.5 0.5 0.3 0.4\n")
        (top / "data.yaml").write_text(f"train: images\nval: images\nnc: {classes}\n")
        return top

    def train(self, data, *words, **options):
        return self.succeed(*self.command(data, *words), **options)

    def command(self, data, *words):
        return ["profile", "run", data, "--device", "cpu", "--weights", "random", "--imgsz", 64, "--batch", 2,
                "--warmup", 1, "--steps", 4, "--workers", 2, *words]

    def files(self, top):
        return {path: path.read_bytes() for path in top.rglob("*") if path.is_file()}

    def test_the_profile_is_whole_and_the_dataset_untouched(self):
        top = self.dataset(12)
        before = self.files(top)
        out = self.train("data/data.yaml").stdout
        self.assertRegex(out, r"(?m)^img/s: [\d.]+  \|  ")
        self.assertIn("profile: runs/profile/prof/profile.json\n", out)
        self.assertEqual(self.files(top), before)
        profile = self.read_json("runs/profile/prof/profile.json")
        self.assertEqual(profile["schema"], "libreyolo.profile.analysis/v1")
        self.assertNotIn("mode", profile)  # as the peer: training names none
        self.assertEqual(profile["config"]["batch"], 2)
        self.assertEqual(profile["config"]["workers"], 2)
        self.assertEqual(len(profile["latencies_ns"]), 2)
        self.assertEqual(len(profile["dataload_ns"]), 2)
        phases = [row["phase"] for row in profile["phases"]]
        self.assertEqual(phases, ["dataload", "to_device", "forward", "backward", "optimizer", "other"])
        summary = self.read_json("runs/profile/prof/profile_summary.json")
        self.assertEqual(summary["window"], {"warmup": 1, "real_steps": 2, "synced_steps": 2})
        self.assertEqual(list(summary["composition_ms"]), ["to_device", "forward", "backward", "optimizer"])
        path = "runs/profile/prof/profile.json"
        shown = self.succeed("profile", "phases", path).stdout
        self.assertIn("other", shown)
        self.assertIn("aten::convolution_backward",
                      self.succeed("profile", "ops", path, "--phase", "backward", "--top", "0").stdout)
        self.assertNotIn("aten::convolution_backward",
                         self.succeed("profile", "ops", path, "--phase", "forward", "--top", "0").stdout)
        self.succeed("profile", "summary", path)
        self.assertEqual(float(self.succeed("profile", "get", path, "img_per_s").stdout), profile["img_per_s"])

    def test_the_built_in_dataset_needs_nothing(self):
        self.train("sample")
        self.assertEqual(self.read_json("runs/profile/prof/profile.json")["config"]["source_count"], 512)

    def test_a_small_dataset_is_exit_3_with_the_ways_out(self):
        self.dataset(9)
        said = self.refuse(3, *self.command("data"))
        for part in ("10 images", "it has 9", "--steps 3", "--batch 1"):
            self.assertIn(part, said)
        self.assertFalse((self.workspace / "runs/profile/prof").exists())
        error = json.loads(self.libreyolo(*self.command("data"), "--json").stderr)
        self.assertEqual(error["reason"], "WINDOW_NOT_FILLED")
        self.assertEqual(len(error["hints"]), 3)
        # Each way out that it names holds.
        self.train("data", "--steps", 3)
        self.train("data", "--batch", 1)

    def test_repeat_writes_trials_and_their_mean(self):
        self.dataset(12)
        out = json.loads(self.train("data", "--repeat", 2, "--json").stdout)
        self.assertEqual(out["profile"], "runs/profile/profile_repeat.json")
        self.assertEqual(out["img_per_s_n"], 2)
        trials = [self.read_json(f"runs/profile/prof_{i}/profile.json")["img_per_s"] for i in range(2)]
        repeat = self.read_json("runs/profile/profile_repeat.json")
        self.assertAlmostEqual(repeat["img_per_s"], sum(trials) / 2, delta=0.011)

    def test_a_slow_loader_is_found_out(self):
        # One worker that decodes large pictures, four for each mosaic, before a network of 64 x 64 pixels.
        top = self.dataset(0)
        large = self.large_picture()
        for i in range(6):
            (top / f"images/{i}.bmp").write_bytes(large)
            (top / f"labels/{i}.txt").write_text("0 0.5 0.5 0.3 0.4\n")
        out = self.train("data", "--workers", 1, "--batch", 1).stdout
        self.assertIn("|  dataloader", out)
        profile = self.read_json("runs/profile/prof/profile.json")
        self.assertGreater(profile["dataload_frac"], 0.2)

    def large_picture(self, width=6000, height=5000):
        """A BMP of 90 MB."""
        size = width * height * 3
        header = b"BM" + (54 + size).to_bytes(4, "little") + bytes(4) + (54).to_bytes(4, "little")
        info = ((40).to_bytes(4, "little") + width.to_bytes(4, "little") + height.to_bytes(4, "little") +
                (1).to_bytes(2, "little") + (24).to_bytes(2, "little") + bytes(4) + size.to_bytes(4, "little") +
                bytes(16))
        return header + info + bytes(range(256)) * (size // 256) + bytes(size % 256)

    def test_bad_arguments_are_told(self):
        self.assertIn("sample", self.refuse(2, *self.command("nothing")))
        self.assertIn("not found", self.refuse(2, *self.command("./nothing.yaml")))
        self.refuse(2, *self.command("sample", "--batch", 0))
        self.refuse(2, *self.command("sample", "--batch", -2))
        self.refuse(2, *self.command("sample", "--steps", 1))
        self.refuse(2, *self.command("sample", "--workers", -1))
        self.refuse(2, "profile", "run")
        (self.workspace / "bad.yaml").write_text("train: [")
        self.assertIn("bad.yaml", self.refuse(2, *self.command("bad.yaml")))
        (self.workspace / "empty.yaml").write_text("nc: 3\ntrain: nowhere\n")
        self.refuse(2, *self.command("empty.yaml"))

    def test_a_folder_goes_up_to_a_remote_server(self):
        top = self.dataset(12)
        address = f"unix:{self.scratch}/served.sock"
        self.start_daemon(listen=address)
        out = json.loads(self.train("./data", "--json", "--server", address).stdout)
        shown = self.succeed("profile", "get", out["job"], "img_per_s", "--server", address).stdout
        self.assertGreater(float(shown), 0)
        # A path that leads out of what was sent is an error that says so, not a search of the server's disk.
        (top / "data.yaml").write_text("path: /nowhere\ntrain: images\nnc: 3\n")
        self.refuse(2, *self.command("./data", "--server", address))


if __name__ == "__main__":
    unittest.main()
