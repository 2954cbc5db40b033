/* server/server.c: a server as a whole: made, started, stopped, freed.
 *
 *     NEW --start--> SERVING --stop--> STOPPED --> freed
 *      \--stop, free-------------------^
 *
 * Threads: these calls come from threads that are no workers, one at a time under server->lock (rank SERVER, held while they
 *          wait). What concerns a shard is carried out by the owner of its poller: an order is work that is delivered to every
 *          poller, and the one who gave it waits until all have carried it out.
 *
 * `open` keeps the server: it counts listeners, connections, work of theirs that is on its way, and, from start to stop, the server
 * itself, so that it comes to 0 once.  Who brings it to 0 writes the eventfd, and does not touch the server any more; stop returns
 * only after it has read that. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "kernel/clock.h"
#include "kernel/config.h"
#include "kernel/inherit.h"
#include "kernel/log.h"
#include "kernel/panic.h"
#include "kernel/runtime.h"
#include "kernel/stream.h"
#include "protocol/gzip.h"
#include "server/server.h"

#define MAX_HEAD      ((size_t)32 * 1024)
#define MAX_LINE      ((size_t)8 * 1024)
#define MAX_FIELDS    256
#define MAX_PAIRS     1000
#define MAX_BODY      ((size_t)1024 * 1024)
#define HEAD_TIMEOUT  WEIR_SEC(10)
#define BODY_TIMEOUT  WEIR_SEC(30)
#define IDLE_TIMEOUT  WEIR_SEC(60)
#define WRITE_TIMEOUT WEIR_SEC(60)
#define HANDSHAKE     WEIR_SEC(10)

#define COMPRESS_LEAST 1024

void
weir__server_opened(weir_http_server *server)
{
        atomic_fetch_add_explicit(&server->open, 1, memory_order_relaxed);
}

void
weir__server_closed(weir_http_server *server)
{
        int quiet_fd = server->quiet_fd;

        if (atomic_fetch_sub_explicit(&server->open, 1, memory_order_acq_rel) == 1) {
                weir__runtime_wait_end(false); /* of who stops it */
                eventfd_write(quiet_fd, 1);
        }
}

/* -- configuration -- */

static void
default_size(size_t *field, size_t value)
{
        *field = *field ? *field : value;
}

static int
default_time(weir_nsec *field, weir_nsec value)
{
        *field = *field ? *field : value;
        return *field < 0 ? -EINVAL : 0;
}

/* Fills the defaults in.  Returns 0, or what the start is to report. */
static int
read_config(struct weir_http_server_config *to, const struct weir_http_server_config *from)
{
        *to = (struct weir_http_server_config)WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        int failed = from ? weir__config_read(to, sizeof *to, from) : 0;
        if (failed)
                return failed;
        default_size(&to->max_connections, SIZE_MAX);
        default_size(&to->max_connections_per_address, SIZE_MAX);
        default_size(&to->max_head, MAX_HEAD);
        default_size(&to->max_body, MAX_BODY);
        default_size(&to->max_line, MAX_LINE);
        default_size(&to->max_fields, MAX_FIELDS);
        default_size(&to->max_pairs, MAX_PAIRS);
        if (to->max_head == SIZE_MAX)
                to->max_head = WEIR__HEAD_MAX;
        to->compress_least = to->compress_least ? to->compress_least : COMPRESS_LEAST;
        if (to->max_head > WEIR__HEAD_MAX || to->compress < 0 || to->compress > WEIR__GZIP_LEVEL_MAX)
                return -EINVAL;
        failed = default_time(&to->head_timeout, HEAD_TIMEOUT);
        failed = failed ? failed : default_time(&to->body_timeout, BODY_TIMEOUT);
        failed = failed ? failed : default_time(&to->idle_timeout, IDLE_TIMEOUT);
        failed = failed ? failed : default_time(&to->write_timeout, WRITE_TIMEOUT);
        failed = failed ? failed : default_time(&to->handshake_timeout, HANDSHAKE);
        return failed ? failed : default_time(&to->shed_lateness, WEIR_FOREVER);
}

weir_http_server *
weir_http_server_new(const struct weir_http_server_config *config, weir_task_fn *handler, void *context)
{
        weir_http_server *server = calloc(1, sizeof *server);

        if (!server)
                return NULL;
        server->fault = read_config(&server->config, config);
        int failed = weir__secure_init(server);
        if (!server->fault)
                server->fault = failed;
        if (!handler)
                server->fault = -EINVAL;
        if (!server->fault) {
                struct weir_http_server_config *own = &server->config;

                server->fault = weir__proxies_new(own->trusted_proxies, own->forwarded_field, &server->proxies);
                own->trusted_proxies = own->forwarded_field = NULL; /* the caller's memory, which may go now */
        }
        server->gate_limits = (struct weir__gate_limits){
                .max_line = server->config.max_line,
                .max_head = server->config.max_head,
                .max_fields = server->config.max_fields,
        };
        server->handler = handler;
        server->context = context;
        if (!server->fault)
                server->fault = weir__access_new(&server->config, &server->access);
        server->config.access_log = NULL; /* the caller's memory, which may go now */
        server->quiet_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        server->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if ((server->quiet_fd < 0 || server->ended_fd < 0) && !server->fault)
                server->fault = -errno;
        atomic_init(&server->port, -EDOM);
        weir__lock_init(&server->lock, WEIR__RANK_SERVER);
        return server;
}

/* -- orders -- */

static void
carried_out(weir_http_server *server)
{
        struct weir__latch *ordered = server->ordered;

        if (atomic_fetch_sub_explicit(&server->orders_left, 1, memory_order_acq_rel) == 1)
                weir__latch_open(ordered);
}

static struct weir__shard *
shard_of(struct weir__work *work)
{
        return (struct weir__shard *)((char *)work - offsetof(struct weir__shard, order));
}

static void
open_run(struct weir__work *work)
{
        struct weir__shard *shard = shard_of(work);

        shard->failed = weir__listeners_open(shard);
        carried_out(shard->server);
}

static void
stop_run(struct weir__work *work)
{
        struct weir__shard *shard = shard_of(work);

        weir__listeners_close(shard);
        weir__admission_close(shard);
        shard->stopping = true;
        for (struct weir__connection *each = shard->first; each; each = each->next)
                weir__connection_stop(each);
        carried_out(shard->server);
}

static void
cut_run(struct weir__work *work)
{
        struct weir__shard *shard = shard_of(work);

        for (struct weir__connection *each = shard->first; each; each = each->next)
                if (weir__connection_cut(each))
                        atomic_fetch_add_explicit(&shard->server->cut, 1, memory_order_relaxed);
        carried_out(shard->server);
}

/* Has each shard do something, and waits until all have.  Returns what weir__runtime_enter reports when there are no workers any
 * more: then the runtime's end has closed everything, or is about to. */
static int
give_order(weir_http_server *server, const struct weir__work_ops *ops)
{
        struct weir__latch ordered = {0};
        int failed = weir__runtime_enter();

        if (!failed && server->generation != weir__runtime.generation) {
                weir__runtime_leave();
                failed = -ESHUTDOWN; /* those workers are no more, although there are others */
        }
        if (failed)
                return failed;
        server->ordered = &ordered;
        atomic_store_explicit(&server->orders_left, server->shard_count, memory_order_release);
        for (unsigned i = 0; i < server->shard_count; i++) {
                server->shards[i].order.ops = ops;
                weir__poller_deliver(server->shards[i].poller, &server->shards[i].order);
        }
        weir__latch_wait(&ordered);
        server->ordered = NULL;
        weir__runtime_leave();
        return 0;
}

static const struct weir__work_ops open_ops = {.run = open_run}, stop_ops = {.run = stop_run}, cut_ops = {.run = cut_run};

/* -- start -- */

static int
make_shards(weir_http_server *server)
{
        unsigned count = weir__runtime.poller_count;

        server->generation = weir__runtime.generation;
        int failed = weir__access_start(server->access, count);
        if (failed)
                return failed;
        if (server->config.max_connections_per_address != SIZE_MAX)
                server->addresses = weir__addresses_new(server->config.max_connections);
        server->shards = calloc(count, sizeof *server->shards);
        if (!server->shards || (server->config.max_connections_per_address != SIZE_MAX && !server->addresses))
                return -ENOMEM;
        for (unsigned i = 0; i < count; i++) {
                server->shards[i].server = server;
                server->shards[i].poller = weir__runtime.pollers[i];
                server->shards[i].date_second = -1;
                server->shards[i].log = server->access;
                atomic_init(&server->shards[i].idle_since, WEIR_FOREVER);
        }
        server->shard_count = count;
        return 0;
}

static void
drop_shards(weir_http_server *server)
{
        weir__listeners_drop(server);
        weir__access_stop(server->access);
        weir__addresses_free(server->addresses);
        free(server->shards);
        server->addresses = NULL;
        server->shards = NULL;
        server->shard_count = 0;
}

static int
open_listeners(weir_http_server *server)
{
        int failed = give_order(server, &open_ops);

        for (unsigned i = 0; i < server->shard_count; i++)
                if (!failed)
                        failed = server->shards[i].failed;
        return failed;
}

static bool wait_until_quiet(weir_http_server *server, weir_nsec until, int impatient_fd);

/* With the lock held: some listeners may be open, others not. */
static void
close_listeners(weir_http_server *server)
{
        give_order(server, &stop_ops);
        give_order(server, &cut_ops);
        weir__runtime_wait_begin(false);
        weir__server_closed(server);
        wait_until_quiet(server, WEIR_FOREVER, -1);
}

/* Every poller's part of what listens. */
static int
open_shards(weir_http_server *server)
{
        int failed = make_shards(server);

        failed = failed ? failed : weir__listeners_spread(server);
        if (!failed) {
                weir__server_opened(server); /* the server's own: so 0 is reached once, and only when it is stopped */
                failed = open_listeners(server);
                if (failed)
                        close_listeners(server);
        }
        if (failed)
                drop_shards(server);
        return failed;
}

/* With the lock held, and as a root: so the runtime stays the same one.  Returns the port, -EDOM when it has none, or another
 * negative errno. */
static int
start(weir_http_server *server, const char *addresses, struct weir__fault *fault)
{
        int failed = weir__listen(addresses, weir__runtime.poller_count, &server->sockets, fault);

        if (failed)
                return failed;
        int port = weir__sockets_port(&server->sockets);
        failed = open_shards(server);
        if (failed) {
                weir__sockets_undo(&server->sockets);
                return failed;
        }
        for (unsigned i = 0; i < server->sockets.count; i++)
                weir__socket_leave(&server->sockets.all[i]); /* now they are the listeners' */
        server->state = WEIR__SERVER_SERVING;
        weir__serving_begins(server);
        atomic_store_explicit(&server->port, port, memory_order_relaxed);
        return 0;
}

static const char expected[] = " (expected host:port, [v6]:port, unix:path, listen:, or fd:N of a socket that listens)";

int
weir_http_server_start(weir_http_server *server, const char *address)
{
        int failed = weir__runtime_may_stop();
        struct weir__fault fault = {NULL, 0};

        if (!failed && server)
                weir__secure_complain(server);
        if (!failed)
                failed = !server ? -ENOMEM : server->fault ? server->fault : weir__secure_start(server);
        if (!failed)
                failed = weir__runtime_enter();
        if (failed)
                return failed;
        weir__lock(&server->lock);
        failed = server->state == WEIR__SERVER_SERVING ? -EALREADY : server->state == WEIR__SERVER_STOPPED ? -ESTALE : 0;
        if (!failed)
                failed = start(server, address, &fault);
        weir__unlock(&server->lock);
        weir__runtime_leave();
        weir__access_complain(server->access);
        if (fault.size)
                weir__log(WEIR_LOG_ERROR, "cannot listen at %.*s: %s%s", fault.size, fault.address, weir_strerror(failed),
                          failed == -EINVAL ? expected : "");
        else if (fault.address)
                weir__log(WEIR_LOG_ERROR, "no address to listen at%s", expected);
        if (!failed && weir__inherit_left() == 0)
                weir__inherit_ready();
        return failed;
}

int
weir_http_server_port(const weir_http_server *server)
{
        return server ? atomic_load_explicit(&server->port, memory_order_relaxed) : -EINVAL;
}

/* -- stop -- */

/* Waits until `open` has come to 0.  Returns false at the time given, or when impatient_fd is readable.  Time is real here: a
 * limit for people. */
static bool
wait_until_quiet(weir_http_server *server, weir_nsec until, int impatient_fd)
{
        struct pollfd fds[2] = {{.fd = server->quiet_fd, .events = POLLIN}, {.fd = impatient_fd, .events = POLLIN}};
        eventfd_t written;

        for (;;) {
                weir_nsec left = until == WEIR_FOREVER ? 0 : until - weir__clock_monotonic();
                struct timespec limit = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};

                if (left < 0)
                        limit = (struct timespec){0};
                int count = ppoll(fds, impatient_fd < 0 ? 1 : 2, until == WEIR_FOREVER ? NULL : &limit, NULL);
                if (count > 0 && fds[0].revents && eventfd_read(server->quiet_fd, &written) == 0)
                        return true;
                if (count == 0 || (count > 0 && fds[1].revents))
                        return false;
        }
}

/* Takes what was cut from the shards.  Returns how many more there were. */
static unsigned
take_reports(weir_http_server *server, struct weir__report **reports)
{
        unsigned left_out = 0;

        for (unsigned i = 0; i < server->shard_count; i++) {
                struct weir__shard *shard = &server->shards[i];

                left_out += shard->report_count > WEIR__REPORTS_MAX ? shard->report_count - WEIR__REPORTS_MAX : 0;
                while (shard->reports) {
                        struct weir__report *report = shard->reports;

                        shard->reports = report->next;
                        report->next = *reports;
                        *reports = report;
                }
        }
        return left_out;
}

/* What was cut, and why it was still there; on the thread that stops, with no lock held: the log is user code. */
static void
say_what_was_cut(struct weir__report *reports, unsigned left_out)
{
        while (reports) {
                struct weir__report *report = reports;

                reports = report->next;
                weir__log(WEIR_LOG_WARNING, "stop has cut %s", report->text);
                free(report);
        }
        if (left_out)
                weir__log(WEIR_LOG_WARNING, "stop has cut %u more", left_out);
}

/* With the lock held. */
static int
stop(weir_http_server *server, weir_nsec within, int impatient_fd, struct weir__report **reports, unsigned *left_out)
{
        weir_nsec until = within == WEIR_FOREVER ? WEIR_FOREVER : weir__clock_after(weir__clock_monotonic(), within);

        if (!server->handed_over)
                weir__sockets_remove_files(&server->sockets);
        (void)give_order(server, &stop_ops);
        weir__runtime_wait_begin(false); /* not before the order was carried out: time would not wait for it */
        weir__server_closed(server);
        if (!wait_until_quiet(server, until, impatient_fd)) {
                (void)give_order(server, &cut_ops);
                wait_until_quiet(server, WEIR_FOREVER, -1);
        }
        *left_out = take_reports(server, reports);
        weir__serving_ends(server);
        drop_shards(server);
        weir__sockets_free(&server->sockets);
        return (int)atomic_load_explicit(&server->cut, memory_order_relaxed);
}

int
weir__server_stop(weir_http_server *server, weir_nsec within, int impatient_fd)
{
        int result = weir__runtime_may_stop();
        struct weir__report *reports = NULL;
        unsigned left_out = 0;

        if (!result && weir__access_is_own_thread())
                result = -EDEADLK;
        if (!server || result)
                return server ? result : -EINVAL;
        weir__lock(&server->lock);
        if (server->state == WEIR__SERVER_SERVING)
                result = stop(server, within, impatient_fd, &reports, &left_out);
        server->state = WEIR__SERVER_STOPPED;
        atomic_store_explicit(&server->port, -EDOM, memory_order_relaxed);
        weir__unlock(&server->lock);
        say_what_was_cut(reports, left_out);
        return result;
}

int
weir_http_server_stop(weir_http_server *server, weir_nsec within)
{
        return weir__server_stop(server, within, -1);
}

void
weir_http_server_free(weir_http_server *server)
{
        if (!server)
                return;
        int failed = weir_http_server_stop(server, 0);
        if (failed == -EDEADLK)
                weir__panic("weir_http_server_free: called on a worker, or in an access log, which would wait for itself");
        weir__secure_done(server);
        if (server->quiet_fd >= 0)
                close(server->quiet_fd);
        if (server->ended_fd >= 0)
                close(server->ended_fd);
        weir__error_pages_free(server);
        free(server->proxies);
        weir__access_free(server->access);
        free(server);
}
