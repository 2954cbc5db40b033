/* server/connection/connection.c: a connection: its states, its time limit, its end.
 *
 *     [HANDSHAKING ->] READING_HEAD -> [READING_BODY ->] ANSWERING -> [WRITING ->] READING_HEAD ...
 *          |              |                |               |            |
 *          +--------------+----------------+-- last reply -+------------+--> LINGERING --> GONE --> freed
 *          +--------------+----------------+---------------+------------+-- lost, cut, timed out --^
 *
 * http1.c gets the events and moves the connection from one state to the next.
 *
 * Threads: the owner of the poller only.  While an exchange is out, the connection reads only for tasks of that exchange, and
 *          writes only for them.  If it is lost meanwhile, its descriptor is closed at once.  Then it waits, GONE, until its
 *          exchange comes back.  Its transport or its exchange frees it, whichever comes last. */
#include "server/connection/connection.h"

#include <errno.h>
#include <stdlib.h>

#include "kernel/base/clock.h"
#include "kernel/base/phase.h"
#include "kernel/runtime/runtime.h"
#include "net/listen/admission.h"
#include "net/listen/listener.h"
#include "server/exchange/transfer.h"

#define LINGER_ALL WEIR_SEC(30)

/* -- time limits -- */

/* A client that has finished its side may have gone altogether.  Only something that is sent to it can tell: if the client has
 * gone, its system answers with a reset. */
bool
weir__connection_should_ask_client(const struct weir__connection *connection)
{
        const struct weir__exchange *exchange = connection->exchange;

        return connection->transport.has_ended && exchange && !exchange->is_client_asked &&
               !weir__connection_config(connection)->ignore_departure;
}

weir_nsec
weir__connection_reader_time_left(const struct weir__connection *connection)
{
        weir_nsec expires_at = connection->reading.reader ? connection->reading.reader->expires_at : WEIR_FOREVER, now;

        if (expires_at == WEIR_FOREVER)
                return WEIR_FOREVER;
        now = weir__clock_now();
        return expires_at > now ? expires_at - now : 0;
}

/* While the exchange is out, the limit depends on what it waits for.  The question to the client is due at once,
 * but behind other work: a handler that replies at once needs none. */
static weir_nsec
answering_limit(const struct weir__connection *connection)
{
        const struct weir_http_server_config *config = weir__connection_config(connection);
        const struct weir__transfer *events = weir__connection_event_stream(connection);
        weir_nsec reading = weir__connection_reader_time_left(connection);

        if (weir__connection_has_output(connection))
                return reading < config->write_timeout ? reading : config->write_timeout;
        if (weir__connection_should_ask_client(connection))
                return 0;
        if (connection->reading.reader)
                return reading;
        return events ? events->heartbeat : WEIR_FOREVER;
}

static weir_nsec
limit_of(const struct weir__connection *connection)
{
        const struct weir_http_server_config *config = weir__connection_config(connection);

        switch ((enum weir__connection_state)connection->state) {
        case WEIR__HANDSHAKING: return config->handshake_timeout;
        case WEIR__READING_HEAD:
                /* If the handshake ended after the stop had begun, the last request must come soon. */
                return connection->is_last || weir__connection_has_begun(connection) ? config->head_timeout
                                                                                     : config->idle_timeout;
        case WEIR__READING_BODY: return config->body_timeout;
        case WEIR__ANSWERING: return answering_limit(connection);
        case WEIR__WRITING: return config->write_timeout;
        case WEIR__LINGERING: /* the transport has its own */
        case WEIR__GONE: break;
        }
        return WEIR_FOREVER;
}

/* -- idle connections -- */

static struct weir__connection *
first_idle(struct weir__http_branch *branch)
{
        struct weir__link *first = weir__list_first(&branch->idle);

        return first ? weir__container_of(first, struct weir__connection, idle) : NULL;
}

static void
publish_idle(struct weir__http_branch *branch)
{
        const struct weir__connection *first = first_idle(branch);

        atomic_store_explicit(&branch->base.idle_since, first ? first->idle_since : WEIR_FOREVER, memory_order_relaxed);
}

static void
leave_idle(struct weir__connection *connection)
{
        struct weir__http_branch *branch = connection->client.branch;

        if (!weir__link_is_used(&connection->idle))
                return;
        weir__link_remove(&connection->idle);
        weir__count(&branch->counts, WEIR__COUNT_IDLE, -1);
        publish_idle(branch);
}

static void
enter_idle(struct weir__connection *connection, weir_nsec now)
{
        struct weir__http_branch *branch = connection->client.branch;

        leave_idle(connection);
        weir__count(&branch->counts, WEIR__COUNT_IDLE, 1);
        connection->idle_since = now;
        weir__list_append(&branch->idle, &connection->idle);
        publish_idle(branch);
        if (__builtin_expect(atomic_load_explicit(&branch->server->base.has_deficit, memory_order_relaxed), 0))
                weir__admission_evict(&branch->base);
}

bool
weir__connection_has_begun(const struct weir__connection *connection)
{
        const struct weir__gate *gate = &connection->reading.gate;

        return connection->transport.input.size && (!gate->scanned || weir__gate_has_begun(gate));
}

bool
weir__connection_is_idle(const struct weir__connection *connection)
{
        return connection->state == WEIR__READING_HEAD && !weir__connection_has_begun(connection);
}

void
weir__connection_enter(struct weir__connection *connection, enum weir__connection_state state)
{
        connection->state = (uint8_t)state;
        weir_nsec duration = limit_of(connection), now = duration == WEIR_FOREVER ? 0 : weir__clock_now();

        if (weir__connection_is_idle(connection))
                enter_idle(connection, now ? now : weir__clock_now());
        else
                leave_idle(connection);
        connection->is_used |= state != WEIR__READING_HEAD && state != WEIR__HANDSHAKING;
        if (weir__connection_has_output(connection))
                weir__output_note_untaken(&connection->transport);
        (void)weir__transport_set_limit(&connection->transport, now, duration);
}

/* -- birth and death -- */

static void
free_buffers(struct weir__connection *connection)
{
        weir__link_remove(&connection->link);
        weir__transport_done(&connection->transport);
}

/* The program holds its exchange, and nobody waits for that: the exchange gets the memory of the connection, where its client
 * is. */
static void
detach_exchange(struct weir__connection *connection)
{
        struct weir__exchange *exchange = connection->exchange;
        weir_http_server *server = connection->client.branch->server;

        weir__record_end(exchange);
        connection->exchange = NULL;
        free_buffers(connection);
        weir__server_ref(&server->base);
        weir__exchange_detach(exchange);
        weir__users_remove(&server->base.users);
        weir__runtime_leave();
}

/* It is called again by an exchange that is still out, or by work that is on its way. */
void
weir__connection_free(struct weir__connection *connection)
{
        struct weir__users *users = &connection->client.branch->server->base.users;

        if (!weir__transport_is_unused(&connection->transport))
                return;
        if (connection->has_reference) {
                detach_exchange(connection);
                return;
        }
        if (connection->exchange)
                return;
        free_buffers(connection);
        free(connection->client.certificate);
        weir__free(connection, sizeof *connection);
        weir__users_remove(users);
}

/* The connection is closed and its exchange is out: tells the tasks that wait in it, and cancels the series. */
static void
notify_exchange(struct weir__connection *connection)
{
        struct weir__transfer *reader = connection->reading.reader;
        int shutdown = weir__phase_is_stopping() ? -ESHUTDOWN : 0;

        connection->reading.reader = NULL;
        if (reader)
                weir__transfer_complete(reader, shutdown ? shutdown : -ECONNRESET);
        for (struct weir__writer *writer; (writer = weir__writer_of(weir__list_pop(&connection->transport.writers)));)
                weir__transfer_complete(weir__transfer_of(writer), shutdown ? shutdown : -EPIPE);
        if (connection->exchange->event_stream)
                weir__transfer_complete(connection->exchange->event_stream, shutdown ? shutdown : -EPIPE);
        if (!shutdown && !weir__connection_config(connection)->ignore_departure) /* at shutdown all series end by themselves */
                weir__exchange_cut(connection->exchange);
}

void
weir__connection_closed(struct weir__connection *connection)
{
        struct weir__http_branch *branch = connection->client.branch;

        if (connection->state == WEIR__READING_BODY)
                weir__connection_drop_exchange(connection);
        leave_idle(connection);
        weir__file_close(&connection->writing.file);
        weir__reply_free_kept(&connection->writing);
        connection->state = WEIR__GONE;
        weir__record_written(connection, false);
        if (connection->exchange)
                notify_exchange(connection);
        branch->turned_away -= !connection->is_admitted;
        weir__listeners_connection_closed(&branch->base, &connection->client.peer, connection->is_admitted,
                                          connection->has_permit);
}

void
weir__connection_close(struct weir__connection *connection)
{
        weir__transport_close(&connection->transport);
}

void
weir__connection_drop_exchange(struct weir__connection *connection)
{
        if (connection->exchange) {
                weir__record_end(connection->exchange);
                weir__exchange_free(connection->exchange);
        }
        connection->exchange = NULL;
        if (connection->state == WEIR__GONE)
                weir__connection_free(connection);
}

/* -- the end -- */

void
weir__connection_finish(struct weir__connection *connection)
{
        bool has_unread = connection->reading.is_refused || connection->reading.is_unread;

        if (weir__transport_may_close(&connection->transport, has_unread)) {
                weir__connection_close(connection);
                return;
        }
        weir__connection_enter(connection, WEIR__LINGERING);
        weir__transport_linger(&connection->transport,
                               connection->client.branch->base.is_stopping ? WEIR__LINGER_AT_STOP : LINGER_ALL);
}

struct weir__connection *
weir__connection_longest_idle(struct weir__http_branch *branch)
{
        struct weir__connection *each = first_idle(branch);

        while (each && weir__input_peek(&each->transport) > 0) {
                struct weir__link *next = weir__list_next(&branch->idle, &each->idle);

                each = next ? weir__container_of(next, struct weir__connection, idle) : NULL;
        }
        return each;
}

void
weir__connection_evict(struct weir__connection *connection, bool has_permit)
{
        weir__count(&connection->client.branch->counts, WEIR__COUNT_EVICTED, 1);
        connection->has_permit = has_permit;
        weir__connection_close(connection);
}
