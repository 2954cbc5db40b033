/* weir/metrics.h: the library's counters as text for a monitoring system. */
#ifndef WEIR_METRICS_H
#define WEIR_METRICS_H

#include <weir/time.h>

WEIR_BEGIN

/* Writes everything that the library counts to a descriptor, in the text format 0.0.4 of
 * Prometheus, and behind it what weir_metrics_add has added.  weir/http_debug.h serves the same text.
 *
 * - Names begin with weir_.  Times are in seconds, sizes in bytes.
 * - A value that ends in _total only grows.  It counts from the beginning of the process; a value
 *   of a server (weir_http_, weir_stream_) counts from the start of that server.
 * - Only servers that serve are listed.  A server is named by its first address, with "#2" and so
 *   on behind it when several servers have the same one.
 * - A reply is counted when it begins to go out, a reply that is written in pieces at its end.  A
 *   request without a reply has the status WEIR_HTTP_NO_REPLY.
 * - The bytes of a server of streams are counted when a connection closes.
 * - Members of upstreams are listed while there is an upstream.  They count from when they were added.
 * - weir_lateness_reset does not change the lateness of timers here.  A lateness that is up to 1/16
 *   below a bound may be counted above it.
 *
 * Each part is read by itself, so the parts need not fit together exactly.  No worker is delayed.
 *
 * Result:  0; what write reports, when some of the text may have been written; -EAGAIN when a
 *          non-blocking descriptor has had no room for a second; -ENOMEM; -ECHILD in a forked
 *          child.
 * Threads: any, also inside a callback, where a blocking descriptor delays its neighbours. */
WEIR_API int weir_metrics_write(int fd);

/* Writes figures to a descriptor, in the same format: whole lines, of names that nobody else writes.
 * Result: 0, or a negative errno. */
typedef int weir_metrics_fn(int fd);

/* How many of them may be added. */
#define WEIR_METRICS_MOST 16

/* Has weir_metrics_write, and so the page of weir_http_debug, also write the figures of another library, or of
 * the program, behind its own:
 *
 *     weir_metrics_add(weir_pq_metrics_write);
 *     weir_metrics_add(weir_durable_metrics_write);
 *
 * The function is called each time, on the thread that writes, with a descriptor in memory, which never blocks.
 * When it fails, what it has written is left out, and the log says so; -ECHILD stands for nothing to write.
 *
 * Result:  0, also for one that was added before; -EINVAL for NULL; -ENOBUFS: there are WEIR_METRICS_MOST.
 * Threads: any.  It works before the runtime has started, and lasts until the process ends. */
WEIR_API int weir_metrics_add(weir_metrics_fn *write);

WEIR_END

#endif
