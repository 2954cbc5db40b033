/* proxy/forward/failure.c: what the client gets when the other server fails.
 *
 * Threads: callbacks of the exchange's series. */
#include <errno.h>

#include <weir/http_body.h>
#include <weir/runtime.h>

#include "kernel/observe/log.h"
#include "proxy/forward/forward.h"

struct answer {
        int status;
        const char *text;
};

/* While a call is queued, -ENETUNREACH and -EBUSY are of an upstream: no member of it may be used. */
static struct answer
answer_for(const weir_http_call *call, int status)
{
        static const struct answer bad_gateway = {502, "Bad Gateway\n"}, unavailable = {503, "Service Unavailable\n"},
                                   late = {504, "Gateway Timeout\n"}, no_memory = {500, "Internal Server Error\n"};

        bool is_queued = weir_http_call_stage(call) == WEIR_HTTP_QUEUED;

        switch (status) {
        case -ETIMEDOUT: return is_queued ? unavailable : late;
        case -ENETUNREACH: return is_queued ? unavailable : bad_gateway;
        case -EBUSY:
        case -ESHUTDOWN: return unavailable;
        case -ENOMEM: return no_memory;
        default: return bad_gateway;
        }
}

static void
log_failure(const struct weir__forward *forward, int status)
{
        static struct weir__log_limit limit;
        const char *problem = weir_http_call_problem(forward->call);

        weir__log_limited(&limit, WEIR_LOG_WARNING, "weir_http_proxy_to: %s%s", problem ? problem : weir_strerror(status),
                          forward->has_begun ? "; the reply is cut" : "");
}

void
weir__forward_fail(struct weir__forward *forward, int status)
{
        if (weir_series_status(forward->series)) /* the client has gone, or the series has ended otherwise */
                return;
        if (atomic_load_explicit(&forward->is_client_broken, memory_order_relaxed)) {
                weir_series_cancel(forward->series); /* the server says what was wrong with the body */
                return;
        }
        log_failure(forward, status);
        if (forward->has_begun) {
                weir_series_cancel(forward->series);
                return;
        }
        struct answer answer = answer_for(forward->call, status);
        (void)weir_http_reply_length(forward->exchange, UINT64_MAX);
        (void)weir_http_reply_text(forward->exchange, answer.status, answer.text);
        weir__forward_stop_upload(forward);
}
