"""What a worker could do that a hostile file has taken over: it has the daemon's account, and little else. The worker here
is a program that tries, and says in its job's log what it got."""

import ctypes
import hashlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import textwrap
import unittest

import remote
import support

PYTHON, PYTHON_READ = os.path.realpath(sys.executable), ("--worker-read", sys.base_prefix)
ALICE = 54321
LANDLOCK = ctypes.CDLL(None).syscall(444, None, 0, 1) >= 1
needs_landlock = unittest.skipUnless(LANDLOCK, "this kernel has no Landlock, as libreyolo doctor says")
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2

# `attempt` says how something ended: "done", or the error's name.
PRELUDE = """\
import ctypes, errno, json, os, resource, signal, socket, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
daemon = os.getppid()
told = {}
def attempt(name, action):
    try:
        told[name] = action() or "done"
    except OSError as error:
        told[name] = errno.errorcode.get(error.errno, str(error))
def call(function, *arguments):
    if function(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "")
def read(path):
    open(path, "rb").read(64)
def write(path):
    with open(path, "ab"):
        pass
"""


class HostileWorkerTest(remote.RemoteTest):
    WORKERS_MAY = ()

    def hostile(self, script, submit, flags=(), environment=None):
        """What the worker of the job that `submit` makes tells; it goes on until it is killed."""
        program = f"#!{PYTHON}\n{PRELUDE}{textwrap.dedent(script)}\nprint('TOLD', json.dumps(told), file=sys.stderr, flush=True)\ntime.sleep(600)\n"
        self.worker.write_text(program)
        job = submit()
        log = lambda: self.succeed("jobs", "logs", job, env=environment or self.as_user("alice")).stdout
        support.wait_until(lambda: "TOLD " in log() or "Error" in log(), "the worker")
        found = re.search(r"^TOLD (.*)$", log(), re.M)
        self.assertTrue(found, log())
        return json.loads(found.group(1))

    def serve_it(self, *flags, **options):
        self.serve_users(*PYTHON_READ, *flags, **options)

    def place(self, path, text="secret"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    @needs_landlock
    def test_it_reads_what_its_job_names_and_nothing_of_others(self):
        self.serve_it()
        store, cache = self.scratch / "store", self.scratch / "cache/libreyolo"
        bobs = self.place(store / "workspaces/bob/runs/profile/infer/profile.json")
        own = self.place(store / "workspaces/alice/runs/old/profile.json")
        home = self.place(self.scratch / ".ssh/id_ed25519")
        fetched = self.place(cache / "datasets/coco128/images/a.jpg")
        weights = self.place(cache / "weights/LibreYOLO9t.pt")
        paths = {"index": store / "index.sqlite", "store": store / "job_logs", "bobs": bobs, "own": own, "home": home,
                 "tokens": self.token_file, "key": self.key, "keys": store / "tls", "fetched": fetched, "weights": weights,
                 "log": self.scratch / "scripts", "disk": "/dev/vda", "shadow": "/etc/shadow", "settings": "/etc/hosts"}
        script = f"""
        paths = {json.dumps({name: str(path) for name, path in paths.items()})}
        for name, path in paths.items():
            attempt(name, lambda: os.listdir(path) and None if os.path.isdir(path) else read(path))
        attempt("library", lambda: read("/usr/bin/env"))
        attempt("itself", lambda: read(sys.argv[0]))
        """
        told = self.hostile(script, lambda: self.submit("alice"))
        for name, path in paths.items():
            if pathlib.Path(path).exists():
                self.assertEqual(told[name], "EACCES", (name, told))
        self.assertEqual((told["library"], told["itself"]), ("done", "done"))

    @needs_landlock
    def test_it_writes_its_results_and_nothing_else(self):
        self.serve_it()
        store, cache = self.scratch / "store", self.scratch / "cache/libreyolo"
        mine = self.place(store / "workspaces/alice/runs/old/profile.json")
        bobs = self.place(cache / "workers/bob/sample-v1/data.yaml")
        script = f"""
        staging = [each for each, folders, files in os.walk({str(store / 'workspaces/alice/runs/profile/.staging')!r})]
        for name, path in {json.dumps({"mine": str(mine), "bobs": str(bobs), "temporary": "/tmp/ly-hostile",
                                       "locks": str(self.scratch / "new.lock"), "home": str(self.scratch / "new"),
                                       "program": str(self.worker), "fetched": str(cache / "new"),
                                       "kernel": "/proc/sys/kernel/core_pattern", "store": str(store / "cordoned")})}.items():
            attempt(name, lambda: write(path))
        attempt("remove", lambda: os.unlink({str(mine)!r}))
        attempt("rename", lambda: os.rename({str(mine)!r}, {str(mine)!r} + ".old"))
        attempt("link", lambda: os.link({str(mine)!r}, os.environ["CUDA_CACHE_PATH"] + ".link"))
        attempt("folder", lambda: os.mkdir({str(store / 'workspaces/carol')!r}))
        attempt("cache", lambda: write(os.environ["CUDA_CACHE_PATH"] + ".own"))
        attempt("itself", lambda: write("/proc/self/clear_refs"))
        attempt("shared", lambda: os.close(os.memfd_create("x")))
        """
        told = self.hostile(script, lambda: self.submit("alice"))
        for name in ("mine", "bobs", "temporary", "locks", "home", "program", "fetched", "kernel", "store", "remove", "folder"):
            self.assertEqual(told[name], "EACCES", (name, told))
        for name in ("rename", "link"):
            self.assertIn(told[name], ("EACCES", "EXDEV"), (name, told))
        for name in ("cache", "itself", "shared"):
            self.assertEqual(told[name], "done", (name, told))
        self.assertEqual(mine.read_text(), "secret")

    @needs_landlock
    def test_an_upload_is_read_and_its_neighbours_are_not(self):
        self.serve_it()
        picture = self.workspace / "mine.png"
        picture.write_bytes(b"\x89PNG mine")
        theirs = self.workspace / "theirs.png"
        theirs.write_bytes(b"\x89PNG theirs")
        self.submit("bob", theirs)
        blobs = {path.name: path for path in (self.scratch / "store/blobs").rglob("*") if path.is_file()}
        bobs = blobs[hashlib.sha256(theirs.read_bytes()).hexdigest()]
        script = f"""
        folder = {str(self.scratch / 'store/inputs')!r}
        attempt("neighbour", lambda: read({str(bobs)!r}))
        attempt("jobs", lambda: os.listdir(folder) and None)
        job = os.environ["LIBREYOLO_JOB"]
        attempt("own", lambda: read(os.path.join(folder, job, "0-mine.png")))
        """
        # Bob's job holds the device.
        self.succeed("jobs", "cancel", self.last_job("bob"), env=self.as_user("bob"))
        told = self.hostile(script, lambda: self.submit("alice", picture))
        self.assertEqual(told, {"neighbour": "EACCES", "jobs": "EACCES", "own": "done"})

    def last_job(self, name):
        return json.loads(self.succeed("jobs", "list", "--json", env=self.as_user(name)).stdout)["jobs"][0]["id"]

    def test_the_daemon_is_out_of_its_reach(self):
        self.serve_it()
        script = """
        attempt("signal", lambda: os.kill(daemon, 0))
        attempt("group", lambda: os.killpg(os.getpgid(daemon), 0))
        attempt("queue", lambda: call(libc.sigqueue, daemon, 0, None))
        attempt("thread", lambda: call(libc.syscall, 234, daemon, daemon, 0))
        attempt("descriptor", lambda: os.pidfd_open(daemon) and None)
        attempt("limits", lambda: resource.prlimit(daemon, resource.RLIMIT_NOFILE, (8, 8)) and None)
        attempt("trace", lambda: call(libc.ptrace, 16, daemon, None, None))
        for name in ("environ", "mem", "maps", "fd/0"):
            attempt(name, lambda: read(f"/proc/{daemon}/{name}"))
        attempt("itself", lambda: os.kill(os.getpid(), 0))
        attempt("own limits", lambda: resource.prlimit(0, resource.RLIMIT_NOFILE) and None)
        """
        told = self.hostile(script, lambda: self.submit("alice"))
        for name in ("signal", "group", "queue", "descriptor", "limits", "trace"):
            self.assertEqual(told[name], "EPERM", (name, told))
        if os.uname().machine == "x86_64":
            self.assertEqual(told["thread"], "EPERM", told)
        for name in ("environ", "mem", "maps", "fd/0"):
            self.assertIn(told[name], ("EACCES", "EPERM"), (name, told))
        self.assertEqual((told["itself"], told["own limits"]), ("done", "done"))

    # Connects, and waits for a byte: the server's greeting, or the end.
    KNOCK = """
    def knock(name):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(20)
        connection.connect(address)
        connection.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n\\0\\0\\0\\4\\0\\0\\0\\0\\0")
        return "let in" if connection.recv(1) else "hung up on"
    def at(name):
        try:
            told[name] = knock(name)
        except ConnectionError:
            told[name] = "hung up on"
    """

    def test_the_daemons_socket_hangs_up_on_it(self):
        """By itself, by a child, and by an orphan in a session of its own that has shed the job's mark; where it can
        connect at all."""
        path = self.scratch / "served.sock"
        self.serve(*PYTHON_READ, "--worker-children", "--worker-network", listen=f"unix:{path}")
        script = textwrap.dedent(self.KNOCK).replace("address)", f"{str(path)!r})") + textwrap.dedent("""
        at("worker")
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.setsid()
            parent = os.getpid()
            if os.fork() == 0:
                while os.getppid() == parent:
                    time.sleep(0.01)
                at("orphan")
                os.write(writer, told["orphan"].encode())
            os._exit(0)
        os.wait()
        told["orphan"] = os.read(reader, 64).decode()
        """)
        told = self.hostile(script, lambda: self.succeed(*self.JOB, env={"LIBREYOLO_SERVER": self.address}).stdout.strip(),
                            environment={"LIBREYOLO_SERVER": self.address})
        self.assertEqual(told, {"worker": "hung up on", "orphan": "hung up on"})
        self.assertIn("connection refused: it comes from a worker", self.daemon_log())
        # Others of the account are let in, also those who have given up new privileges.
        strict = subprocess.run(["setpriv", "--no-new-privs", support.BIN / "libreyolo", "jobs", "list", "--server",
                                 self.address], env=self.env, capture_output=True, text=True, timeout=60)
        self.assertEqual(strict.returncode, 0, strict.stderr)

    def test_a_local_daemon_hangs_up_on_it_too(self):
        path = self.scratch / "local.sock"
        script = textwrap.dedent(self.KNOCK).replace("address)", f"{str(path)!r})") + 'at("worker")\n'
        (self.scratch / "state").mkdir()
        daemon = subprocess.Popen([support.BIN / "libreyolod", "--local", "--listen", f"unix:{path}", "--workspace",
                                   self.workspace, "--state", self.scratch / "state", "--worker", self.worker, "--lock-dir",
                                   self.scratch, *PYTHON_READ], env=self.env, stderr=subprocess.DEVNULL)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.kill)
        here = {"LIBREYOLO_SERVER": f"unix:{path}"}
        support.wait_until(lambda: self.libreyolo("jobs", "list", env=here).returncode == 0, "the daemon")
        told = self.hostile(script, lambda: self.succeed(*self.JOB, env=here).stdout.strip(), environment=here)
        self.assertEqual(told, {"worker": "hung up on"})  # by the filter, as no door has heard of it

    def test_other_services_of_the_account_are_not_reached(self):
        """Sockets with a path are no files to Landlock: connecting itself is refused, and datagrams."""
        self.serve_it()
        path = str(self.scratch / "service.sock")
        with socket.socket(socket.AF_UNIX) as service:
            service.bind(path)
            service.listen()
            told = self.hostile(f"""
            attempt("connect", lambda: socket.socket(socket.AF_UNIX).connect({path!r}))
            for name, kind in (("datagram", socket.SOCK_DGRAM), ("raw", socket.SOCK_RAW)):
                attempt(name, lambda: socket.socket(socket.AF_UNIX, kind).close())
            attempt("pair", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].close())
            attempt("sequence", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)[0].close())
            """, lambda: self.submit("alice"))
        self.assertEqual(told, {"connect": "ECONNREFUSED", "datagram": "EPERM", "raw": "EPERM", "pair": "EPERM",
                                "sequence": "done"})

    def test_nothing_of_the_account_is_shared(self):
        """Memory, queues and locks of System V, and keys."""
        self.serve_it()
        told = self.hostile("""
        attempt("memory", lambda: call(libc.shmget, 0, 4096, 0o1600))
        attempt("lock", lambda: call(libc.semget, 0, 1, 0o1600))
        attempt("queue", lambda: call(libc.msgget, 0, 0o1600))
        attempt("key", lambda: call(libc.syscall, 248, b"user", b"ly", b"x", 1, -4))
        """, lambda: self.submit("alice"))
        if os.uname().machine != "x86_64":
            told.pop("key")
        self.assertEqual(set(told.values()), {"EPERM"}, told)

    def test_files_make_nobody_wait_and_hide_no_room(self):
        self.serve_it()
        told = self.hostile("""
        import fcntl
        own = os.environ["CUDA_CACHE_PATH"] + ".own"
        descriptor = os.open(own, os.O_RDWR | os.O_CREAT, 0o600)
        attempt("lease", lambda: fcntl.fcntl(2, fcntl.F_SETLEASE, fcntl.F_WRLCK) and None)
        attempt("notify", lambda: fcntl.fcntl(descriptor, fcntl.F_NOTIFY, 1) and None)
        attempt("keep size", lambda: call(libc.fallocate, descriptor, 1, ctypes.c_long(0), ctypes.c_long(1 << 20)))
        attempt("copy of a file system", lambda: call(libc.ioctl, descriptor, 0x50009401, b"x" * 4096))
        attempt("version", lambda: call(libc.ioctl, descriptor, 0x40087602, b"x" * 8))
        attempt("as somebody else", lambda: os.close(os.open(own + "1", os.O_WRONLY | os.O_CREAT, 0o4755)))
        attempt("node", lambda: os.mknod(own + "2", 0o104755))
        attempt("allocate", lambda: os.posix_fallocate(descriptor, 0, 4096))
        attempt("create", lambda: os.close(os.open(own + "3", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o755)))
        attempt("flags", lambda: fcntl.fcntl(descriptor, fcntl.F_GETFL) and None)
        """, lambda: self.submit("alice"))
        for name in ("allocate", "create", "flags"):
            self.assertEqual(told.pop(name), "done", name)
        self.assertEqual(set(told.values()), {"EPERM"}, told)

    def test_permissions_and_owners_of_files_stay(self):
        """No fence around files knows these; the daemon's own files are the account's, so it could."""
        self.serve_it()
        target = str(self.place(self.scratch / "mine"))
        told = self.hostile(f"""
        path = {target!r}
        own = os.environ["CUDA_CACHE_PATH"] + ".own"
        write(own)
        descriptor = os.open(own, os.O_RDWR)
        attempt("mode", lambda: os.chmod(path, 0o4777))
        attempt("mode by descriptor", lambda: os.fchmod(descriptor, 0o4777))
        attempt("mode by folder", lambda: call(libc.syscall, 452, -100, path.encode(), 0o777, 0))
        attempt("owner", lambda: os.chown(path, os.getuid(), os.getgid()))
        attempt("times", lambda: os.utime(path, (0, 0)))
        attempt("attribute", lambda: os.setxattr(path, "user.x", b"1"))
        attempt("flags", lambda: call(libc.ioctl, descriptor, 0x40086602, ctypes.byref(ctypes.c_int(0x40))))
        attempt("truncate", lambda: os.truncate(path, 0))
        attempt("open and truncate", lambda: os.close(os.open(path, os.O_RDONLY | os.O_TRUNC)))
        """, lambda: self.submit("alice"))
        self.assertEqual(told.pop("open and truncate"), "EPERM")
        self.assertEqual(set(told.values()), {"EPERM"}, told)
        self.assertEqual(pathlib.Path(target).read_text(), "secret")

    def test_it_starts_nothing_and_holds_nobody_up(self):
        self.serve_it()
        told = self.hostile("""
        attempt("fork", lambda: os.fork() and None)
        attempt("program", lambda: subprocess.run(["/bin/true"]) and None)
        attempt("namespace", lambda: call(libc.unshare, 0x10000000))
        attempt("group", lambda: os.setpgid(0, os.getpgid(daemon)))
        attempt("priority", lambda: os.setpriority(os.PRIO_PROCESS, daemon, 19))
        attempt("priority of all", lambda: os.setpriority(os.PRIO_USER, 0, 19))
        attempt("processors", lambda: os.sched_setaffinity(daemon, {0}))
        attempt("scheduler", lambda: os.sched_setscheduler(daemon, os.SCHED_IDLE, os.sched_param(0)))
        attempt("disk", lambda: call(libc.syscall, 251, 1, daemon, 3 << 13))
        import fcntl, threading
        reader, writer = os.pipe()
        attempt("owner", lambda: fcntl.fcntl(reader, fcntl.F_SETOWN, daemon) and None)
        attempt("signal", lambda: fcntl.fcntl(reader, 10, signal.SIGKILL) and None)
        attempt("memory", lambda: write("/dev/shm/ly-hostile"))
        ran = []
        thread = threading.Thread(target=lambda: ran.append(1))
        thread.start()
        thread.join()
        told["thread"] = "done" if ran else "lost"
        attempt("own processors", lambda: os.sched_setaffinity(0, {0}))
        """, lambda: self.submit("alice"))
        self.assertEqual((told.pop("thread"), told.pop("own processors")), ("done", "done"))
        self.assertEqual(told.pop("memory"), "EACCES" if LANDLOCK else "done")
        if os.uname().machine != "x86_64":
            told.pop("disk")
        self.assertEqual(set(told.values()), {"EPERM"}, told)

    def test_no_port_of_the_host_is_reached(self):
        self.serve_it()
        host, port = self.address.rsplit(":", 1)
        told = self.hostile(f"""
        attempt("connect", lambda: socket.create_connection(({host!r}, {port}), timeout=20).close())
        for name, family, kind in (("datagrams", socket.AF_INET, socket.SOCK_DGRAM), ("six", socket.AF_INET6, socket.SOCK_STREAM),
                                   ("raw", socket.AF_PACKET, socket.SOCK_RAW), ("machines", socket.AF_VSOCK, socket.SOCK_STREAM)):
            attempt(name, lambda: socket.socket(family, kind).close())
        attempt("ring", lambda: call(libc.syscall, 425, 8, ctypes.create_string_buffer(128)))
        attempt("drivers", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close())
        attempt("local", lambda: socket.socketpair()[0].close())
        """, lambda: self.submit("alice"))
        for name in ("connect", "datagrams", "six", "raw", "machines", "ring"):
            self.assertEqual(told[name], "EPERM", (name, told))
        for name in ("drivers", "local"):
            self.assertEqual(told[name], "done", (name, told))

    @unittest.skipUnless(os.geteuid() == 0, "needs root, whose privileges it is about")
    def test_a_worker_of_root_is_no_root(self):
        self.serve_it()
        told = self.hostile("""
        for line in open("/proc/self/status"):
            if line.startswith(("Cap", "NoNewPrivs", "Seccomp:")):
                told[line.split(":")[0]] = line.split()[1]
        attempt("mount", lambda: call(libc.mount, b"none", b"/mnt", b"tmpfs", 0, None))
        attempt("own", lambda: os.chown(os.path.dirname(os.environ["CUDA_CACHE_PATH"]), 1, 1))
        attempt("become", lambda: os.setuid(1))
        attempt("device", lambda: os.mknod(os.environ["CUDA_CACHE_PATH"] + ".disk", 0o60600, os.makedev(254, 0)))
        """, lambda: self.submit("alice"))
        kept = 1 << CAP_DAC_OVERRIDE | 1 << CAP_DAC_READ_SEARCH
        for name in ("CapEff", "CapPrm", "CapBnd"):
            self.assertEqual(int(told[name], 16) & ~kept, 0, told)
        self.assertEqual((int(told["CapInh"], 16), int(told["CapAmb"], 16)), (0, 0))
        self.assertEqual((told["NoNewPrivs"], told["Seccomp"]), ("1", "2"))
        for name in ("mount", "own", "become", "device"):
            self.assertIn(told[name], ("EPERM", "EACCES"), (name, told))

    @needs_landlock
    def test_the_admin_may_grant_more(self):
        extra = self.place(self.scratch / "drivers/libcuda.so.1")
        other = self.place(self.scratch / "other")
        look = f"""
        attempt("extra", lambda: read({str(extra)!r}))
        attempt("other", lambda: read({str(other)!r}))
        """
        self.serve_it("--worker-read", extra.parent)
        self.assertEqual(self.hostile(look, lambda: self.submit("alice")), {"extra": "done", "other": "EACCES"})
        self.daemon.kill()
        self.daemon.wait()
        self.serve_it("--worker-all-files")
        self.assertEqual(self.hostile(look, lambda: self.submit("alice")), {"extra": "done", "other": "done"})

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to be somebody else")
    def test_others_of_its_account_cannot_look_into_a_served_daemon(self):
        self.scratch.chmod(0o755)
        home = self.scratch / "alice"
        home.mkdir()
        shutil.copy(support.BIN / "libreyolod", home)
        os.chown(home, ALICE, ALICE)
        other = {"user": ALICE, "group": ALICE, "extra_groups": [], "cwd": "/"}
        daemon = subprocess.Popen([home / "libreyolod", "--listen", f"unix:{home}/s", "--store", home / "store", "--lock-dir",
                                   home], env={"PATH": os.environ["PATH"], "HOME": str(home), "HF_TOKEN": "hub-secret"},
                                  stderr=subprocess.PIPE, text=True, **other)
        self.daemons.append(daemon)
        support.wait_until(lambda: (home / "s").exists(), "the daemon")
        for name in ("environ", "mem", "fd/0"):
            look = subprocess.run(["cat", f"/proc/{daemon.pid}/{name}"], capture_output=True, text=True, timeout=60, **other)
            self.assertIn("Permission denied", look.stderr)


class LeftoversTest(remote.RemoteTest):
    """What a worker leaves behind: processes, and files where its results should be. Without a fence, which would not let
    it make most of them."""

    SCRIPTED = pathlib.Path(os.environ["LIBREYOLO_TEST_BIN_DIR"]) / "scripted_worker"

    def serve_leaver(self, shell, script, *flags):
        """A daemon whose workers run some lines of shell in their staging folder, then what a script says."""
        scripts = self.scratch / "scripts"
        scripts.mkdir()
        (scripts / "default").write_text(script)
        self.worker.write_text(f"#!/bin/bash\nset -e\ncd {self.scratch}/store/workspaces/alice/runs/profile/.staging/*/*\n"
                               f"{textwrap.dedent(shell)}\nexec {self.SCRIPTED} {scripts}\n")
        self.serve_users("--worker-all-files", *flags)

    def ended(self, job):
        show = lambda: json.loads(self.succeed("jobs", "show", job, "--json", env=self.as_user("alice")).stdout)
        support.wait_until(lambda: show()["state"] in ("SUCCEEDED", "FAILED"), "the end of the job")
        return show()

    def children(self):
        found = []
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == self.daemon.pid:
                found.append((int(stat.parent.name), fields[0]))
        return found

    def test_processes_that_left_the_group_end_with_it(self):
        self.serve_leaver("""
        (setsid sleep 600 &)
        (setsid bash -c 'setsid sleep 600 & setsid true & sleep 600' &)
        (setsid true &)
        """, support.ScriptedTest.GOOD)
        job = self.ended(self.submit("alice"))
        self.assertEqual(job["state"], "SUCCEEDED", job)
        self.assertEqual(self.children(), [])

    def test_only_its_trace_is_kept_of_what_it_leaves(self):
        secret = self.scratch / "secret"
        secret.write_text("secret")
        self.serve_leaver(f"""
        ln -s {secret} profile.json
        ln -s {secret} profile_summary.json
        ln {secret} hard
        mkdir -p a/b/c && : >a/b/c/d && : >$'new\\nline'
        """, support.ScriptedTest.GOOD + "exit 0\n")
        job = self.ended(self.submit("alice"))
        self.assertEqual(job["state"], "SUCCEEDED", job)
        self.assertEqual(secret.read_text(), "secret")
        result = self.scratch / "store/workspaces/alice/runs/profile/infer"
        self.assertEqual({path.name for path in result.iterdir()}, {"profile.json", "profile_summary.json", "profile_trace.json"})
        for path in result.iterdir():
            self.assertFalse(path.is_symlink(), path)
            self.assertEqual(path.stat().st_mode & 0o7111, 0, path)

    def test_a_trace_that_is_another_file_is_none(self):
        trace = self.scratch / "trace.json"
        trace.write_text('{"traceEvents": []}')
        without = support.ScriptedTest.GOOD.replace("trace own\n", "")
        self.serve_leaver("ln -s ../../../../../../../../trace.json profile_trace.json", without)
        self.assertIn("left no trace", self.ended(self.submit("alice"))["error"]["message"])
        for shell in (f"ln {trace} profile_trace.json", "mkdir profile_trace.json"):
            lines = self.worker.read_text().splitlines()
            lines[3] = shell
            self.worker.write_text("\n".join(lines) + "\n")
            error = self.ended(self.submit("alice"))["error"]
            self.assertEqual(error["reason"], "WORKER_FAILED", error)
            self.assertIn("left no trace", error["message"])

    def test_one_in_another_group_is_ended_too(self):
        """The leader of a session stays in its group; its children do not have to."""
        self.serve_leaver("(setsid sleep 600 &)", "hello\nstage measuring\nwait-file /nowhere\n")
        job = self.submit("alice")
        support.wait_until(lambda: len(self.children()) > 1, "the stray")
        self.succeed("jobs", "cancel", job, env=self.as_user("alice"))
        show = lambda: json.loads(self.succeed("jobs", "show", job, "--json", env=self.as_user("alice")).stdout)["state"]
        support.wait_until(lambda: show() == "CANCELLED", "the end of the job", seconds=20)
        self.assertEqual(self.children(), [])

    def test_what_it_says_stays_small(self):
        """Whatever a worker says about itself, lists of jobs can be read, and the daemon answers."""
        self.serve_leaver("", f"hello\nfail WORKER_FAILED {'very long ' * 2_000_000}\n")
        job = self.ended(self.submit("alice"))
        self.assertLess(len(job["error"]["message"]), 10_000)
        self.assertIn(job["id"], self.succeed("jobs", "list", env=self.as_user("alice")).stdout)
        (self.scratch / "scripts/default").write_text("hello\n" + "progress warm-up 1 2\n" * 300_000 + "wait-file /nowhere\n")
        flood = self.ended(self.submit("alice"))
        self.assertEqual(flood["error"]["reason"], "WORKER_FAILED")
        self.assertIn("floods", flood["error"]["message"])

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to mount a small disk")
    def test_a_disk_that_it_fills_up(self):
        store = self.scratch / "store"
        store.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,nr_inodes=3000", "none", store],
                                 capture_output=True, text=True)
        if mounted.returncode != 0:
            self.skipTest(f"no disk can be mounted here: {mounted.stderr}")
        self.addCleanup(subprocess.run, ["umount", "--lazy", store], check=True)
        self.serve_leaver("head -c 58000000 /dev/zero >big; sleep 600", "", "--min-free", 24 << 20)
        error = self.ended(self.submit("alice"))["error"]
        self.assertEqual(error["reason"], "DISK_FULL", error)
        self.assertIn("a running job must leave", error["message"])
        support.wait_until(lambda: not list(store.rglob("big")), "its files to go")
        lines = self.worker.read_text().splitlines()
        lines[3] = "for i in {1..5000}; do (: >file$i) 2>/dev/null || break; done; sleep 600"
        self.worker.write_text("\n".join(lines) + "\n")
        error = self.ended(self.submit("alice"))["error"]
        self.assertEqual(error["reason"], "DISK_FULL", error)
        self.assertIn("more files", error["message"])
        support.wait_until(lambda: not list(store.rglob("file1")), "its files to go")


if __name__ == "__main__":
    unittest.main()
