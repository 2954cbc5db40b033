/* kernel/calendar/zone.h: time zones, one per call, whatever the zone of the process.
 *
 * A zone is constant once it was opened, so any number of threads may ask it; changes of its file are seen by the next open.  A
 * local time is counted as if it were Universal Time: the seconds from 1970-01-01 00:00:00 to what the clocks of the zone show.
 * Seconds are those of POSIX, without leap seconds.  They may be any that fit into a weir_nsec as nanoseconds, and some years
 * more. */
#ifndef WEIR_KERNEL_ZONE_H
#define WEIR_KERNEL_ZONE_H

#include <stdint.h>

#define WEIR__ZONE_OFFSET_MAX 93600 /* seconds, in both directions; RFC 9636 section 3.2 */

struct weir__zone;

/* Between two changes of the clocks. */
struct weir__zone_span {
        int32_t offset; /* local time is Universal Time plus this */
        int64_t until;  /* the first second of the next span; INT64_MAX: there is none */
};

/* What the clocks of a zone show. */
struct weir__zone_time {
        int64_t year;
        unsigned month, day, hour, minute, second; /* month and day from 1 on */
        unsigned weekday;                          /* 0 for Sunday */
        int32_t offset;
};

/* Opens a zone by its name.
 *
 *   NULL, ""         the local zone: TZ, if that is set, as tzset(3) reads it (a name, the path of a file, or a rule such as
 *                    CET-1CEST,M3.5.0,M10.5.0/3, of which nothing may be left out; "" is UTC); else /etc/localtime; where that
 *                    is missing, UTC
 *   "UTC"            no file is needed
 *   "Europe/Berlin"  a file below TZDIR, else below /usr/share/zoneinfo.  A name consists of letters, digits, '+', '-', '_' and
 *                    '/', and does not begin with '/': it cannot leave that directory, except by a link in it
 *
 * Owner:   the caller, of one reference.
 * Result:  NULL and a negative number in `*failed`, which is untouched otherwise: -EINVAL for what cannot be a name; -ENOENT;
 *          -EBADMSG for a file that is none of a zone (TZif version 2 to 4, RFC 9636) or is broken; -EOPNOTSUPP for one that
 *          counts leap seconds ("right/..."); -EPERM for a path in TZ when the program has been given rights that its user has
 *          not; -ENOMEM; what open and read report.
 * Threads: any; reads a file, so it blocks.  Nobody may change the environment meanwhile. */
struct weir__zone *weir__zone_open(const char *name, int *failed);

/* Threads: any. */
struct weir__zone *weir__zone_ref(struct weir__zone *zone);
void weir__zone_unref(struct weir__zone *zone); /* NULL will do */

/* The span that a second since the epoch lies in. */
struct weir__zone_span weir__zone_span(const struct weir__zone *zone, int64_t second);

/* What the clocks show at a second since the epoch; and the first second at which they show a local time or something later: of
 * two the first when they are set back over it, and the first behind the gap when they are set forward over it. */
struct weir__zone_time weir__zone_local(const struct weir__zone *zone, int64_t second);
int64_t weir__zone_reach(const struct weir__zone *zone, int64_t local);

/* The greatest local time that the clocks have shown up to a second since the epoch: more than at that second for as long as time
 * repeats itself. */
int64_t weir__zone_highest(const struct weir__zone *zone, int64_t second);

#endif
