/* client/tunnel/tunnel.h: a task that asks a proxy for the way to a server. */
#ifndef WEIR_CLIENT_TUNNEL_H
#define WEIR_CLIENT_TUNNEL_H

#include <weir/stream.h>
#include <weir/task.h>
#include <weir/time.h>

struct weir__proxy;

/* The stream leads to the proxy, and to the server when the task has ended with 0.
 *
 * Owner:  the caller, until the task is consumed.  The proxy must stay until its callback; the target is copied.
 * Result: NULL when out of memory.  The task's status: 0; those of weir__proxy_exchange_took; -ETIMEDOUT after `limit`;
 *         -ECONNRESET: the proxy has closed; those of weir_stream_read_new.  A stream that has failed is broken. */
weir_task *weir__tunnel_new(weir_stream *stream, const struct weir__proxy *proxy, const char *target, weir_nsec limit,
                            weir_task_fn *done, void *context);

/* Why it has failed, in words; NULL: the status says all.  Inside its callback. */
const char *weir__tunnel_problem(const weir_task *task);

#endif
