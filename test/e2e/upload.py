"""upload.py PORT: what Python's http.client sees of tutorial/20-upload."""
import http.client
import socket
import sys

connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=30)
connection.connect()
kept = connection.sock


def check(holds, what):
    if not holds:
        sys.exit(f"upload.py: {what}")


def ask(method, target, **keywords):
    connection.request(method, target, **keywords)
    reply = connection.getresponse()
    body = reply.read()
    check(connection.sock is kept, f"the connection was not kept for {method} {target}")
    return reply, body


def pieces():
    for size in (1, 10, 100000, 3, 70000):
        yield bytes([97 + size % 26]) * size


whole = b"".join(pieces())
reply, body = ask("PUT", "/files/python", body=pieces(), encode_chunked=True)
check(reply.status == 201 and body == b"%d bytes from 127.0.0.1\n" % len(whole), "an upload in chunks")
reply, body = ask("GET", "/files/python")
check(reply.status == 200 and body == whole and int(reply.getheader("Content-Length")) == len(whole), "what was sent")
reply, body = ask("HEAD", "/files/python")
check(reply.status == 200 and body == b"" and int(reply.getheader("Content-Length")) == len(whole), "HEAD")
tag = reply.getheader("ETag")
reply, body = ask("GET", "/files/python", headers={"If-None-Match": tag})
check(reply.status == 304 and body == b"", "a condition")
reply, body = ask("GET", "/files/python", headers={"Range": "bytes=1-3"})
check(reply.status == 206 and body == whole[1:4], "a range")
reply, body = ask("GET", "/files/nothing")
check(reply.status == 404, "what is not there")
# Python reads when it has sent all: the bytes that come back meanwhile have to fit into the buffers of the system.
reply, body = ask("POST", "/upper", body=whole[:50000])
check(body == whole[:50000].upper() and reply.getheader("Transfer-Encoding") == "chunked", "a reply in chunks")
reply, body = ask("PUT", "/files/python", body=b"")
check(reply.status == 201 and body == b"0 bytes from 127.0.0.1\n", "an empty body")
connection.request("POST", "/upper", body=b"last", headers={"Connection": "close"})
check(connection.getresponse().read() == b"LAST" and connection.sock is None, "Connection: close")


def broken(*parts):
    """Sends chunks that break, a part when the one before is answered; returns all that comes back."""
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=30) as stream:
        stream.sendall(b"POST /upper HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        answer = b""
        for part in parts:
            stream.sendall(part)
            while not answer or len(parts) > 1 and not answer.endswith(b"ABC\r\n"):
                answer += stream.recv(65536)
        try:
            while more := stream.recv(65536):
                answer += more
        except ConnectionResetError:
            pass
        return answer


check(broken(b"zz\r\n").startswith(b"HTTP/1.1 400 "), "a body that is broken from the beginning")
check(broken(b"3\r\nabc\r\n", b"zz\r\n").endswith(b"\r\n\r\n3\r\nABC\r\n"), "a body that breaks is not answered to the end")
