/* client/call/call.c: the life and the settings of calls.
 *
 * Threads: made, changed and given up on any thread.
 * Locks:   the call's, a leaf: its poller and the orders to the owner. */
#include "client/call/call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/base/panic.h"
#include "kernel/memory/watched.h"
#include "kernel/observe/log.h"
#include "kernel/runtime/runtime.h"
#include "kernel/worker/deliver.h"
#include "protocol/text/bytes.h"

/* -- references -- */

void
weir__call_keep(struct weir_http_call *self)
{
        atomic_fetch_add_explicit(&self->references, 1, memory_order_relaxed);
}

void
weir__call_drop(struct weir_http_call *self)
{
        if (atomic_fetch_sub_explicit(&self->references, 1, memory_order_acq_rel) != 1)
                return;
        weir__http_call_drop_response(&self->call);
        weir__client_target_report(&self->target, WEIR__OUTCOME_CANCELLED);
        if (self->origin)
                weir__origin_drop(self->origin);
        for (unsigned i = 0; i < WEIR__TARGET_TRIES - 1 && self->left[i]; i++)
                weir__origin_drop(self->left[i]);
        weir_stream_unref(self->call.stream);
        weir__draft_done(&self->draft);
        free(self->upgrade);
        free(self->problem);
        free(self->seeker.problem);
        free(self);
}

/* -- orders -- */

static void
carry_out(struct weir__work *work)
{
        struct weir_http_call *self = weir__container_of(work, struct weir_http_call, ordered);

        weir__lock(&self->lock);
        unsigned orders = self->orders;
        self->orders = 0;
        weir__unlock(&self->lock);
        if (orders & WEIR__CALL_BREAK)
                weir__call_end(self, -ECONNABORTED);
        if (orders & WEIR__CALL_CLOSE)
                weir__call_close(self);
        weir__call_drop(self);
        weir__runtime_leave();
}

static const struct weir__work_ops order_ops = {.run = carry_out};

/* Under the lock.  Gives it another poller if it was made before the start, or in an earlier runtime. */
static void
ensure_poller(struct weir_http_call *self)
{
        if (self->poller >= weir__pollers_count())
                self->poller = (uint8_t)weir__worker_home_poller();
}

static void
give_order(struct weir_http_call *self, enum weir__call_order order)
{
        weir__lock(&self->lock);
        bool is_first = !self->orders, may = !is_first || weir__runtime_enter() == 0;
        if (may)
                self->orders |= (uint8_t)order;
        if (may && is_first) {
                ensure_poller(self);
                weir__call_keep(self);
        }
        weir__unlock(&self->lock);
        if (may && is_first)
                weir__deliver(weir__poller_at(self->poller), &self->ordered);
}

void
weir__call_start_task(struct weir__call_task *task)
{
        struct weir_http_call *self = task->owner;

        weir__lock(&self->lock);
        ensure_poller(self);
        weir__task_set_poller(&task->io.task, self->poller);
        weir__unlock(&self->lock);
        atomic_store_explicit(&self->is_begun, true, memory_order_relaxed);
        weir__io_start(&task->io.task);
}

/* -- the public face -- */

weir_http_call *
weir_http_call_new(weir_client *client, const char *method, const char *url)
{
        struct weir_http_call *self = calloc(1, sizeof *self);

        client = client ? client : weir_client_default();
        if (!self || !client) {
                free(self);
                errno = ENOMEM;
                return NULL;
        }
        atomic_init(&self->users, 1);
        atomic_init(&self->references, 1);
        weir__lock_init(&self->lock, WEIR__RANK_LEAF);
        self->ordered.ops = &order_ops;
        self->poller = (uint8_t)weir__worker_home_poller();
        self->limit = client->config.limit;
        weir__http_call_take_limits(&self->call, &client->config);
        int fault = weir__draft_init(&self->draft, client, method, url, "weir_http_call_new");
        self->draft.asks_coding = false;
        if (!fault) /* here a function of the program may be called */
                self->fault = weir__client_target_choose(&self->target, &self->draft);
        if (!fault)
                return self;
        weir__call_drop(self);
        errno = -fault;
        return NULL;
}

weir_http_call *
weir_http_call_ref(weir_http_call *self)
{
        weir__memory_expect(self);
        if (self)
                atomic_fetch_add_explicit(&self->users, 1, memory_order_relaxed);
        return self;
}

void
weir_http_call_unref(weir_http_call *self)
{
        if (!self)
                return;
        weir__memory_expect(self);
        uint32_t users = atomic_fetch_sub_explicit(&self->users, 1, memory_order_acq_rel);
        if (users == 0)
                weir__panic("weir_http_call_unref: no reference is left: it was called once too often");
        if (users > 1)
                return;
        if (atomic_load_explicit(&self->is_begun, memory_order_relaxed) &&
            !atomic_load_explicit(&self->is_over, memory_order_relaxed))
                give_order(self, WEIR__CALL_CLOSE);
        weir__call_drop(self);
}

void
weir_http_call_break(weir_http_call *self)
{
        if (!self)
                return;
        weir__memory_expect(self);
        give_order(self, WEIR__CALL_BREAK);
}

/* -- settings -- */

/* Result: 0; why it cannot be changed. */
static int
may_change(const struct weir_http_call *self)
{
        if (!self)
                return -EINVAL;
        weir__memory_expect(self);
        return atomic_load_explicit(&self->is_begun, memory_order_relaxed) ? -EALREADY : 0;
}

/* A failure of a change is that of all tasks, too: so nobody has to look. */
static int
add_header(struct weir_http_call *self, const char *name, const char *value, bool should_replace, const char *call)
{
        int failed = may_change(self);

        if (failed)
                return failed;
        failed = weir__draft_add(&self->draft, name, value, should_replace, call);
        self->fault = self->fault ? self->fault : failed;
        return failed;
}

int
weir_http_call_set_header(weir_http_call *self, const char *name, const char *value)
{
        return add_header(self, name, value, true, "weir_http_call_set_header");
}

int
weir_http_call_add_header(weir_http_call *self, const char *name, const char *value)
{
        return add_header(self, name, value, false, "weir_http_call_add_header");
}

int
weir_http_call_set_length(weir_http_call *self, uint64_t length)
{
        int failed = may_change(self);

        if (failed)
                return failed;
        self->is_framed = true;
        self->framing = length == UINT64_MAX ? WEIR__DRAFT_CHUNKED : WEIR__DRAFT_LENGTH;
        self->length = length;
        return 0;
}

int
weir_http_call_set_interim(weir_http_call *self)
{
        int failed = may_change(self);

        if (!failed)
                self->call.wants_interim = true;
        return failed;
}

int
weir_http_call_set_expect(weir_http_call *self)
{
        int failed = may_change(self);

        if (!failed)
                self->draft.expects_continue = self->call.wants_interim = true;
        return failed;
}

int
weir_http_call_set_upgrade(weir_http_call *self, const char *protocol)
{
        int failed = may_change(self);

        if (!failed &&
            (!protocol || !protocol[0] || weir__bytes_span(protocol, strlen(protocol), WEIR__BYTE_TOKEN) < strlen(protocol)))
                failed = weir__log_refusal("weir_http_call_set_upgrade: expected a token such as websocket");
        char *copy = failed ? NULL : strdup(protocol);
        if (!failed && !copy)
                failed = -ENOMEM;
        if (failed == -EALREADY || !self)
                return failed;
        self->fault = self->fault ? self->fault : failed;
        if (failed)
                return failed;
        free(self->upgrade);
        self->upgrade = copy;
        self->call.wants_upgrade = true;
        return 0;
}

int
weir_http_call_set_limit(weir_http_call *self, enum weir_http_limit which, weir_nsec limit)
{
        int failed = may_change(self);

        return failed ? failed : weir__http_call_set_limit(&self->call, &self->limit, which, limit);
}
