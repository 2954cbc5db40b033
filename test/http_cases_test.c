/* test/http_cases_test.c: malformed and awkward requests against a real server, each sent at once and byte by byte: its answer,
 * and that nothing that was smuggled in behind a refused request is answered.
 *
 * The numbers are the rows of the list of known malformed requests; sources are RFC 9110, 9112 and 6585. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/fixture.h"
#include "test/http_client.h"

#define HOST     "Host: a\r\n"
#define SMUGGLED "GET /smuggled HTTP/1.1\r\n" HOST "\r\n"

struct http_case {
        int row;
        int status, or_status; /* of the answer; 200: served, and the connection is kept */
        const char *request;
        size_t size;
};

#define CASE(row, status, request)                                \
        {                                                         \
                row, status, status, request, sizeof(request) - 1 \
        }
#define EITHER(row, status, other, request)                      \
        {                                                        \
                row, status, other, request, sizeof(request) - 1 \
        }

#define WHOLE SIZE_MAX /* the request and what is behind it, in one packet */

/* A request line that is right, and one with a right Host. */
#define LINE  "GET / HTTP/1.1\r\n"
#define FIRST LINE HOST
#define POST  "POST / HTTP/1.1\r\n" HOST

/* A request with a chunked body; and one that ends as it should behind its only chunk. */
#define CHUNKED      POST "Transfer-Encoding: chunked\r\n\r\n"
#define LAST_CHUNK   "0\r\n\r\n"
#define ABC_IN(size) CHUNKED size "\r\nabc\r\n" LAST_CHUNK

static const struct http_case refused[] = {
        CASE(1, 400, LINE "\r\n"),
        CASE(1, 400, LINE "X: y\r\n\r\n"),
        CASE(2, 400, LINE HOST HOST "\r\n"),
        CASE(2, 400, LINE "Host: a\r\nX: y\r\nhost: b\r\n\r\n"),
        CASE(2, 400, "GET / HTTP/1.0\r\n" HOST HOST "\r\n"),
        CASE(3, 400, LINE "Host: a b/@c\r\n\r\n"),
        CASE(3, 400, LINE "Host: a/b\r\n\r\n"),
        CASE(3, 400, LINE "Host: a@b\r\n\r\n"),
        CASE(3, 400, LINE "Host: a, b\r\n\r\n"),
        CASE(3, 400, LINE "Host: [::1\r\n\r\n"),
        CASE(3, 400, LINE "Host: a:b\r\n\r\n"),
        CASE(4, 400, LINE "Host:\r\n\r\n"),
        CASE(4, 400, LINE "Host: \t \r\n\r\n"),
        CASE(6, 400, " " FIRST "\r\n"),
        CASE(6, 400, "\t" FIRST "\r\n"),
        CASE(7, 400, "GET  / HTTP/1.1\r\n" HOST "\r\n"),
        CASE(7, 400, "GET /  HTTP/1.1\r\n" HOST "\r\n"),
        CASE(7, 400, "GET / HTTP/1.1 \r\n" HOST "\r\n"),
        CASE(8, 400, "GET\t/ HTTP/1.1\r\n" HOST "\r\n"),
        CASE(8, 400, "GET /\tHTTP/1.1\r\n" HOST "\r\n"),
        CASE(9, 400, "GET /\r\n"),
        CASE(9, 400, "GET /\r\n" HOST "\r\n"),
        CASE(10, 400, "GET / HTTP/1.10\r\n" HOST "\r\n"),
        CASE(10, 400, "GET / HTTP/01.1\r\n" HOST "\r\n"),
        CASE(10, 400, "GET / HTTP/1.\r\n" HOST "\r\n"),
        CASE(10, 400, "GET / HTTP/1\r\n" HOST "\r\n"),
        CASE(10, 400, "GET / HTTP/1,1\r\n" HOST "\r\n"),
        CASE(11, 505, "GET / HTTP/2.0\r\n" HOST "\r\n"),
        CASE(11, 505, "GET / HTTP/9.9\r\n" HOST "\r\n"),
        CASE(11, 505, "GET / HTTP/0.9\r\n" HOST "\r\n"),
        CASE(11, 505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        CASE(12, 400, "GET / http/1.1\r\n" HOST "\r\n"),
        CASE(12, 400, "GET / Http/1.1\r\n" HOST "\r\n"),
        CASE(13, 501, "BREW / HTTP/1.1\r\n" HOST "\r\n"),
        CASE(13, 501, "get / HTTP/1.1\r\n" HOST "\r\n"),
        CASE(13, 501, "GETT / HTTP/1.1\r\n" HOST "\r\n"),
        CASE(13, 501, "G / HTTP/1.1\r\n" HOST "\r\n"),
        CASE(14, 400, "G@T / HTTP/1.1\r\n" HOST "\r\n"),
        CASE(14, 400, "GET: / HTTP/1.1\r\n" HOST "\r\n"),
        CASE(14, 400, "G\0T / HTTP/1.1\r\n" HOST "\r\n"),
        CASE(15, 400, "SOURCE /a ICE/1.0\r\n" HOST "\r\n"),
        CASE(16, 400, "GET /a\0b HTTP/1.1\r\n" HOST "\r\n"),
        CASE(16, 400, "GET /a%00b HTTP/1.1\r\n" HOST "\r\n"),
        CASE(17, 400, "GET /\xc3\xa9 HTTP/1.1\r\n" HOST "\r\n"),
        CASE(17, 400, "GET /\x7f HTTP/1.1\r\n" HOST "\r\n"),
        CASE(18, 400, "GET /a#f HTTP/1.1\r\n" HOST "\r\n"),
        CASE(19, 400, "GET * HTTP/1.1\r\n" HOST "\r\n"),
        CASE(19, 400, "OPTIONS ** HTTP/1.1\r\n" HOST "\r\n"),
        CASE(19, 400, "GET a/b HTTP/1.1\r\n" HOST "\r\n"),
        CASE(20, 400, "CONNECT /x HTTP/1.1\r\n" HOST "\r\n"),
        CASE(20, 501, "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n"),
        CASE(22, 400, "GET / HTTP/1.1\nHost: a\n\n"),
        CASE(22, 400, LINE "Host: a\n\r\n"),
        CASE(22, 400, FIRST "\n"),
        CASE(22, 400, FIRST "X: y\nContent-Length: 5\r\n\r\n"),
        CASE(22, 400, "\n" FIRST "\r\n"),
        CASE(22, 400, "\r\n\r\n" FIRST "\r\n"),
        CASE(23, 400, FIRST "X: a\rb\r\n\r\n"),
        CASE(23, 400, FIRST "X: a\r\rb\r\n\r\n"),
        CASE(23, 400, FIRST "X: a\r\n\rb"),
        CASE(24, 400, FIRST "X: a\001b\r\n\r\n"),
        CASE(24, 400, FIRST "X: a\0b\r\n\r\n"),
        CASE(24, 400, FIRST "X: a\177b\r\n\r\n"),
        CASE(24, 400, FIRST "X: a\vb\r\n\r\n"),
        CASE(25, 400, FIRST "X : y\r\n\r\n"),
        CASE(25, 400, FIRST "X\t: y\r\n\r\n"),
        CASE(26, 400, POST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
        CASE(27, 400, POST "Content-Length : 3\r\n\r\nabc"),
        CASE(28, 400, LINE " " HOST "\r\n"),
        CASE(28, 400, LINE "\t" HOST "\r\n"),
        CASE(29, 400, FIRST "X Y: z\r\n\r\n"),
        CASE(29, 400, FIRST "X\xc3: z\r\n\r\n"),
        CASE(29, 400, FIRST "X(: z\r\n\r\n"),
        CASE(30, 400, FIRST ": z\r\n\r\n"),
        CASE(30, 400, FIRST "no colon\r\n\r\n"),
        CASE(30, 400, FIRST "nocolon\r\n\r\n"),
        CASE(31, 400, FIRST "X: a\r\n b\r\n\r\n"),
        CASE(31, 400, FIRST "X: a\r\n\tb\r\n\r\n"),
        CASE(31, 400, FIRST "X:\r\n \r\n\r\n"),
        CASE(32, 400, POST "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"),
        CASE(32, 400, POST "Content-Length:\r\n 3\r\n\r\nabc"),
        CASE(33, 400, POST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        CASE(33, 400, POST "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n"),
        CASE(33, 400, POST "Content-Length: 5\r\nTransfer-Encoding: foo\r\n\r\n0\r\n\r\n"),
        CASE(34, 400, POST "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"),
        CASE(35, 400, POST "Content-Length: 3, 3\r\n\r\nabc"),
        CASE(35, 400, POST "Content-Length: 3,\r\n\r\nabc"),
        CASE(36, 400, POST "Content-Length: +3\r\n\r\nabc"),
        CASE(36, 400, POST "Content-Length: -1\r\n\r\nabc"),
        CASE(36, 400, POST "Content-Length: 0x3\r\n\r\nabc"),
        CASE(36, 400, POST "Content-Length:\r\n\r\nabc"),
        CASE(36, 400, POST "Content-Length: \r\n\r\nabc"),
        CASE(36, 400, POST "Content-Length: 3 3\r\n\r\nabc"),
        CASE(36, 400, POST "Content-Length: 3;\r\n\r\nabc"),
        CASE(36, 400, POST "Content-Length: three\r\n\r\nabc"),
        CASE(37, 400, POST "Content-Length: 18446744073709551619\r\n\r\nabc"),
        EITHER(37, 413, 400, POST "Content-Length: 18446744073709551615\r\n\r\nabc"),
        EITHER(37, 413, 400, POST "Content-Length: 9223372036854775807\r\n\r\nabc"),
        CASE(37, 400, POST "Content-Length: 3000000000000000000000000000000000000003\r\n\r\nabc"),
        EITHER(38, 400, 501, POST "Transfer-Encoding: foo\r\n\r\n0\r\n\r\n"),
        EITHER(38, 400, 501, POST "Transfer-Encoding: identity\r\n\r\nabc"),
        EITHER(38, 400, 501, POST "Transfer-Encoding:\r\n\r\n0\r\n\r\n"),
        CASE(39, 501, POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        EITHER(40, 400, 501, POST "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"),
        EITHER(40, 400, 501, POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
        EITHER(40, 400, 501, POST "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n"),
        EITHER(40, 400, 501, POST "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
        EITHER(40, 400, 501, POST "Transfer-Encoding: chunked; q=1\r\n\r\n0\r\n\r\n"),
        CASE(41, 400, POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        CASE(41, 400, POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n"),
        CASE(41, 400, POST "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        CASE(42, 400, "POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        CASE(42, 400, "POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        CASE(43, 400, CHUNKED "3;a=b\nabc\r\n" LAST_CHUNK),
        CASE(43, 400, CHUNKED "3;a\n;b\r\nabc\r\n" LAST_CHUNK),
        CASE(43, 400, CHUNKED "3\nabc\n0\n\n"),
        CASE(43, 400, CHUNKED "3\r\nabc\n" LAST_CHUNK),
        CASE(43, 400, CHUNKED "3\r\nabc\r\n0\n\r\n"),
        CASE(43, 400, CHUNKED "3\r\nabc\r\n0\r\n\n"),
        CASE(43, 400, CHUNKED "3\r\nabc\r\n0\r\nX: y\n\r\n"),
        CASE(44, 400, ABC_IN("3;a\rb")),
        CASE(44, 400, ABC_IN("3;a=\"b\rc\"")),
        CASE(44, 400, ABC_IN("3\r")),
        CASE(44, 400, CHUNKED "3\rabc\r\n" LAST_CHUNK),
        CASE(45, 400, ABC_IN("3 ")),
        CASE(45, 400, ABC_IN("3\t")),
        CASE(45, 400, ABC_IN("3 3")),
        CASE(45, 400, ABC_IN("3\0")),
        CASE(45, 400, ABC_IN("3:")),
        CASE(45, 400, ABC_IN("3,a=b")),
        CASE(45, 400, ABC_IN("3;")),
        CASE(45, 400, CHUNKED "3\r\nabc\r\n0 \r\n\r\n"),
        CASE(47, 400, ABC_IN("-1")),
        CASE(47, 400, ABC_IN("+3")),
        CASE(47, 400, ABC_IN("0x3")),
        CASE(47, 400, ABC_IN(" 3")),
        CASE(47, 400, ABC_IN("")),
        CASE(47, 400, ABC_IN("3xyz")),
        CASE(47, 400, ABC_IN("g")),
        CASE(47, 400, CHUNKED ";a=b\r\nabc\r\n" LAST_CHUNK),
        CASE(48, 400, ABC_IN("FFFFFFFFFFFFFFFF")),
        CASE(48, 400, ABC_IN("ffffffffffffffff")),
        CASE(48, 400, ABC_IN("8000000000000000")),
        CASE(48, 400, ABC_IN("10000000000000003")),
        CASE(49, 400, CHUNKED "0\r\nContent-Length: 5\r\n\r\n"),
        CASE(49, 400, CHUNKED "0\r\nX: y\r\ntransfer-encoding: chunked\r\n\r\n"),
        /* More than was said, or less; and trailers that would be no fields either. */
        CASE(47, 400, CHUNKED "3\r\nabcd\r\n" LAST_CHUNK),
        CASE(47, 400, CHUNKED "3\r\nabc" LAST_CHUNK),
        CASE(25, 400, CHUNKED "0\r\nX : y\r\n\r\n"),
        CASE(28, 400, CHUNKED "0\r\n X: y\r\n\r\n"),
        CASE(31, 400, CHUNKED "0\r\nX: y\r\n z\r\n\r\n"),
        CASE(30, 400, CHUNKED "0\r\nno colon\r\n\r\n"),
        CASE(24, 400, CHUNKED "0\r\nX: a\001b\r\n\r\n"),
        CASE(23, 400, CHUNKED "0\r\nX: a\rb\r\n\r\n"),
        CASE(53, 417, POST "Content-Length: 3\r\nExpect: 200-ok\r\n\r\nabc"),
        CASE(53, 417, FIRST "Expect: 100-continue, x\r\n\r\n"),
        CASE(58, 400, POST "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"),
        CASE(58, 400, POST "Content-Length: 3\r\nX: y\r\ncontent-length: 3\r\n\r\nabc"),
};

#define FIELDS_10 "1: a\r\n2: b\r\n3: c\r\n4: d\r\n5: e\r\n6: f\r\n7: g\r\n8: h\r\n9: i\r\n0: j\r\n"
#define FIELDS_50 FIELDS_10 FIELDS_10 FIELDS_10 FIELDS_10 FIELDS_10

static const struct http_case served[] = {
        CASE(0, 200, FIRST "\r\n"),
        CASE(0, 200, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
        CASE(5, 200, "GET http://b/ HTTP/1.1\r\n" HOST "\r\n"),
        CASE(5, 200, "GET http://b:80/?q HTTP/1.1\r\n" HOST "\r\n"),
        CASE(5, 200, "GET HTTPS://[::1]:443/ HTTP/1.1\r\nHost:\r\n\r\n"),
        CASE(51, 200, FIRST "Connection: upgrade\r\nUpgrade: unheard-of\r\n\r\n"),
        CASE(51, 200,
             FIRST "Connection: upgrade, http2-settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n"),
        CASE(51, 200, POST "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 3\r\n\r\nabc"),
        /* Valid requests must not be refused. */
        CASE(0, 200, "\r\n" FIRST "\r\n"),
        CASE(0, 200, POST "Content-Length: 003\r\n\r\nabc"),
        CASE(0, 200, POST "Content-Length:\t3 \t\r\n\r\nabc"),
        CASE(0, 200, "GET / HTTP/1.2\r\n" HOST "\r\n"),
        CASE(0, 200, "GET / HTTP/1.9\r\n" HOST "\r\n"),
        CASE(0, 200, FIRST "X: caf\xc3\xa9 \x80\xff\r\n\r\n"),
        CASE(0, 200, FIRST "X:\r\nY: \t \r\n\r\n"),
        CASE(0, 200, "OPTIONS * HTTP/1.1\r\n" HOST "\r\n"),
        CASE(0, 200, "OPTIONS http://a HTTP/1.1\r\n" HOST "\r\n"),
        CASE(0, 200, "GET / HTTP/1.1\r\nhOsT: a\r\nCONTENT-LENGTH: 0\r\n\r\n"),
        CASE(0, 200, "GET / HTTP/1.1\r\nHost:a:8080\r\n\r\n"),
        CASE(0, 200, "GET / HTTP/1.1\r\nHost: \t a \t \r\n\r\n"),
        CASE(0, 200, "GET / HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n\r\n"),
        CASE(0, 200, "GET / HTTP/1.1\r\nHost: a.\r\n\r\n"),
        CASE(0, 200, FIRST FIELDS_50 FIELDS_50 FIELDS_50 FIELDS_50 "\r\n"),
        CASE(0, 200, FIRST "Content-Length: 3\r\n\r\nabc"),
        CASE(0, 200, "DELETE / HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc"),
        CASE(0, 200, "M-SEARCH /?a=/?b=%20'()!$&*+,;:@~ HTTP/1.1\r\n" HOST "\r\n"),
        CASE(0, 200, "GET //a//b/%2F HTTP/1.1\r\n" HOST "\r\n"),
        CASE(0, 200, "GET /?a?b/c HTTP/1.1\r\n" HOST "\r\n"),
        CASE(0, 200, FIRST "Transfer-Encodin: chunked\r\nTransfer-Encodings: chunked\r\nContent-Lengths: 9\r\n\r\n"),
        CASE(0, 200, POST "Transfer-Encoding: chunked\r\nTransfer-Encodings: x\r\n\r\n" LAST_CHUNK),
        CASE(0, 200, POST "Transfer-Encodings: x\r\nContent-Length:\t3\r\n\r\nabc"),
        CASE(0, 200, FIRST "X!#$%&'*+-.^_`|~09: tokens\r\n\r\n"),
        CASE(0, 200, FIRST "X: \"quoted, \\\" (comment)\r\n\r\n"),
        CASE(0, 200, CHUNKED LAST_CHUNK),
        CASE(0, 200, ABC_IN("3")),
        CASE(0, 200, CHUNKED "3;a=b ; c=\"d;\\\"e\";f\r\nabc\r\n0;last\r\n\r\n"),
        CASE(0, 200, CHUNKED "3\r\nabc\r\n0\r\nX: y\r\nEmpty:\r\n\r\n"),
        CASE(49, 200, CHUNKED "0\r\nHost: b\r\nContent-Lengths: 5\r\nAge: 1\r\n\r\n"), /* dropped */
        CASE(0, 200, FIRST "Transfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n" LAST_CHUNK),
        CASE(0, 200, POST "transfer-encoding:\tchunked \r\n\r\na\r\n0123456789\r\n" LAST_CHUNK),
};

/* Answered, and then the connection is closed; nothing behind them is looked at. */
static const struct http_case last[] = {
        CASE(52, 200, FIRST "Connection: close\r\n\r\n"),
        CASE(52, 200, FIRST "Connection: close, x\r\n\r\n"),
        CASE(52, 200, FIRST "Connection: x,\t, CLOSE \r\n\r\n"),
        CASE(52, 200, FIRST "Connection: keep-alive\r\nConnection: close\r\n\r\n"),
        CASE(52, 200, POST "Connection: close\r\nContent-Length: 3\r\n\r\nabc"),
        CASE(52, 200, POST "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n" LAST_CHUNK),
        CASE(52, 200, "GET / HTTP/1.0\r\n\r\n"),
        CASE(52, 200, "GET / HTTP/1.0\r\nProxy-Connection: keep-alive\r\n\r\n"),
        CASE(52, 200, "GET / HTTP/1.0\r\nConnection: close, keep-alive\r\n\r\n"),
};

/* -- the server -- */

static atomic_int handled, smuggled;

static void
handle(weir_task *exchange, void *context)
{
        (void)context;
        atomic_fetch_add(&handled, 1);
        if (strcmp(weir_http_target(exchange), "/smuggled") == 0) {
                atomic_fetch_add(&smuggled, 1);
        }
        weir_http_reply_text(exchange, 200, weir_http_target(exchange));
}

static weir_http_server *server;
static int port;

static void
begin_with(const struct weir_http_server_config *config, weir_task_fn *handler)
{
        server = http_server(config, handler, NULL);
        port = weir_http_server_port(server);
        atomic_store(&handled, 0);
        atomic_store(&smuggled, 0);
}

static void
begin(void)
{
        begin_with(NULL, handle);
}

static void
end(void)
{
        CU_ASSERT_EQUAL(weir_http_server_stop(server, WEIR_SEC(10)), 0);
        weir_http_server_free(server);
}

/* -- one case -- */

static bool
expect(bool holds, const struct http_case *one, const char *what, int seen)
{
        CU_ASSERT_TRUE(holds);
        if (!holds) {
                printf("\n    row %d: %s (%d)\n%.*s\n", one->row, what, seen, (int)one->size, one->request);
        }
        return holds;
}

static bool
send_case(struct http_client *client, const struct http_case *one, size_t piece)
{
        char all[8192];

        if (piece != WHOLE) {
                return http_send_pieces(client, one->request, one->size, piece) &&
                       http_send_pieces(client, SMUGGLED, sizeof SMUGGLED - 1, piece);
        }
        if (one->size + sizeof SMUGGLED > sizeof all) {
                return http_send(client, one->request, one->size) && http_send_text(client, SMUGGLED);
        }
        memcpy(all, one->request, one->size);
        memcpy(all + one->size, SMUGGLED, sizeof SMUGGLED);
        return http_send(client, all, one->size + sizeof SMUGGLED - 1);
}

/* For so long the server reads on after it has refused something. */
#define LINGERS WEIR_SEC(5)

static void
is_refused(const struct http_case *one, size_t piece)
{
        struct http_client client;
        struct http_reply reply = {0};
        int64_t began = weir_test_now();

        http_open(&client, port);
        bool taken = send_case(&client, one, piece), was_quick = weir_test_now() - began < LINGERS;
        expect(taken || !was_quick, one, "not even taken", 0);
        if (expect(http_receive(&client, &reply, false), one, "not answered", 0)) {
                expect(reply.status == one->status || reply.status == one->or_status, one, "answered otherwise", reply.status);
                expect(http_field_count(&reply, "Connection") == 1, one, "Connection is missing", 0);
        }
        expect(http_is_over(&client), one, "not closed", 0);
        expect(!client.reset || !was_quick, one, "reset: the answer may be lost", 0);
        expect(atomic_load(&handled) == 0, one, "handed to the handler", atomic_load(&handled));
        http_reply_done(&reply);
        http_close(&client);
}

static void
is_served(const struct http_case *one, size_t piece)
{
        struct http_client client;
        struct http_reply reply = {0};

        http_open(&client, port);
        expect(send_case(&client, one, piece), one, "not taken", 0);
        if (expect(http_receive(&client, &reply, false), one, "not answered", 0)) {
                expect(reply.status == 200, one, "refused", reply.status);
        }
        if (expect(http_receive(&client, &reply, false), one, "the next request is not answered", 0)) {
                expect(strcmp(reply.body, "/smuggled") == 0, one, "the next request is taken for another", reply.status);
        }
        http_reply_done(&reply);
        http_close(&client);
}

/* Bytes behind the last message may reach a connection that is closed already. */
static void
is_the_last(const struct http_case *one, size_t piece)
{
        struct http_client client;
        struct http_reply reply = {0};

        http_open(&client, port);
        (void)send_case(&client, one, piece);
        if (expect(http_receive(&client, &reply, false), one, "not answered", 0)) {
                expect(reply.status == 200, one, "refused", reply.status);
                expect(strcmp(http_field(&reply, "Connection") ? reply.value : "", "close") == 0, one, "the end is not said", 0);
        }
        expect(http_is_over(&client), one, "not closed", 0);
        expect(atomic_load(&smuggled) == 0, one, "what is behind is served", 0);
        http_reply_done(&reply);
        http_close(&client);
}

static void
each(const struct http_case *cases, size_t count, void (*check)(const struct http_case *one, size_t piece), size_t piece)
{
        begin();
        for (size_t i = 0; i < count; i++) {
                check(&cases[i], piece);
        }
        end();
}

#define EACH(cases, check, piece) each((cases), sizeof(cases) / sizeof *(cases), (check), (piece))

static void
malformed_requests_are_refused(void)
{
        EACH(refused, is_refused, WHOLE);
}

static void
malformed_requests_are_refused_byte_by_byte(void)
{
        EACH(refused, is_refused, 1);
}

static void
awkward_requests_are_served(void)
{
        EACH(served, is_served, WHOLE);
}

static void
awkward_requests_are_served_byte_by_byte(void)
{
        EACH(served, is_served, 1);
}

static void
last_requests_are_the_last(void)
{
        EACH(last, is_the_last, WHOLE);
}

static void
last_requests_are_the_last_byte_by_byte(void)
{
        EACH(last, is_the_last, 1);
}

/* -- rows that no table holds -- */

/* `count` times the filler between two texts. */
static void
large_is_refused(int row, int status, const char *before, const char *filler, size_t count, const char *behind)
{
        size_t piece = strlen(filler);
        struct http_case one = {.row = row, .status = status, .or_status = status};
        char *request = malloc(strlen(before) + count * piece + strlen(behind) + 1);

        one.size = (size_t)sprintf(request, "%s", before);
        for (size_t i = 0; i < count; i++, one.size += piece) {
                memcpy(request + one.size, filler, piece);
        }
        one.size += (size_t)sprintf(request + one.size, "%s", behind);
        one.request = request;
        is_refused(&one, WHOLE);
        is_refused(&one, 100);
        free(request);
}

static void
row_21_a_target_of_100_kilobytes_is_414(void)
{
        begin();
        large_is_refused(21, 414, "GET /", "x", 100000, " HTTP/1.1\r\n" HOST "\r\n");
        large_is_refused(21, 414, "", "X", 100000, " / HTTP/1.1\r\n" HOST "\r\n");
        end();
}

static void
row_46_64_kilobytes_of_chunk_extensions_are_413(void)
{
        begin();
        large_is_refused(46, 413, CHUNKED "3;", "x", 65536, "\r\nabc\r\n" LAST_CHUNK);
        large_is_refused(46, 413, CHUNKED "3", ";x", 32768, "\r\nabc\r\n" LAST_CHUNK);
        large_is_refused(46, 413, CHUNKED, "1;0123456\r\na\r\n", 8192, LAST_CHUNK);
        end();
}

static void
row_49_many_trailers_are_431(void)
{
        begin();
        large_is_refused(49, 431, CHUNKED "0\r\nX: ", "x", 65536, "\r\n\r\n");
        large_is_refused(49, 431, CHUNKED "0\r\nX", "x", 65536, ": y\r\n\r\n");
        large_is_refused(49, 431, CHUNKED "0\r\n", "X: y\r\n", 1000, "\r\n");
        end();
}

static void
row_50_a_large_head_is_431(void)
{
        begin();
        large_is_refused(50, 431, FIRST "X: ", "x", 100000, "\r\n\r\n");
        large_is_refused(50, 431, FIRST "X", "x", 100000, ": y\r\n\r\n");
        large_is_refused(50, 431, FIRST, "X: y\r\n", 1000, "\r\n");
        end();
}

static void
row_51_an_upgrade_is_ignored_and_what_is_behind_it_served(void)
{
        struct http_client client;
        struct http_reply reply = {0};

        begin();
        http_open(&client, port);
        CU_ASSERT_TRUE(http_send_text(&client, "GET /1 HTTP/1.1\r\n" HOST "Connection: upgrade\r\nUpgrade: x\r\n\r\n"
                                               "GET /2 HTTP/1.1\r\n" HOST "\r\n"));
        CU_ASSERT_TRUE(http_receive(&client, &reply, false));
        HTTP_ASSERT_TEXT(reply.body, "/1");
        CU_ASSERT_PTR_NULL(http_field(&reply, "Upgrade"));
        CU_ASSERT_TRUE(http_receive(&client, &reply, false));
        HTTP_ASSERT_TEXT(reply.body, "/2");
        http_reply_done(&reply);
        http_close(&client);
        end();
}

struct chunked_case {
        const char *chunks, *body;
};

static const struct chunked_case chunked[] = {
        {LAST_CHUNK, ""},
        {"3\r\nabc\r\n" LAST_CHUNK, "abc"},
        {"3;a=\"\\\"\"\r\nabc\r\n00000\r\nX: y\r\n\r\n", "abc"},
        {"1\r\na\r\n1;x=y\r\nb\r\n1\r\nc\r\n" LAST_CHUNK, "abc"},
        {"a\r\n0123456789\r\n" LAST_CHUNK, "0123456789"},
        {"A\r\n0123456789\r\n" LAST_CHUNK, "0123456789"},
        {"0000000000000000000000000000a\r\n0123456789\r\n" LAST_CHUNK, "0123456789"},
        {"7\r\n\r\n0\r\n\r\n\r\n" LAST_CHUNK, "\r\n0\r\n\r\n"}, /* what looks like the end, and is not */
        {"10\r\n0123456789abcdef\r\n1F\r\n0123456789abcdef0123456789abcde\r\n" LAST_CHUNK,
         "0123456789abcdef0123456789abcdef0123456789abcde"},
};

static void
handle_echo(weir_task *exchange, void *context)
{
        size_t size;
        const void *body = weir_http_request_body(exchange, &size);

        (void)context;
        CU_ASSERT_EQUAL(((const char *)body)[size], '\0');
        weir_http_reply_append(exchange, body, size);
}

/* Each twice, all of them one behind another in packets of that many bytes. */
static void
echo_all_chunked(size_t piece)
{
        enum { COUNT = sizeof chunked / sizeof *chunked };
        struct http_client client;
        struct http_reply reply = {0};
        char all[8192];
        int size = 0;

        begin_with(NULL, handle_echo);
        http_open(&client, port);
        for (int i = 0; i < 2 * COUNT; i++) {
                size += snprintf(all + size, sizeof all - (size_t)size, CHUNKED "%s", chunked[i / 2].chunks);
        }
        CU_ASSERT_TRUE(http_send_pieces(&client, all, (size_t)size, piece));
        for (int i = 0; i < 2 * COUNT; i++) {
                CU_ASSERT_TRUE(http_receive(&client, &reply, false));
                HTTP_ASSERT_TEXT(reply.body, chunked[i / 2].body);
        }
        http_reply_done(&reply);
        http_close(&client);
        end();
}

static void
chunked_bodies_are_what_was_sent_in_them(void)
{
        echo_all_chunked(8192);
        echo_all_chunked(1);
        echo_all_chunked(7);
        echo_all_chunked(100);
}

static void
row_54_100_comes_before_a_chunked_body_too(void)
{
        static const char head[] = POST "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n";
        struct http_client client;
        struct http_reply reply = {0};

        begin_with(NULL, handle_echo);
        http_open(&client, port);
        for (int i = 0; i < 2; i++) {
                CU_ASSERT_TRUE(http_send_text(&client, head));
                CU_ASSERT_TRUE(http_receive(&client, &reply, false));
                CU_ASSERT_EQUAL(reply.status, 100);
                CU_ASSERT_TRUE(http_send_pieces(&client, "3\r\nabc\r\n" LAST_CHUNK, 13, i ? 13 : 1));
                CU_ASSERT_TRUE(http_receive(&client, &reply, false));
                CU_ASSERT_EQUAL(reply.status, 200);
                HTTP_ASSERT_TEXT(reply.body, "abc");
        }
        http_reply_done(&reply);
        http_close(&client);
        end();
}

static void
row_54_100_comes_before_the_answer_unless_the_body_is_there(void)
{
        static const char head[] = POST "Content-Length: 3\r\nExpect: 100-continue\r\n\r\n";
        struct http_client client;
        struct http_reply reply = {0};

        begin();
        http_open(&client, port);
        CU_ASSERT_TRUE(http_send_pieces(&client, head, sizeof head - 1, 1));
        CU_ASSERT_TRUE(http_receive(&client, &reply, false));
        CU_ASSERT_EQUAL(reply.status, 100);
        CU_ASSERT_PTR_NULL(http_field(&reply, "Content-Length"));
        CU_ASSERT_EQUAL(atomic_load(&handled), 0);
        CU_ASSERT_TRUE(http_send_pieces(&client, "abc", 3, 1));
        CU_ASSERT_TRUE(http_receive(&client, &reply, false));
        CU_ASSERT_EQUAL(reply.status, 200);
        CU_ASSERT_TRUE(http_send_text(&client, POST "Content-Length: 3\r\nExpect: 100-continue\r\n\r\nabc"));
        CU_ASSERT_TRUE(http_receive(&client, &reply, false));
        CU_ASSERT_EQUAL(reply.status, 200);
        http_reply_done(&reply);
        http_close(&client);
        end();
}

static void
row_55_head_differs_from_get_by_the_body_alone(void)
{
        struct http_client client;
        struct http_reply get = {0}, head = {0};

        begin();
        http_open(&client, port);
        do { /* until both have been answered within one second of Date */
                CU_ASSERT_TRUE(http_ask(&client, "GET /x HTTP/1.1\r\n" HOST "\r\n", &get));
                CU_ASSERT_TRUE(http_ask(&client, "HEAD /x HTTP/1.1\r\n" HOST "\r\n", &head));
        } while (strcmp(http_field(&get, "Date") ? get.value : "", http_field(&head, "Date") ? head.value : "") != 0);
        CU_ASSERT_STRING_EQUAL(get.head, head.head);
        CU_ASSERT_EQUAL(get.size, 2);
        CU_ASSERT_TRUE(http_ask(&client, "GET /y HTTP/1.1\r\n" HOST "\r\n", &get));
        HTTP_ASSERT_TEXT(get.body, "/y");
        http_reply_done(&get);
        http_reply_done(&head);
        http_close(&client);
        end();
}

/* It makes no difference whether the gate refuses the request, or the check of the whole head. */
static void
row_55_nor_has_one_that_is_refused_a_body(void)
{
        static const char *const requests[] = {"HEAD /x HTTP/1.1\r\n" HOST "X : y\r\n\r\n",
                                               "HEAD /x HTTP/1.1\r\n" HOST HOST "\r\n", "HEAD /x HTTP/1.1\r\n\r\n",
                                               "HEAD /x y HTTP/1.1\r\n"};
        struct http_client client;
        struct http_reply reply = {0};

        begin();
        for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
                http_open(&client, port);
                CU_ASSERT_TRUE(http_ask(&client, requests[i], &reply));
                CU_ASSERT_EQUAL(reply.status, 400);
                CU_ASSERT_TRUE(http_is_over(&client)); /* and nothing before */
                http_close(&client);
        }
        http_reply_done(&reply);
        end();
}

static void
handle_status(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_text(exchange, atoi(weir_http_path(exchange) + 1), "must not go out");
}

static void
row_56_204_and_304_have_no_body(void)
{
        static const char *const requests[] = {"GET /204 HTTP/1.1\r\n" HOST "\r\n", "GET /304 HTTP/1.1\r\n" HOST "\r\n"};
        struct http_client client;
        struct http_reply reply = {0};

        begin_with(NULL, handle_status);
        http_open(&client, port);
        for (int i = 0; i < 2; i++) {
                CU_ASSERT_TRUE(http_ask(&client, requests[i], &reply));
                CU_ASSERT_EQUAL(reply.status, i == 0 ? 204 : 304);
                CU_ASSERT(i == 1 || http_field_count(&reply, "Content-Length") == 0);
                CU_ASSERT_TRUE(http_ask(&client, "GET /200 HTTP/1.1\r\n" HOST "\r\n", &reply)); /* which begins right there */
                CU_ASSERT_EQUAL(reply.status, 200);
        }
        http_reply_done(&reply);
        http_close(&client);
        end();
}

static void
row_57_one_byte_now_and_then_is_408_at_the_limit(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        static const char head[] = FIRST "X: 0123456789";
        struct http_client client;
        struct http_reply reply = {0};
        weir_nsec began;
        size_t sent = 0;

        weir_test_end();
        weir_test_begin_virtual();
        config.head_timeout = WEIR_SEC(20);
        begin_with(&config, handle);
        http_open(&client, port);
        CU_ASSERT_TRUE(http_ask(&client, FIRST "\r\n", &reply)); /* it has been accepted */
        began = weir_now();
        do {
                const char *byte = sent < sizeof head - 1 ? head + sent : "9"; /* for ever */

                CU_ASSERT_TRUE(http_send(&client, byte, 1));
                weir_test_pass(WEIR_MSEC(500));
                sent++;
        } while (!http_has_news(&client, 0) && sent < 100);
        CU_ASSERT_EQUAL(weir_now() - began, WEIR_SEC(20));
        CU_ASSERT_TRUE(http_receive(&client, &reply, false));
        CU_ASSERT_EQUAL(reply.status, 408);
        CU_ASSERT_TRUE(http_is_over(&client));
        http_reply_done(&reply);
        http_close(&client);
        end();
        weir_test_end();
        weir_test_begin_real(0);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(malformed_requests_are_refused),
                WEIR_TEST(malformed_requests_are_refused_byte_by_byte),
                WEIR_TEST(awkward_requests_are_served),
                WEIR_TEST(awkward_requests_are_served_byte_by_byte),
                WEIR_TEST(last_requests_are_the_last),
                WEIR_TEST(last_requests_are_the_last_byte_by_byte),
                WEIR_TEST(row_21_a_target_of_100_kilobytes_is_414),
                WEIR_TEST(row_46_64_kilobytes_of_chunk_extensions_are_413),
                WEIR_TEST(row_49_many_trailers_are_431),
                WEIR_TEST(row_50_a_large_head_is_431),
                WEIR_TEST(row_51_an_upgrade_is_ignored_and_what_is_behind_it_served),
                WEIR_TEST(chunked_bodies_are_what_was_sent_in_them),
                WEIR_TEST(row_54_100_comes_before_a_chunked_body_too),
                WEIR_TEST(row_54_100_comes_before_the_answer_unless_the_body_is_there),
                WEIR_TEST(row_55_head_differs_from_get_by_the_body_alone),
                WEIR_TEST(row_55_nor_has_one_that_is_refused_a_body),
                WEIR_TEST(row_56_204_and_304_have_no_body),
                WEIR_TEST(row_57_one_byte_now_and_then_is_408_at_the_limit),
        };

        return weir_test_main("http_cases", tests, sizeof tests / sizeof *tests);
}
