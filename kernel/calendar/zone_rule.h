/* kernel/calendar/zone_rule.h: the rule of POSIX's TZ, such as CET-1CEST,M3.5.0,M10.5.0/3, by which a zone goes on beyond its
 * table.
 *
 * Pure functions.  Source: POSIX.1, "Environment Variables", TZ; times of -167 to 167 hours as in RFC 9636 section 3.3.2. */
#ifndef WEIR_KERNEL_ZONE_RULE_H
#define WEIR_KERNEL_ZONE_RULE_H

#include <stdbool.h>
#include <stdint.h>

/* When in a year the clocks are changed, and at which second of that day by the clocks before the change. */
struct weir__zone_change {
        char kind;              /* 'M': a weekday of a month; 'J': a day from 1 on without 29 February; '0': a day from 0 on */
        unsigned char month;    /* of 'M', as are the next two */
        unsigned char week;     /* 5: the last */
        unsigned char weekday;  /* 0 for Sunday */
        unsigned short day;     /* of 'J' and '0' */
        int32_t time;
};

/* Offsets are seconds to be added to Universal Time. */
struct weir__zone_rule {
        int32_t standard, daylight;
        bool has_daylight;
        struct weir__zone_change begin, end; /* of daylight time */
};

/* Reads a rule that ends at `end`.
 * Result:  0, or -EBADMSG; `rule` is defined in the first case only. */
int weir__zone_rule_parse(const char *text, const char *end, struct weir__zone_rule *rule);

/* The offset at a second since the epoch; `until` is the first one later at which it may be another, INT64_MAX for none. */
int32_t weir__zone_rule_offset(const struct weir__zone_rule *rule, int64_t second, int64_t *until);

#endif
