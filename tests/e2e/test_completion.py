"""Completion by real shells: what the client prints for the key, and what bash, zsh and fish make of it."""

import os
import pty
import select
import shutil
import subprocess
import time
import unittest

import support

PROMPT = "ready> "


class Shell:
    """An interactive shell on a terminal of its own."""

    def __init__(self, words, env, cwd):
        self.said = ""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execvpe(words[0], words, env)

    def read_until(self, text, seconds=30):
        deadline = time.monotonic() + seconds
        while text not in self.said:
            if not select.select([self.terminal], [], [], max(0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"waited for {text!r}, saw {self.said!r}")
            self.said += os.read(self.terminal, 4096).decode(errors="replace")
        self.said = self.said.split(text, 1)[1]

    def type(self, text):
        os.write(self.terminal, text.encode())

    def close(self):
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)
        os.close(self.terminal)


class CompletionTest(support.ScriptedTest):
    def setUp(self):
        super().setUp()
        self.env.update(PATH=f"{support.BIN}:{self.env['PATH']}", TERM="dumb")
        self.serve()
        self.job = self.succeed("profile", "infer", "--device", "cpu", "--weights", "random", "--detach").stdout.strip()
        self.succeed("jobs", "watch", self.job)

    def words(self, *typed):
        """What __complete prints: the candidates without their remarks."""
        return [line.split("\t")[0] for line in self.succeed("__complete", *typed).stdout.splitlines()]

    def script_file(self, shell):
        script = self.scratch / f"libreyolo.{shell}"
        script.write_text(self.succeed("completion", shell).stdout)
        return script

    def test_commands_and_flags_come_from_the_table(self):
        self.assertEqual(self.words("pro"), ["profile"])
        self.assertIn("what-if", self.words("profile", ""))
        self.assertEqual(self.words("--json", "jobs", "sh"), ["show"])
        self.assertEqual(self.words("profile", "infer", "--no-t"), ["--no-trace"])
        self.assertEqual(self.words("profile", "infer", "--amp-dtype", ""), ["float16", "bfloat16"])
        self.assertEqual(self.words("profile", "kernels", "--sort", "c"), ["count"])
        self.assertEqual(self.words("completion", "z"), ["zsh"])
        self.assertEqual(self.words("bogus", ""), [])
        self.assertEqual(self.words("profile", "infer", "--batch", ""), [])
        self.assertEqual(self.words("profile", "infer", "--weights", "r"), ["random", ":files"])

    def test_jobs_profiles_metrics_phases_and_devices_come_from_the_server(self):
        profile = "runs/profile/infer/profile.json"
        self.assertEqual(self.words("jobs", "show", ""), [self.job])
        self.assertEqual(self.words("profile", "summary", "runs"), [":files", profile])
        self.assertIn(self.job, self.words("profile", "summary", ""))
        self.assertEqual(self.words("profile", "get", profile, "latency_p5"), ["latency_p50_ms"])
        self.assertEqual(self.words("profile", "get", self.job, "latency_p5"), ["latency_p50_ms"])
        self.assertIn("forward", self.words("profile", "ops", profile, "--phase", ""))
        self.assertIn("cpu", self.words("profile", "infer", "--device", ""))
        self.assertEqual(self.words("profile", "get", "no/such", "latency"), [])

    def test_a_name_that_a_shell_would_read_as_more_is_not_offered(self):
        self.succeed("profile", "infer", "--device", "cpu", "--weights", "random", "--project", "runs/$(touch x)")
        self.assertIn("$(touch x)", self.succeed("profile", "list").stdout)
        self.assertEqual([word for word in self.words("profile", "summary", "runs") if "touch" in word], [])

    def test_without_a_server_it_is_silent_and_starts_none(self):
        for env in ({"LIBREYOLO_SERVER": f"unix:{self.scratch}/none.sock"}, {"LIBREYOLO_SERVER": ""}):
            result = self.succeed("__complete", "jobs", "show", "", env=env)
            self.assertEqual(result.stdout + result.stderr, "")
        status = self.libreyolo("daemon", "status", env={"LIBREYOLO_SERVER": ""})
        self.assertEqual(status.returncode, 4)

    def test_an_unknown_shell_is_refused(self):
        self.assertIn("bash, zsh or fish", self.refuse(2, "completion", "tcsh"))

    def by_key(self, shell):
        """Types the beginnings of a command into a shell that is ready, and runs what they become."""
        shell.read_until(PROMPT)
        shell.type(f"libreyolo jo\tsh\t{self.job[:4]}\t--js\t>found.json\n")
        shell.read_until(PROMPT)
        self.assertEqual(self.read_json("found.json")["id"], self.job)
        (self.workspace / "my traces").mkdir()
        (self.workspace / "my traces" / "only.json").touch()
        shell.type("libreyolo profile summary ./my\ton\t")
        shell.read_until("only.json")
        shell.close()

    def test_bash(self):
        script = self.script_file("bash")
        shell = Shell(["bash", "--norc", "--noprofile", "-i"], {**self.env, "PS1": ""}, self.workspace)
        shell.type(f"bind 'set enable-bracketed-paste off'; source {script}; PS1='rea''dy> '\n")
        self.by_key(shell)

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh(self):
        self.script_file("zsh")
        (self.scratch / ".zshrc").write_text(
            f"PS1='{PROMPT}'; autoload -Uz compinit; compinit -u -D; source {self.scratch}/libreyolo.zsh\n")
        shell = Shell(["zsh", "-d", "-i"], {**self.env, "ZDOTDIR": str(self.scratch)}, self.workspace)
        self.by_key(shell)

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish(self):
        script = self.script_file("fish")

        def found(line):
            done = subprocess.run(["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"],
                                  env=self.env, cwd=self.workspace, capture_output=True, text=True, timeout=60)
            return [row.split("\t")[0] for row in done.stdout.splitlines()]

        self.assertEqual(found("libreyolo jobs sh"), ["show"])
        self.assertEqual(found("libreyolo jobs show "), [self.job])
        self.assertEqual(found(f"libreyolo profile get {self.job} latency_p5"), ["latency_p50_ms"])
        (self.workspace / "only.json").touch()
        self.assertEqual(found("libreyolo profile summary ./on"), ["./only.json"])


if __name__ == "__main__":
    support.main()
