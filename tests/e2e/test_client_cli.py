"""The client's command line through a real daemon: the peer's recorded outputs, usage errors, own files, the docs page."""

import fcntl
import gzip
import json
import os
import pathlib
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import termios

import support

ROOT = pathlib.Path(__file__).resolve().parents[2]
GPU_CASES = support.SHARED / "fixtures/synthetic-gpu"
CPU_CASES = support.SHARED / "fixtures/reference-cpu"

# Sentences, which are ours.
FREE_TEXT = {"bound_why", "caveat", "mechanism"}

# Where we differ from the Python peer on purpose: part of the case, start of the output's name, why.
DIFFERENT = [
    ("train-compute-bound", "kernels-top0", "--top 0 is all rows"),
    ("train-compute-bound", "kernels-top-neg1", "a negative --top is refused"),
    ("train-compute-bound", "kernels-top2.json", "matched counts before --top"),
    ("train-compute-bound", "kernels-sort-bogus", "an unknown --sort is refused"),
    ("", "what-if-gemm", "launches of a category are counted, not guessed from its time"),
    ("", "what-if-both", "launches of a category are counted, not guessed from its time"),
    ("train-compute-bound", "what-if-launches2.txt", "the mechanism is a sentence of ours"),
    ("compare", "train-vs-infer", "unlike things are refused"),
]


def is_different(case, name):
    return any(part in case and name.startswith(start) for part, start, _ in DIFFERENT)


def missing_from(want, got, where=""):
    """What the peer's JSON holds and ours does not: keys, their order, values. Keys of ours may stand between."""
    if isinstance(want, dict) and isinstance(got, dict):
        kept = [key for key in got if key in want]
        found = [] if list(want) == kept else [f"{where}: keys {list(want)} became {kept}"]
        for key in want.keys() & got.keys() - FREE_TEXT:
            found += missing_from(want[key], got[key], f"{where}.{key}")
        return found
    if isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        return [text for i, pair in enumerate(zip(want, got)) for text in missing_from(*pair, f"{where}[{i}]")]
    return [] if type(want) is type(got) and want == got else [f"{where}: {want!r} became {got!r}"]


def without_caveat(text):
    return [line for line in text.splitlines() if not line.startswith("  (")]


class GoldenTest(support.ClientTest):
    """The peer's recorded commands on the peer's profiles, run again through client and daemon."""

    def check(self, folder, words, name, code, want):
        result = self.libreyolo(*words, cwd=folder)
        self.assertEqual(result.returncode, code, result.stderr)
        if name.endswith(".json") and want:
            self.assertEqual(missing_from(json.loads(want), json.loads(result.stdout)), [])
        elif words[1] == "compare":  # ours adds lines below
            self.assertTrue(result.stdout.startswith(want), result.stdout)
        elif words[1] == "what-if":
            self.assertEqual(without_caveat(result.stdout), without_caveat(want))
        else:
            self.assertEqual(result.stdout, want)

    def run_recorded(self, cases, is_wanted):
        if not cases.exists():
            self.skipTest("shared fixtures are absent")
        folder = self.workspace / "cases"
        shutil.copytree(cases, folder, copy_function=shutil.copyfile)
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o700 if path.is_dir() else 0o600)
        count = 0
        for listing in sorted(folder.rglob("commands.tsv")):
            case = str(listing.parent.relative_to(folder))
            for line in listing.read_text().splitlines():
                name, code, command = line.split("\t")[:3]
                words = shlex.split(command)[1:]
                if is_different(case, name) or not is_wanted(case, words):
                    continue
                with self.subTest(case=case, name=name):
                    self.check(folder, words, name, int(code), (listing.parent / name).read_text())
                    count += 1
        self.libreyolo("daemon", "stop", cwd=folder)
        return count

    def test_gpu_profiles(self):
        # "traceonly" recordings read a folder that is not among the fixtures.
        count = self.run_recorded(GPU_CASES, lambda case, words: ".traceonly" not in words[2])
        self.assertGreater(count, 80)

    def test_cpu_profiles(self):
        # Of a CPU profile the verdict and the GPU figures are ours: see the next test.
        def is_wanted(case, words):
            return (words[1] in ("get", "kernels", "ops", "phases") and "bound" not in words and
                    not any(word.endswith("profile_trace.json") for word in words))
        self.assertGreater(self.run_recorded(CPU_CASES, is_wanted), 30)

    def test_cpu_summary_names_phases_and_operations(self):
        if not CPU_CASES.exists():
            self.skipTest("shared fixtures are absent")
        shutil.copyfile(CPU_CASES / "train/profile.json", self.workspace / "profile.json")
        text = self.succeed("profile", "summary", "profile.json").stdout
        self.assertIn("model YOLOv9-t  |  9.64 img/s  |  step 207.56 ms", text)
        self.assertIn("backward 42.4%", text)
        self.assertNotIn("HOST / LAUNCH", text)
        self.assertNotIn("GPU util", text)
        document = json.loads(self.succeed("profile", "summary", "profile.json", "--json").stdout)
        self.assertIsNone(document["gpu_util"])
        self.assertEqual(document["bound_stored"], "host / launch")


    def test_unlike_things_are_compared_by_force_alone(self):
        if not GPU_CASES.exists():
            self.skipTest("shared fixtures are absent")
        pair = ["train-compute-bound/profile.json", "infer-postprocess/profile.json"]
        for name in pair:
            (self.workspace / name).parent.mkdir()
            shutil.copyfile(GPU_CASES / name, self.workspace / name)
        stderr = self.refuse(2, "profile", "compare", *pair)
        self.assertIn("mode: train and inference", stderr)
        self.assertIn("--force", stderr)
        error = json.loads(self.refuse(2, "profile", "compare", *pair, "--json"))
        self.assertEqual(error["reason"], "NOT_COMPARABLE")
        text = self.succeed("profile", "compare", *pair, "--force").stdout
        want = (GPU_CASES / "compare/train-vs-infer.txt").read_text()
        self.assertTrue(text.startswith(want), text)
        self.assertIn("** unlike: mode: train and inference", text)
        document = json.loads(self.succeed("profile", "compare", *pair, "--force", "--json").stdout)
        want = json.loads((GPU_CASES / "compare/train-vs-infer.json").read_text())
        self.assertEqual(missing_from(want, document), [])
        self.assertIn("mode: train and inference", document["unlike"])

    def on_terminal(self, columns, *words):
        """What a command prints on a terminal of so many columns."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        client = subprocess.Popen([support.BIN / "libreyolo", *words], cwd=self.workspace, env=self.env, stdin=slave,
                                  stdout=slave, stderr=subprocess.PIPE)
        os.close(slave)
        shown = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
        os.close(master)
        stderr = client.communicate()[1].decode()
        self.assertEqual(client.returncode, 0, stderr)
        return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).replace("\r\n", "\n")

    def test_tables_fit_a_narrow_terminal(self):
        if not GPU_CASES.exists():
            self.skipTest("shared fixtures are absent")
        shutil.copyfile(GPU_CASES / "train-compute-bound/profile.json", self.workspace / "profile.json")
        for name in ("kernels", "ops", "phases"):
            whole = self.succeed("profile", name, "profile.json").stdout.splitlines()
            self.assertGreater(max(map(len, whole)), 40, "there is something to fit")
            for columns in (40, 60):
                with self.subTest(name=name, columns=columns):
                    lines = self.on_terminal(columns, "profile", name, "profile.json").splitlines()
                    self.assertEqual(len(lines), len(whole))
                    self.assertLessEqual(max(map(len, lines)), columns, lines)
                    # No figure is lost: those of each row begin it, but in phases they follow the name.
                    count = 5 if name == "phases" else 3
                    for line, long in zip(lines[1:], whole[1:]):
                        self.assertEqual(line.split()[:count], long.split()[:count])


class UsageTest(support.ClientTest):
    def test_help_lists_the_subcommands(self):
        text = self.succeed("profile").stdout
        for name in ("run", "infer", "summary", "get", "phases", "kernels", "ops", "compare", "what-if"):
            self.assertRegex(text, rf"(?m)^  {name} ")
        self.assertEqual(self.succeed("profile", "--help").stdout, text)
        self.assertIn("--max-det", self.succeed("profile", "infer", "-h").stdout)
        self.assertFalse((self.scratch / "state").exists(), "help starts no daemon")

    def test_usage_errors_show_the_right_form(self):
        for words, hint in [
            (["profile", "infer", "weights=a.pt"], "--weights a.pt"),
            (["profile", "infer", "max_det=3"], "--max-det 3"),
            (["profile", "run", "data=coco128"], "libreyolo profile run coco128"),
            (["profile", "summary", "x.json", "--json=false"], "--json"),
            (["profile", "summary", "--", "-x.json"], "./-x.json"),
            (["profile", "summary", "-x.json"], "-x"),
            (["profile", "summary"], "<trace>"),
            (["profile", "summary", "a", "b"], "\"b\""),
            (["profile", "bogus"], "bogus"),
            (["profile", "summary", "a", "--foo"], "--foo"),
            (["profile", "kernels", "a", "--top", "abc"], "abc"),
            (["profile", "infer", "--batch"], "--batch N"),
            (["bogus"], "bogus"),
        ]:
            with self.subTest(words=words):
                self.assertIn(hint, self.refuse(2, *words))

    def test_what_is_no_file_is_refused(self):
        os.mkfifo(self.workspace / "pipe")
        for code, word in ((2, ""), (1, "./pipe")):
            result = self.libreyolo("profile", "get", word, "step_ms", timeout=60)
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertIn("hint:", result.stderr)

    def test_values_out_of_range_are_refused(self):
        measuring = ["profile", "infer", "--device", "cpu", "--weights", "random"]
        for words in [["--runs", 0], ["--warmup", -1], ["--repeat", 0], ["--batch", 0], ["--imgsz", 0], ["--conf", 1.5],
                      ["--iou", -0.1], ["--max-det", 0], ["--threads", 0], ["--amp-dtype", "int8"], ["--size", "zzz"],
                      ["--project", "/tmp/x"], ["--project", "../x"], ["--project", "a/infer"]]:
            with self.subTest(words=words):
                stderr = self.refuse(2, *measuring, *words)
                self.assertTrue(stderr.startswith("error: "), stderr)
        self.assertFalse((self.workspace / "runs").exists())

    def test_json_errors_are_one_object(self):
        for code, words in [(2, ["profile", "summary", "nope.json", "--json"]),
                            (2, ["--json", "profile", "infer", "weights=a.pt"]),
                            (4, ["--server", f"unix:{self.scratch}/none.sock", "devices", "--json"])]:
            with self.subTest(words=words):
                error = json.loads(self.refuse(code, *words))
                self.assertEqual(list(error), ["reason", "message", "hints"])

    def test_the_last_of_a_repeated_flag_wins_and_flags_stand_anywhere(self):
        (self.workspace / "profile.json").write_text("not a profile")
        stderr = self.refuse(1, "--json", "profile", "kernels", "--top", -1, "profile.json", "--top", 3)
        self.assertEqual(json.loads(stderr)["reason"], "TRACE_UNPARSABLE")
        self.refuse(2, "profile", "kernels", "profile.json", "--top", 3, "--top", -1)

    def test_a_missing_file_is_named(self):
        for word in ("nope.json", "./nope.json", "/nope/profile.json"):
            with self.subTest(word=word):
                stderr = self.refuse(2, "profile", "get", word, "step_ms")
                self.assertTrue(stderr.startswith(f"error: not found: {word}"), stderr)

    def test_the_docs_page_is_what_the_client_says(self):
        subprocess.run([sys.executable, "-B", ROOT / "scripts/gen_cli_docs.py", support.BIN, "--check"], check=True)


class ServerTest(support.ClientTest):
    """A named server on a socket: what is the client's own file, and what is the server's."""

    def setUp(self):
        super().setUp()
        if not GPU_CASES.exists():
            self.skipTest("shared fixtures are absent")
        self.start_daemon()
        self.env["LIBREYOLO_SERVER"] = f"unix:{self.scratch}/served.sock"
        self.trace = GPU_CASES / "train-compute-bound/profile_trace.json"

    def test_own_files_are_uploaded(self):
        shutil.copyfile(self.trace, self.workspace / "trace.json")
        (self.workspace / "trace.json.gz").write_bytes(gzip.compress(self.trace.read_bytes()))
        for word in ("trace.json", "./trace.json", self.workspace / "trace.json", "trace.json.gz"):
            with self.subTest(word=word):
                self.assertEqual(self.succeed("profile", "get", word, "bound").stdout, "compute\n")
        piped = self.succeed("profile", "get", "-", "bound", stdin=self.trace.read_text())
        self.assertEqual(piped.stdout, "compute\n")

    def test_a_summary_beside_an_own_trace_goes_with_it(self):
        for name in ("profile_trace.json", "profile_summary.json"):
            shutil.copyfile(self.trace.parent / name, self.workspace / name)
        self.assertEqual(self.succeed("profile", "get", "./profile_trace.json", "img_per_s").stdout, "160.0\n")

    def test_a_missing_own_file_is_exit_2(self):
        self.assertIn("not found: ./nope.json", self.refuse(2, "profile", "summary", "./nope.json"))
        self.assertIn("not found: nope.json", self.refuse(2, "profile", "summary", "nope.json"))

    def test_a_server_that_is_gone_is_exit_4_and_no_local_daemon_steps_in(self):
        self.env["LIBREYOLO_SERVER"] = "127.0.0.1:1"
        self.assertIn("127.0.0.1:1", self.refuse(4, "profile", "get", "trace.json"))
        self.assertFalse((self.scratch / "state").exists())

    def test_version_names_both(self):
        self.assertRegex(self.succeed("--version").stdout, r"(?s)^libreyolo \d.*server ")


if __name__ == "__main__":
    support.main()
