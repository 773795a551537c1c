"""What deploy/ holds: units by systemd's own tools, manifests against the API's types, packages installed into a folder and
run from there, the Slurm script. What is not checked here, deploy/README.md says."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import support

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
ENVIRONMENT = ROOT / ".deps/api-client"
BUILD = support.BIN.parent
# Of 10; 2.5 when it was written.
MOST_EXPOSURE = 3.0


def run(*words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=240, **options)


def needs(program):
    return unittest.skipUnless(shutil.which(program), f"{program} is not installed")


class UnitsTest(support.ClientTest):
    @needs("systemd-analyze")
    def test_the_service_is_valid_and_hardened(self):
        unit = self.scratch / "libreyolod.service"
        text = (DEPLOY / "systemd/libreyolod.service").read_text()
        unit.write_text(text.replace("/usr/bin/libreyolod", str(support.BIN / "libreyolod")))
        verified = run("systemd-analyze", "verify", "--man=no", unit)
        self.assertEqual((verified.returncode, verified.stdout + verified.stderr), (0, ""))
        said = run("systemd-analyze", "security", "--offline=true", unit).stdout
        self.assertLessEqual(float(re.search(r"Overall exposure level .*?: ([0-9.]+)", said).group(1)), MOST_EXPOSURE)

    @needs("systemd-sysusers")
    def test_the_user_is_made(self):
        (self.scratch / "etc").mkdir()
        done = run("systemd-sysusers", f"--root={self.scratch}", DEPLOY / "systemd/libreyolod.sysusers")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex((self.scratch / "etc/passwd").read_text(), "libreyolo:x:.*:/var/lib/libreyolod:/usr/sbin/nologin")
        if os.geteuid() == 0:
            done = run("systemd-tmpfiles", f"--root={self.scratch}", "--create", DEPLOY / "systemd/libreyolod.tmpfiles")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue((self.scratch / "var/lib/libreyolod/weights").is_dir())

    def test_every_flag_is_one_of_the_daemon(self):
        known = set(re.findall(r"--[a-z-]+", run(support.BIN / "libreyolod", "--help").stdout))
        service = (DEPLOY / "systemd/libreyolod.service").read_text()
        texts = [service[service.index("ExecStart="):service.index("RuntimeDirectory=")],
                 *re.findall(r'CMD (\[.*\])', (DEPLOY / "docker/server.Dockerfile").read_text())]
        for path in ("docker/compose.yaml", "kubernetes/daemonset.yaml"):
            texts.append("\n".join(re.findall(r"^ *- (--.*)$", (DEPLOY / path).read_text(), re.MULTILINE)))
        for text in texts:
            used = set(re.findall(r"--[a-z-]+", text))
            self.assertTrue(used)
            self.assertEqual(used - known, set())


class SettingsFileTest(support.ClientTest):
    FILE = DEPLOY / "systemd/libreyolod.textproto"

    def listing(self, path, **env):
        """What --check-config says would hold, by name; the values of a setting in order."""
        done = run(support.BIN / "libreyolod", "--check-config", "--config", path,
                   env={"PATH": os.environ["PATH"], "HOME": "/var/lib/libreyolod", **env})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        values = {}
        for line in done.stdout.splitlines():
            name, value = re.match(r"(\w+): (.*)  # ", line).groups()
            values.setdefault(name, []).append(value)
        return values

    def test_it_is_what_the_daemon_says(self):
        done = run("python3", "-B", ROOT / "scripts/gen_config.py", support.BIN, "--check")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_its_comments_hold_the_real_defaults(self):
        text = self.FILE.read_text()
        spelled = self.scratch / "spelled.textproto"
        spelled.write_text(re.sub(r"^#(?=\w)", "", text, flags=re.MULTILINE)
                           .replace("/usr/bin/libreyolo-worker", str(support.BIN / "libreyolo-worker")))
        self.assertGreater(spelled.read_text().count("\n"), text.count("\n#") // 3)
        self.assertNotEqual(spelled.read_text(), text)
        self.assertEqual(self.listing(spelled), self.listing(self.FILE))

    def test_what_is_checked_is_what_is_served(self):
        config = self.scratch / "d.textproto"
        config.write_text(f'listen: "unix:{self.scratch}/file.sock"\nstore: "{self.scratch}/store"\n'
                          f'lock_dir: "{self.scratch}"\nsocket_mode: "660"\n')
        self.assertEqual(self.listing(config)["socket_mode"], ['"660"'])
        self.assertFalse((self.scratch / "store").exists())
        # The flag wins: the socket is where the flag says.
        daemon = self.start_daemon_of(config, "--listen", f"unix:{self.scratch}/flag.sock")
        self.assertIn("flag.sock", daemon)
        self.assertTrue((self.scratch / "store").is_dir())
        self.assertEqual((self.scratch / "flag.sock").stat().st_mode & 0o777, 0o660)

    def start_daemon_of(self, config, *flags):
        daemon = subprocess.Popen([support.BIN / "libreyolod", "--config", config, *flags], env=self.env,
                                  stderr=subprocess.PIPE, text=True)
        self.daemons.append(daemon)
        for line in daemon.stderr:
            if "listening" in line:
                return line
        raise AssertionError("the daemon did not start")

    def test_a_bad_file_is_refused_with_its_place(self):
        config = self.scratch / "d.textproto"
        config.write_text('listen: "unix:/x"\nstor: "/y"\n')
        for words in ([], ["--check-config"]):
            done = run(support.BIN / "libreyolod", "--config", config, *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(done.stderr, f'libreyolod: {config}:2:5: no setting is called "stor"; the nearest is "store"\n')

    def test_files_that_it_names_are_checked(self):
        config = self.scratch / "d.textproto"
        tokens = self.scratch / "tokens"
        tokens.write_text("alice\n")
        tokens.chmod(0o600)
        config.write_text(f'listen: "127.0.0.1:0"\nstore: "{self.scratch}/store"\ntokens: "{tokens}"\n')
        done = run(support.BIN / "libreyolod", "--config", config, "--check-config")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn(f"{tokens}", done.stderr)
        self.assertIn("line 1", done.stderr)


class ManifestsTest(unittest.TestCase):
    def setUp(self):
        if run(ENVIRONMENT / "bin/python", "-c", "import yaml, kubernetes").returncode if ENVIRONMENT.exists() else True:
            self.skipTest("no environment: tests/support/python_env.sh makes it")

    def check(self, *paths):
        return run(ENVIRONMENT / "bin/python", "-B", ROOT / "tests/support/check_manifests.py", *paths)

    def test_kubernetes_knows_every_field(self):
        done = self.check(*sorted((DEPLOY / "kubernetes").glob("*.yaml")))
        self.assertEqual((done.returncode, done.stdout.strip()), (0, ""), done.stderr)

    def test_the_check_sees_what_is_wrong(self):
        text = (DEPLOY / "kubernetes/daemonset.yaml").read_text()
        for old, new in (("hostPort", "hostPortt"), ("  selector:\n    matchLabels: {app: libreyolod}\n", ""),
                         ("containerPort: 7430", "containerPort: grpc"), ("DaemonSet", "DemonSet")):
            self.assertIn(old, text)
            bad = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"ly-bad-{os.getpid()}.yaml"
            bad.write_text(text.replace(old, new))
            done = self.check(bad)
            bad.unlink()
            self.assertEqual(done.returncode, 1, f"{new}: {done.stderr}")

    def test_compose_names_stages_of_the_image(self):
        code = "import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)"
        done = run(ENVIRONMENT / "bin/python", "-c", code, input=(DEPLOY / "docker/compose.yaml").read_text())
        self.assertEqual(done.returncode, 0, done.stderr)
        stages = re.findall(r"^FROM \S+ AS (\w+)", (DEPLOY / "docker/server.Dockerfile").read_text(), re.MULTILINE)
        for service in json.loads(done.stdout)["services"].values():
            self.assertIn(service["build"]["target"], stages)
            self.assertTrue((DEPLOY / "docker" / service["build"]["context"] / service["build"]["dockerfile"]).exists())


class DockerfilesTest(unittest.TestCase):
    def test_what_they_copy_is_there(self):
        for line in re.findall(r"^COPY (?!--from)(.*) \S+$", (DEPLOY / "docker/server.Dockerfile").read_text(), re.MULTILINE):
            for word in line.split():
                self.assertTrue((ROOT / word).exists(), word)


class SlurmTest(support.ClientTest):
    """The script with a stand-in for the client, which says how it was called."""

    def setUp(self):
        super().setUp()
        fake = self.scratch / "bin/libreyolo"
        fake.parent.mkdir()
        fake.write_text('#!/bin/sh\n[ "$1" = daemon ] && { echo "$@" >>"$0.stopped"; exit 0; }\n'
                        'echo "$*|$CUDA_VISIBLE_DEVICES|$OMP_NUM_THREADS|${LIBREYOLO_SERVER-none}"\n'
                        'ls -d "$XDG_STATE_HOME" >"$0.state"\nexit 10\n')
        fake.chmod(0o700)
        self.fake = fake

    def slurm(self, *words, **env):
        return run(DEPLOY / "slurm/profile.sh", *words, cwd=self.workspace, env={
            "PATH": f"{self.fake.parent}:{os.environ['PATH']}", "TMPDIR": str(self.scratch), "LIBREYOLO_SERVER": "far", **env})

    def test_takes_what_the_allocation_gives(self):
        done = self.slurm("infer", "--runs", 5, SLURM_JOB_ID="7", CUDA_VISIBLE_DEVICES="2,3", SLURM_CPUS_PER_TASK="6")
        self.assertEqual((done.returncode, done.stdout), (10, "profile infer --runs 5 --device 0|2,3|6|none\n"), done.stderr)
        self.assertIn("daemon stop --force", self.fake.with_suffix(".stopped").read_text())
        self.assertFalse(pathlib.Path(self.fake.with_suffix(".state").read_text().strip()).exists())

    def test_a_named_device_stays(self):
        done = self.slurm("infer", "--device", "cpu", SLURM_JOB_ID="7")
        self.assertEqual(done.stdout, "profile infer --device cpu||1|none\n")

    def test_without_gpu_or_allocation_it_says_the_ways_out(self):
        for env, hint in (({"SLURM_JOB_ID": "7"}, "--gres=gpu:1"), ({}, "srun")):
            done = self.slurm("infer", **env)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(hint, done.stderr)


@needs("cpack")
@needs("dpkg-deb")
@needs("dpkg-shlibdeps")
class PackagesTest(support.ScriptedTest):
    def unpack(self):
        if not (BUILD / "man/stamp").exists():
            self.skipTest("not everything of this build folder is built")
        made = run("cpack", "-G", "DEB", "--config", BUILD / "CPackConfig.cmake", "-B", self.scratch / "packages")
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        packages = {path.name.split("_")[0]: path for path in (self.scratch / "packages").glob("*.deb")}
        self.assertEqual(set(packages), {"libreyolo", "libreyolod"})
        root = self.scratch / "root"
        for path in packages.values():
            self.assertEqual(run("dpkg-deb", "-x", path, root).returncode, 0)
        return packages, root

    def test_the_packages_run_from_a_root_folder(self):
        packages, root = self.unpack()
        client = run("dpkg-deb", "-f", packages["libreyolo"], "Depends").stdout
        self.assertIn("libc6", client)
        self.assertNotIn("grpc", client)
        self.assertIn("libgrpc++", run("dpkg-deb", "-f", packages["libreyolod"], "Depends").stdout)
        scripts = run("dpkg-deb", "-I", packages["libreyolod"]).stdout
        for name in ("postinst", "prerm", "postrm"):
            self.assertIn(name, scripts)
        for path in ("usr/lib/systemd/system/libreyolod.service", "usr/lib/sysusers.d/libreyolod.conf",
                     "usr/lib/tmpfiles.d/libreyolod.conf", "usr/share/libreyolod/libreyolod.textproto", "usr/share/bash-completion/completions/libreyolo",
                     "usr/share/zsh/site-functions/_libreyolo", "usr/share/fish/vendor_completions.d/libreyolo.fish",
                     "usr/share/man/man1/libreyolo-profile-infer.1", "usr/share/man/man8/libreyolod.8"):
            self.assertTrue((root / path).exists(), path)
        # A local daemon: the client finds the one of its own package.
        words = [root / "usr/bin/libreyolo", "profile", "list"]
        listed = run(*words, env={**self.env, "LIBREYOLO_SERVER": ""}, cwd=self.workspace)
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertIn(f"{root}/usr/bin/libreyolod", self.running_daemons())
        run(root / "usr/bin/libreyolo", "daemon", "stop", env={**self.env, "LIBREYOLO_SERVER": ""}, cwd=self.workspace)

    @staticmethod
    def running_daemons():
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*/exe"):
            try:
                found.append(os.readlink(entry))
            except OSError:
                continue
        return found


class ManPagesTest(support.ClientTest):
    @needs("man")
    def test_every_command_has_a_page_that_renders(self):
        done = run("python3", "-B", ROOT / "scripts/gen_man_pages.py", support.BIN, self.scratch / "man")
        self.assertEqual(done.returncode, 0, done.stderr)
        pages = sorted((self.scratch / "man").glob("man?/*"))
        self.assertGreater(len(pages), 20)
        for page in pages:
            done = run("man", "--warnings", "-l", page, env={**self.env, "MANWIDTH": "100", "LC_ALL": "C.UTF-8"})
            self.assertEqual((done.returncode, done.stderr), (0, ""), page.name)
        kernels = run("man", "-l", self.scratch / "man/man1/libreyolo-profile-kernels.1",
                      env={**self.env, "MANWIDTH": "100", "LC_ALL": "C.UTF-8"}).stdout
        self.assertIn("--grep RE", kernels)


if __name__ == "__main__":
    support.main()
