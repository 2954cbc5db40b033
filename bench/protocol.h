/* bench/protocol.h: servers of messages with their length before them, under test. */
#ifndef WEIR_BENCH_PROTOCOL_H
#define WEIR_BENCH_PROTOCOL_H

struct protocol_peer {
        const char *name;
        void (*serve)(int report); /* writes its port, an int, there, and serves until it is killed */
};

extern const struct protocol_peer protocol_peers[]; /* the first is weir's; the last has no name */

#endif
