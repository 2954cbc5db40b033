/* kernel/socket/address.h: addresses of sockets: their texts, what these mean, and the resolving of names. */
#ifndef WEIR_KERNEL_ADDRESS_H
#define WEIR_KERNEL_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#define WEIR__HOST_BYTES   255 /* bytes of a host's name */
#define WEIR__ADDRESS_TEXT 128 /* room for what weir__address_print writes */

/* An address as the system takes it. */
struct weir__socket_address {
        union {
                struct sockaddr any;
                struct sockaddr_storage storage;
                struct sockaddr_un un;
        };
        socklen_t size;
};

/* The address of a text at which something has failed.  NULL: it failed for no address.  Size 0: the text has no address. */
struct weir__fault {
        const char *address; /* in the text that was given, not terminated */
        int size;
        const char *reason; /* in words, instead of the status; NULL: the status says all */
};

enum weir__address_kind {
        WEIR__ADDRESS_ANY = 0, /* ":80": every IPv4 address of this host */
        WEIR__ADDRESS_LITERAL, /* "127.0.0.1:80", "[::1]:80", "[fe80::1%eth0]:80" */
        WEIR__ADDRESS_NAME,    /* "example.org:80": must be resolved */
        WEIR__ADDRESS_UNIX,    /* "unix:path", "unix:@abstract" */
};

struct weir__address {
        enum weir__address_kind kind;
        in_port_t port;                   /* in the host's order; 0 for a Unix socket */
        struct weir__socket_address name; /* not of a NAME */
        char host[WEIR__HOST_BYTES + 1];    /* as it was written, without brackets; "" for ANY and a Unix socket */
};

/* Reads one address: "host:port", "[v6]:port", "unix:path" or "unix:@abstract".  Nothing is resolved.
 *
 * Result:  0; -EINVAL, -ENAMETOOLONG for the path of a Unix socket; the errors of socket(2) while the interface of a link-local
 *          address is looked up.  Then *reason says what was expected; NULL: it is none of the four forms.
 * Threads: any. */
int weir__address_parse(const char *text, size_t size, struct weir__address *address, const char **reason);

/* The same for an address to connect to, which has a host, and a port that is not 0. */
int weir__address_parse_peer(const char *text, size_t size, struct weir__address *address, const char **reason);

/* The same for a host, without brackets, and a port that were read otherwise, such as from a URL. */
int weir__address_set_host(struct weir__address *address, const char *host, size_t size, in_port_t port, const char **reason);

/* Takes "tls:" from the beginning of an address to connect to, and returns whether it was there.  The "tls" of "tls:443" is a
 * host: the prefix stands only before an address. */
bool weir__address_take_tls(const char **text, size_t *size);

/* Looks up all addresses of a host, for listening or for connecting, in the order in which they are to be tried.  For an
 * address that is not a NAME this is the address itself, and nothing blocks.
 *
 * Result:  their number, from 1 to `room`; -ENOENT: the name is not known; -EAGAIN: the servers of names do not answer; -EINVAL:
 *          the name cannot be looked up; -ENOMEM; another negative errno of the system.  Then *reason may say more.
 * Threads: any.  For a NAME it blocks, for seconds if a server does not answer: never on a poller. */
int weir__address_resolve(const struct weir__address *address, bool should_listen, struct weir__socket_address *names,
                          unsigned room, const char **reason);

/* The same for the name of a host alone, in one family; 0: in both.  The ports are 0. */
int weir__address_look_up(const char *host, int family, struct weir__socket_address *names, unsigned room, const char **reason);

/* The port in an address; NULL when it has none. */
in_port_t *weir__socket_port(struct weir__socket_address *name);

bool weir__socket_same_name(const struct weir__socket_address *one, const struct weir__socket_address *other);

/* Writes an address as weir__address_parse reads it, cut off at `size`.  Bytes that cannot be shown are '?'; the address of a
 * Unix socket without a name is "unix:". */
void weir__address_print(const struct weir__socket_address *name, char *text, size_t size);

/* The same for an address of IPv4 or IPv6 without its port and brackets. */
void weir__address_print_host(const struct weir__socket_address *name, char *text, size_t size);

#endif
