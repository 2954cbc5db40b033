/* net/transport/output.c: the outgoing queue of a transport.
 *
 * Threads: the owner of the poller only. */
#include "net/transport/output.h"

#include <errno.h>
#include <string.h>

#define PIECES       16  /* in one write */
#define COPIED       512 /* bytes at most of a piece that is copied */
#define FILE_AT_ONCE ((size_t)256 * 1024)
#define FILE_BUDGET  ((size_t)1024 * 1024) /* bytes, before other work has its turn */

/* -- bytes in memory -- */

/* Small pieces, one behind the other, for one write. */
struct copy {
        size_t size;
        char data[12 * 1024]; /* 64 commands of 100 bytes */
};

/* Puts the pieces of a writer behind the others, as far as there is room.  Returns their bytes. */
static size_t
put_pieces(const struct weir__writer *writer, struct iovec pieces[PIECES], int *count)
{
        const struct iovec own = {writer->data, (size_t)writer->left},
                           *from = writer->kind == WEIR__WRITER_BYTES ? &own : writer->pieces;
        uint32_t left = writer->kind == WEIR__WRITER_BYTES ? 1 : writer->count;
        size_t total = 0;

        for (; left && *count < PIECES; left--, from++) {
                if (from->iov_len)
                        pieces[(*count)++] = *from;
                total += from->iov_len;
        }
        return total;
}

/* Puts small bytes behind those in the copy, as one piece with them if nothing lies between.  Returns false if they are not
 * small, or there is no room. */
static bool
put_copy(const struct weir__writer *writer, struct iovec pieces[PIECES], int *count, struct copy *copy)
{
        struct iovec *last = *count ? &pieces[*count - 1] : NULL;
        char *end = copy->data + copy->size;

        if (writer->kind != WEIR__WRITER_BYTES || writer->left > COPIED || writer->left > sizeof copy->data - copy->size)
                return false;
        if (!writer->left)
                return true;
        memcpy(end, writer->data, (size_t)writer->left);
        copy->size += (size_t)writer->left;
        if (last && (char *)last->iov_base + last->iov_len == end)
                last->iov_len += (size_t)writer->left;
        else
                pieces[(*count)++] = (struct iovec){end, (size_t)writer->left};
        return true;
}

/* Collects the pieces that go out next.  Several small ones are copied together: the system takes longer for a piece than a copy
 * does.  Returns their bytes. */
static size_t
gather(const struct weir__transport *transport, struct iovec pieces[PIECES], int *count, struct copy *copy)
{
        struct weir__link *first = weir__list_first(&transport->writers);
        bool is_alone = !first || !weir__list_next(&transport->writers, first);
        size_t total = 0;

        copy->size = 0;
        *count = 0;
        for (struct weir__link *link = first; link && *count < PIECES; link = weir__list_next(&transport->writers, link)) {
                const struct weir__writer *each = weir__writer_of(link);

                if (each->kind >= WEIR__WRITER_FILE)
                        break;
                total += !is_alone && put_copy(each, pieces, count, copy) ? (size_t)each->left : put_pieces(each, pieces, count);
        }
        return total;
}

/* Removes `part` bytes from the front of a writer. */
static void
advance(struct weir__writer *writer, size_t part)
{
        writer->left -= part;
        if (writer->kind == WEIR__WRITER_BYTES && !writer->left)
                return; /* it leaves the queue */
        writer->is_under_way |= part > 0;
        if (writer->kind == WEIR__WRITER_BYTES) {
                writer->data += part;
                return;
        }
        for (; writer->count && part >= writer->pieces->iov_len; writer->pieces++, writer->count--)
                part -= writer->pieces->iov_len;
        if (part) {
                writer->pieces->iov_base = (char *)writer->pieces->iov_base + part;
                writer->pieces->iov_len -= part;
        }
}

static void
leave(struct weir__transport *transport, struct weir__writer *writer)
{
        weir__link_remove(&writer->link);
        weir__transport_ops_of(transport)->written(transport, writer);
}

/* Removes `sent` bytes from the front of the queue. */
static void
consume(struct weir__transport *transport, size_t sent)
{
        for (struct weir__writer *each; (each = weir__writer_of(weir__list_first(&transport->writers)));) {
                size_t part = sent < each->left ? sent : (size_t)each->left;

                if (each->kind >= WEIR__WRITER_FILE)
                        return;
                advance(each, part);
                sent -= part;
                if (each->left)
                        return;
                leave(transport, each);
        }
}

/* Writes the bytes of the only writer, as send_pieces does. */
static int
send_alone(struct weir__transport *transport, struct weir__writer *writer)
{
        const struct iovec piece = {writer->data, (size_t)writer->left};
        ssize_t sent = weir__stream_write(&transport->stream, &piece, 1);

        if (sent < 0)
                return sent == -EAGAIN ? 0 : (int)sent;
        transport->sent += (uint64_t)sent;
        advance(writer, (size_t)sent);
        if (writer->left)
                return 0;
        leave(transport, writer);
        return 1;
}

/* Writes the bytes at the front of the queue, once.  Returns 1 when all that were tried are out, 0 when the socket is full;
 * negative: the stream is broken. */
static int
send_pieces(struct weir__transport *transport)
{
        struct iovec pieces[PIECES];
        struct copy copy;
        int count;
        size_t total = gather(transport, pieces, &count, &copy);
        ssize_t sent = total ? weir__stream_write(&transport->stream, pieces, count) : 0;

        if (sent < 0)
                return sent == -EAGAIN ? 0 : (int)sent;
        transport->sent += (uint64_t)sent;
        consume(transport, (size_t)sent);
        return (size_t)sent == total;
}

/* -- files and pipes -- */

/* Sends the file or pipe at the front of the queue; returns the same.  A used-up budget counts as a full socket, and the
 * transport is requeued. */
static int
send_file(struct weir__transport *transport, struct weir__writer *file, size_t *budget)
{
        while (file->left) {
                size_t size = file->left < FILE_AT_ONCE ? (size_t)file->left : FILE_AT_ONCE;

                if (!*budget) {
                        weir__transport_requeue(transport);
                        return 0;
                }
                ssize_t sent = file->kind == WEIR__WRITER_PIPE
                                       ? weir__stream_splice_out(&transport->stream, file->file, size)
                                       : weir__stream_write_file(&transport->stream, file->file, file->at, size);
                if (sent <= 0)
                        return sent == -EAGAIN ? 0 : sent ? (int)sent : -ENODATA; /* 0: the file is shorter than announced */
                file->is_under_way = true;
                transport->sent += (uint64_t)sent;
                *budget -= (size_t)sent < *budget ? (size_t)sent : *budget;
                file->at += (uint64_t)sent;
                file->left -= (uint64_t)sent;
        }
        leave(transport, file);
        return 1;
}

/* -- the end -- */

static int
send_end(struct weir__transport *transport, struct weir__writer *end)
{
        int failed = weir__stream_finish(&transport->stream);

        end->is_under_way = failed == -EAGAIN;
        if (failed)
                return failed == -EAGAIN ? 0 : failed;
        leave(transport, end);
        return 1;
}

/* -- the queue -- */

/* Whether it is the only one, and has bytes in one piece. */
static bool
is_alone(const struct weir__transport *transport, const struct weir__writer *first)
{
        return first->kind == WEIR__WRITER_BYTES && first->left && !weir__list_next(&transport->writers, &first->link);
}

int
weir__output_flush(struct weir__transport *transport)
{
        size_t budget = FILE_BUDGET;

        for (struct weir__writer *first; (first = weir__writer_of(weir__list_first(&transport->writers)));) {
                int result = first->kind == WEIR__WRITER_END    ? send_end(transport, first)
                             : first->kind >= WEIR__WRITER_FILE ? send_file(transport, first, &budget)
                             : is_alone(transport, first)       ? send_alone(transport, first)
                                                                : send_pieces(transport);

                if (result <= 0)
                        return result;
        }
        return 1;
}

uint64_t
weir__output_left(const struct weir__transport *transport)
{
        uint64_t left = 0;

        for (struct weir__link *link = weir__list_first(&transport->writers); link;
             link = weir__list_next(&transport->writers, link))
                left += weir__writer_of(link)->left;
        return left;
}

bool
weir__output_is_on_its_way(const struct weir__transport *transport, const struct weir__writer *writer)
{
        uint64_t before = 0;

        for (struct weir__link *each = weir__list_first(&transport->writers); each != &writer->link; each = each->next)
                before += weir__writer_of(each)->left;
        return writer->is_under_way || (writer->left && before < weir__stream_held(&transport->stream));
}

/* -- slow peers -- */

void
weir__output_note_untaken(struct weir__transport *transport)
{
        struct weir__limit *limit = weir__transport_limit(transport, false);

        if (limit)
                limit->untaken = weir__stream_untaken(&transport->stream);
}

bool
weir__output_was_taken(const struct weir__transport *transport)
{
        const struct weir__limit *limit = weir__transport_limit((struct weir__transport *)transport, false);

        return limit && weir__stream_untaken(&transport->stream) < limit->untaken;
}
