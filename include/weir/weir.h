/* weir/weir.h: the whole of the library. */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include <weir/barrier.h>
#include <weir/channel.h>
#include <weir/clock.h>
#include <weir/conditional.h>
#include <weir/counter.h>
#include <weir/debug.h>
#include <weir/export.h>
#include <weir/flow.h>
#include <weir/go.h>
#include <weir/graph.h>
#include <weir/guard.h>
#include <weir/http.h>
#include <weir/http_access.h>
#include <weir/http_body.h>
#include <weir/http_cookie.h>
#include <weir/http_debug.h>
#include <weir/http_fields.h>
#include <weir/http_file.h>
#include <weir/http_router.h>
#include <weir/http_server.h>
#include <weir/http_sse.h>
#include <weir/log.h>
#include <weir/mailbox.h>
#include <weir/metrics.h>
#include <weir/parallel.h>
#include <weir/pool.h>
#include <weir/race.h>
#include <weir/retry.h>
#include <weir/runtime.h>
#include <weir/select.h>
#include <weir/semaphore.h>
#include <weir/series.h>
#include <weir/stats.h>
#include <weir/task.h>
#include <weir/ticker.h>
#include <weir/time.h>
#include <weir/timer.h>
#include <weir/trace.h>
#include <weir/waitgroup.h>

#endif
