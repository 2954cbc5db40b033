/* io/file/file.c: open files.
 *
 *     new --weir__file_set_open--> open --weir__file_close, with no operation under way--> closed --last reference--> freed
 *                                    \--------------------last reference-----------------> closed, freed
 *
 * Threads: any.
 * Locks:   none.  One word counts references and operations, so a close sees whether it is alone. */
#include "io/file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel/base/phase.h"
#include "kernel/executor/executor.h"
#include "kernel/runtime/runtime.h"
#include "kernel/worker/worker.h"

#define REFERENCES (WEIR__FILE_OPERATION - 1)
#define OPERATIONS (~REFERENCES & ~WEIR__FILE_CLOSED)

struct weir_file *
weir__file_new(const char *path)
{
        size_t size = strlen(path) + 1;
        struct weir_file *file = malloc(sizeof *file + size);

        if (!file)
                return NULL;
        *file = (struct weir_file){.word = WEIR__FILE_REFERENCE, .descriptor = -1};
        memcpy(file->path, path, size);
        return file;
}

/* lseek asks no disk and no server. */
void
weir__file_set_open(struct weir_file *file, int descriptor)
{
        file->descriptor = descriptor;
        file->is_stream = lseek(descriptor, 0, SEEK_CUR) < 0 && errno == ESPIPE;
}

weir_file *
weir_file_of(int descriptor)
{
        struct weir_file *file;

        if (fcntl(descriptor, F_GETFD) < 0 || !(file = weir__file_new("")))
                return NULL;
        weir__file_set_open(file, descriptor);
        return file;
}

int
weir_file_descriptor(const weir_file *file)
{
        return file && !(atomic_load_explicit(&file->word, memory_order_relaxed) & WEIR__FILE_CLOSED) ? file->descriptor : -EBADF;
}

/* -- operations -- */

int
weir__file_enter(struct weir_file *file)
{
        uint64_t before = atomic_fetch_add_explicit(&file->word, WEIR__FILE_OPERATION, memory_order_acquire);

        if (__builtin_expect(!(before & WEIR__FILE_CLOSED), 1))
                return 0;
        weir__file_leave(file);
        return -EBADF;
}

void
weir__file_leave(struct weir_file *file)
{
        atomic_fetch_sub_explicit(&file->word, WEIR__FILE_OPERATION, memory_order_release);
}

int
weir__file_close(struct weir_file *file)
{
        uint64_t word = atomic_load_explicit(&file->word, memory_order_relaxed);

        do {
                if (word & WEIR__FILE_CLOSED)
                        return -EBADF;
                if (word & OPERATIONS)
                        return -EBUSY;
        } while (!atomic_compare_exchange_weak_explicit(&file->word, &word, word | WEIR__FILE_CLOSED, memory_order_acq_rel,
                                                        memory_order_relaxed));
        /* The descriptor is closed also after an error: Linux has freed its number by then. */
        return close(file->descriptor) < 0 && errno != EINTR ? -errno : 0;
}

/* -- references -- */

static void
free_file(struct weir_file *file)
{
        if (file->descriptor >= 0 && !(atomic_load_explicit(&file->word, memory_order_relaxed) & WEIR__FILE_CLOSED))
                close(file->descriptor);
        free(file);
}

static void
run_close(struct weir__job *job)
{
        free_file(weir__container_of(job, struct weir_file, job));
        weir__runtime_leave();
}

static void
run_uncounted_close(struct weir__job *job)
{
        free_file(weir__container_of(job, struct weir_file, job));
}

static const struct weir__job_ops close_ops = {run_close, run_close};
static const struct weir__job_ops uncounted_close_ops = {run_uncounted_close, run_uncounted_close};

/* close(2) may wait for a disk or a server, and a poller must not.  While the runtime ends nothing more is counted.  The executor
 * takes the job all the same: if its threads have ended, the thread that ends the runtime closes. */
static void
close_elsewhere(struct weir_file *file)
{
        bool is_counted = weir__runtime_enter() == 0;

        if (is_counted && weir__executor_use()) {
                free_file(file);
                weir__runtime_leave();
                return;
        }
        file->job = (struct weir__job){.ops = is_counted ? &close_ops : &uncounted_close_ops};
        weir__executor_submit(&file->job);
}

weir_file *
weir_file_ref(weir_file *file)
{
        if (file)
                atomic_fetch_add_explicit(&file->word, WEIR__FILE_REFERENCE, memory_order_relaxed);
        return file;
}

void
weir_file_unref(weir_file *file)
{
        if (!file)
                return;
        uint64_t before = atomic_fetch_sub_explicit(&file->word, WEIR__FILE_REFERENCE, memory_order_acq_rel);
        if ((before & REFERENCES) > 1)
                return;
        struct weir__worker *worker = weir__worker_self();
        bool may_block = file->descriptor < 0 || before & WEIR__FILE_CLOSED || !worker || !worker->poller;
        if (may_block || weir__phase_is_forked())
                free_file(file);
        else
                close_elsewhere(file);
}
