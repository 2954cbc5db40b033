# test/e2e/peer.py: servers of Python for client_python_test.sh.
#
#     peer.py HTTP/1.0|HTTP/1.1     http.server with that version
#     peer.py asyncio               one of our own, which closes connections without saying so, and looks what comes too early
#
# It prints its port.
import asyncio
import base64
import gzip
import http.server
import sys
import threading
import urllib.parse
import zlib

LETTERS = bytes(97 + (i * i + i // 251) % 23 for i in range(1 << 20))


class Handler(http.server.BaseHTTPRequestHandler):
    disable_nagle_algorithm = True  # head and body are two writes
    connections = 0
    lock = threading.Lock()

    def setup(self):
        super().setup()
        with Handler.lock:
            Handler.connections += 1

    def log_message(self, *words):
        pass

    def content(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def reply(self, body, code=200, length=True, **fields):
        self.send_response(code)
        if length:
            self.send_header("Content-Length", str(len(body)))
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        data = LETTERS[: int(query.get("size", 0))]
        sent = self.content()
        if url.path == "/echo":
            self.reply(sent, X_Framing=self.headers.get("Transfer-Encoding", "length"))
        elif url.path == "/body":
            self.reply(data)
        elif url.path == "/until":
            self.close_connection = True
            self.reply(data, length=False, Connection="close")
        elif url.path == "/chunks":
            self.reply(b"", length=False, Transfer_Encoding="chunked")
            for at in range(0, len(data), 7000):
                piece = data[at : at + 7000]
                self.wfile.write(b"%X;name=value\r\n%s\r\n" % (len(piece), piece))
            self.wfile.write(b"000\r\nX-Trailer: yes\r\n\r\n")
        elif url.path == "/code":
            self.send_response(int(query["code"]))
            self.end_headers()
        elif url.path == "/gzip":
            self.reply(gzip.compress(data), Content_Encoding="gzip")
        elif url.path == "/gzips":
            self.reply(gzip.compress(data) + gzip.compress(data[:5]), Content_Encoding="x-gzip")
        elif url.path == "/deflate":
            self.reply(zlib.compress(data), Content_Encoding="deflate")
        elif url.path == "/broken":
            self.reply(gzip.compress(data)[:-4], Content_Encoding="gzip")
        elif url.path == "/interim":
            for code in (102, 103, 199):
                self.send_response_only(code)
                self.send_header("Link", "</style.css>")
                self.end_headers()
            self.reply(b"last")
        elif url.path == "/cookies":
            names = sorted(word for word in self.headers.get("Cookie", "").split("; ") if word)
            self.reply(";".join(names).encode(), Set_Cookie='word="a b"; Path=/; Max-Age=60; SameSite=Lax')
        elif url.path == "/secret":
            wanted = "Basic " + base64.b64encode("änna:sesame".encode()).decode()
            is_open = self.headers.get("Authorization") == wanted
            self.reply(b"open" if is_open else b"", 200 if is_open else 401, WWW_Authenticate='Basic realm="Python"')
        elif url.path == "/moved":
            self.reply(b"elsewhere", int(query["code"]), Location="body?size=3")
        elif url.path == "/short":
            self.close_connection = True
            self.reply(data, length=False, Content_Length=str(len(data) + 1))
        elif url.path == "/connections":
            self.reply(b"%d" % Handler.connections)
        else:
            self.reply(b"not here", 404)

    do_HEAD = do_POST = do_PUT = do_DELETE = do_GET


# -- asyncio --

early = 0


# Closes the connection as often as it is told, without a word.
async def serve(reader, writer):
    global early
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            await asyncio.sleep(0.002)
            early += len(reader._buffer)  # nothing may come behind a request that is not answered
            path = head.split()[1].decode()
            body = str(early) if path == "/early" else "here"
            if path != "/silent":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body.encode()))
                await writer.drain()
            if path in ("/rude", "/silent"):
                break
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=200)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if sys.argv[1] == "asyncio":
    asyncio.run(main())
else:
    Handler.protocol_version = sys.argv[1]
    http.server.ThreadingHTTPServer.request_queue_size = 200
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
