"""Uploads and downloads over connections that break, past limits and onto full disks, with the shipped binaries."""

import hashlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import threading
import time
import unittest

import remote
import support

PROFILE = (pathlib.Path(__file__).parents[1] / "fuzz/corpus/profile_json/own-ops.json").read_text()
OK, CANCELLED = 0, 1
MIB = 1 << 20


class Proxy:
    """Passes TCP connections on, until it is to cut them: after so many bytes from the client (`up`) or the server."""

    def __init__(self, target):
        self.target, self.counts, self.cut_after, self.cuts = target, {"up": 0, "down": 0}, {}, 0
        self.refuses, self.open, self.lock = False, [], threading.Lock()
        self.holds_at, self.go_on = None, threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if self.refuses:
                client.close()
                continue
            host, port = self.target.rsplit(":", 1)
            try:
                server = socket.create_connection((host, int(port)))
            except OSError:
                client.close()
                continue
            self.open += [client, server]
            for way, source, sink in (("up", client, server), ("down", server, client)):
                threading.Thread(target=self.pump, args=(way, source, sink), daemon=True).start()

    def pump(self, way, source, sink):
        try:
            while True:
                data = source.recv(65536)
                if not data:
                    break
                sink.sendall(data)
                if way == "up" and self.holds_at is not None and self.counts["up"] > self.holds_at:
                    self.go_on.wait(60)
                with self.lock:
                    self.counts[way] += len(data)
                    if self.counts[way] < self.cut_after.get(way, 1 << 60):
                        continue
                    del self.cut_after[way]
                    self.cuts += 1
                self.cut()
                break
        except OSError:
            pass
        for each in (source, sink):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        for each in self.open:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()
        self.cut()


class TransferTest(remote.RemoteTest):
    SIZE = 12 * MIB

    def serve_behind_proxy(self, *flags):
        self.serve("--tokens", self.token_file, *flags)
        self.proxy = Proxy(self.address)
        self.addCleanup(self.proxy.close)

    def env_of(self, name, address=None):
        return {"LIBREYOLO_SERVER": address or self.proxy.address, "LIBREYOLO_TOKEN": self.tokens[name]}

    def big_file(self, size=None):
        file = self.workspace / "big.json"
        file.write_text(PROFILE + " " * ((size or self.SIZE) - len(PROFILE)))
        return file, hashlib.sha256(file.read_bytes()).hexdigest()

    def upload(self, name, code=0, **options):
        """Reads a metric of the big file, which uploads it."""
        result = self.libreyolo("profile", "get", "./big.json", "img_per_s", "--json", env=self.env_of(name, **options))
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def partial(self, name, digest):
        return self.scratch / "store/blobs.partial" / name / digest

    def break_off(self, name):
        """An upload that its client gives up on; what is left of it."""
        _, digest = self.big_file()
        part = self.partial(name, digest)
        # Nothing goes on until the server has written what came.
        self.proxy.holds_at = 5 * MIB
        uploading = threading.Thread(target=self.upload, args=(name, 4))
        uploading.start()
        support.wait_until(lambda: part.exists() and part.stat().st_size > 3 * MIB, "the part")
        self.proxy.refuses, self.proxy.holds_at = True, None
        self.proxy.cut()
        self.proxy.go_on.set()
        uploading.join()
        self.proxy.refuses = False
        return digest, part


class UploadTest(TransferTest):
    def test_an_upload_goes_on_where_the_connection_broke(self):
        self.serve_behind_proxy()
        _, digest = self.big_file()
        part = self.partial("alice", digest)
        # Nothing goes on until the server has written what came.
        self.proxy.holds_at = 6 * MIB
        uploading = threading.Thread(target=self.upload, args=("alice",))
        uploading.start()
        support.wait_until(lambda: part.exists() and part.stat().st_size > 4 * MIB, "the part")
        self.proxy.holds_at = None
        self.proxy.cut()
        self.proxy.go_on.set()
        uploading.join()
        # Begun anew it would be 18 MiB.
        self.assertLess(self.proxy.counts["up"], 16 * MIB)
        self.assertTrue((self.scratch / f"store/blobs/{digest[:2]}/{digest}").exists())
        self.assertFalse(self.partial("alice", digest).exists())

    def test_an_upload_goes_on_after_a_restart_of_the_server(self):
        self.serve_behind_proxy()
        digest, part = self.break_off("alice")
        have = part.stat().st_size
        self.daemon.kill()
        self.daemon.wait()
        self.serve("--tokens", self.token_file)
        self.proxy.target = self.address
        before = self.proxy.counts["up"]
        self.upload("alice")
        self.assertLess(self.proxy.counts["up"] - before, self.SIZE - have + MIB)
        self.assertTrue((self.scratch / f"store/blobs/{digest[:2]}/{digest}").exists())

    def test_a_part_is_its_senders_and_counts_for_the_quota(self):
        self.serve_behind_proxy("--max-stored-per-user", 13 * MIB)
        digest, part = self.break_off("alice")
        asked = remote.text_field(1, digest)

        def said(name):
            host, port = self.address.rsplit(":", 1)
            with socket.create_connection((host, int(port)), timeout=20) as connection:
                call = remote.RawCall(connection)
                call.headers("ProfileService/FindMissingBlobs", self.tokens[name])
                call.message(asked)
                return call.status()[1]

        # FindMissingBlobsResponse{digests, partial{digest, received_bytes}}: the digest twice, or once.
        self.assertEqual(said("alice").count(digest.encode()), 2)
        self.assertEqual(said("bob").count(digest.encode()), 1)
        # Another file of 12 MiB does not fit beside the part; the rest of this one does.
        file = self.workspace / "other.json"
        file.write_text(PROFILE + "\n" * (self.SIZE - len(PROFILE)))
        result = self.libreyolo("profile", "get", "./other.json", "img_per_s", "--json", env=self.env_of("alice"))
        self.assertIn("QUOTA_EXCEEDED", result.stderr)
        self.upload("alice")

    def test_a_part_that_is_none_of_the_file_is_thrown_away(self):
        self.serve_behind_proxy()
        _, part = self.break_off("alice")
        with part.open("r+b") as file:
            file.write(b"damage")
        self.upload("alice")
        self.assertFalse(part.exists())

    def test_parts_do_not_stay_for_ever(self):
        self.serve_behind_proxy()
        _, part = self.break_off("alice")
        self.daemon.kill()
        self.daemon.wait()
        self.serve("--tokens", self.token_file)
        self.assertTrue(part.exists())
        long_ago = time.time() - 25 * 3600
        os.utime(part, (long_ago, long_ago))
        self.daemon.kill()
        self.daemon.wait()
        self.serve("--tokens", self.token_file)
        support.wait_until(lambda: not part.exists(), "the sweep")

    def test_a_full_disk_is_said_before_anything_is_sent(self):
        self.serve_behind_proxy("--min-free", 1 << 60)
        self.big_file()
        error = json.loads(self.upload("alice", code=5).stderr)
        self.assertEqual(error["reason"], "DISK_FULL")
        self.assertIn("--min-free", " ".join(error["hints"]))
        self.assertLess(self.proxy.counts["up"], 8 * MIB)
        error = json.loads(self.refuse(5, *self.JOB, "--json", env=self.env_of("alice")))
        self.assertEqual(error["reason"], "DISK_FULL")

    def upload_call(self, size):
        host, port = self.address.rsplit(":", 1)
        connection = socket.create_connection((host, int(port)), timeout=20)
        self.addCleanup(connection.close)
        call = remote.RawCall(connection)
        call.headers("ProfileService/UploadBlob", self.tokens["alice"])
        # UploadBlobRequest{header{digest, size_bytes}}
        call.message(remote.text_field(1, remote.text_field(1, "a" * 64) + b"\x10" + remote.varint(size)), end=False)
        return call

    def test_an_upload_that_stalls_is_ended(self):
        self.serve_behind_proxy("--stall-timeout", 1)
        call = self.upload_call(1000)
        log = []
        support.wait_until(lambda: log.append(self.daemon_log()) or "its other end does nothing" in "".join(log), "the end")
        self.assertNotEqual(call.status()[0], OK)

    def test_one_user_has_only_so_many_calls(self):
        self.serve_behind_proxy("--max-calls-per-user", 3)
        calls = [self.upload_call(1000) for _ in range(3)]
        env = self.env_of("alice")

        def is_reached():
            if self.libreyolo("jobs", "list", env=env).returncode == 5:
                return True
            # The question itself may have taken the place of one of the uploads, which was refused then.
            calls.append(self.upload_call(1000))
            return False

        support.wait_until(is_reached, "the limit")
        error = json.loads(self.refuse(5, "jobs", "list", "--json", env=env))
        self.assertEqual(error["reason"], "BUSY")
        self.succeed("jobs", "list", env=self.env_of("bob"))
        for call in calls:
            call.connection.close()
        support.wait_until(lambda: self.libreyolo("jobs", "list", env=env).returncode == 0, "room again")


class DownloadTest(TransferTest):
    def make_result(self):
        folder = self.scratch / "store/workspaces/alice/runs"
        folder.mkdir(parents=True)
        (folder / "profile.json").write_text(PROFILE)
        (folder / "profile_trace.json").write_text("{}" + " " * (self.SIZE - 2))
        return folder

    def test_a_download_goes_on_where_the_connection_broke(self):
        self.serve_behind_proxy()
        folder = self.make_result()
        self.proxy.cut_after["down"] = 6 * MIB
        self.succeed("profile", "fetch", "runs/profile.json", "-o", "here", env=self.env_of("alice"))
        self.assertEqual(self.proxy.cuts, 1)
        self.assertLess(self.proxy.counts["down"], 16 * MIB)
        for name in ("profile.json", "profile_trace.json"):
            self.assertEqual((self.workspace / "here/runs" / name).read_bytes(), (folder / name).read_bytes())

    def test_a_reader_that_reads_nothing_is_let_go(self):
        self.serve_behind_proxy("--stall-timeout", 1)
        self.make_result()
        host, port = self.address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            call = remote.RawCall(connection)
            call.headers("ProfileService/DownloadProfile", self.tokens["alice"])
            call.message(remote.text_field(1, "runs/profile.json") + remote.text_field(3, "profile_trace.json"))
            log = []
            support.wait_until(lambda: log.append(self.daemon_log()) or "its other end does nothing" in "".join(log),
                               "the end")


if __name__ == "__main__":
    unittest.main()
