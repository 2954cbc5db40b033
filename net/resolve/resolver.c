/* net/resolve/resolver.c: the cache, the look-ups that are under way, and those who wait for them.
 *
 *     start --kept--> the answer
 *        \--the same name is being looked up--> a ticket of that look-up --.
 *         \--> a new look-up, with a ticket -------------------------------+--its end--> kept; `answered` for each ticket
 *
 * A look-up belongs to the resolver.  Each wait has a ticket, which it leaves alone.  A look-up without tickets goes on, and its
 * answer is kept.
 *
 * Threads: started and left by the owner of a poller.  A look-up runs on the poller of the first who asked.  Whoever ends it
 *          delivers the tickets to the pollers of their waits.
 * Locks:   resolver.lock, a leaf, for the cache, the table of look-ups, and the lists of tickets.  Nothing is allocated, freed or
 *          delivered under it.
 *
 * A look-up and each ticket are roots: a shutdown waits for them.  It ends the channels, and refuses the jobs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "kernel/base/clock.h"
#include "kernel/base/lock.h"
#include "kernel/base/phase.h"
#include "kernel/data/siphash.h"
#include "kernel/runtime/runtime.h"
#include "kernel/worker/deliver.h"
#include "net/resolve/look_up.h"
#include "net/resolve/resolve.h"

#define FLIGHTS 256 /* chains of the table of look-ups under way */

/* A look-up that is under way. */
struct flight {
        struct weir__look_up look_up; /* first */
        unsigned epoch;               /* constant; of the cache: after a flush the answer is not kept */

        /* Guarded by the resolver's lock. */
        struct weir__link link; /* in the table; a flush takes it out */
        struct weir__list tickets;
        struct weir__answer *early; /* the IPv4 addresses, for those in a hurry; or NULL */
};

/* A wait. */
struct weir__ticket {
        struct weir__work work; /* to the poller of the wait */
        struct weir__link link; /* in the look-up's list, guarded by the resolver's lock; or in that of whoever has taken it */
        bool is_taken;          /* its look-up has it no more: it is on its way.  Guarded by the resolver's lock */
        bool is_hurried;        /* constant */
        uint8_t poller;         /* constant */
        struct weir__answer *answer;       /* a reference, from its delivery on */
        struct weir__resolving *resolving; /* owner of the poller; NULL: it was left */
};

static struct {
        struct weir__lock lock;

        /* Guarded by lock. */
        struct weir__name_cache *cache; /* NULL: nothing is kept */
        bool has_cache;                 /* it was made, or is not wanted */
        struct weir__list flights[FLIGHTS];
        unsigned epoch;                           /* counts what makes answers void */
        struct weir__resolver_settings *settings; /* a reference */
        struct weir_resolver_stats stats;         /* but for `entries` */
        uint64_t generations;                     /* of settings */

        uint64_t key[2]; /* of hashes; constant once the runtime has started */
} resolver = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF)};

/* Its own reference is never dropped. */
static struct weir__resolver_settings default_settings = {
        .references = 1, .max_keep = WEIR__RESOLVER_KEEP, .max_negative = WEIR__RESOLVER_NEGATIVE};

/* -- the table of look-ups under way; under the lock -- */

static struct weir__list *
flights_of(uint64_t hash)
{
        return &resolver.flights[hash >> 32 & (FLIGHTS - 1)]; /* the cache uses the other bits */
}

static struct flight *
find_flight(const struct weir__host_key *key)
{
        struct weir__list *flights = flights_of(key->hash);

        for (struct weir__link *link = weir__list_first(flights); link; link = weir__list_next(flights, link)) {
                struct flight *flight = weir__container_of(link, struct flight, link);
                const struct weir__host_key *own = &flight->look_up.key;

                if (own->hash == key->hash && own->family == key->family && own->size == key->size &&
                    memcmp(own->name, key->name, key->size) == 0)
                        return flight;
        }
        return NULL;
}

/* -- tickets -- */

static void
ticket_free(struct weir__ticket *ticket)
{
        weir__answer_unref(ticket->answer);
        free(ticket);
        weir__runtime_leave();
}

static void
ticket_run(struct weir__work *work)
{
        struct weir__ticket *ticket = weir__container_of(work, struct weir__ticket, work);
        struct weir__resolving *resolving = ticket->resolving;
        struct weir__answer *answer = ticket->answer;

        if (resolving) {
                ticket->answer = NULL;
                resolving->ticket = NULL;
                resolving->answered(resolving, answer);
        }
        ticket_free(ticket);
}

static const struct weir__work_ops ticket_ops = {.run = ticket_run};

static struct weir__ticket *
ticket_new(struct weir__resolving *resolving, const struct weir__poller *poller, bool is_hurried)
{
        struct weir__ticket *ticket = calloc(1, sizeof *ticket);

        if (!ticket)
                return NULL;
        ticket->work.ops = &ticket_ops;
        ticket->is_hurried = is_hurried;
        ticket->poller = (uint8_t)poller->index;
        ticket->resolving = resolving;
        return ticket;
}

/* The tickets are in no look-up's list any more, so nobody else touches their links. */
static void
deliver_all(struct weir__list *tickets, struct weir__answer *answer)
{
        struct weir__link *link;

        while ((link = weir__list_pop(tickets))) {
                struct weir__ticket *ticket = weir__container_of(link, struct weir__ticket, link);

                ticket->answer = weir__answer_ref(answer);
                weir__deliver(weir__poller_at(ticket->poller), &ticket->work);
        }
}

/* Under the lock.  Takes the tickets of a look-up, perhaps only of those in a hurry. */
static void
take_tickets(struct flight *flight, bool only_hurried, struct weir__list *taken)
{
        for (struct weir__link *link = weir__list_first(&flight->tickets), *next; link; link = next) {
                struct weir__ticket *ticket = weir__container_of(link, struct weir__ticket, link);

                next = weir__list_next(&flight->tickets, link);
                if (only_hurried && !ticket->is_hurried)
                        continue;
                ticket->is_taken = true;
                weir__link_remove(link);
                weir__list_append(taken, link);
        }
}

/* -- the end of a look-up -- */

static void
free_settings(struct weir__work *work)
{
        weir__resolver_settings_free(weir__container_of(work, struct weir__resolver_settings, work));
        weir__runtime_leave();
}

static const struct weir__work_ops free_settings_ops = {.run = free_settings};

/* Within a call of c-ares no code of the program may run: the poller could be taken away in it. */
static void
flight_free(struct flight *flight)
{
        struct weir__resolver_settings *settings = flight->look_up.settings;
        struct weir__poller *poller = weir__poller_at(flight->look_up.poller);

        weir__answer_unref(flight->early);
        weir__look_up_finish(&flight->look_up);
        free(flight);
        weir_clock_release();
        if (weir__resolver_settings_drop(settings)) {
                settings->work.ops = &free_settings_ops; /* the look-up's root is its own now */
                weir__deliver(poller, &settings->work);
                return;
        }
        weir__runtime_leave();
}

/* Its entry of the cache; NULL: it is not kept. */
static struct weir__cached *
entry_of(const struct weir__look_up *look_up, struct weir__answer *answer, weir_nsec ttl)
{
        weir_nsec most = answer->status ? look_up->settings->max_negative : look_up->settings->max_keep;

        if (ttl <= 0 || (answer->status && answer->status != -ENOENT))
                return NULL;
        return weir__cached_new(&look_up->key, answer, weir__clock_after(weir__clock_now(), ttl < most ? ttl : most));
}

/* On the owner of its poller, or on the executor. */
static void
done(struct weir__look_up *look_up, struct weir__answer *answer, weir_nsec ttl)
{
        struct flight *flight = (struct flight *)look_up;
        struct weir__list tickets = {0}, left = {0};
        struct weir__cached *entry = entry_of(look_up, answer, ttl);

        weir__lock(&resolver.lock);
        if (weir__link_is_used(&flight->link))
                weir__link_remove(&flight->link);
        if (entry && flight->epoch == resolver.epoch && resolver.cache)
                weir__name_cache_put(resolver.cache, entry, &left);
        else if (entry)
                weir__list_append(&left, &entry->used);
        take_tickets(flight, false, &tickets);
        resolver.stats.failures += answer->status != 0;
        resolver.stats.running--;
        weir__unlock(&resolver.lock);
        weir__cached_free_all(&left);
        deliver_all(&tickets, answer);
        weir__answer_unref(answer);
        flight_free(flight);
}

static void
early(struct weir__look_up *look_up, struct weir__answer *answer)
{
        struct flight *flight = (struct flight *)look_up;
        struct weir__list tickets = {0};

        weir__lock(&resolver.lock);
        flight->early = answer;
        take_tickets(flight, true, &tickets);
        weir__unlock(&resolver.lock);
        deliver_all(&tickets, answer);
}

/* -- starting -- */

static struct flight *
flight_new(const struct weir__host_key *key, const struct weir__poller *poller)
{
        struct flight *flight = calloc(1, sizeof *flight);

        if (!flight)
                return NULL;
        weir__look_up_prepare(&flight->look_up, key, poller);
        flight->look_up.done = done;
        flight->look_up.early = early;
        return flight;
}

/* Under the lock: an answer that is kept, with a reference; or NULL. */
static struct weir__answer *
find_kept(const struct weir__host_key *key, struct weir__list *left)
{
        struct weir__answer *answer = resolver.cache ? weir__name_cache_find(resolver.cache, key, weir__clock_now(), left) : NULL;

        resolver.stats.hits += answer != NULL;
        return answer;
}

/* Under the lock.  The wait joins a look-up, perhaps its own new one; or it has the early addresses of one at once, with a
 * reference.  Returns whether its own is used. */
static bool
join(struct weir__ticket *ticket, struct flight *own, struct weir__answer **answer)
{
        struct weir__look_up *look_up = &own->look_up;
        struct flight *other = find_flight(&look_up->key);

        resolver.stats.joined += other != NULL;
        if (other && other->early && ticket->is_hurried) {
                *answer = weir__answer_ref(other->early);
                return false;
        }
        weir__list_append(other ? &other->tickets : &own->tickets, &ticket->link);
        if (other)
                return false;
        look_up->settings = resolver.settings ? resolver.settings : &default_settings;
        atomic_fetch_add_explicit(&look_up->settings->references, 1, memory_order_relaxed);
        own->epoch = resolver.epoch;
        weir__list_append(flights_of(look_up->key.hash), &own->link);
        resolver.stats.misses++;
        resolver.stats.running++;
        return true;
}

static struct weir__answer *
find_answer(const struct weir__host_key *key)
{
        struct weir__list left = {0};

        weir__lock(&resolver.lock);
        struct weir__answer *answer = find_kept(key, &left);
        weir__unlock(&resolver.lock);
        weir__cached_free_all(&left);
        return answer;
}

/* The cache is made by the first look-up. */
static void
make_cache(void)
{
        weir__lock(&resolver.lock);
        bool is_there = resolver.has_cache;
        weir__unlock(&resolver.lock);
        struct weir__name_cache *cache = is_there ? NULL : weir__name_cache_new(WEIR__RESOLVER_NAMES);
        if (!cache)
                return; /* without memory nothing is kept, until the next time */
        weir__lock(&resolver.lock);
        if (!resolver.has_cache) {
                resolver.cache = cache;
                resolver.has_cache = true;
                cache = NULL;
        }
        weir__unlock(&resolver.lock);
        weir__name_cache_free(cache);
}

/* Two roots: of the ticket and of the look-up. */
static int
enter(void)
{
        int failed = weir__runtime_enter();

        if (failed)
                return failed;
        failed = weir__runtime_enter();
        if (failed)
                weir__runtime_leave();
        return failed;
}

static struct weir__answer *
wait(struct weir__resolving *resolving, struct weir__poller *poller, const struct weir__host_key *key, bool is_hurried)
{
        struct weir__ticket *ticket = ticket_new(resolving, poller, is_hurried);
        struct flight *flight = flight_new(key, poller);
        struct weir__answer *answer = NULL;
        int failed = ticket && flight ? enter() : -ENOMEM;

        if (failed) {
                free(ticket);
                free(flight);
                return weir__answer_problem(failed, "\"%s\" is not looked up: %s", key->name, weir_strerror(failed));
        }
        resolving->ticket = ticket;
        weir__lock(&resolver.lock);
        bool is_new = join(ticket, flight, &answer);
        weir__unlock(&resolver.lock);
        if (is_new) {
                weir_clock_hold();
                weir__look_up_begin(&flight->look_up);
        } else {
                free(flight);
                weir__runtime_leave();
        }
        if (answer) {
                resolving->ticket = NULL;
                ticket_free(ticket);
        }
        return answer;
}

struct weir__answer *
weir__resolve_start(struct weir__resolving *resolving, struct weir__poller *poller, const char *host, int family, bool is_hurried)
{
        char room[WEIR__HOST_BYTES + 1];
        struct weir__host_key key;
        struct weir__answer *answer = weir__route_read(host, family, &key, room);

        resolving->ticket = NULL;
        if (answer)
                return answer;
        key.hash = weir__siphash(resolver.key, key.name, key.size);
        make_cache();
        answer = find_answer(&key);
        return answer ? answer : wait(resolving, poller, &key, is_hurried);
}

void
weir__resolve_leave(struct weir__resolving *resolving)
{
        struct weir__ticket *ticket = resolving->ticket;

        resolving->ticket = NULL;
        if (!ticket)
                return;
        ticket->resolving = NULL;
        weir__lock(&resolver.lock);
        bool is_taken = ticket->is_taken;
        if (!is_taken)
                weir__link_remove(&ticket->link);
        weir__unlock(&resolver.lock);
        if (!is_taken)
                ticket_free(ticket);
}

/* -- the resolver as a whole; any thread -- */

/* Under the lock.  Nobody joins the look-ups that are under way any more. */
static void
forget(struct weir__list *left)
{
        resolver.epoch++;
        if (resolver.cache)
                weir__name_cache_flush(resolver.cache, left);
        for (unsigned i = 0; i < FLIGHTS; i++)
                while (weir__list_pop(&resolver.flights[i]))
                        ;
}

void
weir__resolver_forget(void)
{
        struct weir__list left = {0};

        weir__lock(&resolver.lock);
        forget(&left);
        weir__unlock(&resolver.lock);
        weir__cached_free_all(&left);
}

void
weir__resolver_take(struct weir__resolver_settings *settings, struct weir__name_cache *cache)
{
        struct weir__list left = {0};

        weir__lock(&resolver.lock);
        forget(&left);
        struct weir__resolver_settings *before = resolver.settings;
        struct weir__name_cache *cache_before = resolver.cache;
        resolver.settings = settings;
        if (settings)
                settings->generation = ++resolver.generations;
        resolver.cache = cache;
        resolver.has_cache = true;
        weir__unlock(&resolver.lock);
        weir__cached_free_all(&left);
        weir__name_cache_free(cache_before);
        if (before && weir__resolver_settings_drop(before))
                weir__resolver_settings_free(before);
}

void
weir__resolver_count(struct weir_resolver_stats *stats)
{
        weir__lock(&resolver.lock);
        *stats = resolver.stats;
        stats->entries = resolver.cache ? resolver.cache->count : 0;
        weir__unlock(&resolver.lock);
}

/* -- steps -- */

static void
choose_key(void)
{
        if (getrandom(resolver.key, sizeof resolver.key, 0) != sizeof resolver.key)
                resolver.key[0] = (uint64_t)weir__clock_monotonic();
}

static void
before_fork(void)
{
        weir__lock_hold(&resolver.lock);
}

static void
after_fork(void)
{
        weir__unlock(&resolver.lock);
}

WEIR__STEPS_OF(WEIR__MODULE_SERVERS, [WEIR__STEP_START] = choose_key,
               [WEIR__STEP_ENDED] = weir__resolver_forget, /* a later runtime may have another clock */

               [WEIR__STEP_BEFORE_FORK] = before_fork, [WEIR__STEP_AFTER_FORK] = after_fork, [WEIR__STEP_IN_CHILD] = after_fork);
