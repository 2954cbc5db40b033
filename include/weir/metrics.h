/* weir/metrics.h: how the library is doing, as text for a monitoring system. */
#ifndef WEIR_METRICS_H
#define WEIR_METRICS_H

#include <weir/time.h>

WEIR_BEGIN

/* Writes all that the library counts to a descriptor, in the text format 0.0.4 of Prometheus.  weir/http_debug.h serves the same.
 *
 * Names begin with weir_; times are in seconds, sizes in bytes.  What ends in _total only grows, from the beginning of the process
 * on, and that of a server (weir_http_) from its start on; servers that do not serve are left out.  A server is named by the first
 * of its addresses, with "#2" and so on behind it when several have the same.  A reply is counted when it begins to go out, one
 * that is written piece by piece at its end; a request without one has the status WEIR_HTTP_NO_REPLY.
 *
 * The lateness of timers is never counted anew, whatever weir_lateness_reset does; what is up to 1/16 earlier than a bound may be
 * counted as later than it.
 *
 * Each part is read by itself: they need not fit together exactly.  No worker is held up by it.
 *
 * Result:  0; what write reports, when some of it may have been written; -EAGAIN when a descriptor that does not block has had no
 *          room for a second; -ENOMEM; -ECHILD in a forked child.
 * Threads: any, also inside a callback, where a descriptor that blocks holds up its neighbours. */
WEIR_API int weir_metrics_write(int fd);

WEIR_END

#endif
