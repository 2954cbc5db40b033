/* server/receive.c: what comes in on a connection: heads, bodies, and requests that are not yet their turn.
 *
 * Threads: the owner of the poller only.
 *
 * In the steady state a request is read into the poller's scratch buffer, and the connection owns no buffer at all.  Only what is
 * not a whole head, or belongs to a later request, is copied into `input`.  While an exchange is out nothing is read: what the
 * peer sends meanwhile waits in the socket, which slows it down. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/runtime.h"
#include "kernel/stream.h"
#include "server/server.h"

#define INPUT_STEP 4096

/* The exchange has its whole request: off to the handler. */
static void
dispatch(struct weir__connection *connection)
{
        if (weir__runtime_enter()) {
                weir__connection_close(connection);
                return;
        }
        weir__connection_enter(connection, WEIR__ANSWERING);
        weir__exchange_start(connection->exchange);
}

/* Makes `size` bytes at `data` (perhaps within it) the whole of the input.  Returns false when out of memory. */
static bool
keep(struct weir__connection *connection, const char *data, size_t size)
{
        if (size > connection->input_room) {
                char *input = realloc(connection->input, size);

                if (!input)
                        return false;
                connection->input = input;
                connection->input_room = size;
        }
        if (size)
                memmove(connection->input, data, size);
        connection->input_size = size;
        if (!size) {
                free(connection->input);
                connection->input = NULL;
                connection->input_room = 0;
        }
        return true;
}

/* A complete head may begin with one empty line. */
static bool
is_head(const char *data, size_t size)
{
        size_t begin = size > 2 && data[0] == '\r' ? 2 : 0;

        return size - begin > 5 && !memcmp(data + begin, "HEAD ", 5);
}

/* A complete head, and what came behind it. */
static void
begin_exchange(struct weir__connection *connection, const char *data, size_t size, size_t head_size)
{
        struct weir__request *request;
        int status = weir__request_new(data, head_size, connection->shard->server->config.max_body, &request);

        connection->gate = (struct weir__gate){0};
        if (status) {
                weir__connection_refuse(connection, status, is_head(data, head_size));
                return;
        }
        struct weir__exchange *exchange = connection->exchange = weir__exchange_new(connection, request);
        if (!exchange) {
                weir__connection_refuse(connection, 500, false);
                return;
        }
        size_t behind = size - head_size;
        connection->state = WEIR__READING_BODY;
        connection->body_have = behind < exchange->body_size ? behind : exchange->body_size;
        if (connection->body_have)
                memcpy(exchange->body, data + head_size, connection->body_have);
        size_t used = head_size + connection->body_have;
        if (!keep(connection, data + used, size - used)) {
                weir__connection_refuse(connection, 500, false);
        } else if (connection->body_have == exchange->body_size) {
                dispatch(connection);
        } else {
                weir__connection_enter(connection, WEIR__READING_BODY); /* and from now on its limit */
                if (request->expects_continue && !connection->body_have)
                        weir__connection_continue(connection);
        }
}

/* Bytes from the beginning of a request on: `size` of them, all there are. */
static void
take_head(struct weir__connection *connection, const char *data, size_t size)
{
        bool is_first = !connection->gate.scanned;
        size_t head_size;
        int verdict = weir__gate_feed(&connection->gate, &connection->shard->server->gate_limits, data, size, &head_size);

        if (verdict == WEIR__GATE_HEAD)
                begin_exchange(connection, data, size, head_size);
        else if (verdict != WEIR__GATE_MORE)
                weir__connection_refuse(connection, verdict, false);
        else if (data != connection->input && !keep(connection, data, size))
                weir__connection_refuse(connection, 500, false);
        else if (is_first)
                weir__connection_enter(connection, WEIR__READING_HEAD); /* from now on the limit is that of a head */
}

/* Reads into the buffer; returns the count, or 0 when there is nothing for now or the connection is closed. */
static size_t
read_some(struct weir__connection *connection, char *buffer, size_t room)
{
        ssize_t count = weir__stream_read(&connection->stream, buffer, room);

        if (count > 0) {
                /* A short read has emptied the socket, unless the end of the stream or an error hides behind it. */
                if ((size_t)count < room && !connection->ended)
                        connection->readable = false;
                return (size_t)count;
        }
        connection->readable = false;
        if (count != -EAGAIN)
                weir__connection_close(connection); /* in the middle of a request, or between two: nothing to answer */
        return 0;
}

static bool
make_room(struct weir__connection *connection)
{
        size_t room = connection->input_size + (connection->input_size < INPUT_STEP ? INPUT_STEP : connection->input_size);

        if (connection->input_room - connection->input_size >= INPUT_STEP / 4)
                return true;
        char *input = realloc(connection->input, room);
        if (!input)
                return false;
        connection->input = input;
        connection->input_room = room;
        return true;
}

static void
read_head(struct weir__connection *connection)
{
        bool fresh = !connection->input_size;

        if (!fresh && !make_room(connection)) {
                weir__connection_refuse(connection, 500, false);
                return;
        }
        char *buffer = fresh ? connection->shard->poller->scratch : connection->input;
        size_t have = connection->input_size;
        size_t count = read_some(connection, buffer + have, (fresh ? WEIR__SCRATCH_SIZE : connection->input_room) - have);
        if (!count)
                return;
        if (!fresh)
                connection->input_size += count;
        take_head(connection, buffer, have + count);
}

static void
read_body(struct weir__connection *connection)
{
        struct weir__exchange *exchange = connection->exchange;

        connection->body_have += read_some(connection, exchange->body + connection->body_have,
                                           exchange->body_size - connection->body_have);
        if (connection->state == WEIR__READING_BODY && connection->body_have == exchange->body_size)
                dispatch(connection);
}

void
weir__connection_receive(struct weir__connection *connection)
{
        while (connection->readable) {
                if (connection->state == WEIR__READING_HEAD)
                        read_head(connection);
                else if (connection->state == WEIR__READING_BODY)
                        read_body(connection);
                else
                        return;
        }
}

void
weir__connection_next(struct weir__connection *connection)
{
        weir__connection_enter(connection, WEIR__READING_HEAD);
        if (connection->input_size)
                take_head(connection, connection->input, connection->input_size);
        weir__connection_receive(connection);
}
