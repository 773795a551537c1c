"""A host's accounts on the unix sockets of one daemon, which tells them apart by their peer credentials, and a second
listener beside them. Tried from other accounts, with the shipped binaries."""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import unittest

import remote
import support

ALICE, BOB, CAROL = 54321, 54322, 54323  # numbers that no account of the host has
OK, INVALID, NOT_FOUND, DENIED, UNAUTHENTICATED = 0, 3, 5, 7, 16
PROFILE = (pathlib.Path(__file__).parents[1] / "fuzz/corpus/profile_json/own-ops.json").read_text()


class AccountTest(remote.RemoteTest):
    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("needs root, to be somebody else")
        self.socket = self.scratch / "served.sock"
        # Others get to the socket and to a copy of the client, and to nothing else.
        self.scratch.chmod(0o711)
        self.client = self.scratch / "libreyolo"
        shutil.copy(support.BIN / "libreyolo", self.client)
        self.client.chmod(0o755)

    def serve_accounts(self, *flags, mode="666", **options):
        return self.serve("--socket-mode", mode, *flags, listen=f"unix:{self.socket}", **options)

    def client_as(self, uid, *words, gid=None, groups=(), env=None):
        return subprocess.run([self.client, *map(str, words)], user=uid, group=gid or uid, extra_groups=list(groups), cwd="/",
                              env={"PATH": os.environ["PATH"], "LIBREYOLO_SERVER": f"unix:{self.socket}", **(env or {})},
                              capture_output=True, text=True, timeout=60)

    def succeed_as(self, uid, *words, **options):
        result = self.client_as(uid, *words, **options)
        self.assertEqual(result.returncode, 0, f"{words}: {result.stderr}")
        return result.stdout

    def reason_as(self, uid, code, *words, **options):
        result = self.client_as(uid, *words, "--json", **options)
        self.assertEqual(result.returncode, code, f"{words}: {result.stdout}{result.stderr}")
        return json.loads(result.stderr)["reason"]

    def who(self, uid, **options):
        """Who the daemon takes the account for; asked by making a job, which notes it."""
        job = self.succeed_as(uid, *self.JOB, **options).strip()
        return json.loads(self.succeed_as(uid, "jobs", "show", job, "--json", **options))["principal"]


class SocketTest(AccountTest):
    def test_each_account_is_a_user_with_its_own_jobs(self):
        self.serve_accounts()
        mine = self.succeed_as(ALICE, *self.JOB).strip()
        self.assertEqual(json.loads(self.succeed_as(ALICE, "jobs", "show", mine, "--json"))["principal"], f"uid-{ALICE}")
        self.assertEqual(json.loads(self.succeed_as(BOB, "jobs", "list", "--json"))["jobs"], [])
        for words in (["jobs", "show", mine], ["jobs", "cancel", mine], ["jobs", "logs", mine]):
            self.assertEqual(self.reason_as(BOB, 2, *words), "JOB_NOT_FOUND")
        # The daemon's own account sees all, and is the one user's admin as ever.
        listed = json.loads(self.succeed("jobs", "list", "--json", env={"LIBREYOLO_SERVER": self.address}).stdout)["jobs"]
        self.assertEqual([each["id"] for each in listed], [mine])
        self.assertIn(f"principal=uid-{ALICE} role=submitter peer=uid:{ALICE}", self.daemon_log())

    def test_each_account_has_its_own_workspace(self):
        self.serve_accounts()
        for uid in (ALICE, BOB):
            folder = self.scratch / f"store/workspaces/uid-{uid}/runs"
            folder.mkdir(parents=True)
            (folder / "profile.json").write_text(PROFILE)
            (folder / f"{uid}.json").write_text(PROFILE)
        self.succeed_as(ALICE, "profile", "get", f"runs/{ALICE}.json", "img_per_s")
        self.assertEqual(self.reason_as(BOB, 2, "profile", "get", f"runs/{ALICE}.json", "img_per_s"), "PROFILE_NOT_FOUND")
        # Named outright, by a caller without our client: GetProfile{name, workspace}.
        named = remote.text_field(1, "runs/profile.json") + remote.text_field(2, f"uid-{ALICE}")
        self.assertEqual(self.raw_as(ALICE, "ProfileService/GetProfile", named), OK)
        self.assertEqual(self.raw_as(BOB, "ProfileService/GetProfile", named), DENIED)
        self.assertEqual(self.raw_as(0, "ProfileService/GetProfile", named), OK)

    def raw_as(self, uid, method, payload):
        """A hand-made call from another account. The socket is made there and handed back."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            child = os.fork()
            if child == 0:
                try:
                    os.setgid(uid)
                    os.setuid(uid)
                    connection = socket.socket(socket.AF_UNIX)
                    connection.connect(str(self.socket))
                    socket.send_fds(theirs, [b"x"], [connection.fileno()])
                finally:
                    os._exit(0)
            _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
            os.waitpid(child, 0)
        with socket.socket(fileno=descriptors[0]) as connection:
            call = remote.RawCall(connection)
            call.headers(method)
            call.message(payload)
            return call.status()[0]

    def test_who_connected_counts_not_who_calls(self):
        """A descriptor that another account opened speaks for that account, whoever uses it: root here."""
        self.serve_accounts()
        # SetCordon{cordoned} is an admin's.
        self.assertEqual(self.raw_as(ALICE, "ServerService/SetCordon", b"\x08\x01"), DENIED)
        self.assertEqual(self.raw_as(0, "ServerService/SetCordon", b"\x08\x00"), OK)

    def test_a_caller_cannot_say_who_it_is(self):
        """What stands in the headers is not believed."""
        self.serve_accounts()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.socket))
            call = remote.RawCall(connection)
            call.headers("JobService/ListJobs", extra=[("libreyolo_uid", str(ALICE)), ("libreyolo_account", "alice")])
            call.message(b"")
            self.assertEqual(call.status()[0], OK)
        self.assertEqual(self.who(BOB), f"uid-{BOB}")

    def test_the_group_decides_with_mode_660(self):
        self.serve_accounts("--socket-group", "daemon", mode="660")
        group = pathlib.Path(self.socket).stat().st_gid
        self.assertEqual(pathlib.Path(self.socket).stat().st_mode & 0o777, 0o660)
        self.assertEqual(self.client_as(ALICE, "jobs", "list").returncode, 4)
        self.succeed_as(ALICE, "jobs", "list", groups=[group])

    def test_roles_of_accounts(self):
        self.serve_accounts("--socket-role", "viewer")
        self.succeed_as(ALICE, "jobs", "list")
        self.assertEqual(self.reason_as(ALICE, 6, *self.JOB), "PERMISSION_DENIED")
        for command in ("cordon", "drain"):
            self.assertEqual(self.reason_as(ALICE, 6, "daemon", command), "PERMISSION_DENIED")

    def test_the_file_of_users_names_accounts(self):
        nobody = 65534
        with self.token_file.open("a") as file:
            file.write(f"ops admin uid:{ALICE}\nnobody viewer account\n")
        self.serve_accounts("--tokens", self.token_file, "--socket-role", "none")
        self.succeed_as(ALICE, "daemon", "cordon")
        self.succeed_as(ALICE, "daemon", "uncordon")
        self.succeed_as(nobody, "jobs", "list")
        self.assertEqual(self.reason_as(nobody, 6, *self.JOB), "PERMISSION_DENIED")
        self.assertEqual(self.reason_as(BOB, 6, "jobs", "list"), "UNAUTHENTICATED")
        # A token stands above the account, also here; one that is wrong is not overlooked.
        self.assertEqual(self.who(BOB, env={"LIBREYOLO_TOKEN": self.tokens["alice"]}), "alice")
        self.assertEqual(self.reason_as(ALICE, 6, "jobs", "list", env={"LIBREYOLO_TOKEN": "x" * 64}), "UNAUTHENTICATED")
        # Lines that are taken out count no more.
        self.write_tokens()
        self.assertEqual(self.reason_as(ALICE, 6, "jobs", "list"), "UNAUTHENTICATED")

    def test_an_account_is_not_a_user_of_the_same_name(self):
        """The file's "nobody" has a token: the host's account of that name is somebody else."""
        self.tokens["nobody"] = "n" * 64
        self.write_tokens({**self.USERS, "nobody": "submitter"})
        self.serve_accounts("--tokens", self.token_file)
        self.assertEqual(self.reason_as(65534, 6, "jobs", "list"), "UNAUTHENTICATED")
        self.succeed_as(ALICE, "jobs", "list")

    def test_quotas_hold_for_each_account(self):
        self.serve_accounts("--max-queued-per-user", 1)
        for _ in range(2):  # one runs, one waits
            self.succeed_as(ALICE, *self.JOB)
        self.assertEqual(self.reason_as(ALICE, 5, *self.JOB), "QUOTA_EXCEEDED")
        self.succeed_as(BOB, *self.JOB)

    def test_one_account_cannot_take_all_connections(self):
        self.serve_accounts("--max-connections-per-peer", 5)
        held = []
        for _ in range(8):
            held.append(socket.socket(socket.AF_UNIX))
            held[-1].connect(str(self.socket))
        try:
            # As root, so root's client comes no more; others do.
            log = []
            support.wait_until(lambda: log.append(self.daemon_log()) or "connection refused: too many" in "".join(log),
                               "the limit")
            self.succeed_as(ALICE, "jobs", "list")
        finally:
            for connection in held:
                connection.close()
        support.wait_until(lambda: self.libreyolo("jobs", "list", env={"LIBREYOLO_SERVER": self.address}).returncode == 0,
                           "room for root again")


class LocalTest(AccountTest):
    def test_a_local_daemon_serves_its_user_even_when_others_reach_the_socket(self):
        daemon = subprocess.Popen([support.BIN / "libreyolod", "--local", "--listen", f"unix:{self.socket}", "--workspace",
                                   self.workspace, "--state", self.scratch / "local", "--lock-dir", self.scratch],
                                  env=self.env, stderr=subprocess.PIPE, text=True)
        self.daemons.append(daemon)
        support.wait_until(lambda: self.libreyolo("jobs", "list", env={"LIBREYOLO_SERVER": f"unix:{self.socket}"}).returncode
                           == 0, "the daemon")
        self.socket.chmod(0o666)
        self.assertEqual(self.reason_as(ALICE, 6, "jobs", "list"), "UNAUTHENTICATED")


class ListenersTest(AccountTest):
    def both(self, *flags):
        self.make_certificates()
        self.serve("--tls-cert", self.cert, "--tls-key", self.key, "--tokens", self.token_file, "--listen", "127.0.0.1:0",
                   *flags, listen=f"unix:{self.socket}")
        # start_daemon reads line by line; what came after the first may be in its buffer still.
        os.set_blocking(self.daemon.stderr.fileno(), True)
        second = self.daemon.stderr.readline()
        os.set_blocking(self.daemon.stderr.fileno(), False)
        self.address = re.search(r"address=(127\S+)", second).group(1)

    def test_a_socket_and_a_port_each_ask_in_their_own_way(self):
        self.both("--socket-mode", "666")
        job = self.submit("alice")
        self.refuse(6, "jobs", "list", env=self.as_user("x" * 64))
        self.assertEqual(self.who(BOB), f"uid-{BOB}")
        # What came in one way is seen in the other, by who may.
        self.assertEqual(self.reason_as(BOB, 2, "jobs", "show", job), "JOB_NOT_FOUND")
        self.succeed("jobs", "show", job, env={"LIBREYOLO_SERVER": f"unix:{self.socket}"})
        # Peer credentials are no way in over TCP, and the socket has no TLS.
        with self.connect_tls() as connection:
            call = remote.RawCall(connection)
            call.headers("JobService/ListJobs", extra=[("libreyolo_uid", "0")])
            call.message(b"")
            self.assertEqual(call.status()[0], UNAUTHENTICATED)

    def test_a_port_without_users_beside_accounts_is_refused(self):
        result = subprocess.run([support.BIN / "libreyolod", "--listen", f"unix:{self.socket}", "--listen", "127.0.0.1:0",
                                 "--socket-mode", "666", "--store", self.scratch / "store"], env=self.env,
                                capture_output=True, text=True, timeout=20)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("would be admin", result.stderr)

    def test_one_address_that_is_taken_stops_all(self):
        self.both()
        result = subprocess.run([support.BIN / "libreyolod", "--listen", f"unix:{self.scratch}/other.sock", "--listen",
                                 self.address, "--store", self.scratch / "other"], env=self.env, capture_output=True,
                                text=True, timeout=20)
        self.assertEqual(result.returncode, 75, result.stderr)
        self.assertIn(self.address, result.stderr)


if __name__ == "__main__":
    unittest.main()
