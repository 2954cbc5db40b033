/* client/form/multipart.c: bodies of multipart/form-data: what they consist of.
 *
 * The boundary comes from the system's random bytes, and not from weir__random: whoever has seen one boundary must not know the
 * next one, and write it into a file that a program will send.
 *
 * Threads: a form belongs to one thread at a time.  No locks. */
#include "client/form/multipart.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "protocol/coding/mime.h"
#include "protocol/text/bytes.h"

/* -- made and freed -- */

/* Six bits for each character. */
static void
write_boundary(char out[WEIR__BOUNDARY_SIZE + 1], const unsigned char bytes[WEIR__BOUNDARY_BYTES])
{
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

        out = mempcpy(out, "weir", 4);
        for (size_t i = 0; i < WEIR__BOUNDARY_BYTES; i += 3) {
                uint32_t three = (uint32_t)bytes[i] << 16 | (uint32_t)bytes[i + 1] << 8 | bytes[i + 2];

                for (int shift = 18; shift >= 0; shift -= 6)
                        *out++ = digits[three >> shift & 63];
        }
        *out = '\0';
}

weir_multipart *
weir_multipart_new(void)
{
        unsigned char bytes[WEIR__BOUNDARY_BYTES];

        if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
                return NULL;
        weir_multipart *form = calloc(1, sizeof *form);
        if (!form)
                return NULL;
        strcpy(form->type, WEIR__MULTIPART_TYPE);
        write_boundary(form->type + sizeof WEIR__MULTIPART_TYPE - 1, bytes);
        stpcpy(stpcpy(stpcpy(form->end, "--"), weir__multipart_boundary(form)), "--\r\n");
        form->size = (int64_t)strlen(form->end);
        return form;
}

void
weir_multipart_free(weir_multipart *form)
{
        struct weir__link *link;

        if (!form)
                return;
        while ((link = weir__list_pop(&form->parts)) != NULL)
                weir__form_part_free(weir__container_of(link, struct weir__form_part, link));
        free(form);
}

/* -- parts -- */

static bool
is_type(const char *type)
{
        return *type && weir__bytes_span(type, strlen(type), WEIR__BYTE_VALUE) == strlen(type) && !strchr(type, '\t');
}

static bool
has_begun(const weir_multipart *form)
{
        return form->position.part || form->position.at > 0 || form->position.is_last;
}

/* Adds a part, which then owns the descriptor, unless that is negative. */
static int
add(weir_multipart *form, struct weir__form_part_of *of, int owned_fd)
{
        int64_t size;

        of->boundary = weir__multipart_boundary(form);
        struct weir__form_part *part = weir__form_part_new(of);
        if (!part)
                return -ENOMEM;
        if (__builtin_add_overflow(form->size, (int64_t)part->head_size + 2, &size) ||
            __builtin_add_overflow(size, of->size, &size)) {
                weir__form_part_free(part);
                return -EFBIG;
        }
        part->owned_fd = owned_fd;
        form->size = size;
        weir__list_append(&form->parts, &part->link);
        return 0;
}

static int
check(const weir_multipart *form, const char *name, const char *type)
{
        if (!form || !name || (type && !is_type(type)))
                return -EINVAL;
        return has_begun(form) ? -EBUSY : 0;
}

static const char *
type_or_default(const char *type, const char *filename)
{
        return type || !filename ? type : "application/octet-stream";
}

int
weir_multipart_add(weir_multipart *form, const char *name, const char *value)
{
        return value ? weir_multipart_add_data(form, name, NULL, NULL, value, strlen(value)) : -EINVAL;
}

int
weir_multipart_add_data(weir_multipart *form, const char *name, const char *filename, const char *content_type, const void *data,
                        size_t size)
{
        int failed = !data && size > 0 ? -EINVAL : check(form, name, content_type);

        if (failed)
                return failed;
        if (size > INT64_MAX)
                return -EFBIG;
        struct weir__form_part_of of = {.name = name,
                                        .filename = filename,
                                        .type = type_or_default(content_type, filename),
                                        .data = data ? data : "",
                                        .size = (int64_t)size};
        return add(form, &of, -1);
}

int
weir_multipart_add_fd(weir_multipart *form, const char *name, const char *filename, const char *content_type, int fd,
                      int64_t offset, int64_t size)
{
        int failed = fd < 0 || offset < 0 || size < 0 ? -EINVAL : check(form, name, content_type);

        if (failed)
                return failed;
        if (offset > INT64_MAX - size)
                return -EFBIG;
        struct weir__form_part_of of = {.name = name,
                                        .filename = filename,
                                        .type = type_or_default(content_type, filename),
                                        .fd = fd,
                                        .offset = offset,
                                        .size = size};
        return add(form, &of, -1);
}

static int
open_file(const char *path, int64_t *ret_size)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not wait for its other end */
        struct stat status;

        if (fd < 0)
                return -errno;
        int failed = fstat(fd, &status) < 0 ? -errno : S_ISREG(status.st_mode) ? 0 : -EINVAL;
        if (failed) {
                close(fd);
                return failed;
        }
        *ret_size = status.st_size;
        return fd;
}

int
weir_multipart_add_file(weir_multipart *form, const char *name, const char *path, const char *filename, const char *content_type)
{
        int failed = path ? check(form, name, content_type) : -EINVAL;

        if (failed)
                return failed;
        struct weir__form_part_of of = {.name = name, .filename = filename, .type = content_type};
        of.fd = open_file(path, &of.size);
        if (of.fd < 0)
                return of.fd;
        const char *slash = strrchr(path, '/');
        if (!filename)
                of.filename = slash ? slash + 1 : path;
        if (!content_type)
                of.type = weir__mime_type(path);
        failed = add(form, &of, of.fd);
        if (failed)
                close(of.fd);
        return failed;
}

/* -- facts -- */

const char *
weir_multipart_type(const weir_multipart *form)
{
        return form ? form->type : NULL;
}

int64_t
weir_multipart_size(const weir_multipart *form)
{
        return form ? form->size : 0;
}
