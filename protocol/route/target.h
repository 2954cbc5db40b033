/* protocol/route/target.h: the parts of a request's target.  Pure functions; nothing is copied but by weir__path_decode.
 *
 * Source: RFC 9112 section 3.2, RFC 3986 section 3. */
#ifndef WEIR_PROTOCOL_TARGET_H
#define WEIR_PROTOCOL_TARGET_H

#include <stdbool.h>
#include <stddef.h>

struct weir__target {
        const char *authority; /* of an absolute-form target; else NULL */
        size_t authority_size;
        const char *path; /* as it came; a literal where the target has none */
        size_t path_size;
        size_t decoded_size; /* of the path, percent-decoded */
        const char *query;   /* behind the '?', up to the target's end; NULL when there is none */
        bool is_asterisk;    /* the target is "*" */
};

/* Reads a target, which the gate has passed, in the form that its method allows.
 *
 * Result: 0; 400 for a form that is invalid or not for this method, an invalid authority, or a path with an invalid escape or an
 *         escaped NUL; 501 for a valid CONNECT, which is not served. */
int weir__target_read(struct weir__target *target, const char *method, size_t method_size, const char *text, size_t size);

/* The host that a text begins with: its size, or 0 when there is none.  An IPv6 address stands between brackets.
 *
 * Source: RFC 3986 section 3.2.2. */
size_t weir__host_size(const char *text, size_t size);

/* Whether it is host [":" port], with a host that is not empty.  The value of a Host field has the same form. */
bool weir__authority_is_valid(const char *text, size_t size);

/* Percent-decodes a path that weir__target_read has accepted.  Returns the end of the output. */
char *weir__path_decode(char *out, const char *path, size_t size);

#endif
