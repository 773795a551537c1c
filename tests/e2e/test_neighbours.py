"""Calls as clients of the versions before and after this one make them, against the shipped daemon."""

import hashlib
import json
import subprocess
import unittest

import remote
import support

OK, UNIMPLEMENTED = 0, 12
# Fields 9001 (a number) and 9002 (a text), which no message has.
UNKNOWN = remote.varint(9001 << 3) + b"\x07" + remote.text_field(9002, "of a later version")


class NeighbourTest(remote.RemoteTest):
    def setUp(self):
        super().setUp()
        self.serve_users()
        self.token = self.tokens["alice"]

    def test_a_capability_answer_has_both_versions(self):
        status, said = self.call("ServerService/GetCapabilities",
                                 remote.text_field(1, "9.1.0") + remote.text_field(2, "9.1.0+abc") + UNKNOWN, self.token)
        self.assertEqual(status, OK)
        own = subprocess.run([support.BIN / "libreyolod", "--version"], capture_output=True, text=True).stdout.split()
        for text in ("9.1.0+abc", own[1], own[2].strip("()")):
            self.assertIn(text.encode(), said)

    def test_an_older_client_says_nothing_of_itself(self):
        self.assertEqual(self.call("ServerService/GetCapabilities", b"", self.token)[0], OK)

    def test_fields_of_a_later_client_do_no_harm(self):
        # CreateJob{spec{device, weights{random}, infer{}}, request_id}, with more than is known at each place.
        spec = (remote.text_field(3, "cpu") + remote.text_field(4, b"\x20\x01" + UNKNOWN) +
                remote.text_field(5, "t") + remote.text_field(20, UNKNOWN) + UNKNOWN)
        status, said = self.call("JobService/CreateJob", remote.text_field(1, spec) + UNKNOWN, self.token)
        self.assertEqual(status, OK, said)
        jobs = json.loads(self.succeed("jobs", "list", "--json", env=self.as_user("alice")).stdout)["jobs"]
        self.assertEqual(len(jobs), 1)

    def test_an_upload_without_an_offset_is_a_whole_one(self):
        """As clients sent it before uploads could go on."""
        content = b"content of an older client"
        digest = hashlib.sha256(content).hexdigest()
        header = remote.text_field(1, digest) + b"\x10" + remote.varint(len(content))
        with self.connect_tls() as connection:
            call = remote.RawCall(connection)
            call.headers("ProfileService/UploadBlob", self.token)
            call.message(remote.text_field(1, header), end=False)
            call.message(remote.text_field(2, content))
            self.assertEqual(call.status()[0], OK)
        self.assertTrue((self.scratch / f"store/blobs/{digest[:2]}/{digest}").exists())

    def test_a_method_of_a_later_version_is_refused_as_unknown(self):
        self.assertEqual(self.call("JobService/RewindJob", b"", self.token)[0], UNIMPLEMENTED)
        self.succeed("jobs", "list", env=self.as_user("alice"))


if __name__ == "__main__":
    unittest.main()
