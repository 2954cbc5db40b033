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
};

static struct guest guests[GUESTS];
static char packed[256], written[5000];
static size_t packed_size;
static int file = -1; /* a body */
static SSL_CTX *server_tls;
static weir_tls *trust;
static bool is_secure;  /* all talk TLS */
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

static inline bool
asks_for(const struct guest *guest, const char *path)
{
        const char *target = memchr(guest->input, ' ', guest->size);

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

/* As recv; the handshake is a part of the first. */
static inline ssize_t
hear(struct guest *guest)
{
        char *to = guest->input + guest->size;
        size_t room = sizeof guest->input - guest->size;

        if (!guest->tls)
                return recv(guest->fd, to, room, MSG_DONTWAIT);
        ERR_clear_error();
        int got = SSL_read(guest->tls, to, (int)room);
        bool must_wait = got <= 0 && SSL_get_error(guest->tls, got) == SSL_ERROR_WANT_READ;

        errno = must_wait ? EAGAIN : EPROTO;
        return got > 0 ? got : -1;
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
        while ((size = whole_request(guest)) && answer(guest)) {
                guest->held = 0;
                guest->size -= size;
                memmove(guest->input, guest->input + size, guest->size);
        }
}

static inline void
welcome(struct guest *guest, int fd)
{
        *guest = (struct guest){.fd = fd};
        CU_ASSERT_EQUAL(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)), 0);
        if (!is_secure)
                return;
        guest->tls = SSL_new(server_tls);
        SSL_set_fd(guest->tls, fd);
        SSL_set_accept_state(guest->tls);
}

/* Serves all that is there now. */
static inline void
serve(void)
{
        int fd;

        for (unsigned i = 0; i < GUESTS; i++) {
                if (!guests[i].fd && (fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
                        welcome(&guests[i], fd);
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

/* -- scenarios -- */

struct scenario {
        const char *name;
        void (*start)(void);
        bool is_kept;         /* there is a connection */
        unsigned connections; /* 0: the default */
        bool is_secure;       /* by TLS */
        bool is_late;         /* the limit of the second request passes while it waits */
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

        is_holding = scenario->is_late;
        atomic_store(&note_count, 0);
        atomic_store(&open_notes, 1);
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(WEIR_NSEC(1), begin_on_worker, (void *)scenario)), 0);
        weir_test_pass(WEIR_NSEC(1));
        atomic_fetch_sub(&open_notes, 1);
        for (; atomic_load(&open_notes); rounds++) {
                settle();
                serve();
                if (scenario->is_late && rounds == HELD)
                        weir_test_pass(WEIR_SEC(6));
                if (rounds > HELD)
                        is_holding = false;
                if (weir_test_now() - began > WEIR_TEST_PATIENCE) {
                        fprintf(stderr, "\n  %s: a callback does not come\n", scenario->name);
                        for (unsigned i = 0; i < note_count; i++)
                                fprintf(stderr, "    %s: begun %d, calls %d\n", notes[i].what, notes[i].begun, notes[i].calls);
                        abort();
                }
        }
        settle();
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
        CU_ASSERT_EQUAL(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
}

static inline void
scenarios_end(void)
{
        weir_test_end();
        serve();
        close(listener);
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

        is_secure = scenario->is_secure;
        config.cookies = jar;
        config.tls = trust;
        config.connections = scenario->connections;
        client = weir_client_new(&config);
        CU_ASSERT_PTR_NOT_NULL_FATAL(client);
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
        for (unsigned i = 0; i < 3; i++) {
                settle();
                serve();
        }
}

#endif
