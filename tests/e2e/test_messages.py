"""Messages that a new user meets: what, where, the ways out. Each is met on purpose; the table is what was read."""

import json
import subprocess

import support

INFER = ["profile", "infer", "--device", "cpu", "--weights", "random"]
# words, exit code, a piece of the message, a piece of a hint. {ws} is the workspace, {p} a profile with a trace.
WITH_SERVER = [
    (["profile", "summary", "no/such.json"], 2, "not found: no/such.json", "libreyolo profile list"),
    (["profile", "summary", "./no-such.json"], 2, "not found: ./no-such.json", "libreyolo profile list"),
    (["profile", "infer", "./no-such-folder", "--device", "cpu", "--weights", "random"], 2, "not found: ./no-such-folder",
     "correct the path"),
    (["profile", "infer", "no-such-folder", "--device", "cpu", "--weights", "random"], 2, "no images found at: no-such-folder",
     ""),
    (["profile", "infer", "--device", "cpu", "--weights", "./no-such.pt"], 2, "not found: ./no-such.pt", "correct the path"),
    (["profile", "infer", "--device", "cpu", "--weights", "{ws}"], 2, "is a folder, not weights", "--weights random"),
    (["profile", "run", "./no-such.yaml", "--device", "cpu"], 2, "not found: ./no-such.yaml", "correct the path"),
    ([*INFER, "--device", "7x"], 2, "", "or cpu"),
    ([*INFER, "--project", "../out"], 2, "../out", "name a folder below the current one"),
    ([*INFER, "--runs", "0"], 2, "runs", "runs"),
    (["jobs", "show", "none"], 2, 'there is no job "none"', "libreyolo jobs list"),
    (["jobs", "cancel", "none"], 2, 'there is no job "none"', "libreyolo jobs list"),
    (["jobs", "logs", "none"], 2, 'there is no job "none"', "libreyolo jobs list"),
    (["profile", "fetch", "none"], 2, "none", "libreyolo profile list"),
    (["profile", "get", "{p}", "no_such_metric"], 2, "no_such_metric", "to list metrics"),
    (["profile", "kernels", "{p}", "--category", "zz"], 2, "no category matching 'zz'. there are: gemm / conv, ",
     "a piece of a category's name"),
    (["profile", "kernels", "{p}", "--phase", "zz"], 2, "unknown phase 'zz'", "libreyolo profile phases"),
    (["profile", "kernels", "{p}", "--grep", "("], 2, "--grep '('", "RE2"),
    (["profile", "kernels", "{p}", "--sort", "size"], 2, '--sort takes time, count or name, not "size"', "--sort time"),
    (["profile", "kernels", "{p}", "--top", "-1"], 2, "--top takes 0", "--top 0"),
    (["profile", "what-if", "{p}"], 2, "--remove-category", "libreyolo profile kernels"),
    (["profile", "what-if", "{p}", "--remove-category", "zz"], 2, "no category matching 'zz'", "a profile taken on a GPU"),
    (["profile", "compare", "{p}", "{p}", "--fail-on", "no_such<1"], 2, "no_such", "to list their metrics"),
    (["profile", "timeline", "{p}", "--max-events", "0"], 2, "--max-events takes 1000 to 5000000, not 0", "1,000,000"),
    (["profile", "timeline", "{p}", "-o", "/no/such/folder/page.html"], 2, "/no/such/folder", ""),
    (["daemon", "stop", "--server", "box"], 2, "the local daemon of the current folder", "leave --server out"),
]
# words, code, piece of the message, piece of a hint, environment
WITHOUT_SERVER = [
    (["devices", "--server", "http://box"], 2, "is a URL", "HOST:PORT"),
    (["devices", "--server", "box:99999"], 2, 'has the port "99999"', "7430"),
    (["devices", "--server", "no-such-host.invalid"], 4, 'the name "no-such-host.invalid" is not known', "correct the address"),
    (["devices", "--server", "127.0.0.1:9"], 4, "nobody listens on port 9", "start libreyolod there"),
    (["devices", "--server", "unix:/no/such.sock"], 4, "nobody listens on the socket", "start libreyolod there"),
    (["devices", "--server", "box", "--ca", "/no/such.pem"], 2, "/no/such.pem", ""),
    (["devices", "--server", "box", "--token-file", "/no/such"], 2, "/no/such", ""),
    (["devices", "--server", "box", "--cert", "/dev/null"], 2, "--cert", ""),
    (["profile", "infr"], 2, "infr", ""),
    (["profile", "infer", "--rnus", "5"], 2, "--rnus", ""),
]


class MessagesTest(support.ScriptedTest):
    def meet(self, words, code, message, hint):
        said = self.refuse(code, *words)
        first, *rest = said.splitlines()
        self.assertTrue(first.startswith("error: "), said)
        self.assertIn(message, first, words)
        hints = [line for line in rest if line.startswith("hint:  ")]
        self.assertEqual([line for line in rest if not line.startswith(("hint:  ", "       request id "))], [], said)
        self.assertTrue(hints, f"{words}: no way out: {said}")
        self.assertIn(hint, "\n".join(hints), words)
        # The same under --json, as one object.
        error = json.loads(self.refuse(code, *words, "--json"))
        self.assertIn(message, error["message"])
        self.assertTrue(error["reason"])
        self.assertEqual(len(error["hints"]), len(hints))

    def test_with_a_server(self):
        self.serve()
        self.succeed(*INFER)
        places = {"ws": self.workspace, "p": "runs/profile/infer/profile.json"}
        for words, code, message, hint in WITH_SERVER:
            with self.subTest(words=words):
                self.meet([word.format(**places) for word in words], code, message, hint)

    def test_without_a_server(self):
        self.env["LIBREYOLO_SERVER"] = ""
        for words, code, message, hint in WITHOUT_SERVER:
            with self.subTest(words=words):
                self.meet(words, code, message, hint)
        self.env["LIBREYOLO_SERVER"] = f"unix:{self.socket}"

    def test_a_category_that_only_this_profile_lacks(self):
        self.serve()
        self.succeed(*INFER)
        self.succeed("profile", "kernels", "runs/profile/infer/profile.json", "--category", "attention")

    def test_the_daemons_own(self):
        base = ["--listen", f"unix:{self.scratch}/x.sock", "--store", f"{self.scratch}/x"]
        for words, message, way_out in (
                (["--listen", "127.0.0.1:99999", "--store", "/x"], '"99999" is no port', "give one from 1 to 65535"),
                (["--listen", "box", "--store", "/x"], 'not "box"', "127.0.0.1:7430"),
                (["--listen", "0.0.0.0:7430", "--store", "/x"], "plain TCP is refused on 0.0.0.0", "--tls-cert"),
                (["--store", "/x"], "--listen is missing", "such as --listen 127.0.0.1:7430"),
                (["--listen", "unix:/x"], "--store is missing", "such as --store"),
                ([*base, "--heartbeat", "soon"], "--heartbeat takes a number of seconds", "above 0"),
                ([*base, "--tls-cert", "/x"], "--tls-cert needs --tls-key", "private key"),
                ([*base, "--config", "/no/such"], "/no/such", "leave --config out"),
                ([*base, "--wieghts-dir", "/x"], 'unknown argument "--wieghts-dir"', "the nearest is --weights-dir")):
            with self.subTest(words=words):
                done = subprocess.run([support.BIN / "libreyolod", *words], capture_output=True, text=True, timeout=60)
                self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
                self.assertIn(message, done.stderr)
                self.assertIn(way_out, done.stderr)

    def test_a_first_job_that_fails_leaves_no_folder(self):
        self.script("profile", "hello\nexit 1\n")
        self.serve()
        said = self.refuse(3, *INFER)
        self.assertIn("libreyolo jobs logs", said)
        workspace = self.scratch / "store/workspaces/default"
        support.wait_until(lambda: not (workspace / "runs").exists(), "the folders to go")
        # What holds a result stays.
        self.script("profile", self.GOOD)
        self.succeed(*INFER)
        self.script("profile", "hello\nexit 1\n")
        self.refuse(3, *INFER)
        self.assertTrue((workspace / "runs/profile/infer/profile.json").exists())


if __name__ == "__main__":
    support.main()
