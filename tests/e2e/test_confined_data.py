"""Datasets of one user of a served daemon that name what is not theirs, measured by the shipped worker."""

import json
import os
import pathlib
import re
import shutil
import tempfile
import unittest

import remote
import support

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURE = ROOT / "server/worker/data/sample.jpg"


class ConfinedDataTest(remote.RemoteTest):
    def setUp(self):
        super().setUp()
        daemon = self.start_daemon("--tokens", str(self.token_file), "--datasets-dir", str(self.scratch / "datasets"),
                                   listen="127.0.0.1:0")
        self.address = re.search(r"address=(\S+)", daemon.said).group(1)
        self.env_of_alice = {"LIBREYOLO_SERVER": self.address, "LIBREYOLO_TOKEN": self.tokens["alice"]}
        self.store = self.scratch / "store/workspaces"

    def dataset(self, top, yaml):
        (top / "images").mkdir(parents=True)
        for i in range(12):
            shutil.copy(PICTURE, top / f"images/{i}.jpg")
        (top / "data.yaml").write_text(yaml + "nc: 1\n")
        return top

    def train(self, data, code=0):
        result = self.libreyolo("profile", "run", data, "--device", "cpu", "--weights", "random", "--size", "t", "--imgsz", 64,
                                "--batch", 2, "--warmup", 1, "--steps", 4, "--workers", 0, "--json",
                                env=self.env_of_alice)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def refuse_data(self, data):
        error = json.loads(self.train(data, code=2).stderr)
        self.assertEqual(error["reason"], "PATH_REFUSED", error)

    def test_an_upload_names_its_own_files_alone(self):
        self.train(self.dataset(self.workspace / "good", "train: images\n") / "data.yaml")
        bobs = self.dataset(self.store / "bob", "train: images\n")
        for number, yaml in enumerate((f"train: {bobs}/images\n", f"path: {bobs}\ntrain: images\n",
                                       "train: ../../workspaces/bob/images\n")):
            self.refuse_data(self.dataset(self.workspace / f"bad{number}", yaml) / "data.yaml")
        listing = self.dataset(self.workspace / "list", "train: list.txt\n")
        (listing / "list.txt").write_text(f"images/0.jpg\n{bobs}/images/0.jpg\n")
        self.refuse_data(listing / "data.yaml")

    def test_a_workspace_names_its_own_files_and_the_datasets_folders(self):
        shared = self.dataset(self.scratch / "datasets/shared", "train: images\n")
        bobs = self.dataset(self.store / "bob", "train: images\n")
        self.dataset(self.store / "alice/own", "train: images\n")
        self.dataset(self.store / "alice/uses", f"path: {shared}\ntrain: images\n")
        self.dataset(self.store / "alice/steals", "train: ../../bob/images\n")
        linked = self.dataset(self.store / "alice/linked", "train: others\n")
        os.symlink(bobs / "images", linked / "others")
        self.train("own/data.yaml")
        self.train("uses/data.yaml")
        self.train("shared")
        self.refuse_data("steals/data.yaml")
        self.refuse_data("linked/data.yaml")


class LocalDataTest(support.ClientTest):
    """The daemon of one user's folder reads what the user names, wherever it lies."""

    def test_data_lies_anywhere(self):
        elsewhere = pathlib.Path(tempfile.mkdtemp(prefix="ly-data-"))
        shared = pathlib.Path(tempfile.mkdtemp(prefix="ly-data-", dir="/dev/shm"))
        for folder in (elsewhere, shared):
            self.addCleanup(shutil.rmtree, folder)
            (folder / "images").mkdir()
            for i in range(12):
                shutil.copy(PICTURE, folder / f"images/{i}.jpg")
        os.symlink(elsewhere / "images", self.workspace / "linked")
        for name, yaml in (("absolute", f"path: {elsewhere}\ntrain: images\n"), ("memory", f"path: {shared}\ntrain: images\n"),
                           ("linked", f"path: {self.workspace}\ntrain: linked\n")):
            (self.workspace / f"{name}.yaml").write_text(yaml + "nc: 1\n")
            self.succeed("profile", "run", f"{name}.yaml", "--device", "cpu", "--weights", "random", "--size", "t", "--imgsz", 64,
                         "--batch", 2, "--warmup", 1, "--steps", 4, "--workers", 0)
        self.infer("linked")


if __name__ == "__main__":
    unittest.main()
