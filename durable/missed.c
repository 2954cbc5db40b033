/* durable/missed.c: which due time of a schedule comes next, and what happens to those that were missed.
 *
 * Pure functions but for the file of the zone. */
#include "durable/store.h"

#include <weir/ticker.h>

#define MOST_COUNTED 256
#define FIRST_WINDOW WEIR_SEC(60)

static weir_nsec
next_of(const struct weir_durable_info *info, weir_nsec after)
{
        return weir_ticker_next(info->cron, *info->zone ? info->zone : NULL, after);
}

/* The last due time up to `now`, which is not before `due`.  It looks back, from windows of a minute to ever longer ones, so
 * that a long time without nodes costs no more than a short one. */
static weir_nsec
last_of(const struct weir_durable_info *info, weir_nsec due, weir_nsec now)
{
        weir_nsec last = due;

        for (weir_nsec window = FIRST_WINDOW; last == due && window < now - due; window = 2 * window) {
                weir_nsec next = next_of(info, now - window);
                if (next >= 0 && next <= now)
                        last = next;
        }
        for (;;) {
                weir_nsec next = next_of(info, last);
                if (next < 0)
                        return next;
                if (next > now)
                        return last;
                last = next;
        }
}

/* How many due times are in [from, until). */
static unsigned
count(const struct weir_durable_info *info, weir_nsec from, weir_nsec until)
{
        unsigned counted = 0;

        while (counted < MOST_COUNTED && from >= 0 && from < until) {
                counted++;
                from = next_of(info, from);
        }
        return counted;
}

int
weir__durable_decide(const struct weir_durable_info *info, weir_nsec now, weir_nsec limit, struct weir__durable_due *due)
{
        *due = (struct weir__durable_due){.due = info->due};
        if (info->policy == WEIR_DURABLE_ONCE) {
                due->due = last_of(info, info->due, now);
                if (due->due < 0)
                        return (int)due->due;
                due->missed = count(info, info->due, due->due);
        }
        due->is_skipped = info->policy == WEIR_DURABLE_SKIP && info->attempt == 1 && weir__durable_add(now, -info->due) > limit;
        /* When it is skipped, the first one that is not late by more than the limit. */
        due->next = next_of(info, due->is_skipped ? weir__durable_add(now, -limit) - 1 : due->due);
        if (due->is_skipped && due->next >= 0)
                due->missed = count(info, info->due, due->next);
        return due->next < 0 ? (int)due->next : 0;
}
