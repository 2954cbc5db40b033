/* bench/pump.h: proxies under test: what comes on a connection goes to one of the proxy's own, and back. */
#ifndef WEIR_BENCH_PUMP_H
#define WEIR_BENCH_PUMP_H

#include <stdbool.h>
#include <stddef.h>

struct pump_proxy {
        const char *name;
        /* In a process of its own: carries all to and from that port of 127.0.0.1, until it is killed.  Writes the port that it
         * listens at, an int, to `report`; with `program` one that it will listen at. */
        void (*serve)(const struct pump_proxy *proxy, int report, int sink, const char *directory);
        const char *program; /* that it needs; NULL: none */
        const char *module;  /* a file that it needs; NULL: none */
        const char *package; /* that both come with */
        size_t room;         /* bytes of a buffer; 0: the proxy's default */
        bool splices;
        bool is_raw; /* a bare loop: those that copy have no case of messages */
};

extern const struct pump_proxy pump_proxies[]; /* the first is weir's; the last has no name */

#endif
