/* net/listen/serving.h: the servers that serve, of all protocols, and their names. */
#ifndef WEIR_NET_SERVING_H
#define WEIR_NET_SERVING_H

#include <stdbool.h>
#include <stddef.h>

#include "kernel/base/list.h"

struct weir__server;

#define WEIR__SERVER_NAME 160 /* bytes of the name of a server, with the NUL */

/* A server in the list of those that serve. */
struct weir__serving {
        struct weir__link link;
        bool is_disowned; /* the runtime ends: the branches disown what the program holds */
        unsigned ordinal; /* among those of its protocol that serve at the same address, from 1 on */
        char name[WEIR__SERVER_NAME];
};

/* Between these two calls the branches of the server must exist.  At the end of the runtime all branches of the servers between
 * disown what the program holds: weir__server_ops. */
void weir__serving_begin(struct weir__server *server);
void weir__serving_end(struct weir__server *server);

/* How many servers serve.  Any thread. */
size_t weir__serving_count(void);

/* Calls the function for each server of the protocol that serves, in the order of their starts, until it returns true.  It holds
 * a leaf lock: the function takes no other, and calls nothing of the program. */
void weir__serving_walk(const char *protocol, bool (*fn)(const struct weir__server *server, void *context), void *context);

/* Writes its first address, such as "127.0.0.1:8080" or "unix:/run/s", with "#2" and so on for a second server there.  Within
 * weir__serving_walk. */
#define WEIR__SERVING_NAME (WEIR__SERVER_NAME + 16)
void weir__serving_write_name(const struct weir__server *server, char out[WEIR__SERVING_NAME]);

#endif
