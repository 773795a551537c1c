"""What the remote tests share: certificates, a file of tokens, workers that only hold their device, and calls of the
API as an attacker makes them: frame by frame, without a client that would check anything."""

import hashlib
import os
import pathlib
import re
import socket
import ssl
import struct
import subprocess

import support


class Authority:
    """A certificate authority in a folder, by the openssl command."""

    def __init__(self, folder, name):
        self.folder, self.name, self.serial = pathlib.Path(folder), name, 1
        self.cert, self.key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                     "-subj", f"/CN={name}", "-keyout", self.key, "-out", self.cert)

    @staticmethod
    def openssl(*words):
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=60)

    def sign(self, name, stem=None, san="IP:127.0.0.1,DNS:localhost"):
        """A key and a certificate for `name`; gives back their paths."""
        stem = stem or name
        key, request, cert, extra = (self.folder / f"{stem}.{end}" for end in ("key", "csr", "pem", "ext"))
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                     "-keyout", key, "-out", request)
        extra.write_text(f"subjectAltName={san}\n")
        self.serial += 1
        self.openssl("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self.key, "-set_serial", self.serial,
                     "-days", "2", "-extfile", extra, "-out", cert)
        key.chmod(0o600)
        return cert, key


def text_field(number, value):
    """A length-delimited field of a proto message."""
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


class RawCall:
    """One gRPC call over a socket that is connected already: plain HTTP/2, hand-made."""

    PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

    def __init__(self, connection):
        self.connection = connection
        connection.settimeout(20)
        connection.sendall(self.PREFACE + self.frame(4, 0, 0, b""))
        # The server's settings count once they are acknowledged, its limit of headers among them.
        self.got = b""
        self.windows = {0: 65535, 1: 65535}
        try:
            self.got = connection.recv(65536)
        except OSError:
            pass
        self.send(self.frame(4, 1, 0, b""))

    @staticmethod
    def frame(kind, flags, stream, payload):
        return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload

    @staticmethod
    def header(name, value):
        # Literal, never indexed, not compressed; sizes by HPACK's prefix of 7 bits.
        out = b"\x10"
        for text in (name, value):
            data = text if isinstance(text, bytes) else text.encode()
            size = len(data)
            out += (bytes([size]) if size < 127 else b"\x7f" + varint(size - 127)) + data
        return out

    def headers(self, method, token=None, extra=()):
        block = b"".join(self.header(*pair) for pair in (
            (":method", "POST"), (":scheme", "http"), (":path", f"/libreyolo.profile.v1.{method}"),
            (":authority", "x"), ("content-type", "application/grpc"), ("te", "trailers"),
            *([("authorization", f"Bearer {token}")] if token else ()), *extra))
        # The end of the headers is marked on the last of their frames.
        pieces = [block[start:start + 16384] for start in range(0, len(block), 16384)]
        for i, piece in enumerate(pieces):
            self.send(self.frame(1 if i == 0 else 9, 4 if i + 1 == len(pieces) else 0, 1, piece))

    def send(self, data):
        try:
            self.connection.sendall(data)
        except OSError:
            pass  # the server has hung up: status() tells

    def message(self, payload, announced=None, end=True, compressed=False):
        size = len(payload) if announced is None else announced
        data = bytes([compressed]) + struct.pack(">I", size) + payload
        for start in range(0, len(data), 16384):
            piece = data[start:start + 16384]
            last = end and start + 16384 >= len(data)
            self.send(self.frame(0, 1 if last else 0, 1, piece))

    def pour(self, size):
        """Sends a message's bytes as fast as the server's windows let it; gives back how many went out."""
        sent, pending = 0, self.got
        self.connection.settimeout(3)
        try:
            self.connection.sendall(self.frame(0, 0, 1, b"\0" + struct.pack(">I", size)))
            for stream in self.windows:
                self.windows[stream] -= 5
            while sent < size:
                room = min(16384, *self.windows.values())
                if room > 0:
                    self.connection.sendall(self.frame(0, 0, 1, b"x" * room))
                    sent += room
                    for stream in self.windows:
                        self.windows[stream] -= room
                    continue
                while len(pending) >= 9 and len(pending) >= 9 + int.from_bytes(pending[:3], "big"):
                    length, kind = int.from_bytes(pending[:3], "big"), pending[3]
                    stream, body = int.from_bytes(pending[5:9], "big"), pending[9:9 + length]
                    pending = pending[9 + length:]
                    if kind == 8:
                        self.windows[stream] += int.from_bytes(body, "big")
                    elif kind == 4 and length:
                        for at in range(0, length, 6):
                            if body[at:at + 2] == b"\0\x04":
                                self.windows[1] += int.from_bytes(body[at + 2:at + 6], "big") - 65535
                    elif kind == 6 and not pending:
                        self.connection.sendall(self.frame(6, 1, 0, body))
                    elif kind in (3, 7) or (kind == 1 and stream == 1):
                        return sent
                if min(self.windows.values()) <= 0:
                    piece = self.connection.recv(65536)
                    if not piece:
                        return sent
                    pending += piece
        except OSError:
            pass
        return sent

    def status(self):
        """The call's grpc-status and what came; None when the server only closed."""
        got = self.got
        while True:
            found = re.search(rb"grpc-status(?:\x01(\d)|\x02(\d\d))", got)
            if found:
                return int(found.group(1) or found.group(2)), got
            try:
                piece = self.connection.recv(65536)
            except OSError:
                return None, got
            if not piece:
                return None, got
            got += piece


class RemoteTest(support.ClientTest):
    # A worker that never says a word: it holds the device until it is killed.
    WORKER = "#!/bin/sh\nexec sleep 600\n"
    JOB = ["profile", "infer", "--device", "cpu", "--weights", "random", "--imgsz", "64", "--detach"]
    WORKERS_MAY = ("--worker-children",)
    USERS = {"alice": "submitter", "bob": "submitter", "vera": "viewer", "root-ops": "admin"}

    def setUp(self):
        super().setUp()
        self.tokens = {name: hashlib.sha256(os.urandom(16)).hexdigest() for name in self.USERS}
        self.token_file = self.scratch / "tokens"
        self.write_tokens()
        self.worker = self.scratch / "worker"
        self.worker.write_text(self.WORKER)
        self.worker.chmod(0o755)
        self.log = self.scratch / "store.log"
        # In the folder that the workers of a daemon's one user write to.
        self.told = self.scratch / "cache/libreyolo/workers/default/told"
        self.daemon = None

    def write_tokens(self, users=None):
        lines = ["# who may come in"]
        lines += [f"{name} {role} {hashlib.sha256(self.tokens[name].encode()).hexdigest()}"
                  for name, role in (users or self.USERS).items()]
        new = self.token_file.with_suffix(".new")
        new.touch(mode=0o600)
        new.write_text("\n".join(lines) + "\n")
        new.replace(self.token_file)

    def make_certificates(self):
        self.authority = Authority(self.scratch, "authority")
        self.cert, self.key = self.authority.sign("server")

    def serve(self, *flags, listen="127.0.0.1:0", store=None):
        # Workers here are shells.
        self.daemon = self.start_daemon("--worker", self.worker, *self.WORKERS_MAY, *map(str, flags), listen=listen,
                                        store=store)
        self.address = re.search(r"address=(\S+)", self.daemon.said).group(1)
        return self.daemon

    def serve_tls(self, *flags, **options):
        self.make_certificates()
        return self.serve("--tls-cert", self.cert, "--tls-key", self.key, *flags, **options)

    def serve_users(self, *flags, **options):
        return self.serve_tls("--tokens", self.token_file, *flags, **options)

    def daemon_log(self):
        """What it said since it was asked last."""
        said = b""
        while True:
            try:
                piece = os.read(self.daemon.stderr.fileno(), 1 << 16)
            except BlockingIOError:
                piece = b""
            if not piece:
                return said.decode(errors="replace")
            said += piece

    def as_user(self, name, **more):
        return {"LIBREYOLO_SERVER": self.address, "LIBREYOLO_CA": str(self.authority.cert),
                "LIBREYOLO_TOKEN": self.tokens.get(name, name), **more}

    def submit(self, name, *words):
        return self.succeed(*self.JOB, *words, env=self.as_user(name)).stdout.strip()

    def connect_tls(self, **settings):
        host, port = self.address.rsplit(":", 1)
        context = ssl.create_default_context(cafile=str(self.authority.cert))
        context.set_alpn_protocols(["h2"])
        for key, value in settings.items():
            setattr(context, key, value)
        return context.wrap_socket(socket.create_connection((host, int(port)), timeout=20), server_hostname="localhost")

    def call(self, method, payload=b"", token=None):
        """The status of a unary call without any client of ours."""
        with self.connect_tls() as connection:
            call = RawCall(connection)
            call.headers(method, token)
            call.message(payload)
            return call.status()
