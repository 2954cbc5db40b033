/* kernel/calendar/zone.c: time zones from the files of the system.
 *
 * The C library has one zone for the whole process.  So this file reads the zone files: a table of the changes up to some year,
 * and a rule for the time after it (kernel/calendar/zone_rule.c).  Changes that do not move the clocks, such as of the name
 * alone, are left out.  Files are not trusted: each count is checked against the size of the file before it is used.
 *
 * Threads: any.  A zone is constant but for its count of references.  No locks. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel/calendar/calendar.h"
#include "kernel/calendar/zone.h"
#include "kernel/calendar/zone_rule.h"

#define DIRECTORY  "/usr/share/zoneinfo"
#define LOCAL_FILE "/etc/localtime"
#define FILE_MAX   (256 * 1024) /* the largest of today's has less than 4 KiB */
#define NAME_SIZE  255
#define TYPES_MAX  256

#define HEADER_SIZE 44
#define TYPE_SIZE   6

struct change {
        int64_t second;
        int32_t offset; /* from then on */
};

struct weir__zone {
        /* Constant after opening. */
        struct weir__zone_rule rule; /* for the time from the last change on, if there is one */
        bool has_rule;
        int32_t first_offset; /* before all changes */
        size_t count;

        /* Atomic.  Taken relaxed; given back with acquire and release, so that the last holder has seen all uses. */
        _Atomic unsigned references;

        struct change changes[];
};

struct bytes {
        const unsigned char *at;
        size_t size;
};

/* The numbers of a header. */
struct counts {
        uint64_t universal, standard, leaps, changes, types, names;
};

static struct weir__zone *
new_zone(uint64_t changes)
{
        struct weir__zone *zone = calloc(1, sizeof *zone + changes * sizeof zone->changes[0]);

        if (zone)
                atomic_init(&zone->references, 1);
        return zone;
}

struct weir__zone *
weir__zone_ref(struct weir__zone *zone)
{
        atomic_fetch_add_explicit(&zone->references, 1, memory_order_relaxed);
        return zone;
}

void
weir__zone_unref(struct weir__zone *zone)
{
        if (zone && atomic_fetch_sub_explicit(&zone->references, 1, memory_order_acq_rel) == 1)
                free(zone);
}

static uint32_t
read_32(const unsigned char *at)
{
        uint32_t number;

        memcpy(&number, at, sizeof number);
        return be32toh(number);
}

static int64_t
read_64(const unsigned char *at)
{
        uint64_t number;

        memcpy(&number, at, sizeof number);
        return (int64_t)be64toh(number);
}

static int
skip(struct bytes *bytes, uint64_t size)
{
        if (size > bytes->size)
                return -EBADMSG;
        bytes->at += size;
        bytes->size -= size;
        return 0;
}

static int
take_header(struct bytes *bytes, struct counts *counts)
{
        const unsigned char *header = bytes->at;

        if (skip(bytes, HEADER_SIZE) < 0 || memcmp(header, "TZif", 4) != 0 || header[4] < '2')
                return -EBADMSG;
        *counts = (struct counts){
                .universal = read_32(header + 20),
                .standard = read_32(header + 24),
                .leaps = read_32(header + 28),
                .changes = read_32(header + 32),
                .types = read_32(header + 36),
                .names = read_32(header + 40),
        };
        return 0;
}

/* The size of the body after a header whose instants have `wide` bytes.  Six numbers of 32 bits: nothing overflows. */
static uint64_t
body_size(const struct counts *counts, unsigned wide)
{
        return counts->changes * (wide + 1) + counts->types * TYPE_SIZE + counts->names + counts->leaps * (wide + 4) +
               counts->standard + counts->universal;
}

static int
read_offsets(const unsigned char *types, uint64_t count, int32_t offsets[TYPES_MAX])
{
        for (uint64_t i = 0; i < count; i++) {
                offsets[i] = (int32_t)read_32(types + i * TYPE_SIZE);
                if (offsets[i] > WEIR__ZONE_OFFSET_MAX || offsets[i] < -WEIR__ZONE_OFFSET_MAX)
                        return -EBADMSG;
        }
        return 0;
}

/* Their instants, then for each of them a byte with its type, then the types.  Leaves those out that move nothing. */
static int
read_changes(struct weir__zone *zone, const unsigned char *body, const struct counts *counts)
{
        const unsigned char *types = body + counts->changes * 8;
        int32_t offsets[TYPES_MAX], offset;
        int64_t before = INT64_MIN;

        if (read_offsets(types + counts->changes, counts->types, offsets) < 0)
                return -EBADMSG;
        zone->first_offset = offset = offsets[0];
        for (uint64_t i = 0; i < counts->changes; i++) {
                int64_t second = read_64(body + i * 8);

                if ((i > 0 && second <= before) || types[i] >= counts->types)
                        return -EBADMSG;
                before = second;
                if (offsets[types[i]] == offset && i + 1 < counts->changes)
                        continue; /* the last one stays: the rule begins there */
                offset = offsets[types[i]];
                zone->changes[zone->count++] = (struct change){.second = second, .offset = offset};
        }
        return 0;
}

/* The rule stands between two ends of lines; there may be none. */
static int
read_footer(struct weir__zone *zone, const struct bytes *bytes)
{
        const char *text = (const char *)bytes->at + 1, *end;

        if (bytes->size < 2 || bytes->at[0] != '\n')
                return -EBADMSG;
        end = memchr(text, '\n', bytes->size - 1);
        if (!end)
                return -EBADMSG;
        zone->has_rule = end > text;
        return zone->has_rule ? weir__zone_rule_parse(text, end, &zone->rule) : 0;
}

/* Source: RFC 9636 section 3.  The first header and its body are for programs that know 32 bits only. */
static struct weir__zone *
parse(struct bytes bytes, int *failed)
{
        struct weir__zone *zone;
        struct counts counts;
        const unsigned char *body;
        int r = take_header(&bytes, &counts);

        if (r == 0)
                r = skip(&bytes, body_size(&counts, 4));
        if (r == 0)
                r = take_header(&bytes, &counts);
        body = bytes.at;
        if (r == 0)
                r = skip(&bytes, body_size(&counts, 8));
        if (r == 0 && (counts.types == 0 || counts.types > TYPES_MAX))
                r = -EBADMSG;
        if (r == 0 && counts.leaps > 0)
                r = -EOPNOTSUPP;
        zone = r == 0 ? new_zone(counts.changes) : NULL;
        if (r == 0 && !zone)
                r = -ENOMEM;
        if (r == 0)
                r = read_changes(zone, body, &counts);
        if (r == 0)
                r = read_footer(zone, &bytes);
        if (r == 0)
                return zone;
        weir__zone_unref(zone);
        *failed = r;
        return NULL;
}

/* The whole of a regular file that is not too large.
 * Result:  its size, or a negative number. */
static ssize_t
read_all(int fd, unsigned char *buffer, size_t size)
{
        struct stat status;
        size_t done = 0;

        if (fstat(fd, &status) < 0)
                return -errno;
        if (!S_ISREG(status.st_mode))
                return S_ISDIR(status.st_mode) ? -ENOENT : -EBADMSG;
        while (done < size) {
                ssize_t n = read(fd, buffer + done, size - done);

                if (n == 0)
                        return (ssize_t)done;
                if (n < 0 && errno != EINTR)
                        return -errno;
                done += n > 0 ? (size_t)n : 0;
        }
        return -EBADMSG;
}

static struct weir__zone *
load(const char *path, int *failed)
{
        struct weir__zone *zone = NULL;
        unsigned char *buffer = malloc(FILE_MAX + 1);
        int fd = buffer ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1; /* a FIFO must not hold us up */
        ssize_t size = buffer ? -errno : -ENOMEM;

        if (fd >= 0) {
                size = read_all(fd, buffer, FILE_MAX + 1);
                close(fd);
        }
        if (size >= 0)
                zone = parse((struct bytes){.at = buffer, .size = (size_t)size}, failed);
        else
                *failed = size == -ENOTDIR ? -ENOENT : (int)size;
        free(buffer);
        return zone;
}

static struct weir__zone *
new_utc(int *failed)
{
        struct weir__zone *zone = new_zone(0);

        if (!zone)
                *failed = -ENOMEM;
        return zone;
}

static bool
is_name(const char *name)
{
        static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-_/";
        size_t length = strspn(name, allowed);

        return name[length] == '\0' && length > 0 && length <= NAME_SIZE && name[0] != '/';
}

static struct weir__zone *
open_named(const char *name, int *failed)
{
        const char *directory = secure_getenv("TZDIR");
        char path[PATH_MAX];
        int length;

        if (strcmp(name, "UTC") == 0)
                return new_utc(failed);
        if (!is_name(name)) {
                *failed = -EINVAL;
                return NULL;
        }
        length = snprintf(path, sizeof path, "%s/%s", directory && *directory ? directory : DIRECTORY, name);
        if (length >= (int)sizeof path) {
                *failed = -ENAMETOOLONG;
                return NULL;
        }
        return load(path, failed);
}

/* As in the C library, a program with lent rights (set-user-ID) must not use them to open any file. */
static struct weir__zone *
open_path(const char *path, int *failed)
{
        if (secure_getenv("TZ"))
                return load(path, failed);
        *failed = -EPERM;
        return NULL;
}

/* A zone that follows a rule for ever. */
static struct weir__zone *
open_rule(const char *text, int *failed)
{
        struct weir__zone_rule rule;
        struct weir__zone *zone;

        if (weir__zone_rule_parse(text, text + strlen(text), &rule) < 0) {
                *failed = -ENOENT; /* neither a file nor a rule */
                return NULL;
        }
        zone = new_utc(failed);
        if (zone) {
                zone->rule = rule;
                zone->has_rule = true;
        }
        return zone;
}

static struct weir__zone *
open_local(int *failed)
{
        const char *text = getenv("TZ");
        struct weir__zone *zone;
        int r = 0;

        if (!text) {
                zone = load(LOCAL_FILE, &r);
                if (!zone && r == -ENOENT)
                        return new_utc(failed);
        } else {
                text += *text == ':';
                if (!*text)
                        return new_utc(failed);
                zone = *text == '/' ? open_path(text, &r) : open_named(text, &r);
                if (!zone && (r == -ENOENT || r == -EINVAL) && *text != '/')
                        zone = open_rule(text, &r);
        }
        if (!zone)
                *failed = r;
        return zone;
}

struct weir__zone *
weir__zone_open(const char *name, int *failed)
{
        return name && *name ? open_named(name, failed) : open_local(failed);
}

struct weir__zone_span
weir__zone_span(const struct weir__zone *zone, int64_t second)
{
        struct weir__zone_span span = {.offset = zone->first_offset, .until = INT64_MAX};
        size_t low = 0, high = zone->count; /* the number of changes that are not behind `second` lies between */

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (zone->changes[middle].second <= second)
                        low = middle + 1;
                else
                        high = middle;
        }
        if (low < zone->count)
                span.until = zone->changes[low].second;
        else if (zone->has_rule)
                span.offset = weir__zone_rule_offset(&zone->rule, second, &span.until);
        if (low > 0 && (low < zone->count || !zone->has_rule))
                span.offset = zone->changes[low - 1].offset;
        return span;
}

struct weir__zone_time
weir__zone_local(const struct weir__zone *zone, int64_t second)
{
        int32_t offset = weir__zone_span(zone, second).offset;
        int64_t local = second + offset, day = weir__floor_divide(local, WEIR__SECONDS_A_DAY);
        unsigned in_day = (unsigned)(local - day * WEIR__SECONDS_A_DAY);
        struct weir__date date = weir__date_of(day);

        return (struct weir__zone_time){
                .year = date.year,
                .month = date.month,
                .day = date.day,
                .hour = in_day / 3600,
                .minute = in_day / 60 % 60,
                .second = in_day % 60,
                .weekday = weir__weekday(day),
                .offset = offset,
        };
}

/* Begins at a second where no offset can have reached the local time.  Each step goes on by one period between changes; the time
 * is reached within twice the greatest offset. */
int64_t
weir__zone_reach(const struct weir__zone *zone, int64_t local)
{
        int64_t second = local - WEIR__ZONE_OFFSET_MAX;

        for (;;) {
                struct weir__zone_span span = weir__zone_span(zone, second);
                int64_t shown = local - span.offset;

                if (shown <= second)
                        return second;
                if (shown < span.until)
                        return shown;
                second = span.until;
        }
}

int64_t
weir__zone_highest(const struct weir__zone *zone, int64_t second)
{
        int64_t at = second - 2 * WEIR__ZONE_OFFSET_MAX, highest = INT64_MIN;

        for (;;) {
                struct weir__zone_span span = weir__zone_span(zone, at);
                int64_t last = span.until <= second ? span.until - 1 : second;

                if (last + span.offset > highest)
                        highest = last + span.offset;
                if (span.until > second)
                        return highest;
                at = span.until;
        }
}
