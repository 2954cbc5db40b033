/* bench/relay.h: a proxy under test in a process of its own, and the process that it carries to. */
#ifndef WEIR_BENCH_RELAY_H
#define WEIR_BENCH_RELAY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define RELAY_HAPROXY "/usr/sbin/haproxy"
#define RELAY_NGINX   "/usr/sbin/nginx"

struct relay {
        char directory[64];   /* for files of the proxy; "": there is none */
        pid_t proxy, backend; /* 0 or less: none */
        int port;             /* of the proxy */
};

/* The first and the last CPU of this process: the proxy has the former, all others have the latter. */
void relay_cpus(int *first, int *last);
void relay_place(int cpu);

/* A listening socket at a free port of 127.0.0.1, in *port. */
int relay_listen(int *port, int flags);

/* A socket that is connected to that port, or -1. */
int relay_connect(int port);

/* Makes the directory.  Returns false if it cannot. */
bool relay_begin(struct relay *relay);

/* Runs the backend in a process of its own on that CPU, until it is killed.  Closes the listener here. */
void relay_start_backend(struct relay *relay, int cpu, int listener, void (*serve)(int listener, void *context), void *context);

/* Runs the proxy in the same way.  `serve` writes the port, an int, to `report` (relay_tell).  Returns false if it does not. */
bool relay_start(struct relay *relay, int cpu, void (*serve)(int report, const char *directory, void *context), void *context);

/* Connects to the proxy so many times.  Some begin to listen later than they tell their port.  Returns false if it is in vain. */
bool relay_connect_all(const struct relay *relay, int *fds, unsigned count);

int64_t relay_cpu_time(const struct relay *relay); /* of the proxy, in nanoseconds */
void relay_end(struct relay *relay);

/* -- in the proxy -- */

void relay_tell(int report, int port);
int relay_choose_port(void); /* one that was free just now: programs do not tell theirs */
FILE *relay_configuration(char path[128], const char *directory);

#endif
