/* weir/metrics.h: the library's counters as text for a monitoring system. */
#ifndef WEIR_METRICS_H
#define WEIR_METRICS_H

#include <weir/time.h>

WEIR_BEGIN

/* Writes everything that the library counts to a descriptor, in the text format 0.0.4 of
 * Prometheus.  weir/http_debug.h serves the same text.
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

WEIR_END

#endif
