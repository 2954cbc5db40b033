/* test/http_client.h: the other end of the wire for the suites of the server: sockets, bytes, and replies taken apart.
 *
 * It knows nothing of the library's protocol code.  A client belongs to one thread.  What must happen and does not within
 * WEIR_TEST_PATIENCE aborts with the reason. */
#ifndef WEIR_TEST_HTTP_CLIENT_H
#define WEIR_TEST_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/weir.h>

#include "test/support.h"

struct http_client {
        int fd;
        char *input; /* what has come and was not taken by http_receive */
        size_t size, room;
        bool ended; /* the server has finished its side, or reset the connection, which is ... */
        bool reset; /* ... this */
};

/* A reply.  All zero before the first use; http_receive frees what was in it. */
struct http_reply {
        int status;
        char *head; /* status line and fields, NUL-terminated */
        char *body; /* NUL-terminated */
        size_t size;
        size_t chunks;   /* in which it came, the last one among them */
        char value[256]; /* of http_field */
};

/* A server at 127.0.0.1 and a free port. */
weir_http_server *http_server(const struct weir_http_server_config *config, weir_task_fn *handler, void *context);

/* Connects to 127.0.0.1.  `window` limits what the client takes in without being asked; 0: the system's own choice. */
void http_open(struct http_client *client, int port);
void http_open_window(struct http_client *client, int port, int window);
void http_close(struct http_client *client);
void http_abandon(struct http_client *client); /* with a reset */

/* Sends all, at once or in packets of `piece` bytes.  Returns false when the server did not take it: it has closed. */
bool http_send(struct http_client *client, const void *data, size_t size);
bool http_send_text(struct http_client *client, const char *text);
bool http_send_pieces(struct http_client *client, const void *data, size_t size, size_t piece);

/* Takes in what there is, at least something, so that http_receive finds it. */
void http_read_some(struct http_client *client);

/* The next reply; `to_head` for one to HEAD.  Returns false when the connection ends before it is complete. */
bool http_receive(struct http_client *client, struct http_reply *reply, bool to_head);
void http_reply_done(struct http_reply *reply);

/* The next reply, whose body ends with the connection.  Returns false for one that was reset. */
bool http_receive_to_end(struct http_client *client, struct http_reply *reply);

/* Sends a request and receives its reply. */
bool http_ask(struct http_client *client, const char *request, struct http_reply *reply);

/* The value of the reply's first field of that name, in any case; NULL when there is none. */
const char *http_field(struct http_reply *reply, const char *name);
unsigned http_field_count(const struct http_reply *reply, const char *name);

/* Whether the connection ends with nothing more coming before.  Waits for either. */
bool http_is_over(struct http_client *client);

/* Whether something, or the end, has come within that time. */
bool http_has_news(struct http_client *client, int64_t nanoseconds);

/* Descriptors that the process has open. */
unsigned http_open_descriptors(void);

/* Asserts that the text is there and equal. */
#define HTTP_ASSERT_TEXT(actual, expected)                                                          \
        do {                                                                                        \
                const char *http_actual_ = (actual);                                                \
                CU_ASSERT_PTR_NOT_NULL(http_actual_);                                               \
                CU_ASSERT_STRING_EQUAL(http_actual_ ? http_actual_ : "", (expected));               \
        } while (0)

#endif
