/* protocol/route/url_parts.h: the parts of a URL: text taken apart, checked, and put together again.  Pure functions; nothing is
 * allocated.
 *
 * Source: RFC 3986. */
#ifndef WEIR_PROTOCOL_URL_PARTS_H
#define WEIR_PROTOCOL_URL_PARTS_H

#include <weir/url.h>

/* A piece of text; absent, if `text` is NULL. */
struct weir__url_part {
        const char *text;
        size_t size;
};

struct weir__url_parts {
        struct weir__url_part scheme, userinfo;
        struct weir__url_part host; /* with the brackets of an IPv6 address; present if there is an authority */
        struct weir__url_part port;
        struct weir__url_part path; /* always present */
        struct weir__url_part query, fragment;
};

/* Notes a problem, unless `problem` is NULL, and sets errno to `error`.  Result: false. */
bool weir__url_refuse(struct weir_url_problem *problem, size_t at, const char *text, int error);

/* Makes them the parts of a copy of their text. */
void weir__url_move(struct weir__url_parts *parts, const char *text, const char *copy);

/* Divides a text that is valid, or will be checked. */
void weir__url_split(struct weir__url_parts *parts, const char *text, size_t size);

/* Divides and checks a URL; if `base` is there, a reference for a URL with that scheme. */
bool weir__url_read(struct weir__url_parts *parts, const char *text, size_t size, const struct weir__url_part *base,
                    struct weir_url_problem *problem);

/* Whether a text is a scheme. */
bool weir__url_check_scheme(const struct weir__url_part *scheme, struct weir_url_problem *problem);

/* Whether a text is a host of that scheme, with the brackets of an IPv6 address. */
bool weir__url_check_host(const struct weir__url_part *host, const struct weir__url_part *scheme,
                          struct weir_url_problem *problem);

/* The port of a scheme; -1 for one that has none here.  Those that have one need a host. */
int weir__url_default_port(const struct weir__url_part *scheme);

/* Lower-cases a scheme or a host, but for its escapes. */
void weir__url_lower(char *text, size_t size);

/* Removes the segments "." and ".." in place.  Returns the size that is left.
 *
 * Source: RFC 3986 section 5.2.4. */
size_t weir__url_remove_dots(char *path, size_t size);

/* The most bytes that weir__url_compose writes. */
size_t weir__url_room(const struct weir__url_parts *parts);

/* Writes the text of a URL without a NUL.  Returns its end. */
char *weir__url_compose(char *out, const struct weir__url_parts *parts);

/* Whether the text that was divided is in normal form already, as most are, once its scheme and host are lower case. */
bool weir__url_is_normal(const struct weir__url_parts *parts, const char *text, size_t size);

/* Writes the same URL in normal form.  `scratch` has room for as many bytes as the text has, and `out` for WEIR__URL_NORMAL_MORE
 * more.  Returns the end of the output. */
#define WEIR__URL_NORMAL_MORE 48
char *weir__url_normalize(char *out, char *scratch, const char *text, size_t size);

#endif
