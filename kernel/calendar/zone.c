/* kernel/calendar/zone.c: time zones from the files of the system.
 *
 * The C library has one zone for the whole process.  So this file reads the zone files: a table of the changes up to some year,
 * and a rule for the time after it (kernel/calendar/zone_rule.c).  Changes that do not move the clocks, such as of the name
 * alone, are left out.  Files are not trusted: each count is checked against the size of the file before it is used.
 *
 * Threads: any.  A zone is constant.  No locks. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel/calendar/calendar.h"
#include "kernel/calendar/zone.h"
#include "kernel/calendar/zone_rule.h"

#define DIRECTORY     "/usr/share/zoneinfo"
#define LOCAL_FILE    "/etc/localtime"
#define FILE_MAX      (256 * 1024) /* the largest of today's has less than 4 KiB */
#define ZONE_NAME_MAX 255          /* bytes */
#define TYPES_MAX     256

#define HEADER_SIZE 44
#define TYPE_SIZE   6

struct change {
        int64_t second;
        int32_t offset; /* from then on */
};

/* Constant after opening. */
struct weir__zone {
        struct weir__zone_rule rule; /* for the time from the last change on, if there is one */
        bool has_rule;
        int32_t first_offset; /* before all changes */
        size_t count;
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

/* Makes a zone with room for so many changes.  Without any it is Universal Time. */
static int
make_zone(struct weir__zone **zone, uint64_t changes)
{
        *zone = calloc(1, sizeof **zone + changes * sizeof(*zone)->changes[0]);
        return *zone ? 0 : -ENOMEM;
}

void
weir__zone_free(struct weir__zone *zone)
{
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

static bool
skip(struct bytes *bytes, uint64_t size)
{
        if (size > bytes->size)
                return false;
        bytes->at += size;
        bytes->size -= size;
        return true;
}

static bool
take_header(struct bytes *bytes, struct counts *counts)
{
        const unsigned char *header = bytes->at;

        if (!skip(bytes, HEADER_SIZE) || memcmp(header, "TZif", 4) != 0 || header[4] < '2')
                return false;
        *counts = (struct counts){
                .universal = read_32(header + 20),
                .standard = read_32(header + 24),
                .leaps = read_32(header + 28),
                .changes = read_32(header + 32),
                .types = read_32(header + 36),
                .names = read_32(header + 40),
        };
        return true;
}

/* The size of the body after a header whose instants have `wide` bytes.  Six numbers of 32 bits: nothing overflows. */
static uint64_t
body_size(const struct counts *counts, unsigned wide)
{
        return counts->changes * (wide + 1) + counts->types * TYPE_SIZE + counts->names + counts->leaps * (wide + 4) +
               counts->standard + counts->universal;
}

static bool
read_offsets(const unsigned char *types, uint64_t count, int32_t offsets[TYPES_MAX])
{
        for (uint64_t i = 0; i < count; i++) {
                offsets[i] = (int32_t)read_32(types + i * TYPE_SIZE);
                if (offsets[i] > WEIR__ZONE_OFFSET_MAX || offsets[i] < -WEIR__ZONE_OFFSET_MAX)
                        return false;
        }
        return true;
}

/* The instants of the changes come first, then for each change a byte with its type, then the types.  Changes that move nothing
 * are left out. */
static bool
read_changes(struct weir__zone *zone, const unsigned char *body, const struct counts *counts)
{
        const unsigned char *types = body + counts->changes * 8;
        int32_t offsets[TYPES_MAX], offset;
        int64_t before = INT64_MIN;

        if (!read_offsets(types + counts->changes, counts->types, offsets))
                return false;
        zone->first_offset = offset = offsets[0];
        for (uint64_t i = 0; i < counts->changes; i++) {
                int64_t second = read_64(body + i * 8);

                if ((i > 0 && second <= before) || types[i] >= counts->types)
                        return false;
                before = second;
                if (offsets[types[i]] == offset && i + 1 < counts->changes)
                        continue; /* the last one stays: the rule begins there */
                offset = offsets[types[i]];
                zone->changes[zone->count++] = (struct change){.second = second, .offset = offset};
        }
        return true;
}

/* The rule stands between two ends of lines.  It may be empty. */
static bool
read_footer(struct weir__zone *zone, const struct bytes *bytes)
{
        const char *text = (const char *)bytes->at + 1, *end;

        if (bytes->size < 2 || bytes->at[0] != '\n' || !(end = memchr(text, '\n', bytes->size - 1)))
                return false;
        zone->has_rule = end > text;
        return !zone->has_rule || weir__zone_rule_parse(text, end, &zone->rule) == 0;
}

/* Source: RFC 9636 section 3.  The first header and its body are for programs that know 32 bits only. */
static int
parse(struct bytes bytes, struct weir__zone **zone)
{
        struct counts counts;

        if (!take_header(&bytes, &counts) || !skip(&bytes, body_size(&counts, 4)) || !take_header(&bytes, &counts))
                return -EBADMSG;
        const unsigned char *body = bytes.at;
        if (!skip(&bytes, body_size(&counts, 8)) || counts.types == 0 || counts.types > TYPES_MAX)
                return -EBADMSG;
        if (counts.leaps > 0)
                return -EOPNOTSUPP;
        int failed = make_zone(zone, counts.changes);
        if (failed || (read_changes(*zone, body, &counts) && read_footer(*zone, &bytes)))
                return failed;
        weir__zone_free(*zone);
        *zone = NULL;
        return -EBADMSG;
}

/* Reads the whole of a regular file, if it is not too large.
 * Result:  its size, or a negative errno. */
static ssize_t
read_all(int fd, unsigned char buffer[FILE_MAX + 1])
{
        struct stat status;
        size_t done = 0;

        if (fstat(fd, &status) < 0)
                return -errno;
        if (!S_ISREG(status.st_mode))
                return S_ISDIR(status.st_mode) ? -ENOENT : -EBADMSG;
        while (done <= FILE_MAX) {
                ssize_t n = read(fd, buffer + done, FILE_MAX + 1 - done);

                if (n == 0)
                        return (ssize_t)done;
                if (n < 0 && errno != EINTR)
                        return -errno;
                done += n > 0 ? (size_t)n : 0;
        }
        return -EBADMSG;
}

static int
load(const char *path, struct weir__zone **zone)
{
        unsigned char *buffer = malloc(FILE_MAX + 1);
        if (!buffer)
                return -ENOMEM;
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); /* a FIFO must not hold us up */
        ssize_t size = fd < 0 ? -errno : read_all(fd, buffer);
        int failed = size < 0 ? (int)size : parse((struct bytes){.at = buffer, .size = (size_t)size}, zone);
        if (fd >= 0)
                close(fd);
        free(buffer);
        return failed == -ENOTDIR ? -ENOENT : failed;
}

static bool
is_name(const char *name)
{
        static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-_/";
        size_t length = strspn(name, allowed);

        return name[length] == '\0' && length > 0 && length <= ZONE_NAME_MAX && name[0] != '/';
}

static int
open_named(const char *name, struct weir__zone **zone)
{
        const char *directory = secure_getenv("TZDIR");
        char path[PATH_MAX];

        if (strcmp(name, "UTC") == 0)
                return make_zone(zone, 0);
        if (!is_name(name))
                return -EINVAL;
        int length = snprintf(path, sizeof path, "%s/%s", directory && *directory ? directory : DIRECTORY, name);
        return length >= (int)sizeof path ? -ENAMETOOLONG : load(path, zone);
}

/* A zone that follows a rule for ever. */
static int
open_rule(const char *text, struct weir__zone **zone)
{
        struct weir__zone_rule rule;

        if (weir__zone_rule_parse(text, text + strlen(text), &rule) < 0)
                return -ENOENT; /* neither a file nor a rule */
        int failed = make_zone(zone, 0);
        if (failed)
                return failed;
        (*zone)->rule = rule;
        (*zone)->has_rule = true;
        return 0;
}

/* As in the C library, a program with lent rights (set-user-ID) must not use them to open any file. */
static int
open_local(struct weir__zone **zone)
{
        const char *text = getenv("TZ");
        int failed;

        if (!text) {
                failed = load(LOCAL_FILE, zone);
                return failed == -ENOENT ? make_zone(zone, 0) : failed;
        }
        text += *text == ':';
        if (!*text)
                return make_zone(zone, 0);
        if (*text == '/')
                return secure_getenv("TZ") ? load(text, zone) : -EPERM;
        failed = open_named(text, zone);
        return failed == -ENOENT || failed == -EINVAL ? open_rule(text, zone) : failed;
}

int
weir__zone_open(const char *name, struct weir__zone **zone)
{
        return name && *name ? open_named(name, zone) : open_local(zone);
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
