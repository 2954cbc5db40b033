/* client/tunnel/proxy.h: a proxy: where it is, how it is spoken to, and what it is told about the user. */
#ifndef WEIR_CLIENT_PROXY_H
#define WEIR_CLIENT_PROXY_H

#include <stdbool.h>
#include <stddef.h>

#define WEIR__PROXY_SECRET 255 /* bytes of a user's name, and of a password */

enum weir__proxy_kind { WEIR__PROXY_HTTP, WEIR__PROXY_SOCKS5 };

/* Constant, and the client's. */
struct weir__proxy {
        enum weir__proxy_kind kind;
        bool is_secure;      /* HTTP with TLS to the proxy */
        char *address;       /* "host:port", as weir_connect_new takes it */
        char *name;          /* "http://host:port", for people: without the user */
        char *authorization; /* HTTP: the value of Proxy-Authorization; or NULL */
        char *user;          /* SOCKS5; or NULL */
        char *password;      /* "": none was given */
};

/* What is wrong with a text. */
struct weir__proxy_fault {
        size_t at;        /* the byte, from 0 on */
        const char *text; /* a constant, which shows nothing of the text */
};

/* Reads "[scheme://][user[:password]@]host[:port]".  Schemes are http, which is the default, https, socks5 and socks5h.  Without
 * a port: 80, 443 or 1080.
 *
 * Owner:  the caller; weir__proxy_free.
 * Result: 0; -EINVAL with *fault; -ENOMEM. */
int weir__proxy_parse(const char *text, struct weir__proxy **proxy, struct weir__proxy_fault *fault);
void weir__proxy_free(struct weir__proxy *proxy); /* accepts NULL */

#endif
