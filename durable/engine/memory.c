/* durable/engine/memory.c: timers in the memory of the process, for tests.  Also the plainest description of what an engine does.
 *
 * All stores of one name share a database, which ends with the last of them.  Timers are in an array, in the order of their
 * names.  A claim looks at all of them, so this is for some thousands of timers.
 *
 * Threads: operations wait in a queue of the engine, and a task carries them out.  The lock of all databases guards
 * everything. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <weir/clock.h>

#include "durable/engine/engine.h"

struct database {
        struct database *next;
        unsigned stores;
        uint64_t sequence;
        struct weir__durable_row **rows; /* in the order of their names */
        size_t count, room;
        struct memory_engine *engines;
        char name[];
};

struct memory_engine {
        struct weir__durable_engine base;
        struct database *database;
        struct memory_engine *next; /* of the same database */
        bool is_attending;
        struct weir__durable_op *first, **last; /* the queue */
        bool is_working;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct database *databases;

static struct database *
find_database(const char *name)
{
        struct database *database = databases;

        while (database && strcmp(database->name, name) != 0)
                database = database->next;
        if (database)
                return database;
        database = calloc(1, sizeof *database + strlen(name) + 1);
        if (!database)
                return NULL;
        memcpy(database->name, name, strlen(name));
        database->next = databases;
        databases = database;
        return database;
}

static struct weir__durable_engine *
open_engine(const char *where, weir_durable *store)
{
        struct memory_engine *engine = calloc(1, sizeof *engine);

        if (!engine)
                return NULL;
        engine->base = (struct weir__durable_engine){&weir__durable_memory, store};
        engine->last = &engine->first;
        pthread_mutex_lock(&lock);
        engine->database = find_database(where);
        if (engine->database) {
                engine->database->stores++;
                engine->next = engine->database->engines;
                engine->database->engines = engine;
        }
        pthread_mutex_unlock(&lock);
        if (engine->database)
                return &engine->base;
        free(engine);
        errno = ENOMEM;
        return NULL;
}

static void
free_database(struct database *database)
{
        struct database **at = &databases;

        while (*at != database)
                at = &(*at)->next;
        *at = database->next;
        for (size_t i = 0; i < database->count; i++)
                free(database->rows[i]);
        free(database->rows);
        free(database);
}

static void
free_engine(struct weir__durable_engine *base)
{
        struct memory_engine *engine = (struct memory_engine *)base;
        struct memory_engine **at;

        pthread_mutex_lock(&lock);
        for (at = &engine->database->engines; *at != engine;)
                at = &(*at)->next;
        *at = engine->next;
        if (--engine->database->stores == 0)
                free_database(engine->database);
        pthread_mutex_unlock(&lock);
        free(engine);
}

/* -- rows -- */

/* Where a name is, or would be. */
static size_t
position(const struct database *database, const char *name, bool *is_there)
{
        size_t low = 0, high = database->count;

        *is_there = false;
        while (low < high) {
                size_t middle = (low + high) / 2;
                int order = strcmp(database->rows[middle]->info.name, name);

                if (order == 0) {
                        *is_there = true;
                        return middle;
                }
                if (order < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

static struct weir_durable_info *
find(const struct database *database, const char *name)
{
        bool is_there;
        size_t at = position(database, name, &is_there);

        return is_there ? &database->rows[at]->info : NULL;
}

static void
remove_row(struct database *database, const char *name)
{
        bool is_there;
        size_t at = position(database, name, &is_there);

        if (!is_there)
                return;
        free(database->rows[at]);
        memmove(database->rows + at, database->rows + at + 1, (--database->count - at) * sizeof *database->rows);
}

/* Writes a row with these values in place of the one of that name.  Result: 0 or -ENOMEM. */
static int
put_row(struct database *database, const struct weir_durable_info *info)
{
        struct weir__durable_row *row = weir__durable_row_new(info);
        bool is_there;
        size_t at = position(database, info->name, &is_there);

        if (row && database->count == database->room) {
                size_t room = database->room ? 2 * database->room : 64;
                struct weir__durable_row **rows = realloc(database->rows, room * sizeof *rows);

                if (!rows) {
                        free(row);
                        return -ENOMEM;
                }
                database->rows = rows;
                database->room = room;
        }
        if (!row)
                return -ENOMEM;
        if (is_there) {
                free(database->rows[at]);
        } else {
                memmove(database->rows + at + 1, database->rows + at, (database->count - at) * sizeof *database->rows);
                database->count++;
        }
        database->rows[at] = row;
        return 0;
}

/* -- operations -- */

static bool
is_same(const struct weir_durable_info *info, const struct weir__durable_op *op)
{
        return info && info->state != WEIR_DURABLE_DEAD && strcmp(info->cron, op->cron) == 0 &&
               strcmp(info->zone, op->zone) == 0 && info->policy == op->policy && strcmp(info->topic, op->topic) == 0 &&
               info->payload_size == op->payload_size && memcmp(info->payload, op->payload, op->payload_size) == 0;
}

static weir_nsec
earliest(const struct database *database, const char *topic)
{
        weir_nsec first = WEIR_FOREVER;

        for (size_t i = 0; i < database->count; i++) {
                const struct weir_durable_info *info = &database->rows[i]->info;

                if (info->state != WEIR_DURABLE_DEAD && strcmp(info->topic, topic) == 0 && info->ready < first)
                        first = info->ready;
        }
        return first;
}

static int
set(struct database *database, struct weir__durable_op *op)
{
        struct weir_durable_info *there = find(database, op->name);
        weir_nsec due = op->is_relative ? weir__durable_add(op->now, op->at) : op->at;

        if (op->keeps_same && is_same(there, op)) {
                op->generation = there->generation;
                op->ready = there->ready;
                return 0;
        }
        const struct weir_durable_info info = {.name = op->name,
                                               .topic = op->topic,
                                               .payload = op->payload,
                                               .payload_size = op->payload_size,
                                               .generation = ++database->sequence,
                                               .due = due,
                                               .ready = due,
                                               .cron = op->cron,
                                               .zone = op->zone,
                                               .policy = op->policy};
        op->generation = info.generation;
        op->ready = due;
        op->is_earliest = due < earliest(database, op->topic);
        return put_row(database, &info);
}

static bool
is_undecided(const struct weir_durable_info *info)
{
        return info && info->state == WEIR_DURABLE_PENDING && info->attempt == 0;
}

static void
cancel(struct database *database, struct weir__durable_op *op)
{
        const struct weir_durable_info *info = find(database, op->name);

        op->is_done = is_undecided(info);
        if (!op->is_done)
                return;
        op->generation = info->generation;
        remove_row(database, op->name);
}

static int
extend(struct database *database, struct weir__durable_op *op)
{
        struct weir_durable_info *info = find(database, op->name);

        op->is_done = is_undecided(info);
        if (!op->is_done)
                return 0;
        op->is_earliest = true;
        info->due = weir__durable_add(op->is_relative ? op->now : info->due, op->at);
        op->ready = info->ready = info->due;
        return weir__durable_op_add(op, info);
}

static int
put_back(struct database *database, struct weir__durable_op *op)
{
        struct weir_durable_info *info = find(database, op->name);

        op->is_done = info && info->state == WEIR_DURABLE_DEAD;
        if (!op->is_done)
                return 0;
        op->is_earliest = true;
        info->state = WEIR_DURABLE_PENDING;
        info->generation = ++database->sequence;
        info->attempt = 0;
        info->token = 0;
        op->ready = info->ready = op->now;
        return weir__durable_op_add(op, info);
}

static void
forget(struct database *database, struct weir__durable_op *op)
{
        const struct weir_durable_info *info = find(database, op->name);

        op->is_done = info && info->state == WEIR_DURABLE_DEAD;
        if (!op->is_done)
                return;
        op->generation = info->generation;
        remove_row(database, op->name);
}

static int
get(struct database *database, struct weir__durable_op *op)
{
        struct weir_durable_info *info = find(database, op->name);

        return info ? weir__durable_op_add(op, info) : 0;
}

static int
list_by_ready(struct database *database, struct weir__durable_op *op)
{
        for (size_t i = 0; i < database->count; i++) {
                const struct weir_durable_info *info = &database->rows[i]->info;

                if (info->state != WEIR_DURABLE_DEAD && weir__durable_op_add_by_ready(op, info))
                        return -ENOMEM;
        }
        return 0;
}

static int
list(struct database *database, struct weir__durable_op *op)
{
        size_t size = strlen(op->prefix);

        if (op->by_ready)
                return list_by_ready(database, op);
        for (size_t i = 0; i < database->count && op->row_count < op->most; i++) {
                const struct weir_durable_info *info = &database->rows[i]->info;

                if (strncmp(info->name, op->prefix, size) != 0 || strcmp(info->name, op->behind) <= 0)
                        continue;
                if ((!op->only_dead || info->state == WEIR_DURABLE_DEAD) && weir__durable_op_add(op, info))
                        return -ENOMEM;
        }
        return 0;
}

static void
count(struct database *database, struct weir__durable_op *op)
{
        size_t size = strlen(op->prefix);

        for (size_t i = 0; i < database->count; i++)
                if (strncmp(database->rows[i]->info.name, op->prefix, size) == 0)
                        op->counts[database->rows[i]->info.state]++;
}

/* The row of these topics that is ready first; NULL: none. */
static struct weir_durable_info *
first_ready(struct database *database, const struct weir__durable_op *op)
{
        struct weir_durable_info *first = NULL;

        for (size_t i = 0; i < database->count; i++) {
                struct weir_durable_info *info = &database->rows[i]->info;
                bool is_ours = false;

                if (info->state == WEIR_DURABLE_DEAD || (first && info->ready >= first->ready))
                        continue;
                for (size_t t = 0; t < op->topic_count && !is_ours; t++)
                        is_ours = strcmp(op->topics[t], info->topic) == 0;
                if (is_ours)
                        first = info;
        }
        return first;
}

static int
claim(struct database *database, struct weir__durable_op *op)
{
        struct weir_durable_info *info = first_ready(database, op);

        while (info && info->ready <= op->now && op->row_count < op->most) {
                struct weir_durable_info changed = *info;

                changed.state = WEIR_DURABLE_LEASED;
                changed.attempt++;
                changed.token = ++database->sequence;
                changed.ready = weir__durable_add(op->now, op->lease);
                changed.node = op->node;
                if (weir__durable_op_add(op, &changed) || put_row(database, &changed)) /* it frees the texts */
                        return -ENOMEM;
                info = first_ready(database, op);
        }
        op->next_ready = info ? info->ready : WEIR_FOREVER;
        return 0;
}

static int
end(struct database *database, struct weir__durable_op *op)
{
        struct weir_durable_info *info = find(database, op->name);

        op->is_done = info && info->state == WEIR_DURABLE_LEASED && info->token == op->token;
        if (!op->is_done)
                return 0;
        if (op->outcome == WEIR__DURABLE_ACKNOWLEDGE) {
                remove_row(database, op->name);
                return 0;
        }
        struct weir_durable_info changed = *info;
        changed.state = op->outcome == WEIR__DURABLE_MARK_DEAD ? WEIR_DURABLE_DEAD : WEIR_DURABLE_PENDING;
        if (op->outcome != WEIR__DURABLE_GIVE_BACK)
                changed.problem = op->problem;
        changed.ready = op->now;
        if (op->outcome == WEIR__DURABLE_RETRY) {
                changed.ready = weir__durable_add(op->now, op->at);
        } else if (op->outcome == WEIR__DURABLE_GIVE_BACK) {
                changed.attempt--;
        } else if (op->outcome == WEIR__DURABLE_MOVE_ON) {
                changed.generation = ++database->sequence;
                changed.attempt = 0;
                changed.token = 0;
                changed.due = changed.ready = op->at;
        }
        op->ready = changed.ready;
        op->is_earliest = changed.state == WEIR_DURABLE_PENDING && changed.ready < earliest(database, changed.topic);
        return put_row(database, &changed);
}

static void
renew(struct database *database, struct weir__durable_op *op)
{
        for (size_t i = 0; i < op->claim_count; i++) {
                struct weir_durable_info *info = find(database, op->claims[i].name);

                op->claims[i].is_held = info && info->state == WEIR_DURABLE_LEASED && info->token == op->claims[i].token;
                if (op->claims[i].is_held)
                        info->ready = weir__durable_add(op->now, op->lease);
        }
}

static int
carry_out(struct database *database, struct weir__durable_op *op)
{
        op->now = weir_wall_now();
        op->is_earliest = op->is_done = false;
        switch (op->kind) {
        case WEIR__DURABLE_SET: return set(database, op);
        case WEIR__DURABLE_CANCEL: cancel(database, op); return 0;
        case WEIR__DURABLE_EXTEND: return extend(database, op);
        case WEIR__DURABLE_PUT_BACK: return put_back(database, op);
        case WEIR__DURABLE_FORGET: forget(database, op); return 0;
        case WEIR__DURABLE_GET: return get(database, op);
        case WEIR__DURABLE_LIST: return list(database, op);
        case WEIR__DURABLE_COUNT: count(database, op); return 0;
        case WEIR__DURABLE_CLAIM: return claim(database, op);
        case WEIR__DURABLE_END: return end(database, op);
        case WEIR__DURABLE_RENEW: renew(database, op); return 0;
        }
        return -EINVAL;
}

/* -- the queue -- */

/* Rings for the other stores, without the lock. */
static void
ring_others(struct memory_engine *engine)
{
        size_t count = 0;

        pthread_mutex_lock(&lock);
        weir_durable **rung = malloc(engine->database->stores * sizeof *rung); /* without memory they are late */
        for (struct memory_engine *other = engine->database->engines; rung && other; other = other->next)
                if (other != engine && other->is_attending)
                        rung[count++] = weir__durable_ref(other->base.store);
        pthread_mutex_unlock(&lock);
        for (size_t i = 0; i < count; i++) {
                weir__durable_ring(rung[i]);
                weir__durable_unref(rung[i]);
        }
        free(rung);
}

static void
work(weir_task *task, void *context)
{
        struct memory_engine *engine = context;
        weir_durable *store = weir__durable_ref(engine->base.store);

        for (;;) {
                pthread_mutex_lock(&lock);
                struct weir__durable_op *op = engine->first;
                int status = 0;

                if (op) {
                        engine->first = op->next;
                        if (!engine->first)
                                engine->last = &engine->first;
                        status = weir_task_status(task) ? weir_task_status(task) : carry_out(engine->database, op);
                } else {
                        engine->is_working = false;
                }
                pthread_mutex_unlock(&lock);
                if (!op)
                        break;
                if (!status && op->is_earliest)
                        ring_others(engine);
                weir__durable_op_end(op, status);
        }
        weir__durable_unref(store);
}

static void
submit(struct weir__durable_engine *base, struct weir__durable_op *op)
{
        struct memory_engine *engine = (struct memory_engine *)base;

        op->next = NULL;
        pthread_mutex_lock(&lock);
        *engine->last = op;
        engine->last = &op->next;
        bool should_work = !engine->is_working;
        engine->is_working = true;
        pthread_mutex_unlock(&lock);
        if (!should_work)
                return;
        int failed = weir_task_start(weir_empty_new(work, engine));
        if (!failed)
                return;
        /* The runtime is down: all that waits ends with that. */
        pthread_mutex_lock(&lock);
        struct weir__durable_op *first = engine->first;
        engine->first = NULL;
        engine->last = &engine->first;
        engine->is_working = false;
        pthread_mutex_unlock(&lock);
        while (first) {
                struct weir__durable_op *next = first->next;

                weir__durable_op_end(first, failed);
                first = next;
        }
}

static void
set_attending(struct weir__durable_engine *base, bool is_attending)
{
        pthread_mutex_lock(&lock);
        ((struct memory_engine *)base)->is_attending = is_attending;
        pthread_mutex_unlock(&lock);
}

static void
attend(struct weir__durable_engine *base)
{
        set_attending(base, true);
}

static void
neglect(struct weir__durable_engine *base)
{
        set_attending(base, false);
}

const struct weir__durable_engine_kind weir__durable_memory = {
        .scheme = "memory",
        .open = open_engine,
        .submit = submit,
        .attend = attend,
        .neglect = neglect,
        .free = free_engine,
        .lists_by_ready = true,
};
