/* test/client_storm_test.c: many requests from several threads over few connections, to servers that misbehave at random, with
 * cancels at any time: each callback runs once, and nothing is left: no descriptor, no block, no waiter. */
#include <poll.h>
#include <sys/socket.h>

#include <weir/log.h>

#include "factory/task/series.h"
#include "factory/task/task.h"
#include "test/client_fixture.h"
#include "test/memory_faults.h"

#define SERVERS     8
#define CLIENTS     3
#define CONNECTIONS 6
#define RECENT      16 /* requests of a thread that it may cancel */
#define UNDER_WAY   120
#define REQUESTS    (WEIR_TEST_SANITIZED ? 4000 : 34000) /* of each client */
#define FEW         300

static _Atomic unsigned under_way, answered, cancelled, failed;
static _Atomic bool is_over;
static unsigned requests; /* of each client */

/* -- the servers: one connection at a time -- */

static bool
say(int fd, const char *text)
{
        return send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text);
}

/* Reads up to the end of a head; bodies are none.  Returns false at the end. */
static bool
hear(int fd)
{
        char bytes[4096];
        size_t size = 0;

        for (;;) {
                struct pollfd event = {.fd = fd, .events = POLLIN};

                while (poll(&event, 1, 20) == 0)
                        if (is_over)
                                return false;
                ssize_t got = recv(fd, bytes + size, sizeof bytes - size - 1, 0);
                if (got <= 0)
                        return false;
                size += (size_t)got;
                if (size >= 4 && memcmp(bytes + size - 4, "\r\n\r\n", 4) == 0)
                        return true;
        }
}

/* Returns whether the connection goes on. */
static bool
answer(int fd, unsigned what)
{
        static const struct linger at_once = {.l_onoff = 1};

        switch (what) {
        case 0: return false;
        case 1: return say(fd, OK_CLOSES) && false;
        case 2: return say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart") && false;
        case 3: return say(fd, OK_WORD) && false; /* just when it is idle */
        case 4: setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once); return false;
        case 5: return say(fd, "HTTP/1.1 200 OK\r\n\r\nword") && false;
        case 6: return say(fd, "no HTTP at all\r\n\r\n");
        case 7: return say(fd, OK_WORD "x");
        case 8:
        case 9: return say(fd, "HTTP/1.1 302 Go\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n");
        case 10:
                return say(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nwo\r\n") &&
                       say(fd, "2\r\nrd\r\n0\r\n\r\n");
        case 11: return say(fd, "HTTP/1.1 100 Continue\r\n\r\n") && say(fd, OK_WORD);
        case 12: poll(NULL, 0, 1); return say(fd, OK_WORD);
        default: return say(fd, OK_WORD);
        }
}

static void *
serve(void *seed)
{
        struct weir_test_random random = {.state = weir_test_seed() * 31 + (uintptr_t)seed};

        while (!is_over) {
                struct pollfd event = {.fd = listener, .events = POLLIN};
                int fd = poll(&event, 1, 20) == 1 ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;

                if (fd < 0)
                        continue;
                while (hear(fd) && answer(fd, (unsigned)weir_test_random_below(&random, 64)))
                        continue;
                close(fd);
        }
        return NULL;
}

/* -- the clients -- */

static void
note(weir_task *request, void *context)
{
        int status = weir_task_status(request);

        (void)context;
        CU_ASSERT_EQUAL(weir_http_problem(request) == NULL, status == 0);
        CU_ASSERT(status != 0 || strcmp(weir_http_response_body(request, NULL), "word") == 0);
        CU_ASSERT(status == 0 || status == -ECANCELED || status == -ECONNRESET || status == -ECONNABORTED || status == -EBADMSG ||
                  status == -ETIMEDOUT);
        atomic_fetch_add(status == 0 ? &answered : status == -ECANCELED ? &cancelled : &failed, 1);
        atomic_fetch_sub(&under_way, 1);
}

static void *
ask(void *seed)
{
        struct weir_test_random random = {.state = weir_test_seed() + (uintptr_t)seed};
        weir_series *recent[RECENT] = {NULL};
        char url[64];

        snprintf(url, sizeof url, "http://127.0.0.1:%d/", port);
        for (unsigned i = 0; i < requests; i++) {
                weir_series **place = &recent[weir_test_random_below(&random, RECENT)];
                unsigned what = (unsigned)weir_test_random_below(&random, 32);
                weir_task *request = weir_client_request_new(client, what == 3 ? "POST" : "GET", url, note, NULL);

                while (atomic_load(&under_way) > UNDER_WAY)
                        weir_test_sleep(50000);
                if (what == 4)
                        weir_http_request_set_limit(request, WEIR_HTTP_LIMIT_WHOLE, WEIR_USEC(300));
                weir_http_request_set_redirects(request, 10);
                if (*place && what < 12)
                        weir_series_cancel(*place);
                weir_series_unref(*place);
                *place = weir_series_ref(weir_series_new(NULL, NULL));
                atomic_fetch_add(&under_way, 1);
                CU_ASSERT_EQUAL(weir_series_push(*place, request), 0);
                CU_ASSERT_EQUAL(weir_series_start(*place), 0);
                if (what == 5)
                        weir_series_cancel(*place);
                if (what == 6 && i % 64 == 0)
                        weir_client_close_idle(client);
        }
        for (unsigned i = 0; i < RECENT; i++)
                weir_series_unref(recent[i]);
        return NULL;
}

/* -- the storm -- */

static void
blow(unsigned each)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        pthread_t servers[SERVERS], clients[CLIENTS];

        is_over = false;
        requests = each;
        answered = cancelled = failed = 0;
        config.connections = CONNECTIONS;
        weir_test_begin_real(2);
        begin_with(&config);
        CU_ASSERT_EQUAL(fcntl(listener, F_SETFL, O_NONBLOCK), 0); /* several servers wait at it */
        for (uintptr_t i = 0; i < SERVERS; i++)
                pthread_create(&servers[i], NULL, serve, (void *)i);
        for (uintptr_t i = 0; i < CLIENTS; i++)
                pthread_create(&clients[i], NULL, ask, (void *)i);
        for (unsigned i = 0; i < CLIENTS; i++)
                pthread_join(clients[i], NULL);
        WEIR_TEST_EVENTUALLY(atomic_load(&under_way) == 0);
        CU_ASSERT_EQUAL(stats().waiting, 0);
        WEIR_TEST_EVENTUALLY(stats().connections == stats().idle); /* those that are being closed */
        CU_ASSERT(stats().connections <= CONNECTIONS);
        CU_ASSERT(stats().reused > 0);
        end();
        is_over = true;
        for (unsigned i = 0; i < SERVERS; i++)
                pthread_join(servers[i], NULL);
        weir__task_free_kept();
        weir__series_unref_kept();
}

static void
a_storm_leaves_nothing_behind(void)
{
        blow(FEW); /* what the library and the system keep, they keep from here on */
        unsigned fds = weir_test_entries_of("/proc/self/fd");
        int64_t blocks = live;
        blow(REQUESTS);
        fprintf(stderr, "%u answered, %u cancelled, %u failed, %d blocks ", answered, cancelled, failed, (int)(live - blocks));
        CU_ASSERT_EQUAL(answered + cancelled + failed, CLIENTS * REQUESTS);
        CU_ASSERT(answered > 1000 && cancelled > 100 && failed > 100);
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), fds);
        CU_ASSERT_EQUAL(live, blocks);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_storm_leaves_nothing_behind),
        };

        weir_log_set(NULL, NULL);
        return weir_test_main("client_storm", tests, sizeof tests / sizeof *tests);
}
