/* kernel/socket/sockets.h: lists of listening sockets, their names and their settings. */
#ifndef WEIR_KERNEL_SOCKETS_H
#define WEIR_KERNEL_SOCKETS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <netinet/in.h>
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

/* The port of the first address that has one; -EDOM: none has. */
int weir__sockets_port(const struct weir__sockets *sockets);

/* Another user, unless it is closed.  Any thread. */
bool weir__socket_join(struct weir__socket *socket);
void weir__socket_leave(struct weir__socket *socket);

/* Removes the files that are ours still.  While they listen: nobody else can have taken the paths over then. */
void weir__sockets_remove_files(struct weir__sockets *sockets);

/* Frees the list; the sockets belong to their users. */
void weir__sockets_free(struct weir__sockets *sockets);

/* A new last one, all zero but fd and said, with one user; NULL when out of memory. */
struct weir__socket *weir__sockets_add(struct weir__sockets *sockets, int fd);

/* Whether it is a stream socket that listens: 0; -EBADF, -ENOTSOCK, -EINVAL. */
int weir__socket_check(int fd);
bool weir__socket_name(int fd, struct weir__socket_address *name);

/* Where the port is in an address; NULL: it has none. */
in_port_t *weir__socket_port(struct weir__socket_address *name);

bool weir__same_name(const struct weir__socket_address *one, const struct weir__socket_address *other);

/* Switches an option of a socket on, if the system has it. */
void weir__socket_enable(int fd, int level, int which);

/* Close on exec, non-blocking, and for what it accepts TCP_NODELAY. */
int weir__socket_prepare(int fd);

#endif
