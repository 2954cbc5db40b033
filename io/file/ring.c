/* io/file/ring.c: requests to io_uring, collected during a round of the loop and submitted together.
 *
 *     line --submitted at the end of the round--> in the kernel --completed--> ended
 *       ^                                         |   |\--cancelled--> doomed --asked to let go--> in the kernel
 *       '----------a short read or write----------'   '--the kernel cannot wait for the file--> the queue
 *
 * Threads: the owner of the poller.  The ring belongs to the poller, not to a thread: after a hand-over another thread goes on
 *          with it.  So it has none of the flags that tie a ring to a thread.
 * Locks:   none.
 *
 * A request that the page cache can serve is completed during the submission.  The others end later and make the ring's
 * descriptor ready, which is a source of the poller.
 *
 * The kernel's threads for requests belong to the thread that submitted these.  If that thread ends, its requests may be given
 * up: they report an error that nobody has asked for, and are submitted again. */
#include "io/file/ring.h"

#include <errno.h>

#include "io/file/queue.h"
#include "kernel/base/phase.h"
#include "kernel/runtime/runtime.h"

#if WEIR_HAS_URING
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>

#include "kernel/memory/watched.h"
#include "kernel/observe/log.h"
#include "kernel/worker/deliver.h"

#define SUBMITTED_MOST 128  /* requests that are submitted at once */
#define IN_KERNEL_MOST 4096 /* requests that the kernel has, but for those of streams, which may wait for ever */
#define REAPED_MOST    64   /* completions that are looked at at once */

struct ring {
        struct weir__batch batch;   /* first */
        struct weir__source source; /* the ring's descriptor */
        struct weir__poller *poller;
        struct weir__work nudge; /* has the loop come back: there are requests that the kernel did not take */
        bool is_nudged, is_over;
        struct weir__list line;      /* to be submitted */
        struct weir__list in_kernel; /* they have been */
        struct weir__list doomed;    /* they have been, and the kernel shall let go */
        size_t inlined;              /* bytes of requests that the kernel may have copied since the flush began */
        struct io_uring uring;
};

#define INLINE_MOST  ((size_t)256 * 1024)  /* bytes of a request that the kernel may copy at its submission */
#define INLINED_MOST ((size_t)1024 * 1024) /* of all requests of a round; the others wait for the next one */
#define WITHOUT_RING 1000                  /* tasks that go to the queue before a poller without a ring asks again */

static struct weir__file_task *
task_of(struct weir__link *link)
{
        return weir__container_of(link, struct weir__file_task, link);
}

/* Only those that do not wait for another program keep the virtual clock. */
static unsigned
weight_of(const struct weir__file_task *task)
{
        return !task->file || !task->file->is_stream;
}

/* -- requests -- */

/* Bytes that the kernel copies at the submission if the page cache, or a pipe, has them.  A large request of a file goes to a
 * thread of the kernel; one of a pipe, which holds no more than that, does not. */
static size_t
inline_size(const struct weir__file_task *task)
{
        size_t left = task->size - task->count;

        if (task->kind > WEIR__FILE_APPEND || task->needs_poll)
                return 0;
        return left <= INLINE_MOST ? left : task->file->is_stream ? INLINE_MOST : 0;
}

static void
fill_transfer(struct io_uring_sqe *sqe, const struct weir__file_task *task)
{
        bool reads = task->kind == WEIR__FILE_READ, appends = task->kind == WEIR__FILE_APPEND;
        uint64_t offset = task->file->is_stream ? UINT64_MAX : appends ? 0 : (uint64_t)task->offset + task->count;
        int fd = task->file->descriptor;

        if (task->needs_poll)
                io_uring_prep_poll_add(sqe, fd, reads ? POLLIN : POLLOUT);
        else if (task->parts && reads)
                io_uring_prep_readv(sqe, fd, task->parts, (unsigned)task->part_count, offset);
        else if (task->parts)
                io_uring_prep_writev(sqe, fd, task->parts, (unsigned)task->part_count, offset);
        else if (reads)
                io_uring_prep_read(sqe, fd, task->data ? weir__file_at(task) : NULL, weir__file_left(task), offset);
        else
                io_uring_prep_write(sqe, fd, task->data ? weir__file_at(task) : NULL, weir__file_left(task), offset);
        if (task->needs_poll || task->file->is_stream)
                return;
        if (appends)
                sqe->rw_flags = RWF_APPEND;
        if (task->size - task->count > INLINE_MOST) /* the poller must not copy so much: a thread of the kernel does */
                io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
}

static void
fill(struct io_uring_sqe *sqe, struct weir__file_task *task)
{
        if (task->kind == WEIR__FILE_OPEN)
                io_uring_prep_openat(sqe, AT_FDCWD, task->path, task->flags | O_CLOEXEC | O_NONBLOCK, (mode_t)task->mode);
        else if (task->kind == WEIR__FILE_SYNC)
                io_uring_prep_fsync(sqe, task->file->descriptor, task->is_data_only ? IORING_FSYNC_DATASYNC : 0);
        else
                fill_transfer(sqe, task);
        io_uring_sqe_set_data(sqe, task);
}

static void
submit(struct ring *ring)
{
        while (io_uring_sq_ready(&ring->uring) > 0)
                if (io_uring_submit(&ring->uring) <= 0)
                        return;
}

static struct io_uring_sqe *
next_request(struct ring *ring)
{
        struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->uring);

        if (sqe)
                return sqe;
        submit(ring);
        return io_uring_get_sqe(&ring->uring);
}

/* Returns false when there is no room. */
static bool
hand_over(struct ring *ring, struct weir__file_task *task)
{
        int failed = weir__file_obstacle(task);
        struct io_uring_sqe *sqe;

        if (!failed)
                failed = weir__file_prepare(task);
        if (failed) {
                weir__link_remove(&task->link);
                weir__file_end_in_ring(task, failed);
                return true;
        }
        sqe = next_request(ring);
        if (!sqe)
                return false;
        fill(sqe, task);
        ring->inlined += inline_size(task);
        weir__link_remove(&task->link);
        weir__list_append(&ring->in_kernel, &task->link);
        task->is_in_kernel = true;
        task->submitter = weir__worker_self()->number;
        ring->batch.outstanding += weight_of(task);
        return true;
}

/* The kernel is asked to let go.  It answers twice: to this request, which does not matter, and to the task's. */
static bool
ask_to_let_go(struct ring *ring, struct weir__file_task *task)
{
        struct io_uring_sqe *sqe = next_request(ring);

        if (!sqe)
                return false;
        io_uring_prep_cancel(sqe, task, 0);
        io_uring_sqe_set_data(sqe, NULL);
        weir__link_remove(&task->link);
        weir__list_append(&ring->in_kernel, &task->link);
        return true;
}

/* -- completions -- */

/* The kernel has given the request up, and nobody has asked for that. */
static bool
was_given_up(const struct weir__file_task *task, int result)
{
        bool has_moved = task->submitter != weir__worker_self()->number;

        return !task->is_unwanted && (result == -ECANCELED || (result == -EFAULT && has_moved));
}

/* Returns whether the task has ended. */
static bool
note(struct weir__file_task *task, int result)
{
        if (was_given_up(task, result))
                return false;
        if (task->needs_poll) {
                task->needs_poll = false;
                return result < 0 && weir__file_note(task, result);
        }
        task->needs_poll = result == -EAGAIN && task->kind <= WEIR__FILE_APPEND && task->file->is_stream;
        return !task->needs_poll && weir__file_note(task, result);
}

/* Older kernels say -EAGAIN for a regular file with O_NONBLOCK whose bytes are not in the page cache, and cannot wait for
 * them. */
static bool
needs_a_thread(const struct weir__file_task *task, int result)
{
        return result == -EAGAIN && task->kind <= WEIR__FILE_APPEND && !task->file->is_stream;
}

/* It is READY for a moment, so that a cancel sees either the ring or the queue.  A cancel that came before has sent its
 * message. */
static void
move_to_queue(struct weir__file_task *task)
{
        uint32_t pending = WEIR__PENDING;

        if (!atomic_compare_exchange_strong_explicit(&task->task.word, &pending, WEIR__READY, memory_order_acq_rel,
                                                     memory_order_acquire)) {
                weir__file_end_in_ring(task, weir__file_obstacle(task));
                return;
        }
        task->uses_ring = false;
        int status = weir__file_queue_start(task, WEIR__READY);
        if (status)
                weir__file_end(task, status);
}

static void
complete(struct ring *ring, struct weir__file_task *task, int result)
{
        weir__link_remove(&task->link);
        task->is_in_kernel = false;
        ring->batch.outstanding -= weight_of(task);
        if (needs_a_thread(task, result))
                move_to_queue(task);
        else if (note(task, result))
                weir__file_end_in_ring(task, task->task.status);
        else
                weir__list_append(&ring->line, &task->link);
}

/* Returns how many there were. */
static unsigned
reap(struct ring *ring)
{
        struct io_uring_cqe *completions[REAPED_MOST];
        unsigned count, sum = 0;

        do {
                count = io_uring_peek_batch_cqe(&ring->uring, completions, REAPED_MOST);
                for (unsigned i = 0; i < count; i++) {
                        struct weir__file_task *task = io_uring_cqe_get_data(completions[i]);

                        if (task)
                                complete(ring, task, completions[i]->res);
                }
                io_uring_cq_advance(&ring->uring, count);
                sum += count;
        } while (count == REAPED_MOST);
        return sum;
}

/* -- the round -- */

static bool
has_room(const struct ring *ring, const struct weir__file_task *task)
{
        return ring->batch.outstanding < IN_KERNEL_MOST || weight_of(task) == 0;
}

/* The kernel copies while it takes requests.  Other work of the poller must not wait for too many bytes. */
static bool
is_round_full(const struct ring *ring, const struct weir__file_task *task)
{
        return ring->inlined >= INLINED_MOST && inline_size(task) > 0;
}

/* Returns false when no more is handed over in this round. */
static bool
hand_over_all(struct ring *ring)
{
        struct weir__link *link;

        while ((link = weir__list_first(&ring->doomed)))
                if (!ask_to_let_go(ring, task_of(link)))
                        return false;
        while ((link = weir__list_first(&ring->line)) && has_room(ring, task_of(link)) && !is_round_full(ring, task_of(link)))
                if (!hand_over(ring, task_of(link)))
                        return false;
        submit(ring);
        return io_uring_sq_ready(&ring->uring) == 0 && !(link && has_room(ring, task_of(link)));
}

static void
run_nudge(struct weir__work *work)
{
        struct ring *ring = weir__container_of(work, struct ring, nudge);

        ring->is_nudged = false;
        if (ring->is_over)
                free(ring);
}

static const struct weir__work_ops nudge_ops = {.run = run_nudge};

/* Completions may leave work in the line.  Requests that the kernel does not take now, or that would be too much for a round, are
 * tried in the next round. */
static bool
flush(struct weir__batch *batch)
{
        struct ring *ring = (struct ring *)batch;
        unsigned completed = 0;
        bool is_taken;

        ring->inlined = 0;
        do {
                is_taken = hand_over_all(ring);
                completed += reap(ring);
        } while (is_taken && weir__list_first(&ring->line) && has_room(ring, task_of(weir__list_first(&ring->line))));
        if (!is_taken && !ring->is_nudged) {
                ring->is_nudged = true;
                weir__deliver(ring->poller, &ring->nudge);
        }
        return completed > 0;
}

/* -- the source -- */

static struct ring *
ring_of(struct weir__source *source)
{
        return weir__container_of(source, struct ring, source);
}

static void
become_ready(struct weir__source *source, uint32_t events)
{
        (void)events;
        reap(ring_of(source));
}

/* What completes all the same keeps its status. */
static void
shut_down(struct weir__source *source)
{
        struct ring *ring = ring_of(source);
        struct weir__link *link;

        while ((link = weir__list_first(&ring->line))) {
                weir__link_remove(link);
                weir__file_end_in_ring(task_of(link), -ESHUTDOWN);
        }
        while ((link = weir__list_first(&ring->in_kernel))) {
                weir__link_remove(link);
                weir__list_append(&ring->doomed, link);
                task_of(link)->is_unwanted = true;
        }
}

/* After exit() inside a callback tasks may be left.  The kernel may write to their memory, so that stays. */
static void
destroy(struct weir__source *source)
{
        struct ring *ring = ring_of(source);
        bool is_idle = weir__list_is_empty(&ring->in_kernel) && weir__list_is_empty(&ring->doomed);

        weir__source_remove(ring->poller, source);
        ring->poller->batch = NULL;
        io_uring_queue_exit(&ring->uring);
        if (!is_idle)
                return;
        ring->is_over = true;
        if (!ring->is_nudged)
                free(ring);
}

static const struct weir__source_ops source_ops = {become_ready, shut_down, destroy};

/* -- making -- */

static int
set_up(struct io_uring *uring, unsigned requests, unsigned completions)
{
        struct io_uring_params params = {.flags = IORING_SETUP_CLAMP | IORING_SETUP_CQSIZE, .cq_entries = completions};
        const unsigned needed = IORING_FEAT_NODROP | IORING_FEAT_FAST_POLL | IORING_FEAT_RW_CUR_POS;
        int failed = io_uring_queue_init_params(requests, uring, &params);

        if (failed)
                return failed;
        if ((params.features & needed) == needed)
                return 0;
        io_uring_queue_exit(uring);
        return -ENOSYS;
}

static int
open_ring(struct ring *ring, struct weir__poller *poller)
{
        int failed = set_up(&ring->uring, SUBMITTED_MOST, IN_KERNEL_MOST);

        if (failed)
                return failed;
        io_uring_ring_dontfork(&ring->uring);
        ring->batch.flush = flush;
        ring->poller = poller;
        ring->nudge.ops = &nudge_ops;
        ring->source = (struct weir__source){.ops = &source_ops, .fd = ring->uring.ring_fd};
        failed = weir__source_add(poller, &ring->source, EPOLLIN);
        if (failed)
                io_uring_queue_exit(&ring->uring);
        return failed;
}

/* A poller that has got no ring, and in which life of the runtime.  The owner of the poller's. */
static struct refusal {
        unsigned generation, tasks_left;
} refusals[WEIR__POLLERS_MAX];

/* Asking for a ring costs more than the queue. */
static bool
was_refused_lately(struct refusal *refusal)
{
        if (refusal->generation != weir__phase_generation || refusal->tasks_left == 0)
                return false;
        refusal->tasks_left--;
        return true;
}

struct weir__batch *
weir__ring_of(struct weir__poller *poller)
{
        static struct weir__log_limit refused;
        struct refusal *refusal = &refusals[poller->index];
        struct ring *ring;

        if (poller->batch || was_refused_lately(refusal))
                return poller->batch;
        ring = calloc(1, sizeof *ring);
        int failed = ring ? open_ring(ring, poller) : -ENOMEM;
        if (failed) {
                free(ring);
                *refusal = (struct refusal){weir__phase_generation, WITHOUT_RING};
                weir__log_limited(&refused, WEIR_LOG_WARNING, "no ring can be made (%s): file tasks use the queue",
                                  weir_strerror(failed));
                return NULL;
        }
        poller->batch = &ring->batch;
        return poller->batch;
}

void
weir__ring_add(struct weir__batch *batch, struct weir__file_task *task)
{
        task->link = (struct weir__link){NULL, NULL};
        weir__list_append(&((struct ring *)batch)->line, &task->link);
}

void
weir__ring_cancel(struct weir__batch *batch, struct weir__file_task *task)
{
        struct ring *ring = (struct ring *)batch;

        if (task->is_unwanted)
                return;
        weir__link_remove(&task->link);
        if (task->is_in_kernel) {
                task->is_unwanted = true;
                weir__list_append(&ring->doomed, &task->link);
        } else {
                weir__file_end_in_ring(task, weir__file_obstacle(task));
        }
}

/* -- whether -- */

/* memcheck does not see what the kernel writes for a ring: whoever looked at that would be told that it is uninitialised. */
static bool
is_offered(void)
{
        struct io_uring uring;

        if (weir__watched_by_memcheck())
                return false;
        if (set_up(&uring, 2, 4))
                return false;
        io_uring_queue_exit(&uring);
        return true;
}

/* Asked once in each start.  Two threads may both ask. */
bool
weir__ring_is_permitted(void)
{
        static _Atomic unsigned known; /* of which start, and the answer */

        if (atomic_load_explicit(&weir__runtime_files, memory_order_relaxed) == WEIR_FILES_QUEUE)
                return false;
        unsigned answer = atomic_load_explicit(&known, memory_order_relaxed), start = weir__phase_generation << 1;

        if (__builtin_expect((answer & ~1u) != start || !start, 0)) {
                answer = start | is_offered();
                atomic_store_explicit(&known, answer, memory_order_relaxed);
        }
        return answer & 1;
}

#else

bool
weir__ring_is_permitted(void)
{
        return false;
}

struct weir__batch *
weir__ring_of(struct weir__poller *poller)
{
        return poller->batch;
}

void
weir__ring_add(struct weir__batch *ring, struct weir__file_task *task)
{
        (void)ring;
        weir__file_end_in_ring(task, -ENOSYS);
}

void
weir__ring_cancel(struct weir__batch *ring, struct weir__file_task *task)
{
        (void)ring, (void)task;
}

#endif

const char *
weir_file_backend(void)
{
        return weir__ring_is_permitted() ? "io_uring" : "queue";
}
