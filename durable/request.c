/* durable/request.c: the operations of the program, as tasks.
 *
 * Each one is a promise whose own data is the operation.  It is submitted when the task starts.  The engine has a reference to
 * the promise, so a cancel ends the task at once, and the operation goes on without it.  The results are read only if the
 * status of the task is the operation's: nobody writes them any more then. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <weir/promise.h>
#include <weir/runtime.h>
#include <weir/ticker.h>

#include "durable/store.h"

static void begin(weir_task *promise, void *own);
static void describe(const void *own, char *text, size_t room);

static const struct weir_promise_kind operation = {
        .size = sizeof operation,
        .begin = begin,
        .describe = describe,
        .free = weir__durable_op_free,
};

static const char *const verbs[] = {"set",  "cancel", "extend", "put back", "forget", "get",
                                    "list", "count",  "claim",  "end",      "renew"};

/* Only what is constant after the creation. */
static void
describe(const void *own, char *text, size_t room)
{
        const struct weir__durable_op *op = own;

        snprintf(text, room, "durable: %s %s", verbs[*op->cron ? WEIR__DURABLE_SET : op->kind],
                 *op->name ? op->name : op->prefix);
}

static void
note(struct weir__durable_op *op)
{
        weir_durable *store = op->store;

        pthread_mutex_lock(&store->lock);
        store->stats.operations++;
        store->stats.failed += op->status != 0;
        pthread_mutex_unlock(&store->lock);
}

static void
finish(struct weir__durable_op *op)
{
        weir_task *promise = op->promise;
        int status = op->status;
        bool is_wake = !status && (op->kind == WEIR__DURABLE_SET || op->is_done) && op->kind <= WEIR__DURABLE_PUT_BACK &&
                       op->kind != WEIR__DURABLE_CANCEL;

        note(op);
        if (is_wake && op->row_count)
                weir__durable_expect(op->store, op->rows[0]->info.topic, weir__durable_add(op->ready, -op->now));
        else if (is_wake)
                weir__durable_expect(op->store, op->topic, weir__durable_add(op->ready, -op->now));
        if (!status &&
            (op->kind == WEIR__DURABLE_EXTEND || op->kind == WEIR__DURABLE_PUT_BACK || op->kind == WEIR__DURABLE_FORGET))
                status = op->is_done ? 0 : -ENOENT;
        if (!status && op->kind == WEIR__DURABLE_GET)
                status = op->row_count ? 0 : -ENOENT;
        atomic_store_explicit(&op->is_over, true, memory_order_release);
        weir_promise_finish(promise, status, NULL, NULL);
}

/* The time of the engine is known now, so the first due time of the schedule is, too. */
static void
set_schedule(struct weir__durable_op *op)
{
        weir_nsec due = op->status ? op->status : weir_ticker_next(op->cron, *op->zone ? op->zone : NULL, op->now);

        if (due < 0) {
                op->status = (int)due;
                finish(op);
                return;
        }
        weir__durable_op_clear(op);
        op->kind = WEIR__DURABLE_SET;
        op->at = due;
        op->keeps_same = true;
        op->ended = finish;
        weir__durable_submit(op->store, op);
}

static bool
is_closed(weir_durable *store)
{
        pthread_mutex_lock(&store->lock);
        bool is_closing = store->is_closing;
        if (!is_closing)
                weir_waitgroup_add(store->group, 1); /* a close that begins now waits */
        pthread_mutex_unlock(&store->lock);
        return is_closing;
}

static void
begin(weir_task *promise, void *own)
{
        struct weir__durable_op *op = own;
        int fault = op->fault ? op->fault : is_closed(op->store) ? -EPIPE : 0;

        if (fault) {
                weir_promise_finish(promise, fault, NULL, NULL);
                return;
        }
        weir_durable *store = op->store;
        op->promise = promise;
        op->ended = op->kind == WEIR__DURABLE_GET && *op->cron ? set_schedule : finish;
        weir__durable_submit(store, op);
        weir_waitgroup_done(store->group);
}

/* Result: 0; -EINVAL; -ENAMETOOLONG. */
static int
fault_of_text(const char *text, size_t most)
{
        return !text || !*text ? -EINVAL : strlen(text) > most ? -ENAMETOOLONG : 0;
}

static weir_task *
make(weir_durable *store, struct weir__durable_op *op, int fault, weir_task_fn *done, void *context)
{
        if (!op)
                return NULL;
        op->fault = !store ? -ENOMEM : fault;
        op->store = store ? weir__durable_ref(store) : NULL;
        return weir_promise_new_of(&operation, op, done, context);
}

/* An operation on one name. */
static weir_task *
make_named(weir_durable *store, enum weir__durable_kind kind, const char *name, weir_task_fn *done, void *context)
{
        int fault = fault_of_text(name, WEIR_DURABLE_NAME_MAX);
        struct weir__durable_op *op = weir__durable_op_new(kind, &(struct weir__durable_texts){.name = fault ? "" : name});

        return make(store, op, fault, done, context);
}

/* An operation that moves the due time. */
static weir_task *
make_move(weir_durable *store, const char *name, weir_nsec at, bool is_relative, weir_task_fn *done, void *context)
{
        int fault = fault_of_text(name, WEIR_DURABLE_NAME_MAX);
        struct weir__durable_op *op = weir__durable_op_new(WEIR__DURABLE_EXTEND,
                                                           &(struct weir__durable_texts){.name = fault ? "" : name});

        if (op) {
                op->at = at;
                op->is_relative = is_relative;
        }
        return make(store, op, fault, done, context);
}

static int
fault_of_set(const struct weir__durable_texts *texts)
{
        int fault = fault_of_text(texts->name, WEIR_DURABLE_NAME_MAX);

        if (!fault)
                fault = fault_of_text(texts->topic, WEIR_DURABLE_TOPIC_MAX);
        if (!fault && !texts->payload && texts->payload_size)
                fault = -EINVAL;
        return !fault && texts->payload_size > WEIR_DURABLE_PAYLOAD_MAX ? -EMSGSIZE : fault;
}

static weir_task *
make_set(weir_durable *store, const struct weir__durable_texts *texts, weir_nsec at, bool is_relative, weir_task_fn *done,
         void *context)
{
        int fault = fault_of_set(texts);
        struct weir__durable_op *op = weir__durable_op_new(WEIR__DURABLE_SET, fault ? &(struct weir__durable_texts){0} : texts);

        if (op) {
                op->at = at;
                op->is_relative = is_relative;
        }
        return make(store, op, fault, done, context);
}

weir_task *
weir_durable_set_new(weir_durable *store, const char *name, weir_nsec wall, const char *topic, const void *payload, size_t size,
                     weir_task_fn *done, void *context)
{
        return make_set(store,
                        &(struct weir__durable_texts){.name = name, .topic = topic, .payload = payload, .payload_size = size},
                        wall, false, done, context);
}

weir_task *
weir_durable_set_after_new(weir_durable *store, const char *name, weir_nsec after, const char *topic, const void *payload,
                           size_t size, weir_task_fn *done, void *context)
{
        return make_set(store,
                        &(struct weir__durable_texts){.name = name, .topic = topic, .payload = payload, .payload_size = size},
                        after, true, done, context);
}

weir_task *
weir_durable_schedule_new(weir_durable *store, const char *name, const char *cron, const char *zone,
                          enum weir_durable_missed_policy policy, const char *topic, const void *payload, size_t size,
                          weir_task_fn *done, void *context)
{
        const struct weir__durable_texts texts = {
                .name = name, .topic = topic, .cron = cron, .zone = zone, .payload = payload, .payload_size = size};
        int fault = fault_of_set(&texts);

        if (!fault && (policy < WEIR_DURABLE_SKIP || policy > WEIR_DURABLE_ALL))
                fault = -EINVAL;
        if (!fault)
                fault = weir_ticker_check(cron, zone, NULL, NULL);
        struct weir__durable_op *op = weir__durable_op_new(WEIR__DURABLE_GET, fault ? &(struct weir__durable_texts){0} : &texts);
        if (op)
                op->policy = policy;
        return make(store, op, fault, done, context);
}

weir_task *
weir_durable_cancel_new(weir_durable *store, const char *name, weir_task_fn *done, void *context)
{
        return make_named(store, WEIR__DURABLE_CANCEL, name, done, context);
}

weir_task *
weir_durable_reset_new(weir_durable *store, const char *name, weir_nsec after, weir_task_fn *done, void *context)
{
        return make_move(store, name, after, true, done, context);
}

weir_task *
weir_durable_extend_new(weir_durable *store, const char *name, weir_nsec by, weir_task_fn *done, void *context)
{
        return make_move(store, name, by, false, done, context);
}

weir_task *
weir_durable_put_back_new(weir_durable *store, const char *name, weir_task_fn *done, void *context)
{
        return make_named(store, WEIR__DURABLE_PUT_BACK, name, done, context);
}

weir_task *
weir_durable_forget_new(weir_durable *store, const char *name, weir_task_fn *done, void *context)
{
        return make_named(store, WEIR__DURABLE_FORGET, name, done, context);
}

weir_task *
weir_durable_get_new(weir_durable *store, const char *name, weir_task_fn *done, void *context)
{
        return make_named(store, WEIR__DURABLE_GET, name, done, context);
}

/* Result: 0; -EINVAL; -ENAMETOOLONG: no name can begin with it. */
static int
fault_of_prefix(const char *prefix)
{
        return !prefix ? -EINVAL : strlen(prefix) > WEIR_DURABLE_NAME_MAX ? -ENAMETOOLONG : 0;
}

static weir_task *
make_list(weir_durable *store, const char *prefix, const char *behind, size_t most, bool only_dead, weir_task_fn *done,
          void *context)
{
        int fault = most < 1 || most > 10000 ? -EINVAL : fault_of_prefix(prefix);
        struct weir__durable_op *op = weir__durable_op_new(WEIR__DURABLE_LIST,
                                                           &(struct weir__durable_texts){.prefix = prefix, .behind = behind});

        if (op) {
                op->most = most;
                op->only_dead = only_dead;
        }
        return make(store, op, fault, done, context);
}

weir_task *
weir_durable_list_new(weir_durable *store, const char *prefix, const char *behind, size_t most, weir_task_fn *done, void *context)
{
        return make_list(store, prefix, behind, most, false, done, context);
}

weir_task *
weir_durable_dead_new(weir_durable *store, const char *prefix, const char *behind, size_t most, weir_task_fn *done, void *context)
{
        return make_list(store, prefix, behind, most, true, done, context);
}

weir_task *
weir__durable_summary_new(weir_durable *store, size_t most, bool only_dead, weir_task_fn *done, void *context)
{
        struct weir__durable_op *op = weir__durable_op_new(WEIR__DURABLE_LIST, &(struct weir__durable_texts){.prefix = ""});

        if (op) {
                op->most = most;
                op->only_dead = only_dead;
                op->is_summary = true;
                op->by_ready = !only_dead && store && store->engine->kind->lists_by_ready;
        }
        return make(store, op, 0, done, context);
}

const struct weir__durable_op *
weir__durable_op_of(const weir_task *task)
{
        return weir_promise_own(task, &operation);
}

weir_task *
weir_durable_count_new(weir_durable *store, const char *prefix, weir_task_fn *done, void *context)
{
        struct weir__durable_op *op = weir__durable_op_new(WEIR__DURABLE_COUNT, &(struct weir__durable_texts){.prefix = prefix});

        return make(store, op, fault_of_prefix(prefix), done, context);
}

/* The operation of a task that has succeeded, of that kind; NULL: another one. */
static const struct weir__durable_op *
result(const weir_task *task, enum weir__durable_kind kind)
{
        const struct weir__durable_op *op = weir_promise_own(task, &operation);

        return op && weir_task_status(task) == 0 && op->promise && op->kind == kind ? op : NULL;
}

int
weir_durable_cancelled(const weir_task *cancel)
{
        const struct weir__durable_op *op = result(cancel, WEIR__DURABLE_CANCEL);

        return op && op->is_done;
}

const struct weir_durable_info *
weir_durable_info(const weir_task *task, size_t index)
{
        const struct weir__durable_op *op = result(task, WEIR__DURABLE_GET);

        if (!op)
                op = result(task, WEIR__DURABLE_LIST);
        if (!op)
                op = result(task, WEIR__DURABLE_EXTEND);
        return op && index < op->row_count ? &op->rows[index]->info : NULL;
}

uint64_t
weir_durable_counted(const weir_task *count, enum weir_durable_state state)
{
        const struct weir__durable_op *op = result(count, WEIR__DURABLE_COUNT);

        return op && state >= WEIR_DURABLE_PENDING && state <= WEIR_DURABLE_DEAD ? op->counts[state] : 0;
}

uint64_t
weir_durable_generation(const weir_task *task)
{
        const struct weir__durable_op *op = result(task, WEIR__DURABLE_SET);
        const struct weir_durable_info *info = weir__durable_delivered(task);

        if (!op)
                op = result(task, WEIR__DURABLE_CANCEL);
        const struct weir__durable_op *back = op ? NULL : result(task, WEIR__DURABLE_PUT_BACK);
        if (back && back->row_count)
                info = &back->rows[0]->info;
        return op ? op->generation : info ? info->generation : 0;
}

const char *
weir_durable_problem(const weir_task *task)
{
        const struct weir__durable_op *op = weir_promise_own(task, &operation);
        int status = op ? weir_task_status(task) : 0;

        if (!status)
                return NULL;
        bool is_engines = atomic_load_explicit(&op->is_over, memory_order_acquire) && op->status == status;
        return is_engines && *op->reason ? op->reason : weir_strerror(status);
}
