/* test/client_scenarios.h: requests and calls of the client that meet a fault, and a server that the test plays for them.
 *
 * A scenario runs on a worker from its first call on, so that each of its calls may be refused.  The test's thread is the server
 * meanwhile.  It takes whatever the client does with its connections. */
#ifndef WEIR_TEST_CLIENT_SCENARIOS_H
#define WEIR_TEST_CLIENT_SCENARIOS_H

#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <openssl/err.h>
#include <sys/mman.h>
#include <zlib.h>

#include <weir/go.h>
#include <weir/http_call.h>
#include <weir/resolve.h>

#include "net/upstream/upstream.h"

#include "test/client_fixture.h"
#include "test/http_client.h"

/* -- the server -- */

#define GUESTS 8
#define HELD   4 /* rounds that an answer to /held takes */

struct guest {
        int fd;   /* 0: there is none */
        SSL *tls; /* or NULL */
        size_t size;
        char input[16384];
        unsigned held;
        bool is_fresh;    /* its first byte says whether TLS begins, perhaps within another one */
        bool has_greeted; /* it has said hello to a SOCKS proxy */
        bool is_echoed;   /* what it says comes back */
        bool is_slow;     /* it is a guest of the slow member */
};

static struct guest guests[GUESTS];
static int slow_door = -1, slow_port; /* the member of an upstream that has no answer while is_holding */
static int dead = -1, dead_port;      /* bound, and nobody listens there */
static char packed[256], written[5000];
static size_t packed_size;
static int file = -1; /* a body */
static SSL_CTX *server_tls;
static weir_tls *trust;
static bool is_secure;  /* the URLs are https */
static bool is_holding; /* /held has no answer for now */

static inline void
say_bytes(struct guest *guest, const char *data, size_t size)
{
        if (guest->tls)
                (void)SSL_write(guest->tls, data, (int)size);
        else
                (void)!send(guest->fd, data, size, MSG_NOSIGNAL);
}

static inline void
say(struct guest *guest, const char *text)
{
        say_bytes(guest, text, strlen(text));
}

static inline void
say_packed(struct guest *guest)
{
        char head[128];

        snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %zu\r\n\r\n", packed_size);
        say(guest, head);
        say_bytes(guest, packed, packed_size);
}

/* Bytes of the first request, if it is complete. */
static inline size_t
whole_request(const struct guest *guest)
{
        const char *end = memmem(guest->input, guest->size, "\r\n\r\n", 4), *length;

        if (!end)
                return 0;
        if (memmem(guest->input, (size_t)(end - guest->input), "chunked", 7)) {
                end = memmem(end, (size_t)(guest->input + guest->size - end), "\r\n0\r\n\r\n", 7);
                return end ? (size_t)(end - guest->input) + 7 : 0;
        }
        length = memmem(guest->input, (size_t)(end - guest->input), "Content-Length: ", 16);
        size_t size = (size_t)(end - guest->input) + 4 + (length ? strtoul(length + 16, NULL, 10) : 0);
        return size <= guest->size ? size : 0;
}

/* The target may be a whole URL: to a proxy. */
static inline bool
asks_for(const struct guest *guest, const char *path)
{
        const char *target = memchr(guest->input, ' ', guest->size);

        if (target && strncmp(target + 1, "http://127.0.0.1:", 17) == 0)
                target += strcspn(target + 18, "/") + 17;
        return target && strncmp(target + 1, path, strlen(path)) == 0;
}

/* A head in three parts, a body in two.  Returns false before the last. */
static inline bool
say_slowly(struct guest *guest)
{
        static const char *const parts[] = {"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 200 OK\r\nConten", "t-Length: 8\r", "\n\r\nword",
                                            "word"};
        unsigned part = guest->held++;

        say(guest, parts[part]);
        return part == 3;
}

/* Returns false if it has to wait. */
static inline bool
answer(struct guest *guest)
{
        if (asks_for(guest, "/slow"))
                return say_slowly(guest);
        if (asks_for(guest, "/held") && (is_holding || guest->held++ < HELD))
                return false;
        if (guest->is_slow && is_holding)
                return false;
        if (asks_for(guest, "/up")) {
                say(guest, "HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
                guest->is_echoed = true;
                return true;
        }
        if (strncmp(guest->input, "CONNECT ", 8) == 0) {
                say(guest, "HTTP/1.1 200 OK\r\n\r\n");
                guest->is_fresh = true;
                return true;
        }
        if (asks_for(guest, "/go"))
                say(guest, "HTTP/1.1 302 Go\r\nLocation: /word\r\nContent-Length: 3\r\n\r\nsee");
        else if (asks_for(guest, "/gzip"))
                say_packed(guest);
        else if (asks_for(guest, "/cookie"))
                say(guest,
                    "HTTP/1.1 302 Go\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\nLocation: /word\r\nContent-Length: 0\r\n\r\n");
        else if (asks_for(guest, "/pieces"))
                say(guest, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nword\r\n4\r\nword\r\n0\r\n\r\n");
        else
                say(guest, OK_WORD);
        return true;
}

static inline void
leave(struct guest *guest)
{
        SSL_free(guest->tls);
        guest->tls = NULL;
        close(guest->fd);
        guest->fd = 0;
}

/* Begins TLS if that is what the client says next. */
static inline void
begin_tls(struct guest *guest)
{
        char first;
        ssize_t got = guest->tls ? SSL_peek(guest->tls, &first, 1) : recv(guest->fd, &first, 1, MSG_DONTWAIT | MSG_PEEK);

        if (got <= 0)
                return;
        guest->is_fresh = false;
        if (first != 0x16)
                return;
        SSL *tls = SSL_new(server_tls);
        if (guest->tls) {
                BIO *outer = BIO_new(BIO_f_ssl());

                BIO_set_ssl(outer, guest->tls, BIO_CLOSE);
                SSL_set_bio(tls, outer, outer);
        } else {
                SSL_set_fd(tls, guest->fd);
        }
        SSL_set_accept_state(tls);
        guest->tls = tls;
}

/* As recv; the handshake is a part of the first. */
static inline ssize_t
hear(struct guest *guest)
{
        char *to = guest->input + guest->size;
        size_t room = sizeof guest->input - guest->size;

        ERR_clear_error();
        if (guest->is_fresh)
                begin_tls(guest);
        if (!guest->tls)
                return recv(guest->fd, to, room, MSG_DONTWAIT);
        ERR_clear_error();
        int got = SSL_read(guest->tls, to, (int)room);
        bool must_wait = got <= 0 && SSL_get_error(guest->tls, got) == SSL_ERROR_WANT_READ;

        errno = must_wait ? EAGAIN : EPROTO;
        return got > 0 ? got : -1;
}

static inline void
forget(struct guest *guest, size_t size)
{
        guest->held = 0;
        guest->size -= size;
        memmove(guest->input, guest->input + size, guest->size);
}

/* SOCKS5: a greeting, then a request with an address of IPv4.  Returns whether something was answered. */
static inline bool
answer_socks(struct guest *guest)
{
        size_t size = guest->has_greeted ? 10 : 2 + (size_t)guest->input[1];

        if (guest->size < 2 || guest->size < size)
                return false;
        if (guest->has_greeted)
                say_bytes(guest, "\005\000\000\001\000\000\000\000\000\000", 10);
        else
                say_bytes(guest, "\005\000", 2);
        guest->is_fresh = guest->has_greeted;
        guest->has_greeted = true;
        forget(guest, size);
        return true;
}

static inline void
attend(struct guest *guest)
{
        size_t size;
        ssize_t got;

        while ((got = hear(guest)) > 0)
                guest->size += (size_t)got;
        if (got == 0 || (got < 0 && errno != EAGAIN)) {
                leave(guest);
                return;
        }
        if (guest->input[0] == 5 && answer_socks(guest))
                return;
        while (!guest->is_echoed && (size = whole_request(guest)) && answer(guest))
                forget(guest, size);
        if (guest->is_echoed && guest->size) {
                say_bytes(guest, guest->input, guest->size);
                guest->size = 0;
        }
}

static inline void
welcome(struct guest *guest, int fd, bool is_slow)
{
        *guest = (struct guest){.fd = fd, .is_fresh = true, .is_slow = is_slow};
        CU_ASSERT_EQUAL(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)), 0);
}

/* Serves all that is there now. */
static inline void
serve(void)
{
        int fd;

        for (unsigned i = 0; i < GUESTS; i++) {
                if (!guests[i].fd && (fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
                        welcome(&guests[i], fd, false);
                if (!guests[i].fd && (fd = accept4(slow_door, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
                        welcome(&guests[i], fd, true);
                if (guests[i].fd)
                        attend(&guests[i]);
        }
}

/* -- what the client is asked for -- */

#define NOTES 16

/* One task of a scenario, or its series. */
struct note {
        const char *what;
        int begun; /* what its consumer has returned */
        _Atomic int calls;
        int status, code;
        bool is_response; /* what it has ended with can be right, or not */
        bool is_right;    /* the response is as the server has sent it */
};

/* Of a path; for one thread. */
static inline const char *
place_of(const char *path)
{
        static char url[128];

        snprintf(url, sizeof url, "%s://127.0.0.1:%d%s", is_secure ? "https" : "http", port, path);
        return url;
}

static struct note notes[NOTES];
static _Atomic unsigned note_count, open_notes; /* of them those whose callback is still to come */
static weir_http_call *current;
static void (*arm)(void); /* where the faults begin, on a worker */

static inline struct note *
note_new(const char *what)
{
        struct note *note = &notes[atomic_fetch_add(&note_count, 1)];

        *note = (struct note){.what = what};
        atomic_fetch_add(&open_notes, 1);
        return note;
}

/* What the consumer says: without a success no callback comes. */
static inline void
note_begun(struct note *note, int result)
{
        note->begun = result;
        if (result)
                atomic_fetch_sub(&open_notes, 1);
}

static inline void
note_end(struct note *note, int status)
{
        note->status = status;
        if (atomic_fetch_add(&note->calls, 1) == 0)
                atomic_fetch_sub(&open_notes, 1);
}

static inline void
see_response(weir_task *request, void *context)
{
        struct note *note = context;
        size_t size;
        const char *body = weir_http_response_body(request, &size);

        note->is_response = true;
        note->code = weir_http_response_status(request);
        note->is_right = note->code == 200 && size >= 4 && strncmp(body, "word", 4) == 0;
        note_end(note, weir_task_status(request));
}

static inline weir_task *
ask(const char *method, const char *path, struct note **note)
{
        *note = note_new(path);
        return weir_client_request_new(client, method, place_of(path), see_response, *note);
}

static inline void
ask_and_start(const char *path)
{
        struct note *note;
        weir_task *request = ask("GET", path, &note);

        (void)weir_http_request_set_redirects(request, 3);
        note_begun(note, weir_task_start(request));
}

static inline void
get_slow(void)
{
        ask_and_start("/slow");
}
static inline void
get_pieces(void)
{
        ask_and_start("/pieces");
}
static inline void
get_word(void)
{
        ask_and_start("/word");
}
static inline void
get_redirect(void)
{
        ask_and_start("/go");
}
static inline void
get_packed(void)
{
        ask_and_start("/gzip");
}
static inline void
get_cookie(void)
{
        ask_and_start("/cookie");
}

static inline void
post_word(void)
{
        struct note *note;
        weir_task *request = ask("POST", "/word", &note);

        (void)weir_http_request_set_body(request, written, sizeof written, "text/plain");
        (void)weir_http_request_add_header(request, "X-Test", "yes");
        note_begun(note, weir_task_start(request));
}

static inline void
post_file(void)
{
        struct note *note;
        weir_task *request = ask("POST", "/word", &note);

        (void)weir_http_request_set_body_file(request, file, 0, UINT64_MAX, "text/plain");
        note_begun(note, weir_task_start(request));
}

/* The second waits until the first has its answer, if there is a first. */
static inline void
get_in_queue(void)
{
        struct note *note;

        ask_and_start("/held");
        weir_task *second = ask("GET", "/word", &note);
        (void)weir_http_request_set_limit(second, WEIR_HTTP_LIMIT_WHOLE, WEIR_SEC(5));
        note_begun(note, weir_task_start(second));
}

/* -- a streamed call: two writes, the end, the head, reads -- */

static inline void
see_task(weir_task *task, void *context)
{
        note_end(context, weir_task_status(task));
}

static inline void read_next(weir_series *series);

static inline void
see_piece(weir_task *read, void *context)
{
        struct note *note = context;
        size_t size;
        int status = weir_task_status(read);

        (void)weir_http_call_data(read, &size);
        note->is_response = true;
        note->is_right = status == 0;
        if (status == 0 && size)
                read_next(weir_series_of(read));
        note_end(note, status);
}

static inline void
read_next(weir_series *series)
{
        struct note *note = note_new("read");

        note_begun(note, weir_series_push(series, weir_http_call_read_new(current, see_piece, note)));
}

static inline void
see_head(weir_task *head, void *context)
{
        struct note *note = context;

        note->is_response = true;
        note->code = weir_http_call_status(current);
        note->is_right = note->code == 200;
        if (weir_task_status(head) == 0)
                read_next(weir_series_of(head));
        note_end(note, weir_task_status(head));
}

static inline void
series_is_over(weir_series *series, void *context)
{
        weir_http_call_unref(current);
        current = NULL;
        note_end(context, weir_series_status(series));
}

static inline void
push(weir_series *series, struct note *note, weir_task *task)
{
        note_begun(note, weir_series_push(series, task));
}

static inline void
stream(void)
{
        struct note *end = note_new("series"), *note;
        weir_series *series = weir_series_new(series_is_over, end);

        current = weir_http_call_new(client, "POST", place_of("/pieces"));
        CU_ASSERT(current || errno == ENOMEM);
        for (int i = 0; i < 2; i++) {
                note = note_new("write");
                push(series, note, weir_http_call_write_new(current, written, 3000, see_task, note));
        }
        note = note_new("finish");
        push(series, note, weir_http_call_finish_new(current, see_task, note));
        note = note_new("head");
        push(series, note, weir_http_call_head_new(current, see_head, note));
        int failed = weir_series_start(series);
        if (failed) {
                for (unsigned i = 1; i < 5; i++) /* they are dismissed */
                        if (!notes[i].begun)
                                note_begun(&notes[i], failed);
                weir_http_call_unref(current);
                current = NULL;
        }
        note_begun(end, failed);
}

/* -- an upgrade: the head, a write, a read -- */

static weir_stream *switched;

static inline void
see_echo(weir_task *read, void *context)
{
        struct note *note = context;
        size_t size;
        const char *data = weir_stream_data(read, &size);

        note->is_response = true;
        note->is_right = size == 4 && strncmp(data, "word", 4) == 0;
        note_end(note, weir_task_status(read));
}

static inline void
see_upgrade(weir_task *head, void *context)
{
        struct note *note = context, *next = NULL;

        note->is_response = true;
        note->code = weir_http_call_status(current);
        note->is_right = note->code == 101;
        switched = weir_task_status(head) == 0 ? weir_http_call_take_stream(current) : NULL;
        if (switched) {
                next = note_new("write to the stream");
                push(weir_series_of(head), next, weir_stream_write_new(switched, "word", 4, see_task, next));
        }
        if (switched && !next->begun) { /* else nothing would come back */
                next = note_new("read of the stream");
                push(weir_series_of(head), next, weir_stream_read_new(switched, 4, 4, see_echo, next));
        }
        note_end(note, weir_task_status(head));
}

static inline void
upgrade_is_over(weir_series *series, void *context)
{
        weir_stream_unref(switched);
        switched = NULL;
        series_is_over(series, context);
}

static inline void
upgrade(void)
{
        struct note *end = note_new("series"), *note = note_new("head");
        weir_series *series = weir_series_new(upgrade_is_over, end);

        current = weir_http_call_new(client, "GET", place_of("/up"));
        CU_ASSERT(current || errno == ENOMEM);
        if (current)
                (void)weir_http_call_set_upgrade(current, "echo");
        push(series, note, weir_http_call_head_new(current, see_upgrade, note));
        int failed = weir_series_start(series);
        if (failed) {
                if (!note->begun)
                        note_begun(note, failed);
                weir_http_call_unref(current);
                current = NULL;
        }
        note_begun(end, failed);
}

/* -- an upstream -- */

static weir_upstream *backend;

static inline void
add_member(int at, enum weir_member_tier tier)
{
        struct weir_member_config config = WEIR_MEMBER_CONFIG_DEFAULT;
        char address[32];

        config.tier = tier;
        snprintf(address, sizeof address, "127.0.0.1:%d", at);
        CU_ASSERT_EQUAL(weir_upstream_add(backend, address, &config), 0);
}

static inline void
ask_backend(void)
{
        struct note *note = note_new("/word");

        note_begun(note, weir_task_start(weir_client_request_new(client, "GET", "http://backend/word", see_response, note)));
}

/* Its members come from a name; the request follows. */
static inline int
localhost(const char *host, int family, weir_resolver_reply *reply, void *context)
{
        (void)host, (void)family, (void)context;
        return weir_resolver_reply_add(reply, "127.0.0.1");
}

static inline void
follow_and_ask(void)
{
        struct note *note = note_new("follow"), *asked = note_new("/word");
        weir_series *series = weir_series_new(NULL, NULL);
        char name[32];

        snprintf(name, sizeof name, "backend.internal:%d", port);
        push(series, note, weir_upstream_follow_new(backend, name, NULL, see_task, note));
        push(series, asked, weir_client_request_new(client, "GET", "http://backend/word", see_response, asked));
        int failed = weir_series_start(series);
        if (failed) {
                if (!note->begun)
                        note_begun(note, failed);
                if (!asked->begun)
                        note_begun(asked, failed);
        }
}

#define SLOW WEIR_SEC(1) /* requests to it last so long as a rule */

static inline bool
picks(int at)
{
        struct weir__picked picked;
        char address[32];

        snprintf(address, sizeof address, "127.0.0.1:%d", at);
        CU_ASSERT_EQUAL_FATAL(weir__upstream_pick(backend, NULL, &picked, NULL), 0);
        bool is = strcmp(weir__picked_address(&picked), address) == 0;
        weir__upstream_report(backend, &picked, WEIR__OUTCOME_SUCCESS, SLOW);
        return is;
}

enum members { NO_MEMBERS, SLOW_FIRST, DEAD_FIRST, OF_NAME };

static inline void
make_backend(enum members members)
{
        struct weir_upstream_config config = WEIR_UPSTREAM_CONFIG_DEFAULT;
        struct weir_resolver_config names = WEIR_RESOLVER_CONFIG_DEFAULT;

        if (members == NO_MEMBERS)
                return;
        config.policy = WEIR_UPSTREAM_ROUND_ROBIN;
        config.hedge_percent = 50;
        config.failures_in_row = 1;
        names.answer = localhost;
        CU_ASSERT_EQUAL(weir_resolver_configure(&names), 0);
        backend = weir_upstream_new("backend", &config);
        CU_ASSERT_PTR_NOT_NULL_FATAL(backend);
        if (members == SLOW_FIRST) {
                add_member(slow_port, WEIR_MEMBER_MAIN);
                add_member(port, WEIR_MEMBER_MAIN);
                weir_test_pass(WEIR_SEC(2));
                for (int i = 0; i < 200 || !picks(port); i++) /* it learns what is slow; the slow one is the next */
                        continue;
                for (int i = 0; i < 200; i++)
                        (void)picks(port);
        }
        if (members == DEAD_FIRST) {
                add_member(dead_port, WEIR_MEMBER_MAIN);
                add_member(port, WEIR_MEMBER_BACKUP);
        }
}

/* -- scenarios -- */

struct scenario {
        const char *name;
        void (*start)(void);
        bool is_kept;         /* there is a connection */
        unsigned connections; /* 0: the default */
        bool is_secure;       /* by TLS */
        bool is_late;         /* the limit of the second request passes while it waits */
        const char *proxy;    /* its scheme; NULL: none */
        enum members members; /* of the upstream `backend` */
        int also;             /* a status that a fault may lead to as well */
};

static const struct scenario scenarios[] = {
        {.name = "get", .start = get_word},
        {.name = "get, kept", .start = get_word, .is_kept = true},
        {.name = "post", .start = post_word},
        {.name = "post, kept", .start = post_word, .is_kept = true},
        {.name = "post of a file", .start = post_file},
        {.name = "slow", .start = get_slow},
        {.name = "pieces", .start = get_pieces},
        {.name = "redirect", .start = get_redirect},
        {.name = "gzip", .start = get_packed},
        {.name = "cookies", .start = get_cookie},
        {.name = "stream", .start = stream},
        {.name = "stream, kept", .start = stream, .is_kept = true},
        {.name = "get, TLS", .start = get_word, .is_secure = true},
        {.name = "post, TLS, kept", .start = post_word, .is_secure = true, .is_kept = true},
        {.name = "post of a file, TLS", .start = post_file, .is_secure = true},
        {.name = "stream, TLS", .start = stream, .is_secure = true},
        {.name = "queue", .start = get_in_queue, .connections = 1},
        {.name = "late in queue", .start = get_in_queue, .connections = 1, .is_late = true},
        {.name = "upgrade", .start = upgrade},
        {.name = "upgrade, TLS", .start = upgrade, .is_secure = true},
        {.name = "relay", .start = get_word, .proxy = "http"},
        {.name = "relay, TLS to the proxy", .start = get_word, .proxy = "https"},
        {.name = "CONNECT, TLS", .start = get_word, .proxy = "http", .is_secure = true},
        {.name = "CONNECT, upgrade", .start = upgrade, .proxy = "http"},
        {.name = "CONNECT, TLS in TLS", .start = get_word, .proxy = "https", .is_secure = true},
        {.name = "CONNECT, stream, TLS in TLS", .start = stream, .proxy = "https", .is_secure = true},
        {.name = "SOCKS5", .start = get_word, .proxy = "socks5"},
        {.name = "SOCKS5, TLS", .start = post_word, .proxy = "socks5", .is_secure = true},
        {.name = "hedge", .start = ask_backend, .members = SLOW_FIRST},
        {.name = "another member", .start = ask_backend, .members = DEAD_FIRST, .also = -ECONNREFUSED},
        {.name = "members of a name", .start = follow_and_ask, .members = OF_NAME, .also = -ENETUNREACH},
};

#define SCENARIOS (sizeof scenarios / sizeof *scenarios)

static inline void
pack(void)
{
        z_stream out = {0};

        memset(written, 'w', sizeof written);
        CU_ASSERT_EQUAL(deflateInit2(&out, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
        out.next_in = (unsigned char *)"wordwordwordwordword";
        out.avail_in = 20;
        out.next_out = (unsigned char *)packed;
        out.avail_out = sizeof packed;
        CU_ASSERT_EQUAL(deflate(&out, Z_FINISH), Z_STREAM_END);
        packed_size = sizeof packed - out.avail_out;
        deflateEnd(&out);
}

static inline void
begin_on_worker(weir_task *task, void *context)
{
        const struct scenario *scenario = context;

        (void)task;
        if (arm)
                arm();
        scenario->start();
}

/* Plays the server until all callbacks have come.  Aborts with the scenario's name if they do not. */
static inline void
play(const struct scenario *scenario)
{
        int64_t began = weir_test_now();
        unsigned rounds = 0;

        is_holding = scenario->is_late || scenario->members == SLOW_FIRST;
        atomic_store(&note_count, 0);
        atomic_store(&open_notes, 1);
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(WEIR_NSEC(1), begin_on_worker, (void *)scenario)), 0);
        weir_test_pass(WEIR_NSEC(1));
        atomic_fetch_sub(&open_notes, 1);
        for (; atomic_load(&open_notes); rounds++) {
                settle();
                serve();
                if (is_holding && rounds == HELD)
                        weir_test_pass(WEIR_SEC(6));
                if (rounds > (scenario->members ? 3 * HELD : HELD))
                        is_holding = false;
                if (weir_test_now() - began > WEIR_TEST_PATIENCE) {
                        fprintf(stderr, "\n  %s: a callback does not come\n", scenario->name);
                        for (unsigned i = 0; i < note_count; i++)
                                fprintf(stderr, "    %s: begun %d, calls %d\n", notes[i].what, notes[i].begun, notes[i].calls);
                        abort();
                }
        }
        settle();
        if (!arm && scenario->members == SLOW_FIRST)
                CU_ASSERT_TRUE(is_holding); /* the other member has answered */
        if (!arm && scenario->members == DEAD_FIRST) {
                struct weir_member_info info = {.size = sizeof info};

                CU_ASSERT_EQUAL(weir_upstream_member(backend, 0, &info), 0);
                CU_ASSERT_EQUAL(info.failures, 1);
        }
}

/* A request that nothing disturbs. */
static inline bool
works(void)
{
        static const struct scenario plain = {.name = "the next request", .start = get_word};

        play(&plain);
        return notes[0].calls == 1 && notes[0].status == 0 && notes[0].is_right;
}

static inline void
scenarios_begin(void)
{
        struct weir_tls_config trusting = WEIR_TLS_CONFIG_DEFAULT;

        tls_files_begin();
        tls_make_certificate("server", &(struct tls_wish){.alternative_names = "IP:127.0.0.1"});
        server_tls = http_peer_tls("server");
        trusting.ca_file = tls_path("server.pem");
        trust = weir_tls_client_new(&trusting);
        CU_ASSERT_PTR_NOT_NULL_FATAL(trust);
        weir_test_begin_virtual();
        pack();
        file = memfd_create("body", MFD_CLOEXEC);
        CU_ASSERT_EQUAL(write(file, written, sizeof written), (ssize_t)sizeof written);
        listener = http_peer_listen(&port);
        slow_door = http_peer_listen(&slow_port);
        CU_ASSERT_EQUAL(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
        CU_ASSERT_EQUAL(fcntl(slow_door, F_SETFL, O_NONBLOCK), 0);
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof at;
        dead = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CU_ASSERT_EQUAL_FATAL(bind(dead, (struct sockaddr *)&at, size), 0);
        CU_ASSERT_EQUAL_FATAL(getsockname(dead, (struct sockaddr *)&at, &size), 0);
        dead_port = ntohs(at.sin_port);
}

static inline void
scenarios_end(void)
{
        weir_test_end();
        serve();
        CU_ASSERT_EQUAL(weir_resolver_configure(NULL), 0);
        close(listener);
        close(slow_door);
        close(dead);
        close(file);
        weir_tls_unref(trust);
        SSL_CTX_free(server_tls);
        tls_files_end();
}

/* A new client, for one run of the scenario.  After that all is as before. */
static inline weir_cookie_jar *
client_begin(const struct scenario *scenario)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        weir_cookie_jar *jar = weir_cookie_jar_new();

        char proxy[64];

        is_secure = scenario->is_secure;
        config.cookies = jar;
        config.tls = config.proxy_tls = trust;
        if (scenario->proxy) {
                snprintf(proxy, sizeof proxy, "%s://127.0.0.1:%d", scenario->proxy, port);
                config.proxy = proxy;
        }
        config.connections = scenario->connections;
        client = weir_client_new(&config);
        CU_ASSERT_PTR_NOT_NULL_FATAL(client);
        make_backend(scenario->members);
        arm = NULL;
        if (scenario->is_kept)
                CU_ASSERT_TRUE(works());
        return jar;
}

static inline void
client_end(weir_cookie_jar *jar)
{
        WEIR_TEST_EVENTUALLY((settle(), serve(), stats().connections == stats().idle));
        weir_client_unref(client);
        weir_cookie_jar_unref(jar);
        client = NULL;
        weir_upstream_unref(backend);
        backend = NULL;
        CU_ASSERT_PTR_NULL(weir_upstream_find("backend")); /* no request has kept it */
        for (unsigned i = 0; i < 3; i++) {
                settle();
                serve();
        }
}

#endif
