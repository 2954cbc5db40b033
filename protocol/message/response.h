/* protocol/message/response.h: a response: its fields checked, its head written out.  No I/O. */
#ifndef WEIR_PROTOCOL_RESPONSE_H
#define WEIR_PROTOCOL_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/text/lines.h"

/* The whole interim response to a request with is_continue_expected. */
#define WEIR__HTTP_CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

/* Bytes that need no memory beside the response: one or two fields, and a line of text. */
#define WEIR__RESPONSE_FIELDS 58
#define WEIR__RESPONSE_BODY   26

/* Fields and body that a handler builds.  All zero is an empty 200.  It stays where it is: it may point into itself. */
struct weir__response {
        struct weir__lines fields;
        char *body;
        size_t body_size, body_room;
        int status; /* 0 stands for 200 */
        char short_fields[WEIR__RESPONSE_FIELDS], short_body[WEIR__RESPONSE_BODY]; /* memory for those that are short */
};

void weir__response_done(struct weir__response *response); /* frees its memory and makes it empty again */

/* The address of the pointer to the body, for a caller that takes the memory over and frees it; NULL when there is nothing to
 * take. */
char **weir__response_body_to_take(struct weir__response *response);

/* Replaces the body by this one, which must not be empty.  The response frees it. */
void weir__response_replace_body(struct weir__response *response, char *body, size_t size);

/* Adds a field (removing those of that name first, when `should_replace`).  White space around the value does not go out.
 *
 * Result: 0; -EINVAL for a bad name or value, or for one of Content-Length, Transfer-Encoding, Connection, Date; -ENOMEM.
 *         Nothing has changed on failure.
 * Source: RFC 9110 sections 5.1 and 5.5. */
int weir__response_field(struct weir__response *response, const char *name, const char *value, bool should_replace);
void weir__response_remove(struct weir__response *response, const char *name); /* all of that name */
bool weir__response_has_field(const struct weir__response *response, const char *name);

/* The value of the next field of that name: *at is 0 before the first.  The value has no NUL behind it.  Returns false when
 * none is left. */
bool weir__response_next(const struct weir__response *response, const char *name, size_t *at, const char **value, size_t *size);

/* Puts text in front of and behind the value of the first field of that name, which is there.
 *
 * Result: 0; -ENOMEM, nothing changed. */
int weir__response_wrap(struct weir__response *response, const char *name, const char *before, const char *behind);

/* Appends to the body.  Result: 0; -EINVAL for NULL with a size; -ENOMEM.  Nothing appended on failure. */
int weir__response_append(struct weir__response *response, const void *data, size_t size);

/* How the client finds the end of the body. */
enum weir__body_end {
        WEIR__END_OF_BODY = 0,   /* by the length of the response's own body */
        WEIR__END_AT_LENGTH,     /* by `length` */
        WEIR__END_BY_CHUNK,      /* by a last chunk */
        WEIR__END_OF_CONNECTION, /* by the connection's */
        WEIR__END_OF_HTTP,       /* none: the connection is upgraded */
};

/* How a response is framed. */
struct weir__framing {
        const char *date; /* an IMF-fixdate, 29 characters */
        bool is_persistent;         /* else `Connection: close` goes out */
        bool should_say_keep_alive; /* `Connection: keep-alive` goes out even in HTTP/1.1 */
        uint8_t minor;    /* of the request's HTTP/1.minor: 1.0 needs `Connection: keep-alive` said */
        bool is_head;     /* HEAD: the fields of GET and no body */
        uint8_t end;      /* enum weir__body_end */
        uint64_t length;
        const char *upgrade; /* with WEIR__END_OF_HTTP: the protocol, of at most WEIR__UPGRADE_MAX characters */
};

#define WEIR__UPGRADE_MAX 64

/* The most bytes that weir__response_head writes for this response. */
size_t weir__response_head_bound(const struct weir__response *response);

/* Writes status line, fields and the empty line to `out`, which has room for weir__response_head_bound.
 *
 * Result: the bytes written.
 * Source: RFC 9110 sections 6.4.1, 8.6 and 15: 204, 205 and 304 carry no body; 204 (and 1xx) no Content-Length, 205 that of 0,
 *         304 that of the body, if it has one, which is then held back. */
size_t weir__response_head(const struct weir__response *response, const struct weir__framing *framing, char *out);

/* Whether a body may be sent behind the head at all. */
bool weir__response_may_have_body(const struct weir__response *response, const struct weir__framing *framing);

/* Whether there is a body to be sent behind the head. */
bool weir__response_has_body(const struct weir__response *response, const struct weir__framing *framing);

#endif
