"""Traces as broken exporters and cut-off disks leave them, through client and daemon: each is repaired with a finding,
or refused with exit 1 and the byte. Never a crash, never a wrong number in silence."""

import gzip
import json
import unittest
import zlib

import support


def event(**fields):
    return {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 10, "dur": 5, **fields}


MARKER = event(cat="user_annotation", name="ProfilerStep#1", ts=0, dur=1000)
LAUNCH = event(cat="cuda_runtime", name="cudaLaunchKernel", ts=20, dur=2, args={"correlation": 7})
KERNEL = event(cat="kernel", name="sgemm", pid=0, tid=7, ts=100, dur=500,
               args={"device": 0, "stream": 7, "correlation": 7})


def trace(*events, **members):
    return json.dumps({**members, "traceEvents": [MARKER, LAUNCH, KERNEL, *events]}).encode()


GOOD = trace(event())


def with_kernel(old, new):
    """The good trace with a piece of its kernel event replaced by text that need not be JSON."""
    text = GOOD.decode()
    at = text.index('"cat": "kernel"')
    return (text[:at] + text[at:].replace(old, new, 1)).encode()


# name: the file; what a figure must then be; the finding's code, or None.
MENDED = {
    "byte-order mark": (b"\xef\xbb\xbf" + GOOD, {"gpu_util": 0.5}, "BYTE_ORDER_MARK"),
    "gzip in two members": (gzip.compress(GOOD[:70]) + gzip.compress(GOOD[70:]), {"gpu_util": 0.5}, None),
    "illegal escape in a kernel's name": (with_kernel("sgemm", r"C:\work\gemm"), {"gpu_util": 0.5}, "NAMES_REPAIRED"),
    "cut \\u escape": (with_kernel("sgemm", r"a\u12"), {"gpu_util": 0.5}, "NAMES_REPAIRED"),
    "raw newline in a name": (with_kernel("sgemm", "sg\nemm"), {"gpu_util": 0.5}, "TEXT_REPAIRED"),
    "invalid UTF-8 in a name": (GOOD.replace(b"sgemm", b"sg\xff\xfeemm"), {"gpu_util": 0.5}, "TEXT_REPAIRED"),
    "inf in an argument": (with_kernel('"stream": 7', '"stream": 7, "bandwidth": inf'), {"gpu_util": 0.5},
                           "BARE_NUMBERS"),
    "NaN start": (with_kernel('"ts": 100', '"ts": NaN'), {"launches_per_step": 1}, "EVENTS_WITHOUT_TIME"),
    "Infinity duration": (with_kernel('"dur": 500', '"dur": -Infinity'), {"launches_per_step": 1},
                          "EVENTS_WITHOUT_TIME"),
    "start beyond 64 bits": (with_kernel('"ts": 100', '"ts": 1e300'), {"launches_per_step": 1}, "EVENTS_WITHOUT_TIME"),
    "negative duration": (trace(event(dur=-3)), {"gpu_util": 0.5}, "NEGATIVE_DURATIONS"),
    "an id beyond 64 bits": (with_kernel('"correlation": 7', '"correlation": 99999999999999999999'), {"gpu_util": 0.5},
                             "KERNELS_WITHOUT_LAUNCH"),
    "events without phase or name": (trace({"cat": "kernel"}, {"ts": 1}, {}), {"gpu_util": 0.5}, None),
    "begin and end events": (trace(event(ph="B"), event(ph="E"), event(ph="B")), {"gpu_util": 0.5}, None),
    "comma before the list's end": (GOOD.replace(b"}]}", b"},]}"), {"gpu_util": 0.5}, "TRAILING_COMMA"),
    "zero-time kernel": (trace(event(cat="kernel", ts=0, dur=0)), {"gpu_util": 0.5}, "KERNELS_WITHOUT_TIME"),
    "nested arguments": (trace(event(args={"a": {"b": [{"c": "},{\"ph\""}] * 50}})), {"gpu_util": 0.5}, None),
    "fraction beyond a double": (with_kernel('"ts": 100, "dur": 500', '"ts": 100.0, "dur": 500.0000000000000000001'),
                                 {"gpu_util": 0.5}, None),
}

# name: the file; a piece of the message.
REFUSED = {
    "empty file": (b"", "empty"),
    "blank file": (b" \n\t ", "empty"),
    "not JSON": (b"hello", "at byte 0"),
    "number": (b"5", "at byte 0"),
    "string": (b'"x"', "at byte 0"),
    "null": (b"null", "at byte 0"),
    "binary": (bytes(range(256)), "at byte 0"),
    "UTF-16": (GOOD.decode().encode("utf-16"), "UTF-16"),
    "UTF-16 without a mark": (GOOD.decode().encode("utf-16-le"), "UTF-16"),
    "empty object": (b"{}", "no list of events"),
    "empty list": (b"[]", "empty"),
    "metadata only": (json.dumps([{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "x"}}]).encode(),
                      "no operation, kernel"),
    "begin and end only": (json.dumps([event(ph="B"), event(ph="E")]).encode(), "no operation, kernel"),
    "text as a time": (trace(event(ts="12")), "no number at byte"),
    "list as a duration": (trace(event(dur=[1])), "no number at byte"),
    "two lists of events": (GOOD[:-1] + b', "traceEvents": []}', "second list"),
    "events are no list": (b'{"traceEvents": {"a": 1}}', "at byte 16"),
    "something behind the end": (GOOD + b"{}", f"at byte {len(GOOD)}"),
    "missing colon": (GOOD.replace(b'"name":', b'"name"', 1), "at byte"),
    "gzip of nothing": (gzip.compress(b""), "empty"),
    "gzip with a broken checksum": (gzip.compress(GOOD)[:-8] + b"\0" * 8, "gzip"),
}


class BadTracesTest(support.ClientTest):
    def write(self, data):
        (self.workspace / "t.json").write_bytes(data)
        return "t.json"

    def refuse_trace(self, data, message):
        error = json.loads(self.refuse(1, "profile", "summary", self.write(data), "--json"))
        self.assertRegex(error["reason"], "^TRACE_")
        self.assertIn(message, error["message"])
        self.assertIn("t.json", error["message"])
        self.assertNotRegex(error["message"], r"[\x00-\x1f\x7f]")

    def test_what_is_certain_is_mended(self):
        for name, (data, figures, code) in MENDED.items():
            with self.subTest(name):
                document = json.loads(self.succeed("profile", "summary", self.write(data), "--json").stdout)
                for key, value in figures.items():
                    self.assertEqual(document[key], value, document)
                codes = [finding["code"] for finding in document["findings"]]
                if code is None:
                    self.assertEqual(codes, [])
                else:
                    self.assertIn(code, codes)
                text = self.succeed("profile", "kernels", "t.json").stdout
                self.assertNotRegex(text, r"[\x00-\x09\x0b-\x1f\x7f]")

    def test_what_is_not_is_refused(self):
        for name, (data, message) in REFUSED.items():
            with self.subTest(name):
                self.refuse_trace(data, message)

    def test_a_file_cut_anywhere_is_refused(self):
        for size in range(1, len(GOOD), 37):
            with self.subTest(size=size):
                self.refuse_trace(GOOD[:size], "at byte")
        packed = gzip.compress(GOOD)
        for size in [1, 2, 5, 11, *range(20, len(packed), 31), len(packed) - 1]:
            with self.subTest(packed=size):
                self.refuse_trace(packed[:size], "at byte" if size < 2 else "")

    def test_a_bomb_is_stopped_by_the_limit(self):
        bomb = zlib.compressobj(9, wbits=31)
        data = bomb.compress(b'[{"name":"') + b"".join(bomb.compress(b"a" * (1 << 20)) for _ in range(160))
        error = json.loads(self.refuse(1, "profile", "summary", self.write(data + bomb.flush()), "--json"))
        self.assertEqual(error["reason"], "TRACE_TOO_LARGE")
        self.assertIn("one event is larger than", error["message"])

    def test_each_limit_is_named_with_the_flag_that_raises_it(self):
        name = self.write(trace(*[event(ts=20 + i) for i in range(5000)]))
        size = (self.workspace / name).stat().st_size
        for flag, limit, message in [("--max-trace-bytes", size - 1, f"more than {size - 1} bytes"),
                                     ("--max-trace-events", 5002, "more than 5002 events"),
                                     ("--max-trace-memory", 50000, "more than 50000 bytes of memory")]:
            # A daemon that the client starts has no command line of its own: it is told by the environment.
            variable = "LIBREYOLO" + flag[1:].upper().replace("-", "_")
            with self.subTest(flag):
                self.libreyolo("daemon", "stop")
                error = json.loads(self.refuse(1, "profile", "summary", name, "--json", env={variable: str(limit)}))
                self.assertEqual(error["reason"], "TRACE_TOO_LARGE")
                self.assertIn(message, error["message"])
                self.assertIn(f"libreyolod {flag}", error["hints"][0])
                socket = f"{self.scratch}/{flag[12:]}.sock"
                listen = {"LIBREYOLO_SERVER": f"unix:{socket}"}
                self.start_daemon(flag, str(limit), listen=f"unix:{socket}", store=self.scratch / flag[12:])
                self.assertIn(message, self.refuse(1, "profile", "summary", name, env=listen))
        self.libreyolo("daemon", "stop")
        self.succeed("profile", "summary", name)

    def test_a_duplicate_key_means_its_last(self):
        data = with_kernel('"dur": 500', '"dur": 900, "dur": 500')
        document = json.loads(self.succeed("profile", "summary", self.write(data), "--json").stdout)
        self.assertEqual(document["gpu_util"], 0.5)


if __name__ == "__main__":
    unittest.main()
