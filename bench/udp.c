/* bench/udp.c: what an echo of a datagram costs a server: weir, and a bare loop of epoll, recvmmsg and sendmmsg.
 *
 *     udp [quick|full] [beginning of a word of a case's name]
 *
 * The server is a process of its own on one CPU, the client on another, if there is one.  The client keeps so many datagrams in
 * flight as the case says, and sends one for each that comes back.
 *
 * Threads: the client has one.  The runtime of the server has one poller. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/weir.h>

#include "bench.h"
#include "cases.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

#define ROUNDS   5
#define ONCE     32
#define MAX      2048
#define CPU_TIME "CPU ns per datagram"
#define TIME     "ns per datagram"

/* What a call of the system moves. */
struct batch {
        struct mmsghdr messages[ONCE];
        struct iovec parts[ONCE];
        struct sockaddr_in names[ONCE];
        char data[ONCE][MAX];
        struct {
                _Alignas(struct cmsghdr) char bytes[CMSG_SPACE(sizeof(struct in_pktinfo))];
        } controls[ONCE];
};

static void
prepare(struct batch *batch, bool has_names)
{
        for (unsigned i = 0; i < ONCE; i++) {
                batch->parts[i] = (struct iovec){batch->data[i], MAX};
                batch->messages[i].msg_hdr = (struct msghdr){.msg_name = has_names ? &batch->names[i] : NULL,
                                                             .msg_namelen = has_names ? sizeof batch->names[i] : 0,
                                                             .msg_iov = &batch->parts[i],
                                                             .msg_iovlen = 1};
        }
}

static int
open_socket(in_addr_t address, int *port)
{
        struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
        socklen_t size = sizeof name;
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        if (bind(fd, (struct sockaddr *)&name, sizeof name) || getsockname(fd, (struct sockaddr *)&name, &size))
                abort();
        *port = ntohs(name.sin_port);
        return fd;
}

/* -- servers: each tells its port through the pipe, and serves until it is killed -- */

static void
tell(int pipe, int port)
{
        if (write(pipe, &port, sizeof port) != sizeof port)
                abort();
}

static void
serve_bare(int pipe)
{
        static struct batch batch;
        int port, fd = open_socket(INADDR_LOOPBACK, &port), epoll = epoll_create1(EPOLL_CLOEXEC);
        struct epoll_event event = {.events = EPOLLIN | EPOLLET};

        epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
        tell(pipe, port);
        while (epoll_wait(epoll, &event, 1, -1) >= 0) {
                int count;

                do {
                        prepare(&batch, true);
                        count = recvmmsg(fd, batch.messages, ONCE, MSG_DONTWAIT, NULL);
                        for (int i = 0; i < count; i++)
                                batch.parts[i].iov_len = batch.messages[i].msg_len;
                        if (count > 0)
                                sendmmsg(fd, batch.messages, (unsigned)count, 0);
                } while (count == ONCE);
        }
}

static void
start_runtime(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = 1;
        if (weir_init(&config))
                abort();
}

static void
echo(weir_task *request, void *unused)
{
        size_t size;
        const void *data = weir_udp_data(request, &size);

        (void)unused;
        weir_udp_reply(request, data, size);
}

static void
serve_weir(int pipe)
{
        start_runtime();
        tell(pipe, weir_udp_server_port(weir_udp_serve("127.0.0.1:0", echo, NULL)));
        pause();
}

static void
echo_many(weir_task *receive, void *udp)
{
        weir_task *send = weir_udp_send_many_new(udp, NULL, NULL);

        do {
                size_t size;
                const void *data = weir_udp_data(receive, &size);

                weir_udp_send_add(send, weir_udp_from(receive), data, size);
        } while (weir_udp_next(receive));
        weir_task_start(send);
        weir_task_start(weir_udp_receive_many_new(udp, 0, echo_many, udp));
}

static void
serve_tasks(int pipe)
{
        start_runtime();
        weir_udp *udp = weir_udp_open("127.0.0.1:0");
        weir_task_start(weir_udp_receive_many_new(udp, 0, echo_many, udp));
        tell(pipe, weir_udp_port(udp));
        pause();
}

static const struct peer {
        const char *name;
        void (*serve)(int pipe);
} peers[] = {{"epoll loop", serve_bare}, {"weir", serve_weir}, {"weir, tasks", serve_tasks}};

#define PEERS (sizeof peers / sizeof *peers)

/* -- the client -- */

static void
stay_on(int cpu)
{
        cpu_set_t set;

        CPU_ZERO(&set);
        CPU_SET((unsigned)(cpu % (int)sysconf(_SC_NPROCESSORS_ONLN)), &set);
        sched_setaffinity(0, sizeof set, &set);
}

/* Returns the process of the server. */
static pid_t
begin_server(const struct peer *peer, int *port)
{
        int pipes[2], parent = getpid();

        if (pipe(pipes))
                abort();
        pid_t pid = fork();
        if (pid == 0) {
                bench_follow_parent(parent);
                stay_on(0);
                peer->serve(pipes[1]);
                _exit(1);
        }
        close(pipes[1]);
        if (read(pipes[0], port, sizeof *port) != sizeof *port)
                abort();
        close(pipes[0]);
        return pid;
}

struct scenario {
        const char *name;
        size_t in_flight, size;
        unsigned senders;  /* addresses from which the client sends, so that the server has so many peers */
        unsigned segments; /* datagrams of a message that the client sends */
};

/* Makes messages of that many segments from the datagrams.  Returns how many messages. */
static unsigned
join(struct batch *batch, unsigned count, const struct scenario *scenario)
{
        uint16_t size = (uint16_t)scenario->size;

        for (unsigned i = 0; scenario->segments > 1 && i < count / scenario->segments; i++) {
                struct msghdr *header = &batch->messages[i].msg_hdr;

                header->msg_iov = &batch->parts[i * scenario->segments];
                header->msg_iovlen = scenario->segments;
                header->msg_control = batch->controls[i].bytes;
                header->msg_controllen = CMSG_SPACE(sizeof size);
                struct cmsghdr *part = CMSG_FIRSTHDR(header);
                part->cmsg_level = SOL_UDP;
                part->cmsg_type = UDP_SEGMENT;
                part->cmsg_len = CMSG_LEN(sizeof size);
                memcpy(CMSG_DATA(part), &size, sizeof size);
        }
        return count / scenario->segments;
}

/* The datagram comes from an address of the loopback network that the number chooses. */
static void
set_sender(struct batch *batch, unsigned index, unsigned number)
{
        struct msghdr *header = &batch->messages[index].msg_hdr;
        struct in_pktinfo info = {.ipi_spec_dst.s_addr = htonl(INADDR_LOOPBACK + number)};

        header->msg_control = batch->controls[index].bytes;
        header->msg_controllen = sizeof batch->controls[index].bytes;
        struct cmsghdr *part = CMSG_FIRSTHDR(header);
        part->cmsg_level = IPPROTO_IP;
        part->cmsg_type = IP_PKTINFO;
        part->cmsg_len = CMSG_LEN(sizeof info);
        memcpy(CMSG_DATA(part), &info, sizeof info);
}

/* Sends, and counts what comes back, until `count` have.  A datagram that is lost is sent again after a tenth of a second. */
static bool
run_client(int fd, const struct scenario *scenario, const struct sockaddr_in *server, size_t count)
{
        static struct batch batch;
        size_t out = 0, back = 0;
        unsigned sender = 0;

        while (back < count) {
                struct pollfd wait = {.fd = fd, .events = POLLIN};

                while (out + scenario->segments <= scenario->in_flight) {
                        unsigned most = scenario->in_flight - out < ONCE ? (unsigned)(scenario->in_flight - out) : ONCE;

                        most -= most % scenario->segments;
                        prepare(&batch, true);
                        for (unsigned i = 0; i < most; i++) {
                                batch.parts[i].iov_len = scenario->size;
                                batch.names[i] = *server;
                                if (scenario->senders > 1)
                                        set_sender(&batch, i, sender++ % scenario->senders);
                        }
                        int sent = sendmmsg(fd, batch.messages, join(&batch, most, scenario), 0);
                        if (sent <= 0)
                                return false;
                        out += (size_t)sent * scenario->segments;
                }
                if (poll(&wait, 1, 100) == 0)
                        out = 0;
                prepare(&batch, false);
                int got = recvmmsg(fd, batch.messages, ONCE, MSG_DONTWAIT, NULL);
                if (got > 0) {
                        back += (size_t)got;
                        out -= (size_t)got < out ? (size_t)got : out;
                }
                if (bench_interrupted())
                        return false;
        }
        return true;
}

static void
measure(const struct scenario *scenario, const struct peer *peer, size_t count)
{
        int port, own_port, fd = open_socket(INADDR_ANY, &own_port);
        pid_t pid = begin_server(peer, &port);
        struct sockaddr_in name = {
                .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((in_port_t)port)};
        clockid_t clock;

        if (clock_getcpuclockid(pid, &clock))
                abort();
        bool good = run_client(fd, scenario, &name, count / 10);
        int64_t cpu = bench_clock(clock), began = bench_now();
        good = good && run_client(fd, scenario, &name, count);
        if (good) {
                bench_sample(peer->name, scenario->name, CPU_TIME, (double)(bench_clock(clock) - cpu) / (double)count);
                bench_sample(peer->name, scenario->name, TIME, (double)(bench_now() - began) / (double)count);
        }
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        close(fd);
}

int
main(int argc, char *argv[])
{
        static const struct scenario scenarios[] = {
                {"echo of 32 bytes, 64 in flight, of 64 clients", 64, 32, 64, 1},
                {"echo of 32 bytes, 64 in flight, of one client", 64, 32, 1, 1},
                {"echo of 32 bytes, 1 in flight", 1, 32, 1, 1},
                {"echo of 1,200 bytes, 64 in flight, of 64 clients", 64, 1200, 64, 1},
                {"echo of 1,200 bytes, 64 in flight, in segments", 64, 1200, 1, 16},
        };
        struct bench_size size = bench_size_of(argc, argv);

        bench_begin();
        stay_on(1);
        for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
                size_t count = (size.quick ? 20000u : 200000u) / (scenarios[i].in_flight == 1 ? 4 : 1);

                if (!bench_wanted(&size, scenarios[i].name))
                        continue;
                for (unsigned round = 0; round < (size.quick ? 1 : ROUNDS); round++)
                        for (size_t peer = 0; peer < PEERS; peer++)
                                measure(&scenarios[i], &peers[(round + peer) % PEERS], count);
                for (size_t peer = 1; peer < PEERS; peer++) {
                        bench_ratio(peers[peer].name, peers[0].name, scenarios[i].name, CPU_TIME);
                        bench_ratio(peers[peer].name, peers[0].name, scenarios[i].name, TIME);
                }
                bench_print("udp");
        }
        return bench_interrupted();
}
