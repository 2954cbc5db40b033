/* bench/echo.h: TCP echo servers under test. */
#ifndef WEIR_BENCH_ECHO_H
#define WEIR_BENCH_ECHO_H

struct echo_peer {
        const char *name;
        void (*serve)(int report); /* writes its port, an int, there, and serves until it is killed */
};

extern const struct echo_peer echo_peers[]; /* the first is weir's; the last has no name */

/* A listening socket at a free port of 127.0.0.1, which is written to `report`. */
int echo_listen(int report, int flags);

#endif
