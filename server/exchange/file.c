/* server/exchange/file.c: replies that are files.
 *
 * A file is opened in one step, which the kernel keeps beneath the root.  If the kernel cannot, it is opened component by
 * component, and no link is followed.  In both ways no time passes between the check of a name and its use.  The fields of the
 * reply come from the open descriptor.
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

#include "kernel/base/clock.h"
#include "kernel/observe/log.h"
#include "protocol/field/conditional.h"
#include "protocol/text/date.h"
#include "protocol/field/etag.h"
#include "protocol/coding/mime.h"
#include "protocol/field/range.h"
#include "server/exchange/exchange.h"

/* O_NONBLOCK: an open must not wait for the other end of a FIFO. */
#define OPEN_FLAGS (O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

/* A rename on the machine may make a try fail. */
#define OPEN_TRIES 64

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

/* A sandbox that does not know the call may return EPERM.  The call itself never does for these flags. */
static int
open_beneath(int root, const char *path)
{
        const struct open_how how = {.flags = OPEN_FLAGS, .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};

        for (unsigned i = 0; i < OPEN_TRIES; i++) {
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

/* Errors of open, the error that the handler gets instead, and the status of the reply. */
static const struct {
        int error, simple, status;
} refusals[] = {
        {-ENOENT, -ENOENT, 404}, {-ENOTDIR, -ENOENT, 404}, {-ELOOP, -ENOENT, 404},  {-EXDEV, -ENOENT, 404},
        {-EISDIR, -EISDIR, 404}, {-EACCES, -EACCES, 403},  {-EPERM, -EACCES, 403},  {-ENAMETOOLONG, -ENOENT, 404},
        {-EINVAL, -EINVAL, 403}, {-ENODEV, -EINVAL, 403},  {-ENXIO, -EINVAL, 403}, /* a socket */
        {-EMFILE, -EMFILE, 503}, {-ENFILE, -ENFILE, 503},  {-EAGAIN, -EAGAIN, 503},
};

/* Opens the file at `path` beneath the root.  The path does not begin with a slash. */
static int
open_file(const char *root, const char *path)
{
        if (goes_up(path))
                return -ENOENT;
        int directory = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (directory < 0)
                return -errno;
        int fd = open_beneath(directory, path);
        close(directory);
        return fd;
}

/* -- the fields of the reply -- */

enum field { TYPE, TAG, MODIFIED, RANGES, RANGE, LOCATION, ALLOW, RETRY_AFTER, FIELDS };

static const char *const field_names[FIELDS] = {
        "Content-Type", "ETag", "Last-Modified", "Accept-Ranges", "Content-Range", "Location", "Allow", "Retry-After",
};

/* Fields that are removed when the status changes. */
#define OF_THE_STATUS (1u << TAG | 1u << MODIFIED | 1u << RANGES | 1u << RANGE)

/* Further bits of `said_by_file`. */
#define STATUS (1u << FIELDS) /* the status */
#define ASKED  (2u << FIELDS) /* there was a call, and it was not taken back */

/* Sets a field, unless something has failed before.  Returns the failure. */
static int
set(struct weir__exchange *exchange, int failed, enum field field, const char *value)
{
        if (failed)
                return failed;
        failed = weir__exchange_check(exchange, weir__response_field(&exchange->response, field_names[field], value, true));
        if (!failed)
                exchange->said_by_file |= (uint16_t)(1u << field);
        return failed;
}

static int
set_type(struct weir__exchange *exchange, int failed, const char *type)
{
        bool is_own = weir__response_has_field(&exchange->response, field_names[TYPE]); /* the handler's */

        return is_own ? failed : set(exchange, failed, TYPE, type);
}

static void
take_back(struct weir__exchange *exchange, unsigned fields)
{
        for (unsigned i = 0; i < FIELDS; i++)
                if (exchange->said_by_file & fields & 1u << i)
                        weir__response_remove(&exchange->response, field_names[i]);
        exchange->said_by_file &= (uint16_t)~fields;
}

/* Bytes that were appended behind the page stay. */
static void
take_back_page(struct weir__exchange *exchange)
{
        struct weir__response *response = &exchange->response;

        if (!exchange->page_size)
                return;
        response->body_size -= exchange->page_size;
        memmove(response->body, response->body + exchange->page_size, response->body_size);
        exchange->page_size = 0;
}

static void
say_status(struct weir__exchange *exchange, int status)
{
        weir__exchange_set_status(exchange, status);
        exchange->said_by_file |= STATUS;
}

void
weir__file_take_back(struct weir__exchange *exchange)
{
        if (exchange->said_by_file & STATUS)
                weir__exchange_set_status(exchange, 200);
        take_back(exchange, ~0u);
        take_back_page(exchange);
        weir__file_close(&exchange->file);
        weir__file_close(&exchange->withheld);
}

bool
weir__file_leave_field(struct weir__exchange *exchange, const char *name)
{
        for (unsigned i = 0; i < FIELDS; i++)
                if (exchange->said_by_file & 1u << i && strcasecmp(name, field_names[i]) == 0) {
                        exchange->said_by_file &= (uint16_t) ~(1u << i);
                        return true;
                }
        return false;
}

/* -- replies without a file -- */

/* Makes the reply the server's own page of that status.  Other fields than the type stay.  Returns the error. */
static int
refuse(struct weir__exchange *exchange, int status, int error)
{
        weir__file_close(&exchange->file);
        int failed = weir__exchange_refuse(exchange, status);
        exchange->said_by_file |= STATUS | 1u << TYPE | (status == 503 ? 1u << RETRY_AFTER : 0);
        exchange->page_size = (uint32_t)exchange->response.body_size;
        return failed ? failed : error;
}

static int
refuse_error(struct weir__exchange *exchange, int error)
{
        for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
                if (refusals[i].error == error)
                        return refuse(exchange, refusals[i].status, refusals[i].simple);
        return refuse(exchange, 500, error);
}

/* Whether the path may be a part of the request's path: that ends with it, and not in the middle of a name. */
static bool
is_of_request(const struct weir__exchange *exchange, const char *path)
{
        const char *whole = exchange->request->path;
        size_t size = strlen(path), whole_size = strlen(whole);

        if (size > whole_size || strcmp(whole + whole_size - size, path) != 0)
                return false;
        return size == whole_size || *path == '/' || whole[whole_size - size - 1] == '/';
}

/* Redirects to the last segment of the target, as it came, and a slash.  The location is relative.  A whole path that begins with
 * two slashes would name another host, and a proxy may have removed the beginning of the path. */
static int
redirect(struct weir__exchange *exchange)
{
        const char *target = exchange->request->target, *query = target + strcspn(target, "?"), *segment = query;
        char *location;

        while (segment > target && segment[-1] != '/')
                segment--;
        if (asprintf(&location, "./%.*s/%s", (int)(query - segment), segment, query) < 0) {
                exchange->has_failed = true;
                return -ENOMEM;
        }
        int failed = set(exchange, 0, LOCATION, location);
        free(location);
        return failed ? failed : refuse(exchange, 301, -EISDIR);
}

/* -- later calls of the handler -- */

/* The server's page goes out in place of the file, without the announced length, which is the file's.  Out of memory the reply is
 * a 500. */
void
weir__file_withhold(struct weir__exchange *exchange)
{
        int status = exchange->response.status;

        if (!exchange->withheld)
                return;
        exchange->reply_left = UINT64_MAX;
        if (status != 304)
                (void)weir__exchange_refuse(exchange, status);
}

/* The server's page becomes that of the other status, unless something was appended to it. */
static void
change_page(struct weir__exchange *exchange, int status)
{
        bool is_page = exchange->page_size == exchange->response.body_size;

        if (!is_page || !(exchange->said_by_file & 1u << TYPE) || status < 400)
                return;
        take_back(exchange, ~ASKED);
        (void)refuse(exchange, status, 0);
}

static void
send_whole(struct weir__exchange *exchange)
{
        if (exchange->withheld)
                (void)set_type(exchange, 0, exchange->withheld->type);
        exchange->file = exchange->withheld ? exchange->withheld : exchange->file;
        exchange->withheld = NULL;
        exchange->file->at = 0;
        exchange->file->size = exchange->file->whole;
}

/* From now on the status is the handler's, even if it is the same one. */
void
weir__file_other_status(struct weir__exchange *exchange, int status)
{
        if (status != exchange->response.status) {
                take_back(exchange, OF_THE_STATUS);
                if (exchange->file || exchange->withheld)
                        send_whole(exchange);
                else
                        change_page(exchange, status);
        }
        exchange->said_by_file &= (uint16_t)~STATUS;
}

/* -- replies with one -- */

/* A regular file.  The exchange has its descriptor. */
struct file {
        uint64_t size;
        char tag[WEIR__ETAG_SIZE];
        struct weir__validators validators;
};

/* Last-Modified is sent only when its second is over.  Before, the file may be modified again in that second.  A date in the
 * future must not be sent either (RFC 9110, section 8.8.2.1).  So a client that has the date has the bytes of this very file. */
static void
describe(struct file *file, const struct stat *status)
{
        int64_t second = status->st_mtim.tv_sec < 0 ? 0 : status->st_mtim.tv_sec; /* the earliest date that can be written */
        uint64_t modified = (uint64_t)status->st_mtim.tv_sec * 1000000000 + (uint64_t)status->st_mtim.tv_nsec;

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

        failed = set_type(exchange, failed, exchange->file->type);
        if (file->validators.modified != WEIR__NOT_DATED) {
                weir__http_date(file->validators.modified, date);
                failed = set(exchange, failed, MODIFIED, date);
        }
        return failed;
}

/* The reply has no file: 304, 412 or 416, unless the handler changes it. */
static int
leave_out(struct weir__exchange *exchange, int status)
{
        exchange->withheld = exchange->file;
        exchange->file = NULL;
        say_status(exchange, status);
        exchange->response.body_size = 0;
        return 0;
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
                weir__range_print(text, kind == WEIR__RANGE_PART ? &range : NULL, file->size);
                failed = set(exchange, failed, RANGE, text);
        }
        if (failed)
                return failed;
        if (kind == WEIR__RANGE_UNSATISFIABLE)
                return leave_out(exchange, 416);
        exchange->file->at = range.at;
        exchange->file->size = range.size;
        say_status(exchange, kind == WEIR__RANGE_PART ? 206 : 200);
        exchange->response.body_size = 0;
        return 0;
}

/* A 304 has only the tag, because the client has the other fields.  Source: RFC 9110 section 15.4.5. */
static int
reply_file(struct weir__exchange *exchange, const struct file *file)
{
        int status = weir__conditional_status(exchange->request, &file->validators);
        int failed = set(exchange, 0, TAG, file->tag);

        if (failed)
                return failed;
        return status == 200 ? reply_bytes(exchange, file) : leave_out(exchange, status);
}

/* The name to open for a path.  A path that ends in a slash names the index of that directory. */
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
        if (weir__exchange_is_fixed(exchange))
                return -EALREADY;
        if (exchange->said_by_file) /* by an earlier call */
                weir__file_take_back(exchange);
        exchange->said_by_file = ASKED;
        exchange->is_misused = false;
        if (!root || !path)
                return refuse(exchange, 500,
                              weir__log_refusal("weir_http_reply_file: expected a root and a path, and was given NULL"));
        if (!exchange->request->is_head && strcmp(exchange->request->method, "GET") != 0) {
                int failed = set(exchange, 0, ALLOW, "GET, HEAD");
                return failed ? failed : refuse(exchange, 405, -EOPNOTSUPP);
        }
        int fd = name_of(path, name, &is_index) ? -ENOENT : open_file(root, name);
        if (fd < 0)
                return refuse_error(exchange, fd);
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
        describe(&file, &status);
        exchange->file->whole = file.size;
        exchange->file->type = weir__mime_type(name);
        return reply_file(exchange, &file);
}
