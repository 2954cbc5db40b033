/* bench/contest.c: add and cancel, reset, and the memory of what is pending: which cases there are, and who takes part.
 *
 * For each load all take their turn, one after the other, and so in every round: the figures of a round lie seconds apart.
 *
 * Threads: the main thread, which has no other. */
#include <stdio.h>

#include "timers.h"

#define COUNT     500000 /* pairs; a fifth in a quick run */
#define TEXT_SIZE 96

static const char *const hows[] = {"hot", "any", "reset"};
static const char *const mixes[] = {"fixed", "mixed", "random"}; /* what the peers' programs call them */
static const char *const durations[] = {"60 s", "1 s to 5 min", "1-60 s"};

/* The peers.  Their timers are told apart by handle or lie in the caller's memory, or have names; the floor is under both. */
enum naming { BY_HANDLE, BY_NAME, BOTH };

static const struct peer {
        const char *peer, *program;
        enum naming naming;
} peers[] = {
        {"libuv", "uv", BY_HANDLE},
        {"libevent", "event", BY_HANDLE},
        {"libev", "ev", BY_HANDLE},
        {"go", "go", BY_HANDLE},
        {"go", "go", BY_NAME},
        {"floor", "wheel", BOTH},
        {"floor, handed over", "wheel-handed", BOTH},
};
#define PEERS (sizeof peers / sizeof *peers)

static const struct way {
        const char *peer;
        enum bench_kind kind;
        enum bench_place place;
} ways[] = {
        {"weir", BENCH_WITH_ID, BENCH_CALLBACK},
        {"weir", BENCH_NAMED, BENCH_CALLBACK},
        {"weir, foreign thread", BENCH_WITH_ID, BENCH_FOREIGN},
        {"weir, foreign thread", BENCH_NAMED, BENCH_FOREIGN},
};
#define WAYS (sizeof ways / sizeof *ways)

/* In which runs: all; those that are not quick; full ones. */
enum level { ALWAYS, NORMALLY, FULLY };

static const struct {
        enum level level;
        struct bench_load load;
} loads[] = {
        {ALWAYS, {BENCH_HOT, BENCH_FIXED, 1000, 0}},       {NORMALLY, {BENCH_HOT, BENCH_MIXED, 1000, 0}},
        {NORMALLY, {BENCH_HOT, BENCH_RANDOM, 1000, 0}},    {FULLY, {BENCH_HOT, BENCH_FIXED, 100000, 0}},
        {FULLY, {BENCH_HOT, BENCH_MIXED, 100000, 0}},      {FULLY, {BENCH_HOT, BENCH_RANDOM, 100000, 0}},
        {FULLY, {BENCH_HOT, BENCH_FIXED, 1000000, 0}},     {FULLY, {BENCH_HOT, BENCH_MIXED, 1000000, 0}},
        {NORMALLY, {BENCH_HOT, BENCH_RANDOM, 1000000, 0}}, {FULLY, {BENCH_HOT, BENCH_RANDOM, 10000000, 0}},
        {ALWAYS, {BENCH_ANY, BENCH_FIXED, 1000, 0}},       {FULLY, {BENCH_ANY, BENCH_MIXED, 1000, 0}},
        {FULLY, {BENCH_ANY, BENCH_RANDOM, 1000, 0}},       {NORMALLY, {BENCH_ANY, BENCH_FIXED, 100000, 0}},
        {NORMALLY, {BENCH_ANY, BENCH_MIXED, 100000, 0}},   {ALWAYS, {BENCH_ANY, BENCH_RANDOM, 100000, 0}},
        {NORMALLY, {BENCH_ANY, BENCH_FIXED, 1000000, 0}},  {NORMALLY, {BENCH_ANY, BENCH_MIXED, 1000000, 0}},
        {NORMALLY, {BENCH_ANY, BENCH_RANDOM, 1000000, 0}}, {FULLY, {BENCH_ANY, BENCH_FIXED, 10000000, 0}},
        {FULLY, {BENCH_ANY, BENCH_MIXED, 10000000, 0}},    {FULLY, {BENCH_ANY, BENCH_RANDOM, 10000000, 0}},
        {ALWAYS, {BENCH_RESET, BENCH_FIXED, 1000, 0}},     {ALWAYS, {BENCH_RESET, BENCH_RANDOM, 100000, 0}},
        {FULLY, {BENCH_RESET, BENCH_FIXED, 1000000, 0}},   {NORMALLY, {BENCH_RESET, BENCH_RANDOM, 1000000, 0}},
        {FULLY, {BENCH_RESET, BENCH_RANDOM, 10000000, 0}},
};
#define LOADS (sizeof loads / sizeof *loads)

static bool
included(const struct bench_size *size, enum level level)
{
        return level == ALWAYS || (level == NORMALLY && !size->quick) || size->full;
}

static unsigned
patience(size_t pending)
{
        return 30 + (unsigned)(pending / 50000);
}

/* -- cases, in words -- */

static const char *
number_of(size_t pending)
{
        switch (pending) {
        case 1000: return "1e3";
        case 100000: return "1e5";
        case 1000000: return "1e6";
        case 10000000: return "1e7";
        default: return "0";
        }
}

static const char *
case_of(char text[TEXT_SIZE], bool named, const struct bench_load *load)
{
        snprintf(text, TEXT_SIZE, "%s, %s, N=%s, %s", named ? "named" : "unnamed", hows[load->how], number_of(load->pending),
                 durations[load->mix]);
        return text;
}

static const char *
adding_case(char text[TEXT_SIZE], bool named, const struct bench_size *size)
{
        snprintf(text, TEXT_SIZE, "%s, add only, N=%s, 1-60 s", named ? "named" : "unnamed", size->quick ? "1e5" : "1e6");
        return text;
}

static const char *
wanted_case(char text[TEXT_SIZE], const struct bench_size *size, bool named, const struct bench_load *load)
{
        return bench_wanted(size, case_of(text, named, load)) ? text : NULL;
}

/* -- pairs and resets -- */

static void
peer_pairs(const struct bench_size *size, const struct peer *peer, const struct bench_load *load)
{
        char names[2][TEXT_SIZE];
        const char *unnamed = peer->naming != BY_NAME ? wanted_case(names[0], size, false, load) : NULL;
        const char *named = peer->naming != BY_HANDLE ? wanted_case(names[1], size, true, load) : NULL;
        struct bench_reading reading;

        if (!unnamed && !named)
                return;
        if (!bench_peer(peer->program, &reading, patience(load->pending), "pairs how=%s mix=%s pending=%zu count=%zu by=%s",
                        hows[load->how], mixes[load->mix], load->pending, load->count, unnamed ? "handle" : "name"))
                return;
        if (unnamed)
                bench_sample(peer->peer, unnamed, "CPU ns per pair", reading.cpu);
        if (named)
                bench_sample(peer->peer, named, "CPU ns per pair", reading.cpu);
}

static void
weir_pairs(const struct bench_size *size, const struct way *way, const struct bench_load *load)
{
        struct bench_weir weir = {.kind = way->kind, .place = way->place, .load = *load};
        struct bench_reading reading;
        char text[TEXT_SIZE];
        const char *name = wanted_case(text, size, way->kind == BENCH_NAMED, load);

        if (!name || !bench_weir_pairs(name, &weir, &reading))
                return;
        bench_sample(way->peer, name, "CPU ns per pair", reading.cpu);
        if (load->how != BENCH_RESET)
                return;
        weir.load.how = BENCH_ANY;
        if (bench_weir_pairs(name, &weir, &reading))
                bench_sample("weir, cancel and add", name, "CPU ns per pair", reading.cpu);
}

static void
compete(const struct bench_size *size, struct bench_load load)
{
        load.count = size->quick ? COUNT / 5 : COUNT;
        for (size_t i = 0; i < PEERS; i++)
                peer_pairs(size, &peers[i], &load);
        for (size_t i = 0; i < WAYS; i++)
                if (load.how != BENCH_RESET || ways[i].place == BENCH_CALLBACK)
                        weir_pairs(size, &ways[i], &load);
}

/* -- how many pairs a callback makes, and on how many pollers -- */

static const struct {
        unsigned slice;
        int pollers;
        const char *name;
} slices[] = {
        {1, 1, "named, hot, 1 pair a callback, 1 poller"},
        {1, 2, "named, hot, 1 pair a callback, 2 pollers"},
        {200, 1, "named, hot, 200 pairs a callback, 1 poller"},
        {200, 2, "named, hot, 200 pairs a callback, 2 pollers"},
};
#define SLICES (sizeof slices / sizeof *slices)

#define GOROUTINES "go, a goroutine each" /* in the place of a callback; "go": one goroutine makes all pairs */

static void
go_in_slices(const char *peer, const char *name, size_t count, unsigned slice)
{
        struct bench_reading reading;

        if (bench_peer("go", &reading, patience(0), "pairs how=hot mix=fixed pending=1000 count=%zu by=name slice=%u", count,
                       slice))
                bench_sample(peer, name, "CPU ns per pair", reading.cpu);
}

static void
compete_in_slices(const struct bench_size *size)
{
        size_t count = size->quick ? COUNT / 5 : COUNT;
        struct bench_weir weir = {.kind = BENCH_NAMED, .place = BENCH_CALLBACK, .load = {.pending = 1000, .count = count}};
        struct bench_reading reading;

        for (size_t i = 0; i < SLICES; i++) {
                const char *name = slices[i].name;

                if (!bench_wanted(size, name))
                        continue;
                go_in_slices("go", name, count, 0);
                go_in_slices(GOROUTINES, name, count, slices[i].slice);
                weir.slice = slices[i].slice;
                weir.pollers = slices[i].pollers;
                if (bench_weir_pairs(name, &weir, &reading))
                        bench_sample("weir", name, "CPU ns per pair", reading.cpu);
        }
}

/* -- one adds, another cancels -- */

#define APART "named, one thread adds, one cancels"

static void
tell_apart(const char *peer, const struct bench_reading *reading)
{
        bench_sample(peer, APART, "million pairs per second", 1000 / reading->elapsed);
        bench_sample(peer, APART, "CPU ns per pair", reading->cpu);
}

static void
compete_apart(const struct bench_size *size)
{
        struct bench_weir weir = {
                .kind = BENCH_NAMED, .place = BENCH_APART, .load.count = size->quick ? 2 * COUNT / 5 : 2 * COUNT};
        struct bench_reading reading;

        if (!bench_wanted(size, APART))
                return;
        if (bench_peer("go", &reading, patience(0), "apart by=name pending=0 count=%zu", weir.load.count))
                tell_apart("go", &reading);
        if (bench_weir_pairs(APART, &weir, &reading))
                tell_apart("weir", &reading);
}

/* -- how one cancels an unnamed timer together with what else is in its series -- */

static void
in_series(const struct bench_size *size)
{
        static const char *const name = "unnamed in a series, hot, N=1e3, 60 s";
        struct bench_weir weir = {
                .kind = BENCH_IN_SERIES, .place = BENCH_CALLBACK, .load = {.pending = 1000, .count = COUNT / 5}};
        struct bench_reading reading;

        if (bench_wanted(size, name) && bench_weir_pairs(name, &weir, &reading))
                bench_sample("weir", name, "CPU ns per pair", reading.cpu);
}

/* -- memory, and what adding alone costs -- */

static void
tell_adding(const char *peer, const char *name, const struct bench_reading *reading)
{
        bench_sample(peer, name, "bytes per pending timer", reading->bytes);
        bench_sample(peer, name, "CPU ns per timer", reading->cpu);
}

static void
peer_adding(const struct bench_size *size, const struct peer *peer, const struct bench_load *load)
{
        struct bench_reading reading;
        char text[TEXT_SIZE];
        bool named = peer->naming == BY_NAME;

        if (bench_wanted(size, adding_case(text, named, size)) &&
            bench_peer(peer->program, &reading, patience(load->pending), "memory mix=random pending=%zu by=%s", load->pending,
                       named ? "name" : "handle"))
                tell_adding(peer->peer, text, &reading);
}

static void
weir_adding(const struct bench_size *size, const struct way *way, const struct bench_load *load)
{
        struct bench_weir weir = {.kind = way->kind, .place = way->place, .load = *load};
        struct bench_reading reading;
        char text[TEXT_SIZE];

        if (bench_wanted(size, adding_case(text, way->kind == BENCH_NAMED, size)) && bench_weir_memory(text, &weir, &reading))
                tell_adding(way->peer, text, &reading);
}

static void
compete_adding(const struct bench_size *size)
{
        struct bench_load load = {.mix = BENCH_RANDOM, .pending = size->quick ? 100000 : 1000000};

        for (size_t i = 0; i < PEERS; i++)
                if (peers[i].naming != BOTH)
                        peer_adding(size, &peers[i], &load);
        weir_adding(size, &(struct way){"weir", BENCH_UNNAMED, BENCH_CALLBACK}, &load);
        weir_adding(size, &(struct way){"weir, foreign thread", BENCH_UNNAMED, BENCH_FOREIGN}, &load);
        weir_adding(size, &(struct way){"weir, with ids", BENCH_WITH_ID, BENCH_CALLBACK}, &load);
        weir_adding(size, &(struct way){"weir", BENCH_NAMED, BENCH_CALLBACK}, &load);
        weir_adding(size, &(struct way){"weir, foreign thread", BENCH_NAMED, BENCH_FOREIGN}, &load);
}

/* -- all -- */

void
bench_pairs(const struct bench_size *size)
{
        for (size_t i = 0; i < LOADS; i++)
                if (included(size, loads[i].level))
                        compete(size, loads[i].load);
        compete_in_slices(size);
        compete_apart(size);
        in_series(size);
        compete_adding(size);
}

void
bench_pairs_ratios(void)
{
        static const char *const metric = "CPU ns per pair";
        char name[TEXT_SIZE];

        for (size_t i = 0; i < LOADS; i++) {
                for (int named = 0; named < 2; named++) {
                        case_of(name, named, &loads[i].load);
                        if (loads[i].load.how == BENCH_RESET)
                                bench_ratio("weir", "weir, cancel and add", name, metric);
                        bench_ratio("weir", "go", name, metric);
                        bench_ratio("weir, foreign thread", "go", name, metric);
                        bench_ratio("weir", "floor", name, metric);
                        bench_ratio("weir", "floor, handed over", name, metric);
                }
        }
        for (size_t i = 0; i < SLICES; i++) {
                bench_ratio("weir", "go", slices[i].name, metric);
                bench_ratio("weir", GOROUTINES, slices[i].name, metric);
                bench_goal("weir", slices[i].name, "ratio to go, CPU ns per pair", 0.55);
        }
        bench_ratio("weir", "go", APART, "million pairs per second");
}
