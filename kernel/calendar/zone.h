/* kernel/calendar/zone.h: time zones by name, independent of the zone of the process.
 *
 * A zone is constant once it was opened, so any number of threads may use it.  The next open sees changes of its file.  A local
 * time is counted as if it were Universal Time: the seconds from 1970-01-01 00:00:00 to the time that the clocks of the zone
 * show.  Seconds are those of POSIX, without leap seconds.  Their range is that of a weir_nsec in nanoseconds, and some years
 * more. */
#ifndef WEIR_KERNEL_ZONE_H
#define WEIR_KERNEL_ZONE_H

#include <stdint.h>

#define WEIR__ZONE_OFFSET_MAX 93600 /* seconds, in both directions; RFC 9636 section 3.2 */

struct weir__zone;

/* Between two changes of the clocks. */
struct weir__zone_span {
        int32_t offset; /* local time is Universal Time plus this */
        int64_t until;  /* the first second of the next period; INT64_MAX: there is none */
};

/* Opens a zone by its name.
 *
 *   NULL, ""         the local zone.  If TZ is set, it is read as by tzset(3): a name, the path of a file, "" for UTC, or a
 *                    whole rule such as CET-1CEST,M3.5.0,M10.5.0/3.  Otherwise it is /etc/localtime, or UTC if that is missing
 *   "UTC"            no file is needed
 *   "Europe/Berlin"  a file below TZDIR, or else below /usr/share/zoneinfo.  A name consists of letters, digits, '+', '-', '_'
 *                    and '/'.  It does not begin with '/', so it cannot leave that directory, except by a link in it
 *
 * Owner:   the caller, by weir__zone_free.
 * Result:  0 and the zone; or a negative errno:
 *          -EINVAL      the name is invalid
 *          -EBADMSG     the file is broken, or no zone file (TZif version 2 to 4, RFC 9636)
 *          -EOPNOTSUPP  the file counts leap seconds ("right/...")
 *          -EPERM       TZ is a path, and the program has rights that its user does not have
 *          -ENOENT, -ENOMEM, and the errors of open and read
 * Threads: any; reads a file, so it blocks.  Nobody may change the environment meanwhile. */
int weir__zone_open(const char *name, struct weir__zone **zone);
void weir__zone_free(struct weir__zone *zone); /* takes NULL */

/* Returns the period between two changes in which a second since the epoch lies. */
struct weir__zone_span weir__zone_span(const struct weir__zone *zone, int64_t second);

/* The first second at which the clocks show a local time or a later one.  When they are set back over that time, it is the first
 * of two seconds.  When they are set forward over it, it is the first second after the gap. */
int64_t weir__zone_reach(const struct weir__zone *zone, int64_t local);

/* The greatest local time that the clocks have shown up to a second since the epoch.  After they were set back, that is more than
 * they show, until they have caught up. */
int64_t weir__zone_highest(const struct weir__zone *zone, int64_t second);

#endif
