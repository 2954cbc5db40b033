/* server/operate/server.c: a server as a whole: made, started, stopped, freed.
 *
 *     NEW --start--> STARTING --> SERVING --stop--> STOPPING --> STOPPED --> freed
 *      ^\               |                                          ^
 *      | \--stop, free--)------------------------------------------/
 *      \----it failed---/
 *
 * Threads: starts and stops come from threads that are no workers.  A thread that changes the state to STARTING or STOPPING has
 *          the server to itself, with no lock held, until it sets the next state.  Meanwhile a stop waits, and every other call
 *          returns at once: configuration needs NEW, and calls that ask for sockets need SERVING.  Only the owner of its poller
 *          changes a branch.  So the thread gives an order, an item for every poller, and waits until all have carried it out.
 * Locks:   server->lock, a leaf: the state, and the fields that are read or written in NEW and SERVING.
 *
 * `users` keeps the server's memory; stop returns only after the last user has written the eventfd. */
#include "server/operate/operate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "kernel/base/clock.h"
#include "kernel/socket/inherit.h"
#include "kernel/observe/log.h"
#include "kernel/base/panic.h"
#include "kernel/base/phase.h"
#include "kernel/loop/pollers.h"
#include "kernel/runtime/runtime.h"
#include "kernel/worker/deliver.h"
#include "kernel/socket/sockets.h"
#include "kernel/memory/watched.h"
#include "server/observe/access.h"
#include "server/observe/outlet.h"
#include "server/base/error_pages.h"
#include "server/connection/connection.h"
#include "server/listen/admission.h"
#include "server/listen/listener.h"

/* -- birth -- */

weir_http_server *
weir_http_server_new(const struct weir_http_server_config *config, weir_task_fn *handler, void *context)
{
        weir_http_server *server = calloc(1, sizeof *server);

        if (!server)
                return NULL;
        struct weir_http_server_config *own = &server->config;
        int failed = weir__server_config_read(own, config);
        server->has_files = own->certificate_file || (own->access_log && strcmp(own->access_log, "-") != 0);
        int wrong = weir__secure_init(server);
        if (!handler)
                weir__log(WEIR_LOG_ERROR, "weir_http_server_new: the handler is NULL: expected what answers requests");
        failed = !handler ? -EINVAL : failed ? failed : wrong;
        failed = failed ? failed : weir__server_config_proxies(own, &server->proxies);
        failed = failed ? failed : weir__access_new(own, &server->access);
        own->trusted_proxies = own->forwarded_field = own->access_log = NULL; /* memory of the caller, which may go now */
        server->gate_limits = (struct weir__gate_limits){
                .max_line = server->config.max_line,
                .max_head = server->config.max_head,
                .max_fields = server->config.max_fields,
        };
        server->coalescing = WEIR__COALESCING;
        server->handler = handler;
        server->context = context;
        server->users.quiet_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        server->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        server->fault = failed ? failed : server->users.quiet_fd < 0 || server->ended_fd < 0 ? -errno : 0;
        atomic_init(&server->port, -EDOM);
        atomic_init(&server->keepers, 1);
        weir__lock_init(&server->lock, WEIR__RANK_LEAF);
        weir__lock_init(&server->addresses.lock, WEIR__RANK_LEAF);
        return server;
}

/* -- one start or stop at a time -- */

/* With the lock held.  From now on that thread has the server to itself. */
static void
begin_change(weir_http_server *server, enum weir__server_state state, pthread_t thread)
{
        server->state = state;
        server->has_successor |= state == WEIR__SERVER_STOPPING && server->successors > 0; /* it may serve any moment */
        server->changer = thread;
        server->changer_process = getpid();
}

/* With the lock held.  All waiting threads want to stop the server.  If it serves now, one of them stops it, and the others go on
 * waiting.  Otherwise it is stopped for all of them.  Returns the waiters to wake. */
static struct weir__server_waiter *
pass_on(weir_http_server *server, enum weir__server_state state)
{
        struct weir__server_waiter *waiting = server->waiters;

        if (waiting && state == WEIR__SERVER_SERVING) {
                server->waiters = waiting->next;
                waiting->next = NULL;
                waiting->should_stop = true;
                begin_change(server, WEIR__SERVER_STOPPING, waiting->thread);
        } else {
                server->waiters = NULL;
                server->state = waiting ? WEIR__SERVER_STOPPED : state;
        }
        return waiting;
}

/* The last touch of the server: a waiter may be about to free it. */
static void
end_change(weir_http_server *server, enum weir__server_state state)
{
        weir__lock(&server->lock);
        struct weir__server_waiter *waiting = pass_on(server, state);
        weir__unlock(&server->lock);
        while (waiting) {
                struct weir__server_waiter *each = waiting;

                waiting = each->next;
                weir__latch_open(&each->over);
        }
}

/* With the lock held, which it releases.  Waits until no start or stop is under way.  Afterwards the server may be gone, unless
 * the result is 1.
 * Result:  1 when this thread has to stop the server; 0 when it is stopped; -ECHILD when the change goes on in the parent of a
 *          fork; -EDEADLK when this thread makes the change itself, and a log function has called. */
static int
wait_for_change(weir_http_server *server)
{
        struct weir__server_waiter own = {.next = server->waiters, .thread = pthread_self()};
        int refused = server->changer_process != getpid()              ? -ECHILD
                      : pthread_equal(server->changer, pthread_self()) ? -EDEADLK
                                                                       : 0;

        if (!refused)
                server->waiters = &own;
        weir__unlock(&server->lock);
        if (refused)
                return refused;
        weir__latch_wait(&own.over);
        return own.should_stop;
}

/* -- orders -- */

/* A connection that is closed stays in the list: GONE. */
static void
each_connection(struct weir__branch *branch, void (*act)(struct weir__connection *connection))
{
        for (struct weir__link *each = weir__list_first(&branch->connections), *next; each; each = next) {
                next = weir__list_next(&branch->connections, each); /* it may detach its exchange, and be gone */
                act(weir__container_of(each, struct weir__connection, link));
        }
}

static void
order_open(struct weir__branch *branch)
{
        branch->failed = weir__listeners_open(branch);
}

static void
order_stop(struct weir__branch *branch)
{
        weir__listeners_close(branch);
        weir__shed_close(branch);
        branch->is_stopping = true;
        each_connection(branch, weir__http1_stop);
}

static void
order_cut(struct weir__branch *branch)
{
        each_connection(branch, weir__cut_connection);
}

static void
disown_exchange(struct weir__connection *connection)
{
        if (connection->exchange && connection->state != WEIR__READING_BODY)
                weir__exchange_disown(connection->exchange);
}

static void
disown(struct weir__branch *branch)
{
        each_connection(branch, disown_exchange);
}

static void
order_run(struct weir__work *work)
{
        struct weir__branch *branch = weir__container_of(work, struct weir__branch, order);
        weir_http_server *server = branch->server;
        struct weir__latch *ordered = server->ordered;

        server->order(branch);
        if (atomic_fetch_sub_explicit(&server->orders_left, 1, memory_order_acq_rel) == 1)
                weir__latch_open(ordered);
}

static const struct weir__work_ops order_ops = {.run = order_run};

/* Gives all branches an order and waits until they have carried it out.  Returns errors of weir__runtime_enter when there are no
 * workers any more: the end of the runtime closes everything then. */
static int
give_order(weir_http_server *server, void (*order)(struct weir__branch *branch))
{
        struct weir__latch ordered = {0};
        int failed = weir__runtime_enter();

        if (!failed && server->generation != weir__phase_generation) {
                weir__runtime_leave();
                failed = -ESHUTDOWN; /* the workers of that runtime are gone */
        }
        if (failed)
                return failed;
        server->order = order;
        server->ordered = &ordered;
        atomic_store_explicit(&server->orders_left, server->branch_count, memory_order_release);
        for (unsigned i = 0; i < server->branch_count; i++)
                weir__deliver(server->branches[i].poller, &server->branches[i].order);
        weir__latch_wait(&ordered);
        weir__runtime_leave();
        return 0;
}

/* -- start -- */

static const struct weir__branch_ops branch_ops = {
        .exchange = &weir__http1_ops,
        .connection_closed = weir__listeners_connection_closed,
        .became_idle = weir__admission_evict,
        .disown = disown,
};

static int
make_branches(weir_http_server *server)
{
        unsigned count = weir__pollers.count;

        server->generation = weir__phase_generation;
        int failed = weir__eventfd_renew(server->users.quiet_fd);
        failed = failed ? failed : weir__eventfd_renew(server->ended_fd);
        failed = failed ? failed : weir__access_start(server->access, count);
        if (failed)
                return failed;
        server->branches = calloc(count, sizeof *server->branches);
        if (!server->branches)
                return -ENOMEM;
        for (unsigned i = 0; i < count; i++) {
                server->branches[i].server = server;
                server->branches[i].poller = weir__pollers.at[i];
                server->branches[i].ops = &branch_ops;
                server->branches[i].order.ops = &order_ops;
                server->branches[i].date_second = -1;
                server->branches[i].access = server->access;
                weir__handshakes_init(&server->branches[i].handshakes, &weir__http1_handshakes_ops, weir__pollers.at[i]);
                atomic_init(&server->branches[i].idle_since, WEIR_FOREVER);
        }
        server->branch_count = count;
        return 0;
}

static void
drop_branches(weir_http_server *server)
{
        weir__spread_take_back(server);
        weir__access_stop(server->access);
        weir__server_drop_branches(server);
}

/* Closes listeners and connections.  Connections that are left at `until`, or when impatient_fd is readable, are cut. */
static void
close_branches(weir_http_server *server, weir_nsec until, int impatient_fd)
{
        (void)give_order(server, order_stop);
        weir__runtime_wait_begin(false); /* not before the order was carried out: time would not wait for it */
        weir__users_remove(&server->users);
        if (!weir__users_wait(server, until, impatient_fd, weir__stop_name_holders)) {
                (void)give_order(server, order_cut);
                weir__users_wait(server, WEIR_FOREVER, -1, weir__stop_count_callbacks);
        }
}

/* Makes a branch for each poller, and opens its listeners. */
static int
open_branches(weir_http_server *server)
{
        int failed = make_branches(server);

        failed = failed ? failed : weir__spread_listeners(server);
        if (!failed) {
                weir__users_add(&server->users); /* of the server: so the count reaches 0 once, when it is stopped */
                failed = give_order(server, order_open);
                for (unsigned i = 0; i < server->branch_count && !failed; i++)
                        failed = server->branches[i].failed;
                if (failed) {
                        close_branches(server, 0, -1);
                        weir__cut_log(&server->cut_reports, server->unreported);
                        server->reported = server->unreported = 0;
                }
        }
        if (failed)
                drop_branches(server);
        return failed;
}

/* Within weir__runtime_enter, so the runtime stays the same one. */
static int
listen_and_open(weir_http_server *server, const char *addresses, struct weir__fault *fault)
{
        int failed = weir__listen(addresses, weir__pollers.count, &server->sockets, fault);

        if (failed)
                return failed;
        int port = weir__sockets_port(&server->sockets);
        failed = open_branches(server);
        if (failed) {
                weir__listen_undo(&server->sockets);
                return failed;
        }
        for (unsigned i = 0; i < server->sockets.count; i++)
                weir__socket_leave(&server->sockets.all[i]); /* the listeners have uses of their own */
        weir__serving_begin(server);
        atomic_store_explicit(&server->port, port, memory_order_relaxed);
        return 0;
}

static int
begin_start(weir_http_server *server)
{
        if (server->secure.fault)
                weir__log(WEIR_LOG_ERROR, "TLS: %s", server->secure.fault);
        if (server->fault)
                return server->fault;
        weir__lock(&server->lock);
        int failed = server->state == WEIR__SERVER_NEW ? 0 : server->state <= WEIR__SERVER_SERVING ? -EALREADY : -ESTALE;
        if (!failed) {
                begin_change(server, WEIR__SERVER_STARTING, pthread_self());
                server->secure.is_start_tried = true;
        }
        weir__unlock(&server->lock);
        return failed;
}

/* STARTING. */
static int
start(weir_http_server *server, const char *addresses, struct weir__fault *fault)
{
        int failed = weir__secure_start(server);

        failed = failed ? failed : weir__runtime_enter();
        if (failed)
                return failed;
        failed = listen_and_open(server, addresses, fault);
        weir__runtime_leave();
        return failed;
}

static const char expected[] = " (expected host:port, [v6]:port, unix:path, listen:, or fd:N of a socket that listens)";

static void
say_fault(const struct weir__fault *fault, int status)
{
        if (!fault->size)
                weir__log(WEIR_LOG_ERROR, "no address to listen at%s", expected);
        else if (fault->reason)
                weir__log(WEIR_LOG_ERROR, "cannot listen at %.*s: %s", fault->size, fault->address, fault->reason);
        else
                weir__log(WEIR_LOG_ERROR, "cannot listen at %.*s: %s%s", fault->size, fault->address, weir_strerror(status),
                          status == -EINVAL ? expected : "");
}

int
weir_http_server_start(weir_http_server *server, const char *address)
{
        weir__memory_expect(server);
        int failed = weir__runtime_may_stop();
        struct weir__fault fault = {NULL, 0, NULL};

        if (!failed)
                failed = server ? begin_start(server) : -ENOMEM;
        if (failed)
                return failed;
        failed = start(server, address, &fault);
        end_change(server, failed ? WEIR__SERVER_NEW : WEIR__SERVER_SERVING);
        if (fault.address)
                say_fault(&fault, failed);
        if (!failed && weir__inherit_left() == 0)
                weir__inherit_ready();
        return failed;
}

int
weir_http_server_port(const weir_http_server *server)
{
        weir__memory_expect(server);
        return server ? atomic_load_explicit(&server->port, memory_order_relaxed) : -EINVAL;
}

/* -- stop -- */

/* STOPPING. */
static int
stop(weir_http_server *server, weir_nsec within, int impatient_fd, struct weir__list *reports, unsigned *missing)
{
        weir_nsec until = within == WEIR_FOREVER ? WEIR_FOREVER : weir__clock_after(weir__clock_monotonic(), within);

        if (!server->has_successor)
                weir__sockets_remove_files(&server->sockets);
        close_branches(server, until, impatient_fd);
        weir__list_concat(reports, &server->cut_reports);
        *missing = server->unreported;
        weir__serving_end(server);
        drop_branches(server);
        weir__sockets_free(&server->sockets);
        atomic_store_explicit(&server->port, -EDOM, memory_order_relaxed);
        return (int)(server->reported + server->unreported);
}

int
weir__server_may_stop(void)
{
        int failed = weir__runtime_may_stop();

        return failed ? failed : weir__outlet_is_own_thread() ? -EDEADLK : 0;
}

/* Result: 1 when there is something to stop, else 0, or as weir_http_server_stop. */
static int
begin_stop(weir_http_server *server)
{
        weir__lock(&server->lock);
        if (server->state == WEIR__SERVER_STARTING || server->state == WEIR__SERVER_STOPPING)
                return wait_for_change(server);
        bool is_serving = server->state == WEIR__SERVER_SERVING;
        if (is_serving)
                begin_change(server, WEIR__SERVER_STOPPING, pthread_self());
        else
                server->state = WEIR__SERVER_STOPPED;
        weir__unlock(&server->lock);
        return is_serving;
}

int
weir__server_stop(weir_http_server *server, weir_nsec within, int impatient_fd)
{
        int result = weir__server_may_stop();
        struct weir__list reports = {0};
        unsigned missing;

        if (!server || result)
                return server ? result : -EINVAL;
        result = begin_stop(server);
        if (result <= 0)
                return result;
        result = stop(server, within, impatient_fd, &reports, &missing);
        end_change(server, WEIR__SERVER_STOPPED);
        weir__cut_log(&reports, missing);
        return result;
}

int
weir_http_server_stop(weir_http_server *server, weir_nsec within)
{
        weir__memory_expect(server);
        return weir__server_stop(server, within, -1);
}

void
weir_http_server_free(weir_http_server *server)
{
        weir__memory_expect(server);
        if (!server)
                return;
        int failed = weir_http_server_stop(server, 0);
        if (failed == -EDEADLK)
                weir__panic(
                        "weir_http_server_free: called on a worker, in an access log, or within the server's own start or stop, "
                        "which would wait for itself");
        if (!weir__phase_is_forked() && weir__link_is_used(&server->serving.link))
                weir__serving_end(server); /* the stop goes on in the parent alone */
        weir__secure_done(server);
        if (server->users.quiet_fd >= 0)
                close(server->users.quiet_fd);
        if (server->ended_fd >= 0)
                close(server->ended_fd);
        weir__error_pages_free(server);
        weir__access_free(server->access);
        weir__server_unkeep(server);
}
