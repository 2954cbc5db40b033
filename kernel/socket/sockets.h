/* kernel/socket/sockets.h: lists of listening sockets, their names, and settings of descriptors. */
#ifndef WEIR_KERNEL_SOCKETS_H
#define WEIR_KERNEL_SOCKETS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

#include "kernel/socket/address.h"

enum weir__socket_origin {
        WEIR__SOCKET_MADE = 0,
        WEIR__SOCKET_GIVEN,     /* an address "fd:5" named its descriptor */
        WEIR__SOCKET_INHERITED, /* LISTEN_FDS */
};

/* A listening socket.  It is moved as a whole: from the inherited ones to a server, or back. */
struct weir__socket {
        int fd;
        uint8_t origin; /* enum weir__socket_origin */
        int number;     /* N of the address "fd:N" that asked for it, here or in the process that it comes from; -1: none did */
        unsigned order; /* index of its address among the server's addresses */
        unsigned group; /* sockets at the same address have the same group */

        /* The file of a Unix socket, if it is ours to remove. */
        bool has_file;
        dev_t device;
        ino_t inode;
        char path[sizeof((struct sockaddr_un *)0)->sun_path + 1];

        _Atomic size_t users; /* the last user closes it; acq_rel */
};

struct weir__sockets {
        struct weir__socket *all;
        unsigned count, room;
        unsigned groups;
};

/* The port of the first address that has one; -EDOM when none has. */
int weir__sockets_port(const struct weir__sockets *sockets);

/* Adds a user.  Returns false when the socket is closed.
 * Threads: any. */
bool weir__socket_join(struct weir__socket *socket);
void weir__socket_leave(struct weir__socket *socket);

/* Removes the files that are still ours.  The sockets must still listen: so nobody else can have taken a path over. */
void weir__sockets_remove_files(struct weir__sockets *sockets);

/* Frees the list.  The sockets belong to their users. */
void weir__sockets_free(struct weir__sockets *sockets);

/* Adds a socket with one user, without a number, in the group that is being made.  Returns NULL when out of memory. */
struct weir__socket *weir__sockets_add(struct weir__sockets *sockets, int fd);

/* Checks that a descriptor is a stream socket that listens.  Makes it non-blocking and close-on-exec; accepted connections have
 * TCP_NODELAY.
 *
 * Result: 0; -EBADF, -ENOTSOCK, -EINVAL. */
int weir__socket_adopt(int fd);
bool weir__socket_name(int fd, struct weir__socket_address *name); /* the address that a socket is bound to */

/* Switches an option of a socket on, if the system has it. */
void weir__socket_enable(int fd, int level, int option);

/* Puts a new eventfd in the place of `fd`.  An object that was made before a fork may be used in several processes: so each has
 * an eventfd of its own.
 *
 * Result: 0 or a negative errno. */
int weir__eventfd_renew(int fd);

/* Reads a decimal number of at most 7 digits that is the whole text.  Returns -1 for any other text, and for NULL. */
int weir__socket_number(const char *text);

#endif
