"""pending.py PORT COUNT PROCESS SIGNAL...: sends COUNT requests, each on a connection of its own, then the signals to the
process, and reads the replies: after one signal all have to come, each saying that its connection is closed; after two, none.

The replies are due after a second.  When that is over before the signals were sent, or before two of them had cut the replies, and
something is missing, it says nothing about the server: the exit status is 3."""
import os
import signal
import socket
import sys
import time

port, count, process = (int(argument) for argument in sys.argv[1:4])
signals = sys.argv[4:]

def wrong(what):
    print(f"pending.py: {what}, after {elapsed:.1f} s", file=sys.stderr)
    sys.exit(3 if elapsed >= 1 else 1)


clients = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(count)]
began = time.monotonic()
for client in clients:
    client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
time.sleep(0.4)  # they are with the server, and not yet answered
for name in signals:
    os.kill(process, getattr(signal, "SIG" + name))
    if name is signals[-1]:
        elapsed = time.monotonic() - began
    time.sleep(0.1)  # two of a kind at once are one

replies = 0
for client in clients:
    received = b""
    try:
        while data := client.recv(65536):
            received += data
    except ConnectionResetError:
        pass
    if len(signals) > 1:
        elapsed = time.monotonic() - began
    if received:
        head, _, body = received.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 OK\r\n") or body != b"hello, one second late\n":
            sys.exit(f"pending.py: {received}")
        if b"\r\nConnection: close" not in head:
            wrong("a connection was to be kept")
        replies += 1

wanted = count if len(signals) == 1 else 0
if replies != wanted:
    wrong(f"{replies} replies, not {wanted}")
