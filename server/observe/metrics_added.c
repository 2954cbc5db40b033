/* server/observe/metrics_added.c: what other libraries and the program add to the metrics.
 *
 * Each part is a function that writes to a descriptor.  It gets one in memory: so a part that has failed can be left out, and no
 * reader keeps it waiting.
 *
 * Threads: any.
 * Locks:   none; parts are added, and never removed. */
#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir/metrics.h>
#include <weir/runtime.h>

#include "kernel/observe/log.h"
#include "server/observe/metrics.h"

static _Atomic(weir_metrics_fn *) parts[WEIR_METRICS_MOST];

int
weir_metrics_add(weir_metrics_fn *write)
{
        if (!write)
                return -EINVAL;
        for (unsigned i = 0; i < WEIR_METRICS_MOST; i++) {
                weir_metrics_fn *none = NULL;

                if (atomic_compare_exchange_strong(&parts[i], &none, write) || none == write)
                        return 0;
        }
        return -ENOBUFS;
}

/* All that the descriptor has. */
static void
copy(struct weir__sink *sink, int fd)
{
        char bytes[4096];
        off_t at = 0;
        ssize_t size;

        while ((size = pread(fd, bytes, sizeof bytes, at)) > 0) {
                weir__sink_write(sink, bytes, (size_t)size);
                at += size;
        }
}

static struct weir__log_limit complaints;

static void
write_part(struct weir__sink *sink, weir_metrics_fn *part)
{
        int fd = memfd_create("weir-metrics", MFD_CLOEXEC);
        int failed = fd < 0 ? -errno : part(fd);

        if (failed == -ECHILD)
                ; /* it has nothing here that is not the parent's */
        else if (failed)
                weir__log_limited(&complaints, WEIR_LOG_ERROR, "weir_metrics_write: a part that was added is left out: %s",
                                  weir_strerror(failed));
        else
                copy(sink, fd);
        if (fd >= 0)
                close(fd);
}

void
weir__metrics_write_added(struct weir__sink *sink)
{
        for (unsigned i = 0; i < WEIR_METRICS_MOST; i++) {
                weir_metrics_fn *part = atomic_load(&parts[i]);

                if (part)
                        write_part(sink, part);
        }
}
