/* net/stream/splice.c: pipes through which the system moves the bytes of a pump.
 *
 * Threads: a splice belongs to the step that is under way; the pipes belong to all threads.
 * Locks:   one, a leaf, for the pipes that nobody uses, and for the count of all.
 *
 * A pipe is in use only while it holds bytes.  A few of those that were emptied are kept for the next step of any pump.  The
 * number in use is limited, because each takes two descriptors: a program that cannot accept a connection because of its pumps
 * would be worse off than with copies. */
#include "net/stream/splice.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "kernel/base/lock.h"
#include "kernel/base/phase.h"

#define PIPE_ROOM  262144 /* bytes of one, and of one step */
#define PIPES_MOST 64     /* in use */
#define PIPES_KEPT 8      /* that nobody uses */

static struct weir__lock lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF);

/* Guarded by lock. */
static int kept[PIPES_KEPT][2];
static unsigned kept_count, used_count;

/* -- pipes -- */

/* Returns false if there is none for the caller; *is_new if it is to be made. */
static bool
take_kept(int ends[2], bool *is_new)
{
        weir__lock(&lock);
        bool is_permitted = used_count < PIPES_MOST;
        used_count += is_permitted;
        *is_new = is_permitted && !kept_count;
        if (is_permitted && kept_count) {
                kept_count--;
                ends[0] = kept[kept_count][0];
                ends[1] = kept[kept_count][1];
        }
        weir__unlock(&lock);
        return is_permitted;
}

/* The pipe is in use no longer.  Returns whether it is kept; else the caller closes it, if there is one. */
static bool
keep(const int ends[2], bool may_be_kept)
{
        weir__lock(&lock);
        used_count--;
        bool is_kept = may_be_kept && kept_count < PIPES_KEPT && weir__phase_is_up();
        if (is_kept) {
                kept[kept_count][0] = ends[0];
                kept[kept_count][1] = ends[1];
                kept_count++;
        }
        weir__unlock(&lock);
        return is_kept;
}

/* A pipe that the system does not make as large as that still carries bytes, fewer at once, but is not kept. */
static bool
take_pipe(struct weir__splice *splice)
{
        int ends[2];
        bool is_new;

        if (!take_kept(ends, &is_new))
                return false;
        if (is_new && pipe2(ends, O_NONBLOCK | O_CLOEXEC) < 0) {
                (void)keep(ends, false);
                return false;
        }
        splice->is_small = is_new && fcntl(ends[1], F_SETPIPE_SZ, PIPE_ROOM) < 0;
        splice->out = ends[0];
        splice->in = ends[1];
        return true;
}

static void
give_pipe(struct weir__splice *splice, bool is_empty)
{
        const int ends[2] = {splice->out, splice->in};

        splice->size = 0;
        if (keep(ends, is_empty && !splice->is_small))
                return;
        close(ends[0]);
        close(ends[1]);
}

/* After a shutdown no step of a pump is left. */
static void
close_kept(void)
{
        int ends[PIPES_KEPT][2];

        weir__lock(&lock);
        unsigned count = kept_count;
        for (unsigned i = 0; i < count; i++) {
                ends[i][0] = kept[i][0];
                ends[i][1] = kept[i][1];
        }
        kept_count = 0;
        weir__unlock(&lock);
        for (unsigned i = 0; i < count; i++) {
                close(ends[i][0]);
                close(ends[i][1]);
        }
}

WEIR__STEPS_OF(WEIR__MODULE_SERVERS, [WEIR__STEP_ENDED] = close_kept);

/* -- steps -- */

static bool
may(uint8_t *known, const struct weir__stream *stream)
{
        if (*known == WEIR__SPLICE_UNKNOWN)
                *known = weir__stream_may_splice(stream) ? WEIR__SPLICE_MAY : WEIR__SPLICE_MAY_NOT;
        return *known == WEIR__SPLICE_MAY && !stream->tls;
}

/* The system, a filter of calls, or a lack of memory: nothing is wrong with the stream, so bytes are copied. */
static bool
is_refusal(int error)
{
        return error == -EINVAL || error == -ENOSYS || error == -EPERM || error == -EACCES || error == -ENOMEM;
}

/* A short read says nothing of what is left: the pipe may have had no room for more pieces. */
ssize_t
weir__splice_fill(struct weir__splice *splice, struct weir__transport *from)
{
        if (splice->to != WEIR__SPLICE_MAY || !may(&splice->from, &from->stream) || !take_pipe(splice))
                return -EINVAL;
        ssize_t count = weir__stream_splice_in(&from->stream, splice->in, PIPE_ROOM);
        if (count <= 0) {
                give_pipe(splice, true);
                if (!is_refusal((int)count))
                        return count;
                splice->from = WEIR__SPLICE_MAY_NOT;
                return -EINVAL;
        }
        splice->size = (uint32_t)count;
        splice->unwritten = (uint32_t)count;
        weir__transport_count_read(from, (size_t)count);
        return count;
}

void
weir__splice_learn(struct weir__splice *splice, const struct weir__transport *to)
{
        (void)may(&splice->to, &to->stream);
}

char *
weir__splice_take_out(struct weir__splice *splice, uint32_t *size)
{
        char *data = malloc(splice->size);
        ssize_t count = data ? TEMP_FAILURE_RETRY(read(splice->out, data, splice->size)) : 0;
        bool may_be_kept = count == (ssize_t)splice->size;

        *size = may_be_kept ? splice->size : 0;
        give_pipe(splice, may_be_kept);
        if (may_be_kept)
                return data;
        free(data);
        return NULL;
}

void
weir__splice_done(struct weir__splice *splice)
{
        if (splice->size)
                give_pipe(splice, splice->unwritten == 0);
}
