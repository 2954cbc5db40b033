"""clients.py PORT: what Python's http.client and plain sockets see of tutorial/04-delay-control."""
import http.client
import socket
import sys

port = int(sys.argv[1])
NOW = "/wait?name=python&ms=0"


def check(holds, what):
    if not holds:
        sys.exit(f"clients.py: {what}")


def ask(connection, method, target, body=None, headers={}, **keywords):
    connection.request(method, target, body=body, headers=headers, **keywords)
    reply = connection.getresponse()
    return reply, reply.read()


connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
connection.connect()
kept = connection.sock
for _ in range(100):
    reply, body = ask(connection, "GET", NOW)
    check(reply.status == 200 and body == b"waited\n" and reply.version == 11, "a kept connection")
check(connection.sock is kept, "the connection was not kept")
reply, body = ask(connection, "HEAD", "/nothing")
check(reply.status == 404 and body == b"" and int(reply.getheader("Content-Length")) > 0, "HEAD")
reply, body = ask(connection, "POST", "/cancel?name=nobody", body=b"x" * 500000)
check(reply.status == 200 and body == b"0\n", "a body of half a megabyte")
check(connection.sock is kept, "the connection was not kept for HEAD and POST")
reply, body = ask(connection, "POST", "/cancel?name=nobody", headers={"Connection": "close"})
check(reply.status == 200 and reply.getheader("Connection") == "close" and connection.sock is None, "Connection: close")
reply, body = ask(connection, "POST", "/cancel?name=nobody", body=iter([b"in", b"pieces"]), encode_chunked=True)
check(reply.status == 200 and body == b"0\n", "a chunked body")
connection.close()

with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
    # Later requests are shorter delays: the order of the replies is that of the requests.
    targets = [f"/wait?name=python&ms={40 - i}" for i in range(20)] + ["/nothing"]
    plain.sendall(b"".join(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode() for target in targets))
    plain.shutdown(socket.SHUT_WR)
    received = b""
    while data := plain.recv(65536):
        received += data
    statuses = [line.split()[1] for line in received.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
    check(received.count(b"waited\n") == 20, f"{received.count(b'waited')} of 20 pipelined requests were answered")
    check(received.rindex(b"HTTP/1.1 404") > received.rindex(b"waited\n"), "replies out of order")

with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
    plain.sendall(f"GET {NOW} HTTP/1.0\r\n\r\n".encode())
    received = b""
    while data := plain.recv(65536):
        received += data
    check(received.startswith(b"HTTP/1.1 200 OK\r\n") and received.endswith(b"waited\n"), "HTTP/1.0")
