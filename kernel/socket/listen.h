/* kernel/socket/listen.h: listening sockets: made, given by number, or inherited. */
#ifndef WEIR_KERNEL_LISTEN_H
#define WEIR_KERNEL_LISTEN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

enum weir__socket_origin {
        WEIR__SOCKET_MADE = 0,
        WEIR__SOCKET_GIVEN,     /* by its number: "fd:5" */
        WEIR__SOCKET_INHERITED, /* LISTEN_FDS */
};

/* A listening socket.  It is moved as a whole: from what was inherited to a server, or back. */
struct weir__socket {
        int fd;
        uint8_t origin; /* enum weir__socket_origin */
        int said;       /* the number that "fd:N" asked for it by, here or in the process it comes from; -1: none did */
        unsigned order; /* which of the server's addresses it is for */
        unsigned group; /* sockets at one and the same address have the same */

        /* The file of a Unix socket which is ours to remove. */
        bool has_file, is_from_weir; /* the second: handed over by another weir */
        dev_t device;
        ino_t inode;
        char path[sizeof((struct sockaddr_un *)0)->sun_path + 1];

        _Atomic unsigned users; /* who leaves last closes it; acq_rel */
};

struct weir__sockets {
        struct weir__socket *all;
        unsigned count, room;
        unsigned groups;
};

/* The address of a socket, as it was bound. */
struct weir__socket_address {
        union {
                struct sockaddr any;
                struct sockaddr_storage storage;
                struct sockaddr_un un;
        };
        socklen_t size;
};

/* What a start has to say of the address that it failed for.  Size 0: there was none in the text; NULL: it did not fail for one. */
struct weir__fault {
        const char *address; /* in the text that was given, not terminated */
        int size;
};

/* Opens sockets at each of the addresses, which commas or spaces separate: "host:port" and "[v6]:port", `count` sockets each
 * (SO_REUSEPORT: the system spreads connections over them); an empty host is every IPv4 address, port 0 takes a free one;
 * "unix:path", "unix:@abstract"; "fd:3", a descriptor; "listen:", all that was inherited and nobody asked for by its address.
 * What was inherited with an address that is named is used for it.
 *
 * Owner:  the caller, by weir__sockets_close; `sockets` is empty before, and after a failure.
 * Result:  0; -EINVAL for an address that is none; -EADDRINUSE also when another process listens there with SO_REUSEPORT;
 *         -ENAMETOOLONG for a path; -EBADF, -ENOTSOCK and -EINVAL for descriptors; -ENOENT for "listen:" when nothing was
 *         inherited; what socket, bind and listen report.
 * Threads: any, several at once.  May block while a name is resolved. */
int weir__listen(const char *addresses, unsigned count, struct weir__sockets *sockets, struct weir__fault *fault);

/* The port of the first address that has one; -EDOM: none has. */
int weir__sockets_port(const struct weir__sockets *sockets);

/* Another user, unless it is closed.  Any thread. */
bool weir__socket_join(struct weir__socket *socket);
void weir__socket_leave(struct weir__socket *socket);

/* Removes the files that are ours still.  While they listen: nobody else can have taken the paths over then. */
void weir__sockets_remove_files(struct weir__sockets *sockets);

/* After a start that failed, each with one user: inherited ones are given back, given ones stay open, the others are closed,
 * and their files removed. */
void weir__sockets_undo(struct weir__sockets *sockets);

/* Frees the list; the sockets belong to their users. */
void weir__sockets_free(struct weir__sockets *sockets);

/* -- for inherit.c -- */

/* A new last one, all zero but fd and said, with one user; NULL when out of memory. */
struct weir__socket *weir__sockets_add(struct weir__sockets *sockets, int fd);

/* Whether it is a stream socket that listens: 0; -EBADF, -ENOTSOCK, -EINVAL. */
int weir__socket_check(int fd);
bool weir__socket_name(int fd, struct weir__socket_address *name);
bool weir__same_name(const struct weir__socket_address *one, const struct weir__socket_address *other);

/* Close on exec, non-blocking, and for what it accepts TCP_NODELAY. */
int weir__socket_prepare(int fd);

#endif
