/* net/resolve/files.h: the system's files about names: hosts, nsswitch.conf, and whether resolv.conf has changed. */
#ifndef WEIR_NET_FILES_H
#define WEIR_NET_FILES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <weir/time.h>

#include "kernel/socket/address.h"

#define WEIR__FILES_FRESH WEIR_SEC(5) /* of real time: so long nobody looks whether a file has changed */

/* Who is asked, in which order: the line `hosts:` of nsswitch.conf. */
enum weir__name_order {
        WEIR__ORDER_FILES_DNS = 0, /* also if there is no such line */
        WEIR__ORDER_DNS_FILES,
        WEIR__ORDER_FILES,
        WEIR__ORDER_DNS,
        WEIR__ORDER_SYSTEM, /* a module, or an action, that only the C library knows */
};

/* A name of the file of hosts. */
struct weir__host {
        const char *name; /* in lower case, not terminated */
        uint32_t size;
        uint32_t number; /* its position in the file */
        struct weir__socket_address address; /* port 0 */
};

struct weir__hosts {
        char *text;
        struct weir__host *all; /* sorted by name, and then as in the file */
        size_t count;
};

/* What tells that a file has changed. */
struct weir__file_stamp {
        dev_t device;
        ino_t inode;
        off_t size;
        struct timespec changed; /* all zero: there is no such file */
};

/* All three files as they were at one time.  Constant but for the count. */
struct weir__name_files {
        _Atomic uint32_t references;
        unsigned generation; /* of resolv.conf: changes with it */
        enum weir__name_order order;
        struct weir__hosts hosts;
        struct weir__file_stamp stamps[3];
};

/* Where they are, for tests to change before they are read. */
struct weir__name_paths {
        const char *hosts, *nsswitch, *resolv;
};
extern struct weir__name_paths weir__name_paths;

/* The files, with a reference, if somebody has looked at them within WEIR__FILES_FRESH.  NULL: it is time to look again.  Any
 * thread; never blocks. */
struct weir__name_files *weir__name_files_now(void);

/* The same after a look.  NULL when out of memory.  Any thread that may read files. */
struct weir__name_files *weir__name_files_look(void);

void weir__name_files_unref(struct weir__name_files *files); /* accepts NULL */

/* The next one who asks must look. */
void weir__name_files_forget(void);

/* -- pure -- */

/* The addresses of a name, in lower case, in the order of the file.  Result: how many, `room` at most. */
unsigned weir__hosts_find(const struct weir__hosts *hosts, const char *name, size_t size, int family,
                          struct weir__socket_address *to, unsigned room);

/* Reads a nsswitch.conf, a terminated text. */
enum weir__name_order weir__name_order_read(const char *text);

#endif
