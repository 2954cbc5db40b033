"""pending.py PORT COUNT PROCESS SIGNAL...: sends COUNT requests, each on a connection of its own, then the signals to the
process, and reads the replies: after one signal all have to come, each saying that its connection is closed; after two, none."""
import os
import signal
import socket
import sys
import time

port, count, process = (int(argument) for argument in sys.argv[1:4])
signals = sys.argv[4:]

clients = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(count)]
for client in clients:
    client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
time.sleep(0.4)  # they are with the server, and not yet answered
for name in signals:
    os.kill(process, getattr(signal, "SIG" + name))
    time.sleep(0.1)  # two of a kind at once are one

replies = 0
for client in clients:
    received = b""
    try:
        while data := client.recv(65536):
            received += data
    except ConnectionResetError:
        pass
    if received:
        head, _, body = received.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n"), received
        assert b"\r\nConnection: close" in head, received
        assert body == b"hello, one second late\n", received
        replies += 1

wanted = count if len(signals) == 1 else 0
if replies != wanted:
    sys.exit(f"{replies} replies, not {wanted}")
