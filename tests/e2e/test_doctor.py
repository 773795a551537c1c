"""`libreyolo doctor`: what it says of a server that is well, and of what is not."""

import json

import support


class DoctorTest(support.ScriptedTest):
    def doctor(self, code, **env):
        result = self.libreyolo("doctor", "--json", env=env)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(result.stderr, "")
        said = json.loads(result.stdout)
        self.assertEqual(said["healthy"], code == 0)
        for check in said["checks"]:
            # Whatever is not well has a way out.
            self.assertTrue(check["health"] == "ok" or check["hints"], check)
        return {check["check"]: check for check in said["checks"]}

    def test_a_served_daemon(self):
        self.serve()
        checks = self.doctor(0)
        self.assertEqual(checks["server"]["text"], self.env["LIBREYOLO_SERVER"])
        for name in ("versions", "jobs", "worker", "device"):
            self.assertEqual(checks[name]["health"], "ok", checks[name])
        self.assertIn(checks["cuda"]["health"], ("ok", "warning"))
        self.assertNotIn("workspace", checks)
        text = self.succeed("doctor").stdout
        self.assertIn("ok       versions: ", text)

    def test_no_server(self):
        checks = self.doctor(4)
        self.assertEqual(list(checks), ["server"])
        self.assertEqual(checks["server"]["health"], "FAILED")

    def test_no_worker(self):
        self.worker.unlink()
        self.serve()
        self.assertEqual(self.doctor(3)["worker"]["health"], "FAILED")

    def test_the_local_daemon_has_disk_and_workspace(self):
        checks = self.doctor_local()
        self.assertIn(str(self.workspace.resolve()), checks["workspace"]["text"])
        self.assertIn("MiB free", checks["state"]["text"])
        self.succeed("daemon", "stop", env={"LIBREYOLO_SERVER": ""})

    def doctor_local(self):
        # A build without the worker says so: 3.
        result = self.libreyolo("doctor", "--json", env={"LIBREYOLO_SERVER": ""})
        self.assertEqual(result.returncode, 0 if (support.BIN / "libreyolo-worker").exists() else 3, result.stdout)
        return {check["check"]: check for check in json.loads(result.stdout)["checks"]}


if __name__ == "__main__":
    support.main()
