# SPDX-License-Identifier: MIT
"""docs/server.cpp with 64 clients at a time on the loopback: every answer is right, wrong pictures are refused, and memory stays.
GCONV_SERVER_SECONDS: how long; the long tests give a minute."""
import os
import pathlib
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

if "GCONV_SERVER" not in os.environ:
    print("skipped: no compiler for C++ is installed")
    raise SystemExit(77)
SOURCE = pathlib.Path(os.environ["GCONV_SOURCE_FOLDER"])
SECONDS = float(os.environ.get("GCONV_SERVER_SECONDS", "2"))
SANITIZED = "GCONV_SANITIZED" in os.environ
CLIENTS = 64


def receive(connection, size):
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionError("the server has closed the connection")
        parts += part
    return bytes(parts)


def ask(connection, data):
    connection.sendall(struct.pack(">I", len(data)) + data)
    return receive(connection, struct.unpack(">I", receive(connection, 4))[0])


class Server(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory(prefix="gconv-")
        self.addCleanup(made.cleanup)
        self.folder = pathlib.Path(made.name)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.messages = open(self.folder / "messages", "w+")
        self.addCleanup(self.messages.close)
        self.server = subprocess.Popen([os.environ["GCONV_SERVER"], str(self.port), "sharpen"], stderr=self.messages)
        self.addCleanup(self.server.wait)
        self.addCleanup(self.server.kill)

    def connect(self):
        for _ in range(200):
            try:
                return socket.create_connection(("127.0.0.1", self.port), timeout=100)
            except ConnectionRefusedError:
                time.sleep(0.05)
        raise ConnectionError("the server does not answer")

    def resident(self):
        """Kilobytes that the server has in memory."""
        for line in pathlib.Path(f"/proc/{self.server.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])

    def test_64_clients(self):
        pictures = [(SOURCE / "images" / "coffee.jpg").read_bytes(), b"P6\n50 40\n255\n" + bytes(range(240)) * 25, b"P5\n90 70\n255\n" + bytes(range(210)) * 30]
        expected = []
        for data in pictures:
            (self.folder / "in").write_bytes(data)
            subprocess.run([os.environ["GCONV"], "-q", "-i", self.folder / "in", "-f", "sharpen", "-o", self.folder / "out.png"], check=True)
            expected.append((self.folder / "out.png").read_bytes())
        answers, failures, sizes = [0] * CLIENTS, [], []
        end = time.monotonic() + SECONDS

        def work(number):
            try:
                with self.connect() as connection:
                    while time.monotonic() < end or answers[number] < 2:
                        chosen = (number + answers[number]) % len(pictures)
                        answer = ask(connection, pictures[chosen])
                        if not answer and SANITIZED:  # so slow that the server's deadline may pass, which its messages say
                            continue
                        if answer != expected[chosen]:
                            raise AssertionError("an answer is wrong")
                        if ask(connection, pictures[chosen][:len(pictures[chosen]) // 2]):
                            raise AssertionError("half a picture is not refused")
                        answers[number] += 1
                        if answers[number] % 3 == 0:
                            break
            except Exception as failure:
                failures.append(repr(failure))

        while time.monotonic() < end or len(sizes) < 3:
            threads = [threading.Thread(target=work, args=(number,)) for number in range(CLIENTS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            sizes.append(self.resident())
            self.assertEqual(failures, [], (self.folder / "messages").read_text()[-2000:])
        self.assertGreater(min(answers), 1)
        self.assertIsNone(self.server.poll())
        self.assertLess(sizes[-1], 1.3 * sizes[1], f"kilobytes of memory, after rounds of all clients: {sizes}")
        self.assertTrue(SANITIZED or sizes[-1] < 1 << 19, f"kilobytes of memory, for small pictures: {sizes[-1]}")
        with self.connect() as connection:
            connection.sendall(struct.pack(">I", 2 ** 32 - 1))
            self.assertEqual(connection.recv(1), b"")
        self.messages.seek(0)
        texts = set(self.messages.read().splitlines())
        if SANITIZED:
            texts.discard("stopped: the deadline has passed")
        self.assertTrue(texts and all(text.startswith("the picture in memory: ") for text in texts), texts)
        print(f"{sum(answers)} pictures; kilobytes after rounds: {sizes[1]} to {sizes[-1]}")


if __name__ == "__main__":
    unittest.main()
