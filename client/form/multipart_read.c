/* client/form/multipart_read.c: bodies of multipart/form-data, read in pieces.
 *
 *      for each part: HEAD --> CONTENT --> BREAK, and then the last line
 *
 * Threads: a form belongs to one thread at a time.  It waits for the disk while the content of a file is read.
 * Locks:   none. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/form/multipart.h"

/* The bytes of a stage: text, or if that is NULL a piece of a file. */
struct segment {
        const char *text;
        int fd;
        int64_t offset, size;
};

static struct segment
segment_of(const struct weir__form_part *part, enum weir__multipart_stage stage)
{
        switch (stage) {
        case WEIR__MULTIPART_HEAD: return (struct segment){.text = part->head, .size = (int64_t)part->head_size};
        case WEIR__MULTIPART_CONTENT:
                return (struct segment){.text = part->fd == WEIR__PART_IN_MEMORY ? part->data : NULL,
                                        .fd = part->fd,
                                        .offset = part->offset,
                                        .size = part->size};
        default: return (struct segment){.text = "\r\n", .size = 2};
        }
}

/* Where the position is.  The first call finds the first part. */
static struct segment
segment_at(const weir_multipart *form, struct weir__multipart_position *position)
{
        if (!position->part && !position->is_last) {
                position->part = weir__list_first(&form->parts);
                position->is_last = !position->part;
        }
        if (position->is_last)
                return (struct segment){.text = form->end, .size = (int64_t)strlen(form->end)};
        return segment_of(weir__container_of(position->part, const struct weir__form_part, link),
                          (enum weir__multipart_stage)position->stage);
}

/* Result: how many bytes; an error. */
static ssize_t
read_segment(const struct segment *segment, int64_t at, char *out, size_t room)
{
        int64_t left = segment->size - at;
        size_t size = left < (int64_t)room ? (size_t)left : room;

        if (segment->text) {
                memcpy(out, segment->text + at, size);
                return (ssize_t)size;
        }
        ssize_t got;
        do
                got = pread(segment->fd, out, size, segment->offset + at);
        while (got < 0 && errno == EINTR);
        return got < 0 ? -errno : got == 0 ? -ENODATA : got;
}

/* Goes on behind a segment. */
static void
advance(const weir_multipart *form, struct weir__multipart_position *position)
{
        position->at = 0;
        if (position->stage != WEIR__MULTIPART_BREAK) {
                position->stage++;
                return;
        }
        position->stage = WEIR__MULTIPART_HEAD;
        position->part = weir__list_next(&form->parts, position->part);
        position->is_last = !position->part;
}

/* Result: as weir_multipart_read. */
static ssize_t
read_from(const weir_multipart *form, struct weir__multipart_position *position, char *out, size_t room)
{
        size_t made = 0;

        room = room < SSIZE_MAX ? room : SSIZE_MAX;
        while (made < room) {
                struct segment segment = segment_at(form, position);

                if (position->at == segment.size) {
                        if (position->is_last)
                                break;
                        advance(form, position);
                        continue;
                }
                ssize_t got = read_segment(&segment, position->at, out + made, room - made);
                if (got < 0)
                        return made > 0 ? (ssize_t)made : got;
                position->at += got;
                made += (size_t)got;
        }
        return (ssize_t)made;
}

ssize_t
weir_multipart_read(weir_multipart *form, void *out, size_t room)
{
        return form ? read_from(form, &form->position, out, room) : -EINVAL;
}

void
weir_multipart_rewind(weir_multipart *form)
{
        if (form)
                form->position = (struct weir__multipart_position){.part = NULL};
}

/* Result: 0; an error. */
static int
read_all(const weir_multipart *form, char *out, size_t size)
{
        struct weir__multipart_position position = {.part = NULL};

        for (size_t made = 0; made < size;) {
                ssize_t got = read_from(form, &position, out + made, size - made);

                if (got < 0)
                        return (int)got;
                made += (size_t)got;
        }
        out[size] = '\0';
        return 0;
}

char *
weir_multipart_encode(const weir_multipart *form, size_t *ret_size)
{
        if (!form) {
                errno = EINVAL;
                return NULL;
        }
        size_t size = (size_t)form->size;
        char *body = (uint64_t)form->size < SIZE_MAX ? malloc(size + 1) : NULL;
        int failed = body ? read_all(form, body, size) : -ENOMEM;
        if (failed) {
                free(body);
                errno = -failed;
                return NULL;
        }
        *ret_size = size;
        return body;
}
