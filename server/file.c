/* server/file.c: replies that are files.
 *
 * A file is opened in one step that the kernel keeps beneath the root, or, where it cannot, component by component without
 * following a link: in neither is there a moment between looking at a name and using it.  All that is said of the file comes
 * from the open descriptor.
 *
 * Threads: the callbacks of the exchange's series, one at a time.  No locks. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <weir/http_file.h>

#include "kernel/clock.h"
#include "protocol/conditional.h"
#include "protocol/date.h"
#include "protocol/etag.h"
#include "protocol/mime.h"
#include "protocol/range.h"
#include "server/server.h"

/* Not to wait for somebody who opens the other end of a FIFO; a file is read as ever. */
#define OPEN_FLAGS (O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

/* Each rename on the machine may make one try fail. */
#define TRIES 64

/* -- to the file -- */

/* Opens component by component; the path begins and ends with one. */
static int
walk(int root, const char *path)
{
        int directory = root, fd;
        char name[NAME_MAX + 1];

        for (;;) {
                size_t size = strcspn(path, "/");
                bool is_last = !path[size];

                if (size > NAME_MAX) {
                        fd = -ENAMETOOLONG;
                        break;
                }
                memcpy(name, path, size);
                name[size] = '\0';
                fd = openat(directory, name, (is_last ? OPEN_FLAGS : O_PATH | O_DIRECTORY | O_CLOEXEC) | O_NOFOLLOW);
                if (fd < 0)
                        fd = -errno;
                if (fd < 0 || is_last)
                        break;
                if (directory != root)
                        close(directory);
                directory = fd;
                path += size;
                path += strspn(path, "/");
        }
        if (directory != root)
                close(directory);
        return fd;
}

/* A sandbox that does not know the call may say EPERM, which the call itself never does for these flags. */
static int
open_beneath(int root, const char *path)
{
        const struct open_how how = {.flags = OPEN_FLAGS, .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};

        for (unsigned i = 0; i < TRIES; i++) {
                int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof how);

                if (fd >= 0)
                        return fd;
                if (errno == ENOSYS || errno == EPERM)
                        return walk(root, path);
                if (errno != EAGAIN && errno != EINTR)
                        return -errno;
        }
        return -EAGAIN;
}

static bool
goes_up(const char *path)
{
        for (size_t size; *path; path += size + (path[size] == '/')) {
                size = strcspn(path, "/");
                if (size == 2 && path[0] == '.' && path[1] == '.')
                        return true;
        }
        return false;
}

/* What a handler need not tell apart is one error. */
static int
simplified(int error)
{
        switch (error) {
        case -ENOTDIR:
        case -ELOOP:
        case -EXDEV:
        case -ENAMETOOLONG: return -ENOENT;
        case -EPERM: return -EACCES;
        case -ENXIO: /* a socket */
        case -ENODEV: return -EINVAL;
        default: return error;
        }
}

/* Opens what the path, which begins with a name, names beneath the root. */
static int
open_file(const char *root, const char *path)
{
        if (goes_up(path))
                return -ENOENT;
        int directory = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (directory < 0)
                return simplified(-errno);
        int fd = open_beneath(directory, path);
        close(directory);
        return fd < 0 ? simplified(fd) : fd;
}

/* -- what is said of it -- */

enum field { TYPE, TAG, MODIFIED, RANGES, RANGE, LOCATION, ALLOW, RETRY, FIELDS };

static const char *const field_names[FIELDS] = {
        "Content-Type", "ETag", "Last-Modified", "Accept-Ranges", "Content-Range", "Location", "Allow", "Retry-After",
};

/* What goes with no other status than the one it was said with. */
#define OF_THE_STATUS (1u << TAG | 1u << MODIFIED | 1u << RANGES | 1u << RANGE)

_Static_assert(FIELDS <= 8, "a bit for each");

/* Sets a field, unless something has failed before.  Returns what has failed. */
static int
set(struct weir__exchange *exchange, int failed, enum field field, const char *value)
{
        if (failed)
                return failed;
        failed = weir__exchange_set_field(exchange, field_names[field], value);
        if (!failed)
                exchange->file_fields |= (uint8_t)(1u << field);
        return failed;
}

static void
take_back(struct weir__exchange *exchange, unsigned fields)
{
        for (unsigned i = 0; i < FIELDS; i++)
                if (exchange->file_fields & fields & 1u << i)
                        weir__response_remove(&exchange->response, field_names[i]);
        exchange->file_fields &= (uint8_t)~fields;
}

void
weir__file_take_back(struct weir__exchange *exchange)
{
        take_back(exchange, ~0u);
        weir__file_close(&exchange->file);
        if (exchange->response.status == 206)
                weir__exchange_set_status(exchange, 200);
}

void
weir__file_other_status(struct weir__exchange *exchange)
{
        take_back(exchange, OF_THE_STATUS);
        if (!exchange->file)
                return;
        exchange->file->at = 0;
        exchange->file->size = exchange->file->whole;
}

bool
weir__file_leave_field(struct weir__exchange *exchange, const char *name)
{
        for (unsigned i = 0; i < FIELDS; i++)
                if (exchange->file_fields & 1u << i && strcasecmp(name, field_names[i]) == 0) {
                        exchange->file_fields &= (uint8_t) ~(1u << i);
                        return true;
                }
        return false;
}

/* -- replies without a file -- */

/* Makes the reply the server's own of that status; fields that were set stay, but what they say of the type.  Returns the error. */
static int
refuse(struct weir__exchange *exchange, int status, int error)
{
        int failed = weir__exchange_refuse(exchange, status);

        exchange->file_fields |= 1u << TYPE | (status == 503 ? 1u << RETRY : 0);
        return failed ? failed : error;
}

static int
refuse_method(struct weir__exchange *exchange)
{
        int failed = set(exchange, 0, ALLOW, "GET, HEAD");

        return failed ? failed : refuse(exchange, 405, -EOPNOTSUPP);
}

static int
refuse_error(struct weir__exchange *exchange, int error)
{
        switch (error) {
        case -ENOENT:
        case -EISDIR: return refuse(exchange, 404, error);
        case -EACCES:
        case -EINVAL: return refuse(exchange, 403, error);
        case -EMFILE:
        case -ENFILE:
        case -EAGAIN: return refuse(exchange, 503, error);
        default: return refuse(exchange, 500, error);
        }
}

/* Whether the path may have been taken from the request's: this one ends with it, and not in the middle of a name. */
static bool
is_of_request(const struct weir__exchange *exchange, const char *path)
{
        const char *whole = exchange->request->path;
        size_t size = strlen(path), whole_size = strlen(whole);

        if (size > whole_size || strcmp(whole + whole_size - size, path) != 0)
                return false;
        return size == whole_size || *path == '/' || whole[whole_size - size - 1] == '/';
}

/* To the last segment of the target, as it came, and a slash.  That is relative: a whole path that came with two slashes in
 * front would be another host, and what a proxy has taken off in front of ours is not known here. */
static int
redirect(struct weir__exchange *exchange)
{
        const char *target = exchange->request->target, *query = target + strcspn(target, "?"), *segment = query;
        char *location;

        while (segment > target && segment[-1] != '/')
                segment--;
        if (asprintf(&location, "./%.*s/%s", (int)(query - segment), segment, query) < 0) {
                exchange->failed = true;
                return -ENOMEM;
        }
        int failed = set(exchange, 0, LOCATION, location);
        free(location);
        return failed ? failed : refuse(exchange, 301, -EISDIR);
}

/* -- replies with one -- */

/* A regular file; its descriptor is the exchange's already. */
struct file {
        const char *name;
        uint64_t size;
        char tag[WEIR__ETAG_SIZE];
        struct weir__validators validators;
};

/* A date is said only when its second is over: until then the file may be modified again in it, and one that is still to come
 * must not be said (RFC 9110, section 8.8.2.1).  So who shows us the date, as it stands, has bytes of this very file. */
static void
describe(struct file *file, const char *name, const struct stat *status)
{
        int64_t second = status->st_mtim.tv_sec < 0 ? 0 : status->st_mtim.tv_sec; /* the earliest date that can be written */
        uint64_t modified = (uint64_t)status->st_mtim.tv_sec * 1000000000 + (uint64_t)status->st_mtim.tv_nsec;

        file->name = name;
        file->size = (uint64_t)status->st_size;
        weir__etag_make(file->tag, (int64_t)modified, file->size, status->st_ino);
        file->validators = (struct weir__validators){.tag = file->tag, .now = weir__clock_wall_coarse() / 1000000000};
        file->validators.modified = second < file->validators.now ? second : WEIR__NOT_DATED;
}

static int
set_fields(struct weir__exchange *exchange, const struct file *file)
{
        char date[WEIR__HTTP_DATE_SIZE + 1];
        int failed = set(exchange, 0, RANGES, "bytes");

        if (!weir__response_has_field(&exchange->response, field_names[TYPE])) /* else the handler has */
                failed = set(exchange, failed, TYPE, weir__mime_type(file->name));
        if (file->validators.modified != WEIR__NOT_DATED) {
                weir__http_date(file->validators.modified, date);
                failed = set(exchange, failed, MODIFIED, date);
        }
        return failed;
}

/* All of it, or the part that the request asks for. */
static int
reply_bytes(struct weir__exchange *exchange, const struct file *file)
{
        const char *field = weir__conditional_range(exchange->request, &file->validators);
        struct weir__range range;
        enum weir__range_kind kind = weir__range_read(field, file->size, &range);
        char text[WEIR__CONTENT_RANGE_SIZE];
        int failed = set_fields(exchange, file);

        if (kind != WEIR__RANGE_NONE) {
                weir__content_range(text, kind == WEIR__RANGE_PART ? &range : NULL, file->size);
                failed = set(exchange, failed, RANGE, text);
        }
        if (failed)
                return failed;
        if (kind == WEIR__RANGE_UNSATISFIABLE)
                return refuse(exchange, 416, 0);
        exchange->file->at = range.at;
        exchange->file->size = range.size;
        exchange->file->whole = file->size;
        weir__exchange_set_status(exchange, kind == WEIR__RANGE_PART ? 206 : 200);
        exchange->response.body_size = 0;
        return 0;
}

/* A 304 says the tag only: what else is said of the file, who has it knows.  Source: RFC 9110 section 15.4.5. */
static int
reply_file(struct weir__exchange *exchange, const struct file *file)
{
        int status = weir__conditional_status(exchange->request, &file->validators);
        int failed = set(exchange, 0, TAG, file->tag);

        if (failed)
                return failed;
        if (status == 200)
                return reply_bytes(exchange, file);
        if (status == 412)
                return refuse(exchange, 412, 0);
        weir__file_close(&exchange->file);
        weir__exchange_set_status(exchange, status);
        exchange->response.body_size = 0;
        return 0;
}

/* The name to open for a path: of a directory that is named as one, its index. */
static int
name_of(const char *path, char name[PATH_MAX], bool *is_index)
{
        path += strspn(path, "/");
        size_t size = strlen(path);

        *is_index = !size || path[size - 1] == '/';
        return snprintf(name, PATH_MAX, "%s%s", path, *is_index ? "index.html" : "") < PATH_MAX ? 0 : -ENOENT;
}

int
weir_http_reply_file(weir_task *task, const char *root, const char *path)
{
        struct weir__exchange *exchange = weir__exchange_of(task);
        char name[PATH_MAX];
        bool is_index;
        struct stat status;
        struct file file;

        if (!exchange)
                return -EDOM;
        if (atomic_load_explicit(&exchange->begun, memory_order_acquire) ||
            atomic_load_explicit(&exchange->events, memory_order_relaxed) != WEIR__EVENTS_NONE)
                return -EALREADY;
        take_back(exchange, ~0u); /* what an earlier call has said */
        if (!root || !path)
                return refuse(exchange, 500, -EINVAL);
        if (!exchange->request->is_head && strcmp(exchange->request->method, "GET") != 0)
                return refuse_method(exchange);
        int fd = name_of(path, name, &is_index) ? -ENOENT : open_file(root, name);
        if (fd < 0)
                return refuse_error(exchange, fd);
        weir__file_close(&exchange->file); /* of an earlier call */
        exchange->file = malloc(sizeof *exchange->file);
        if (!exchange->file) {
                close(fd);
                return refuse_error(exchange, -ENOMEM);
        }
        *exchange->file = (struct weir__file_part){.fd = fd};
        if (fstat(fd, &status))
                return refuse_error(exchange, -errno);
        if (S_ISDIR(status.st_mode))
                return !is_index && is_of_request(exchange, path) ? redirect(exchange) : refuse_error(exchange, -EISDIR);
        if (!S_ISREG(status.st_mode))
                return refuse_error(exchange, -EINVAL);
        describe(&file, name, &status);
        return reply_file(exchange, &file);
}
