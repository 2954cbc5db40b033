/* The engines do the same: random operations on each of them and on the one in memory, with all results compared.  That one is
 * the plain model.
 *
 * Generations and tokens of an engine may have gaps, so they need not be the same numbers as those of the model.  They have to
 * have the same order. */
#include <errno.h>
#include <string.h>

#include <weir/clock.h>
#include <weir/runtime.h>

#include "durable/store.h"
#include "test/addon/durable_outside.h"
#include "test/addon/durable_url.h"
#ifdef WEIR_HAS_PQ
#include "test/addon/durable_pq.h"
#endif
#ifdef WEIR_HAS_REDIS
#include "test/addon/redis_server.h"
#endif
#include "test/support.h"

#define NAMES 12

static const char *const topics[] = {"t", "u"};

/* -- one operation -- */

static void
on_ended(struct weir__durable_op *op)
{
        weir_waitgroup_done(op->owner);
}

/* Carries it out.  The caller frees it. */
static struct weir__durable_op *
carry_out(weir_durable *store, struct weir__durable_op *op)
{
        weir_waitgroup *done = weir_waitgroup_new();

        op->ended = on_ended;
        op->owner = done;
        weir_waitgroup_add(done, 1);
        weir__durable_submit(store, op);
        CU_ASSERT(weir_waitgroup_wait(done, WEIR_FOREVER) == 0);
        weir_waitgroup_free(done);
        return op;
}

/* -- choosing -- */

static struct weir_test_random chance;

static size_t
below(size_t limit)
{
        return weir_test_random_below(&chance, limit);
}

/* The claims that were made, live or not, with the tokens of the model and of the engine. */
static struct {
        char name[20];
        uint64_t token[2];
} claims[64];
static size_t claimed;

struct choice {
        enum weir__durable_kind kind;
        enum weir__durable_outcome outcome;
        char name[20];
        char payload[20];
        const char *topic, *cron, *behind, *prefix;
        weir_nsec at;
        bool is_relative, keeps_same, only_dead;
        size_t most;
        uint64_t token[2];
};

static struct choice
choose(void)
{
        static const enum weir__durable_kind kinds[] = {
                WEIR__DURABLE_SET,    WEIR__DURABLE_SET,   WEIR__DURABLE_SET,  WEIR__DURABLE_CANCEL, WEIR__DURABLE_EXTEND,
                WEIR__DURABLE_CLAIM,  WEIR__DURABLE_CLAIM, WEIR__DURABLE_END,  WEIR__DURABLE_END,    WEIR__DURABLE_END,
                WEIR__DURABLE_RENEW,  WEIR__DURABLE_GET,   WEIR__DURABLE_LIST, WEIR__DURABLE_COUNT,  WEIR__DURABLE_PUT_BACK,
                WEIR__DURABLE_FORGET, WEIR__DURABLE_END,
        };
        static const char *const prefixes[] = {"", "a", "a/1", "\xff", "b"};
        struct choice choice = {.kind = kinds[below(sizeof kinds / sizeof *kinds)]};

        snprintf(choice.name, sizeof choice.name, "%s%zu", below(2) ? "a/" : below(2) ? "\xff\xff" : "b", below(NAMES));
        snprintf(choice.payload, sizeof choice.payload, "%zu", below(3));
        choice.topic = topics[below(2)];
        choice.cron = below(8) ? "" : below(2) ? "@daily" : "@hourly";
        choice.keeps_same = *choice.cron != 0;
        choice.is_relative = below(2);
        choice.at = WEIR_SEC((weir_nsec)below(20)) - WEIR_SEC(5) + (choice.is_relative ? 0 : weir_wall_now());
        if (choice.kind == WEIR__DURABLE_EXTEND || choice.kind == WEIR__DURABLE_END)
                choice.at = WEIR_SEC((weir_nsec)below(20)) + (choice.kind == WEIR__DURABLE_EXTEND ? -WEIR_SEC(10) : 0);
        if (below(30) == 0)
                choice.at = WEIR_FOREVER;
        choice.outcome = (enum weir__durable_outcome)below(5);
        choice.prefix = prefixes[below(5)];
        choice.behind = below(2) ? "" : "a/3";
        choice.only_dead = below(2);
        choice.most = 1 + below(5);
        if (choice.kind == WEIR__DURABLE_END && claimed) {
                size_t i = below(claimed < 64 ? claimed : 64);

                snprintf(choice.name, sizeof choice.name, "%s", claims[i].name);
                size_t wrong = below(10) == 0;

                for (int which = 0; which < 2; which++)
                        choice.token[which] = claims[i].token[which] + wrong;
        }
        return choice;
}

/* The operation for the model, which is 0, or for the engine. */
static struct weir__durable_op *
make(const struct choice *choice, int which)
{
        struct weir__durable_op *op = weir__durable_op_new(
                choice->kind, &(struct weir__durable_texts){.name = choice->name,
                                                            .topic = choice->topic,
                                                            .cron = choice->cron,
                                                            .prefix = choice->prefix,
                                                            .behind = choice->behind,
                                                            .problem = choice->payload,
                                                            .payload = choice->payload,
                                                            .payload_size = strlen(choice->payload)});

        CU_ASSERT_PTR_NOT_NULL_FATAL(op);
        op->outcome = choice->outcome;
        op->at = choice->at;
        op->is_relative = choice->is_relative;
        op->keeps_same = choice->keeps_same;
        op->only_dead = choice->only_dead;
        op->most = choice->most;
        op->token = choice->token[which];
        op->as_if_now = weir_wall_now();
        op->lease = WEIR_SEC(4);
        if (choice->kind == WEIR__DURABLE_CLAIM) {
                op->topics = malloc(sizeof *op->topics);
                op->topics[op->topic_count++] = choice->topic;
        }
        if (choice->kind == WEIR__DURABLE_RENEW && claimed) {
                op->claim_count = claimed < 64 ? claimed : 64;
                op->claims = calloc(op->claim_count, sizeof *op->claims);
                for (size_t i = 0; i < op->claim_count; i++) {
                        op->claims[i].name = claims[i].name;
                        op->claims[i].token = claims[i].token[which];
                }
        }
        return op;
}

/* -- comparing -- */

/* The numbers of the model, in their order, and what they are in the engine. */
static struct {
        uint64_t model, engine;
} numbers[20000];
static size_t number_count;

static bool
is_same_number(uint64_t model, uint64_t engine)
{
        size_t low = 0, high = number_count;

        if (!model || !engine)
                return model == engine;
        while (low < high) {
                size_t middle = (low + high) / 2;

                if (numbers[middle].model < model)
                        low = middle + 1;
                else
                        high = middle;
        }
        if (low < number_count && numbers[low].model == model)
                return numbers[low].engine == engine;
        if ((low > 0 && numbers[low - 1].engine >= engine) || (low < number_count && numbers[low].engine <= engine))
                return false;
        CU_ASSERT_FATAL(number_count < sizeof numbers / sizeof *numbers);
        memmove(numbers + low + 1, numbers + low, (number_count++ - low) * sizeof *numbers);
        numbers[low].model = model;
        numbers[low].engine = engine;
        return true;
}

static bool
is_same_row(const struct weir_durable_info *a, const struct weir_durable_info *b)
{
        return strcmp(a->name, b->name) == 0 && strcmp(a->topic, b->topic) == 0 && a->payload_size == b->payload_size &&
               memcmp(a->payload, b->payload, a->payload_size + 1) == 0 && is_same_number(a->generation, b->generation) &&
               a->state == b->state && a->attempt == b->attempt && is_same_number(a->token, b->token) && a->due == b->due &&
               a->ready == b->ready && strcmp(a->problem, b->problem) == 0 && strcmp(a->cron, b->cron) == 0 &&
               strcmp(a->zone, b->zone) == 0 && a->policy == b->policy && (*a->node != 0) == (*b->node != 0);
}

static bool
is_same(const struct weir__durable_op *a, const struct weir__durable_op *b)
{
        bool has_rows = a->kind == WEIR__DURABLE_GET || a->kind == WEIR__DURABLE_LIST || a->kind == WEIR__DURABLE_CLAIM;

        if (a->status || b->status || a->now != b->now || a->is_done != b->is_done ||
            !is_same_number(a->generation, b->generation))
                return false;
        if (memcmp(a->counts, b->counts, sizeof a->counts) != 0 || a->next_ready != b->next_ready)
                return false;
        if ((a->kind == WEIR__DURABLE_SET || a->is_done) && a->ready != b->ready)
                return false;
        if (a->is_earliest && !b->is_earliest && a->kind == WEIR__DURABLE_SET)
                return false;
        for (size_t i = 0; i < a->claim_count; i++)
                if (a->claims[i].is_held != b->claims[i].is_held)
                        return false;
        if (!has_rows)
                return true;
        if (a->row_count != b->row_count)
                return false;
        for (size_t i = 0; i < a->row_count; i++)
                if (!is_same_row(&a->rows[i]->info, &b->rows[i]->info))
                        return false;
        return true;
}

static void
remember(const struct weir__durable_op *model, const struct weir__durable_op *engine)
{
        for (size_t i = 0; i < model->row_count && model->kind == WEIR__DURABLE_CLAIM; i++) {
                snprintf(claims[claimed % 64].name, sizeof claims->name, "%s", model->rows[i]->info.name);
                claims[claimed % 64].token[0] = model->rows[i]->info.token;
                claims[claimed++ % 64].token[1] = engine->rows[i]->info.token;
        }
}

static void
tell(int step, const struct choice *choice, const struct weir__durable_op *expected, const struct weir__durable_op *got)
{
        fprintf(stderr, "step %d: operation %d on %s, outcome %d: done %d and %d, rows %zu and %zu, status %d %s\n", step,
                choice->kind, choice->name, choice->outcome, expected->is_done, got->is_done, expected->row_count, got->row_count,
                got->status, got->reason);
        for (size_t i = 0; i < expected->row_count && i < got->row_count; i++) {
                const struct weir_durable_info *a = &expected->rows[i]->info, *b = &got->rows[i]->info;

                fprintf(stderr, "%s, attempt %u, token %lld, ready %lld; %s, attempt %u, token %lld, ready %lld\n", a->name,
                        a->attempt, (long long)a->token, (long long)a->ready, b->name, b->attempt, (long long)b->token,
                        (long long)b->ready);
        }
        fprintf(stderr, "now %lld and %lld, next %lld and %lld\n", (long long)expected->now, (long long)got->now,
                (long long)expected->next_ready, (long long)got->next_ready);
}

/* -- the engines -- */

static void
agree_on_random_operations(weir_durable *place(weir_durable *store), const char *url, int steps)
{
        int counts[WEIR__DURABLE_RENEW + 1] = {0}, done[WEIR__DURABLE_RENEW + 1] = {0};
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        bool is_different = false;

        config.clock = WEIR_CLOCK_VIRTUAL;
        CU_ASSERT_FATAL(weir_init(&config) == 0);
        chance.state = weir_test_seed();
        claimed = number_count = 0;
        weir_durable *model = weir_durable_open("memory:model");
        weir_durable *engine = place(weir_durable_open(url));
        CU_ASSERT_FATAL(model && engine);
        for (int step = 0; step < steps && !is_different; step++) {
                struct choice choice = choose();
                struct weir__durable_op *expected = carry_out(model, make(&choice, 0));
                struct weir__durable_op *got = carry_out(engine, make(&choice, 1));

                counts[choice.kind]++;
                done[choice.kind] += expected->is_done || expected->row_count;
                is_different = !is_same(expected, got);
                if (is_different)
                        tell(step, &choice, expected, got);
                else
                        remember(expected, got);
                weir__durable_op_free(expected);
                weir__durable_op_free(got);
                if (below(4) == 0)
                        CU_ASSERT(weir_clock_advance(WEIR_MSEC((weir_nsec)below(3000))) == 0);
        }
        CU_ASSERT(!is_different);
        /* Each kind has succeeded often enough to say something.  Dead timers are rare: about 3 of 100 find one. */
        for (int kind = 0; kind < WEIR__DURABLE_RENEW; kind++)
                CU_ASSERT(kind == WEIR__DURABLE_SET || kind == WEIR__DURABLE_COUNT || done[kind] > counts[kind] / 200);
        weir_durable_close(model);
        weir_durable_close(engine);
        CU_ASSERT(weir_shutdown() == 0);
}

static weir_durable *
inside(weir_durable *store)
{
        return store;
}

static void
sqlite_agrees(void)
{
        agree_on_random_operations(inside, sqlite_url(), WEIR_TEST_SANITIZED ? 3000 : 8000);
}

#ifdef WEIR_HAS_PQ
static void
postgresql_agrees(void)
{
        if (pq_start())
                agree_on_random_operations(outside, pq_url(), WEIR_TEST_SANITIZED ? 3000 : 8000);
        else
                printf("PostgreSQL is not installed ");
}
#endif

#ifdef WEIR_HAS_REDIS
static void
redis_agrees(void)
{
        struct redis_server redis = {0};
        char url[60];

        if (!redis_is_installed()) {
                printf("Redis is not installed ");
                return;
        }
        redis_start(&redis, "");
        snprintf(url, sizeof url, "redis://127.0.0.1:%d", redis.port);
        agree_on_random_operations(outside, url, WEIR_TEST_SANITIZED ? 3000 : 8000);
        redis_stop(&redis);
}
#endif

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(sqlite_agrees),
#ifdef WEIR_HAS_PQ
                WEIR_TEST(postgresql_agrees),
#endif
#ifdef WEIR_HAS_REDIS
                WEIR_TEST(redis_agrees),
#endif
        };

        return weir_test_main("engines of durable timers", tests, sizeof tests / sizeof *tests);
}
