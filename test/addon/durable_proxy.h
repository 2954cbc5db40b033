/* test/addon/durable_proxy.h: a proxy between nodes and the server of an engine, that a test can make cut, stall, swallow and
 * delay.
 *
 * It is a process beside the test, with a port for each place.  The test writes orders to memory that both share:
 *
 *   pass      bytes go through
 *   delay     each way takes some milliseconds
 *   stall     nothing goes through, and the connections stay
 *   swallow   requests go through and are carried out, and the replies are lost
 *   refuse    new connections are closed at once
 *
 * A cut resets all connections of a place.  What a node has sent to a place that stalls is lost when the node closes. */
#ifndef WEIR_TEST_DURABLE_PROXY_H
#define WEIR_TEST_DURABLE_PROXY_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/support.h"

#define PROXY_PLACES      5
#define PROXY_CONNECTIONS 200

enum proxy_order {
        PROXY_PASS,
        PROXY_DELAY,
        PROXY_STALL,
        PROXY_SWALLOW,
        PROXY_REFUSE,
};

struct proxy_orders {
        _Atomic int order[PROXY_PLACES];
        _Atomic unsigned cuts[PROXY_PLACES];
        _Atomic uint64_t connections, swallowed; /* replies, or parts of them */
};

static struct {
        pid_t pid;
        int target; /* a port of this machine */
        int listener[PROXY_PLACES], port[PROXY_PLACES];
        struct proxy_orders *orders;
} proxy;

struct proxy_way {
        size_t size;
        int64_t ready; /* when the bytes may go on */
        char bytes[65536];
};

struct proxy_connection {
        int fd[2]; /* of the node, and of the server */
        int place;
        unsigned cuts;
        struct proxy_way way[2]; /* from fd[i] to the other one */
};

static inline void
proxy_end(struct proxy_connection **connection)
{
        struct linger now = {.l_onoff = 1};

        for (int i = 0; i < 2; i++) {
                setsockopt((*connection)->fd[i], SOL_SOCKET, SO_LINGER, &now, sizeof now);
                close((*connection)->fd[i]);
        }
        free(*connection);
        *connection = NULL;
}

static inline struct proxy_connection *
proxy_accept(int place)
{
        struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        int yes = 1, client = accept4(proxy.listener[place], NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        struct proxy_connection *connection = client < 0 ? NULL : calloc(1, sizeof *connection);

        if (!connection)
                return NULL;
        connection->fd[0] = client;
        connection->fd[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        connection->place = place;
        connection->cuts = atomic_load(&proxy.orders->cuts[place]);
        name.sin_port = htons((uint16_t)proxy.target);
        if (atomic_load(&proxy.orders->order[place]) == PROXY_REFUSE ||
            connect(connection->fd[1], (struct sockaddr *)&name, sizeof name) < 0) {
                proxy_end(&connection);
                return NULL;
        }
        fcntl(connection->fd[1], F_SETFL, O_NONBLOCK);
        for (int i = 0; i < 2; i++)
                setsockopt(connection->fd[i], IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        atomic_fetch_add(&proxy.orders->connections, 1);
        return connection;
}

/* Takes what there is and hands on what is ready.  Result: false: the connection is over. */
static inline bool
proxy_move(struct proxy_connection *connection, int from, int order, int64_t now)
{
        struct proxy_way *way = &connection->way[from];
        ssize_t count = 1;

        if (way->size < sizeof way->bytes) {
                count = recv(connection->fd[from], way->bytes + way->size, sizeof way->bytes - way->size, 0);
                if (count > 0 && order == PROXY_SWALLOW && from == 1) {
                        atomic_fetch_add(&proxy.orders->swallowed, 1);
                        return true;
                }
                if (count > 0) {
                        way->ready = way->size ? way->ready : order == PROXY_DELAY ? now + 5000000 + now % 20000000 : now;
                        way->size += (size_t)count;
                }
        }
        bool is_over = count == 0 || (count < 0 && errno != EAGAIN);
        if (way->size && now >= way->ready) {
                count = send(connection->fd[1 - from], way->bytes, way->size, MSG_NOSIGNAL);
                if (count > 0) {
                        way->size -= (size_t)count;
                        memmove(way->bytes, way->bytes + count, way->size);
                }
                is_over = is_over || (count < 0 && errno != EAGAIN);
        }
        return !is_over;
}

static inline void
proxy_serve(struct proxy_connection **connection, short node_events)
{
        int order = atomic_load(&proxy.orders->order[(*connection)->place]);
        int64_t now = weir_test_now();
        bool is_over = atomic_load(&proxy.orders->cuts[(*connection)->place]) != (*connection)->cuts;

        if (!is_over && order == PROXY_STALL)
                is_over = (node_events & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
        else if (!is_over)
                is_over = !proxy_move(*connection, 0, order, now) || !proxy_move(*connection, 1, order, now);
        if (is_over)
                proxy_end(connection);
}

static inline _Noreturn void
proxy_run(void)
{
        static struct proxy_connection *connections[PROXY_CONNECTIONS];
        struct pollfd polls[PROXY_PLACES + 2 * PROXY_CONNECTIONS];

        for (;;) {
                nfds_t count = 0;
                bool is_held = false;

                for (int i = 0; i < PROXY_PLACES; i++)
                        polls[count++] = (struct pollfd){.fd = proxy.listener[i], .events = POLLIN};
                for (int i = 0; i < PROXY_CONNECTIONS; i++) {
                        struct proxy_connection *one = connections[i];
                        bool is_stalled = one && atomic_load(&proxy.orders->order[one->place]) == PROXY_STALL;

                        for (int j = 0; j < 2; j++) {
                                bool is_full = one && one->way[j].size == sizeof one->way[j].bytes;
                                short events = is_stalled || is_full ? 0 : POLLIN;

                                polls[count++] = (struct pollfd){.fd = one ? one->fd[j] : -1,
                                                                 .events = (short)(j == 0 ? events | POLLRDHUP : events)};
                                is_held = is_held || (one && one->way[j].size);
                        }
                }
                poll(polls, count, is_held ? 1 : 5);
                for (int i = 0; i < PROXY_CONNECTIONS; i++)
                        if (connections[i])
                                proxy_serve(&connections[i], polls[PROXY_PLACES + 2 * i].revents);
                for (int i = 0; i < PROXY_PLACES; i++)
                        for (int j = 0; polls[i].revents && j < PROXY_CONNECTIONS; j++)
                                if (!connections[j]) {
                                        connections[j] = proxy_accept(i);
                                        break;
                                }
        }
}

static inline void
proxy_start(int target)
{
        struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        socklen_t size = sizeof name;

        proxy.target = target;
        proxy.orders = mmap(NULL, sizeof *proxy.orders, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (proxy.orders == MAP_FAILED)
                abort();
        for (int i = 0; i < PROXY_PLACES; i++) {
                proxy.listener[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
                name.sin_port = 0;
                if (bind(proxy.listener[i], (struct sockaddr *)&name, size) < 0 || listen(proxy.listener[i], 100) < 0 ||
                    getsockname(proxy.listener[i], (struct sockaddr *)&name, &size) < 0)
                        abort();
                proxy.port[i] = ntohs(name.sin_port);
        }
        fflush(NULL);
        proxy.pid = fork();
        if (proxy.pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                proxy_run();
        }
        for (int i = 0; i < PROXY_PLACES; i++)
                close(proxy.listener[i]);
}

static inline void
proxy_stop(void)
{
        if (proxy.pid <= 0)
                return;
        kill(proxy.pid, SIGKILL);
        waitpid(proxy.pid, NULL, 0);
        munmap(proxy.orders, sizeof *proxy.orders);
        proxy.pid = 0;
}

static inline void
proxy_order(int place, enum proxy_order order)
{
        atomic_store(&proxy.orders->order[place], order);
}

static inline void
proxy_cut(int place)
{
        atomic_fetch_add(&proxy.orders->cuts[place], 1);
}

#endif
