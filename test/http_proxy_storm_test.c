/* test/http_proxy_storm_test.c: many exchanges through a reverse proxy.  Clients leave at any stage, and servers break at random.
 * Nothing is left: no descriptor, no block, no waiter. */
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "factory/task/series.h"
#include "factory/task/task.h"
#include "test/memory_faults.h"
#include "test/proxy_fixture.h"

#define SERVERS     8
#define CLIENTS     4
#define CONNECTIONS 6
#define EXCHANGES   500 /* of each client */
#define FEW         60
#define LARGE       ((size_t)300000)

static _Atomic bool is_over;
static _Atomic unsigned whole, left_early, cut;
static char bytes[LARGE];

/* -- sockets -- */

static bool
say(int fd, const void *data, size_t size)
{
        return send(fd, data, size, MSG_NOSIGNAL) == (ssize_t)size;
}

static bool
say_text(int fd, const char *text)
{
        return say(fd, text, strlen(text));
}

static void
reset(int fd)
{
        static const struct linger at_once = {.l_onoff = 1};

        setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

/* Waits for input, but not for ever.  Returns the bytes; 0 at the end; negative: it is broken, or the storm is over. */
static ssize_t
read_some(int fd, char *room, size_t size)
{
        struct pollfd event = {.fd = fd, .events = POLLIN};

        while (poll(&event, 1, 20) == 0)
                if (is_over)
                        return -1;
        return recv(fd, room, size, 0);
}

/* -- the servers -- */

/* Reads up to the end of a head; what has come of the body is behind it.  Returns false at the end. */
static bool
hear(int fd, bool *is_upgrade)
{
        char head[8192];
        size_t size = 0;

        for (head[0] = '\0'; !strstr(head, "\r\n\r\n");) {
                ssize_t got = size < sizeof head - 1 ? read_some(fd, head + size, sizeof head - 1 - size) : -1;

                if (got <= 0)
                        return false;
                size += (size_t)got;
                head[size] = '\0';
        }
        *is_upgrade = strstr(head, "Upgrade: websocket");
        return true;
}

static bool
echo(int fd, unsigned what)
{
        char room[1000];
        ssize_t got = 0;

        if (!say_text(fd, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"))
                return false;
        for (unsigned i = 0; i < what % 5 && (got = read_some(fd, room, sizeof room)) > 0; i++)
                if (!say(fd, room, (size_t)got))
                        return false;
        if (what % 3 == 0)
                shutdown(fd, SHUT_WR);
        if (what % 7 == 0)
                reset(fd);
        return false;
}

static bool
say_large(int fd, size_t size)
{
        char head[64];

        snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", LARGE);
        return say_text(fd, head) && say(fd, bytes, size);
}

/* Returns whether the connection goes on. */
static bool
answer(int fd, unsigned what)
{
        char room[1000];

        switch (what % 16) {
        case 0: return false;
        case 1: reset(fd); return false;
        case 2: return say_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart") && false;
        case 3: return say_large(fd, LARGE / 2) && false;
        case 4:
                (void)say_large(fd, LARGE / 3);
                reset(fd);
                return false;
        case 5:
        case 6: return say_large(fd, LARGE);
        case 7: return say_text(fd, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n") && say_text(fd, OK_WORD);
        case 8: return say_text(fd, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n") && false;
        case 9: return say_text(fd, SSE "2\r\nwo\r\n") && say_text(fd, "2\r\nrd\r\n0\r\n\r\n");
        case 10: return say_text(fd, SSE "2\r\nwo\r\n") && false;
        case 11:
                return say_text(fd, "HTTP/1.1 100 Continue\r\n\r\n") && read_some(fd, room, sizeof room) > 0 &&
                       say_text(fd, OK_WORD);
        case 12: return say_text(fd, "no HTTP at all\r\n\r\n");
        case 13: return read_some(fd, room, sizeof room) > 0; /* it says nothing */
        default: return say_text(fd, OK_WORD);
        }
}

static void *
serve(void *seed)
{
        struct weir_test_random random = {.state = weir_test_seed() * 31 + (uintptr_t)seed};

        while (!is_over) {
                struct pollfd event = {.fd = listener, .events = POLLIN};
                int fd = poll(&event, 1, 20) == 1 ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
                bool is_upgrade;

                if (fd < 0)
                        continue;
                while (hear(fd, &is_upgrade)) {
                        unsigned what = (unsigned)weir_test_random_below(&random, 1000);

                        if (is_upgrade ? !echo(fd, what) : !answer(fd, what))
                                break;
                }
                close(fd);
        }
        return NULL;
}

/* -- the clients -- */

static const char *const requests[] = {
        "GET / HTTP/1.1\r\nHost: front\r\nConnection: close\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: front\r\nConnection: close\r\nContent-Length: 1000\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: front\r\nConnection: close\r\nContent-Length: 300000\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: front\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: front\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
};

/* Sends a part of the request, or all, and reads a part of the reply, or all. */
static void
exchange_once(int fd, struct weir_test_random *random)
{
        static const size_t bodies[] = {0, 0, 1000, LARGE, 1000, 100};
        unsigned kind = (unsigned)weir_test_random_below(random, 6), stage = (unsigned)weir_test_random_below(random, 8);
        const char *head = requests[kind];
        struct timeval patience = {.tv_usec = 100000};
        char room[10000];
        ssize_t got = 1;

        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        if (stage == 0) { /* a part of the head */
                (void)say(fd, head, strlen(head) / 2);
        } else if (say_text(fd, head) && stage > 1) {
                size_t size = bodies[kind];

                (void)(!size || say(fd, bytes, stage == 2 ? size / 2 : size));
        }
        unsigned reads = stage < 3 ? 0 : stage == 3 ? 1 : stage == 4 ? 3 : 1000;
        for (unsigned i = 0; i < reads && got > 0; i++)
                got = recv(fd, room, sizeof room, 0);
        atomic_fetch_add(got == 0 ? &whole : reads < 1000 ? &left_early : &cut, 1);
        if (stage != 5 && weir_test_random_below(random, 2))
                reset(fd);
}

static unsigned exchanges; /* of each client */

static void *
ask(void *seed)
{
        struct weir_test_random random = {.state = weir_test_seed() + (uintptr_t)seed};

        for (unsigned i = 0; i < exchanges; i++) {
                struct http_client one;

                http_open(&one, proxy_port);
                exchange_once(one.fd, &random);
                http_close(&one);
        }
        return NULL;
}

/* -- the storm -- */

static void
blow(unsigned each)
{
        struct weir_client_config limits = WEIR_CLIENT_CONFIG_DEFAULT;
        struct weir_http_server_config settings = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        struct weir_client_stats stats = WEIR_CLIENT_STATS_DEFAULT;
        pthread_t servers[SERVERS], clients[CLIENTS];

        is_over = false;
        exchanges = each;
        whole = left_early = cut = 0;
        limits.connections = CONNECTIONS;
        settings.stream_bodies = 1;
        begin_with(&settings, &limits, forward);
        config.limit = WEIR_MSEC(50);
        CU_ASSERT_EQUAL(fcntl(listener, F_SETFL, O_NONBLOCK), 0); /* several servers wait at it */
        for (uintptr_t i = 0; i < SERVERS; i++)
                pthread_create(&servers[i], NULL, serve, (void *)i);
        for (uintptr_t i = 0; i < CLIENTS; i++)
                pthread_create(&clients[i], NULL, ask, (void *)i);
        for (unsigned i = 0; i < CLIENTS; i++)
                pthread_join(clients[i], NULL);
        WEIR_TEST_EVENTUALLY(weir_client_stats(client, &stats) == 0 && stats.waiting == 0);
        WEIR_TEST_EVENTUALLY(busy_connections() == 0);
        is_over = true; /* tunnels whose servers wait */
        for (unsigned i = 0; i < SERVERS; i++)
                pthread_join(servers[i], NULL);
        end();
        weir__task_free_kept();
        weir__series_unref_kept();
}

static void
a_storm_leaves_nothing_behind(void)
{
        blow(FEW); /* what the library and the system keep, they keep from here on */
        unsigned fds = weir_test_entries_of("/proc/self/fd");
        int64_t blocks = live;
        blow(EXCHANGES);
        fprintf(stderr, "%u whole, %u left early, %u cut, %d blocks ", whole, left_early, cut, (int)(live - blocks));
        CU_ASSERT_EQUAL(whole + left_early + cut, CLIENTS * EXCHANGES);
        CU_ASSERT(whole > 100 && left_early > 100);
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), fds);
        CU_ASSERT_EQUAL(live, blocks);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_storm_leaves_nothing_behind),
        };

        return weir_test_main("http_proxy_storm", tests, sizeof tests / sizeof *tests);
}
