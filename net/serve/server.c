/* net/serve/server.c: a server as a whole: made, started, stopped, freed.
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
#include "net/serve/serve.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "kernel/base/clock.h"
#include "kernel/base/panic.h"
#include "kernel/base/phase.h"
#include "kernel/loop/pollers.h"
#include "kernel/observe/log.h"
#include "kernel/runtime/runtime.h"
#include "kernel/socket/inherit.h"
#include "kernel/socket/sockets.h"
#include "kernel/worker/deliver.h"
#include "net/listen/listener.h"

/* -- birth -- */

void
weir__server_init(struct weir__server *server, const struct weir__server_ops *ops, const struct weir__secure_config *secure,
                  int fault)
{
        int wrong = weir__secure_init(&server->secure, secure);

        server->ops = ops;
        server->users.quiet_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        server->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        server->has_files |= secure->certificate_file != NULL;
        server->fault = fault ? fault : wrong ? wrong : server->users.quiet_fd < 0 || server->ended_fd < 0 ? -errno : 0;
        atomic_init(&server->port, -EDOM);
        atomic_init(&server->references, 1);
        weir__lock_init(&server->lock, WEIR__RANK_LEAF);
        weir__lock_init(&server->addresses.lock, WEIR__RANK_LEAF);
}

/* -- one start or stop at a time -- */

/* With the lock held.  From now on that thread has the server to itself. */
static void
begin_change(struct weir__server *server, enum weir__server_state state, pthread_t thread)
{
        server->state = state;
        server->has_successor |= state == WEIR__SERVER_STOPPING && server->successors > 0; /* it may serve any moment */
        server->changer = thread;
        server->changer_process = getpid();
}

/* With the lock held.  All waiting threads want to stop the server.  If it serves now, one of them stops it, and the others go on
 * waiting.  Otherwise it is stopped for all of them.  Returns the waiters to wake. */
static struct weir__server_waiter *
pass_on(struct weir__server *server, enum weir__server_state state)
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
end_change(struct weir__server *server, enum weir__server_state state)
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
wait_for_change(struct weir__server *server)
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

static void
order_open(struct weir__branch *branch)
{
        branch->failed = weir__listeners_open(branch);
}

static void
order_stop(struct weir__branch *branch)
{
        weir__listeners_close(branch);
        branch->is_stopping = true;
        branch->server->ops->stop(branch);
}

static void
order_cut(struct weir__branch *branch)
{
        branch->server->ops->cut(branch);
}

static void
order_run(struct weir__work *work)
{
        struct weir__branch *branch = weir__container_of(work, struct weir__branch, order);
        struct weir__server *server = branch->server;
        struct weir__latch *ordered = server->ordered;

        server->order(branch);
        if (atomic_fetch_sub_explicit(&server->orders_left, 1, memory_order_acq_rel) == 1)
                weir__latch_open(ordered);
}

static const struct weir__work_ops order_ops = {.run = order_run};

/* Gives all branches an order and waits until they have carried it out.  Returns errors of weir__runtime_enter when there are no
 * workers any more: the end of the runtime closes everything then. */
static int
give_order(struct weir__server *server, void (*order)(struct weir__branch *branch))
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
                weir__deliver(weir__server_branch(server, i)->poller, &weir__server_branch(server, i)->order);
        weir__latch_wait(&ordered);
        weir__runtime_leave();
        return 0;
}

/* -- start -- */

static int
make_branches(struct weir__server *server)
{
        unsigned count = weir__pollers.count;

        server->generation = weir__phase_generation;
        int failed = weir__eventfd_renew(server->users.quiet_fd);
        failed = failed ? failed : weir__eventfd_renew(server->ended_fd);
        if (!failed && server->ops->begin)
                failed = server->ops->begin(server, count);
        if (failed)
                return failed;
        server->branches = calloc(count, server->ops->branch_size);
        if (!server->branches)
                return -ENOMEM;
        for (unsigned i = 0; i < count; i++) {
                struct weir__branch *branch = weir__server_branch(server, i);

                branch->server = server;
                branch->poller = weir__pollers.at[i];
                branch->index = i;
                branch->order.ops = &order_ops;
                atomic_init(&branch->idle_since, WEIR_FOREVER);
                if (server->ops->init_branch)
                        server->ops->init_branch(branch);
        }
        server->branch_count = count;
        return 0;
}

static void
drop_branches(struct weir__server *server)
{
        weir__spread_take_back(server);
        if (server->ops->end)
                server->ops->end(server);
        weir__server_drop_branches(server);
}

/* Closes listeners and connections.  Connections that are left at `until`, or when impatient_fd is readable, are cut. */
static void
close_branches(struct weir__server *server, weir_nsec until, int impatient_fd)
{
        (void)give_order(server, order_stop);
        weir__runtime_wait_begin(false); /* not before the order was carried out: time would not wait for it */
        weir__users_remove(&server->users);
        if (!weir__users_wait(server, until, impatient_fd, server->ops->say_waits)) {
                (void)give_order(server, order_cut);
                weir__users_wait(server, WEIR_FOREVER, -1, server->ops->say_rest);
        }
}

/* Makes a branch for each poller, and opens its listeners. */
static int
open_branches(struct weir__server *server)
{
        int failed = make_branches(server);

        failed = failed ? failed : weir__spread_listeners(server);
        if (!failed) {
                weir__users_add(&server->users); /* of the server: so the count reaches 0 once, when it is stopped */
                failed = give_order(server, order_open);
                for (unsigned i = 0; i < server->branch_count && !failed; i++)
                        failed = weir__server_branch(server, i)->failed;
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
listen_and_open(struct weir__server *server, const char *addresses, struct weir__fault *fault)
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
begin_start(struct weir__server *server)
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
start(struct weir__server *server, const char *addresses, struct weir__fault *fault)
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
weir__server_start(struct weir__server *server, const char *address)
{
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
weir__server_port(const struct weir__server *server)
{
        return atomic_load_explicit(&server->port, memory_order_relaxed);
}

/* -- stop -- */

/* STOPPING. */
static int
stop(struct weir__server *server, weir_nsec within, int impatient_fd, struct weir__list *reports, unsigned *missing)
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
weir__server_may_stop(const struct weir__server_ops *ops)
{
        int failed = weir__runtime_may_stop();

        return failed ? failed : ops->is_own_thread && ops->is_own_thread() ? -EDEADLK : 0;
}

/* Result: 1 when there is something to stop, else 0, or as weir__server_stop. */
static int
begin_stop(struct weir__server *server)
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
weir__server_stop(struct weir__server *server, weir_nsec within, int impatient_fd)
{
        int result = weir__server_may_stop(server->ops);
        struct weir__list reports = {0};
        unsigned missing;

        if (result)
                return result;
        result = begin_stop(server);
        if (result <= 0)
                return result;
        result = stop(server, within, impatient_fd, &reports, &missing);
        end_change(server, WEIR__SERVER_STOPPED);
        weir__cut_log(&reports, missing);
        return result;
}

void
weir__server_stop_at_end(struct weir__server *server)
{
        if (weir__server_stop(server, 0, -1) == -EDEADLK)
                weir__panic(
                        "weir_%s_server_free: called on a worker, in an access log, or within the server's own start or stop, "
                        "which would wait for itself",
                        server->ops->protocol);
        if (!weir__phase_is_forked() && weir__link_is_used(&server->serving.link))
                weir__serving_end(server); /* the stop goes on in the parent alone */
}

void
weir__server_done(struct weir__server *server)
{
        weir__secure_done(&server->secure);
        if (server->users.quiet_fd >= 0)
                close(server->users.quiet_fd);
        if (server->ended_fd >= 0)
                close(server->ended_fd);
        weir__server_unref(server);
}
