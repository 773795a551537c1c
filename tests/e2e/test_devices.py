"""`libreyolo devices` and `--device` on a machine with GPUs, as a fake NVML library scripts them."""

import json
import os
import pathlib

import support

FAKE_NVML = pathlib.Path(os.environ["LIBREYOLO_TEST_BIN_DIR"]) / "libfake_nvml.so"
SCRIPT = """driver 580.82
gpu name=Fake-100 uuid=GPU-aaaaaaaa-0000 memory=80000000000 used=2000000000 sm_clock=1410 limits=4
process pid={pid} memory=1500000000
gpu name=Fake-100 uuid=GPU-bbbbbbbb-0000 memory=80000000000 used=0
mig uuid=MIG-11111111 name=Fake-1g memory=10000000000 instance=3
"""


class DevicesTest(support.ClientTest):
    def setUp(self):
        super().setUp()
        self.assertTrue(FAKE_NVML.exists(), FAKE_NVML)
        self.script(SCRIPT.format(pid=os.getpid()))

    def script(self, text):
        path = self.scratch / "nvml.txt"
        path.write_text(text)
        self.env.update(LIBREYOLO_NVML=str(FAKE_NVML), LIBREYOLO_FAKE_NVML_SCRIPT=str(path))

    def test_the_table_tells_gpus_instances_and_processes(self):
        lines = self.succeed("devices").stdout.splitlines()
        self.assertTrue(any(line.startswith("cuda:0") and "2.0 GB of 80.0 GB" in line for line in lines), lines)
        self.assertTrue(any("MIG is on: name one of its instances" in line for line in lines), lines)
        self.assertTrue(any(line.startswith("MIG-11111111") and "free" in line for line in lines), lines)
        self.assertTrue(any("1410 of 1980 MHz" in line and "power cap" in line for line in lines), lines)
        self.assertTrue(any(f"process {os.getpid()}" in line and "1.5 GB" in line for line in lines), lines)

    def test_json_has_all_figures(self):
        devices = {device["id"]: device for device in json.loads(self.succeed("devices", "--json").stdout)["devices"]}
        gpu = devices["cuda:0"]
        self.assertEqual(gpu["gpu"]["sm_clock_mhz"], 1410)
        self.assertEqual(gpu["gpu"]["clock_limits"], ["power cap"])
        self.assertTrue(gpu["gpu"]["throttled"])
        self.assertEqual(gpu["processes"][0]["pid"], os.getpid())
        self.assertTrue(gpu["processes"][0]["name"])
        self.assertFalse(devices["cuda:1"]["usable"])
        self.assertEqual(devices["MIG-11111111"]["parent"], "cuda:1")
        self.assertNotIn("gpu", devices["cpu"])

    def test_cuda_visible_devices_is_read_as_cuda_does(self):
        visible = {"CUDA_VISIBLE_DEVICES": "MIG-11111111,0,7,1"}
        said = self.succeed("devices", env=visible).stdout
        self.assertIn("0 is MIG-11111111, 1 is cuda:0\n", said)
        hidden = self.refuse(2, "profile", "infer", "--device", "1", "--weights", "random",
                             env={"CUDA_VISIBLE_DEVICES": "0"})
        self.assertIn("CUDA_VISIBLE_DEVICES=0", hidden)

    def test_a_gpu_that_cannot_be_used_says_why(self):
        said = self.refuse(2, "profile", "infer", "--device", "1", "--weights", "random")
        self.assertIn("MIG is on", said)
        said = self.refuse(2, "profile", "infer", "--device", "5", "--weights", "random")
        self.assertIn("MIG-11111111", said)

    def test_a_driver_that_does_not_fit_its_library(self):
        self.script("init 18\ngpu name=Fake-100\n")
        said = self.succeed("devices").stdout
        self.assertIn("do not fit", said)
        self.assertIn("--device cpu", self.refuse(2, "profile", "infer", "--device", "0", "--weights", "random"))


if __name__ == "__main__":
    support.main()
