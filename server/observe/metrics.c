/* server/observe/metrics.c: the counts of the library, in the text format of Prometheus.
 *
 * Threads: any.  Counts are read under the locks that they need, and written with none.
 *
 * All samples of one name stand together, behind their HELP and TYPE: so the servers' counts are read as a whole, and then
 * written name by name.
 *
 * Source: Prometheus, "Exposition formats", text format 0.0.4. */
#include "server/observe/metrics.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <weir/metrics.h>
#include <weir/resolve.h>
#include <weir/runtime.h>

#include "factory/task/live.h"
#include "kernel/worker/worker_pool.h"
#include "kernel/executor/executor.h"
#include "kernel/data/histogram.h"
#include "kernel/observe/exposition.h"
#include "kernel/base/phase.h"
#include "kernel/loop/pollers.h"
#include "kernel/sched/share.h"
#include "net/serve/counts.h"
#include "net/upstream/upstream.h"
#include "server/base/serving.h"

#define NSEC_A_SECOND 1000000000

/* -- the format -- */

static void
seconds(struct weir__sink *sink, uint64_t nanoseconds)
{
        weir__sink_printf(sink, " %llu.%09llu\n", (unsigned long long)(nanoseconds / NSEC_A_SECOND),
                          (unsigned long long)(nanoseconds % NSEC_A_SECOND));
}

/* -- the scheduler -- */

static void
write_threads(struct weir__sink *sink)
{
        unsigned workers = 0, idle = 0, pollers = 0;

        if (weir__phase_is_up()) {
                pollers = weir__pollers_count();
                weir__worker_pool_count(&workers, &idle);
        }
        weir__expose_single(sink, "weir_pollers", "gauge", "Pollers, each of which a worker runs.", pollers);
        weir__expose_single(sink, "weir_workers", "gauge", "Threads that run callbacks.", workers);
        weir__expose_single(sink, "weir_spare_workers", "gauge", "Of these, those that wait for a poller.", idle);
        weir__expose_name(sink, "weir_handovers_total", "counter",
                          "How often a callback that lasted has lost its poller to another worker.");
        weir__sink_printf(sink, "weir_handovers_total{cause=\"limit\"} %llu\n", (unsigned long long)weir__worker_counts.retaken);
        weir__sink_printf(sink, "weir_handovers_total{cause=\"begin\"} %llu\n", (unsigned long long)weir__worker_counts.given);
        weir__expose_single(sink, "weir_steals_total", "counter",
                            "Completions and expired timers that another poller ran than the one where they belonged.",
                            (int64_t)weir__worker_counts.shared);
}

static void
write_ready(struct weir__sink *sink)
{
        unsigned pollers = weir__phase_is_up() ? weir__pollers_count() : 0;

        weir__expose_name(sink, "weir_ready_completions", "gauge", "Completions that wait for the worker of a poller, about.");
        for (unsigned i = 0; i < pollers; i++) {
                int64_t count = atomic_load_explicit(&weir__pollers.at[i]->ready.count, memory_order_relaxed);

                weir__sink_printf(sink, "weir_ready_completions{poller=\"%u\"} %lld\n", i, (long long)(count > 0 ? count : 0));
        }
        weir__expose_single(sink, "weir_shared_completions", "gauge", "Completions that wait for any worker.",
                            pollers ? weir__share_depth() : 0);
}

static void
write_functions(struct weir__sink *sink)
{
        struct weir__executor_stats stats;
        bool is_up = weir__phase_is_up();

        weir__executor_stats(NULL, &stats);
        weir__expose_single(sink, "weir_executor_threads", "gauge", "Threads that run functions.",
                            is_up ? weir__executor_threads() : 0);
        weir__expose_single(sink, "weir_executor_queued_functions", "gauge", "Functions that were started and have not begun.",
                            (int64_t)stats.queued);
        weir__expose_single(sink, "weir_executor_running_functions", "gauge", "Functions that run.", (int64_t)stats.running);
        weir__expose_name(sink, "weir_executor_oldest_wait_seconds", "gauge",
                          "For how long the oldest queued function has waited.");
        weir__sink_text(sink, "weir_executor_oldest_wait_seconds");
        seconds(sink, stats.waiting > 0 ? (uint64_t)stats.waiting : 0);
}

/* -- timers -- */

static void
write_pending(struct weir__sink *sink)
{
        unsigned pollers = weir__phase_is_up() ? weir__pollers_count() : 0;
        size_t timers = 0, alarms = 0;

        for (unsigned i = 0; i < pollers; i++) {
                struct weir__poller *poller = weir__pollers.at[i];

                weir__lock(&poller->lock);
                timers += poller->deadlines.queue.count - poller->deadlines.alarms;
                alarms += poller->deadlines.alarms;
                weir__unlock(&poller->lock);
        }
        weir__expose_single(sink, "weir_pending_timers", "gauge", "Timers that wait for their deadlines.", (int64_t)timers);
        weir__expose_single(sink, "weir_pending_limits", "gauge", "Time limits, of connections and series, that are set.",
                            (int64_t)alarms);
}

/* The bounds of the buckets that are shown, shorter ones first. */
static const struct {
        const char *text;
        weir_nsec bound;
} bounds[] = {
        {"1e-06", WEIR_USEC(1)},  {"5e-06", WEIR_USEC(5)},     {"1e-05", WEIR_USEC(10)},    {"2.5e-05", WEIR_USEC(25)},
        {"5e-05", WEIR_USEC(50)}, {"0.0001", WEIR_USEC(100)},  {"0.00025", WEIR_USEC(250)}, {"0.0005", WEIR_USEC(500)},
        {"0.001", WEIR_MSEC(1)},  {"0.0025", WEIR_USEC(2500)}, {"0.005", WEIR_MSEC(5)},     {"0.01", WEIR_MSEC(10)},
        {"0.025", WEIR_MSEC(25)}, {"0.05", WEIR_MSEC(50)},     {"0.1", WEIR_MSEC(100)},     {"0.25", WEIR_MSEC(250)},
        {"0.5", WEIR_MSEC(500)},  {"1", WEIR_SEC(1)},          {"2.5", WEIR_MSEC(2500)},    {"5", WEIR_SEC(5)},
        {"10", WEIR_SEC(10)},     {"30", WEIR_SEC(30)},
};

/* The counts of all pollers since the process began.  Returns the sum of all lateness. */
static uint64_t
collect_lateness(uint64_t counts[WEIR__HISTOGRAM_BUCKETS])
{
        uint64_t total = 0;

        for (unsigned i = 0; i < WEIR__POLLERS_MAX; i++) {
                struct weir__poller *poller = weir__pollers.at[i];

                for (unsigned bucket = 0; poller && bucket < WEIR__HISTOGRAM_BUCKETS; bucket++)
                        counts[bucket] += atomic_load_explicit(&poller->lateness.counts[bucket], memory_order_acquire);
                total += poller ? atomic_load_explicit(&poller->lateness.total, memory_order_relaxed) : 0;
        }
        return total;
}

static void
write_lateness(struct weir__sink *sink)
{
        static const char name[] = "weir_timer_lateness_seconds";
        uint64_t counts[WEIR__HISTOGRAM_BUCKETS] = {0}, total = collect_lateness(counts), seen = 0;
        unsigned bucket = 0;

        weir__expose_name(sink, name, "histogram", "How late the callbacks of timers have begun.");
        for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
                while (bucket < WEIR__HISTOGRAM_BUCKETS && weir__histogram_greatest(bucket) <= bounds[i].bound)
                        seen += counts[bucket++];
                weir__sink_printf(sink, "%s_bucket{le=\"%s\"} %llu\n", name, bounds[i].text, (unsigned long long)seen);
        }
        while (bucket < WEIR__HISTOGRAM_BUCKETS)
                seen += counts[bucket++];
        weir__sink_printf(sink, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum", name, (unsigned long long)seen, name);
        seconds(sink, total);
        weir__sink_printf(sink, "%s_count %llu\n", name, (unsigned long long)seen);
}

/* -- servers -- */

/* One sample for each server; `detail`, with a comma in front, goes behind the label of the server. */
static void
sample(struct weir__sink *sink, const char *server, const char *name, const char *detail, int64_t value)
{
        weir__sink_printf(sink, "%s{", name);
        weir__expose_label(sink, "server", server);
        weir__sink_printf(sink, "%s} %lld\n", detail, (long long)value);
}

/* A line without help has the name of the line before it. */
static const struct {
        const char *name, *type, *help, *detail;
        enum weir__count_kind kind;
} totals[] = {
        {"weir_http_connections", "gauge", "Connections that are open.", "", WEIR__COUNT_OPEN},
        {"weir_http_idle_connections", "gauge", "Of these, those that wait for a request.", "", WEIR__COUNT_IDLE},
        {"weir_http_exchanges", "gauge", "Requests that are being read or answered.", "", WEIR__COUNT_EXCHANGES},
        {"weir_http_accepted_connections_total", "counter", "Connections that came.", "", WEIR__COUNT_ACCEPTED},
        {"weir_http_refused_connections_total", "counter", "Of these, those for which there was no room.", "",
         WEIR__COUNT_TURNED_AWAY},
        {"weir_http_evicted_connections_total", "counter", "Idle connections that were closed to make room.", "",
         WEIR__COUNT_EVICTED},
        {"weir_http_shed_requests_total", "counter", "Requests that were answered 503 because all was late.", "",
         WEIR__COUNT_SHED},
        {"weir_http_received_bytes_total", "counter", "Bytes of requests, within TLS.", "", WEIR__COUNT_RECEIVED},
        {"weir_http_sent_bytes_total", "counter", "Bytes of replies, within TLS, that the system has taken.", "",
         WEIR__COUNT_SENT},
        {"weir_http_tls_handshakes_total", "counter", "Handshakes of TLS by their result.", ",result=\"done\"",
         WEIR__COUNT_HANDSHAKES},
        {"weir_http_tls_handshakes_total", NULL, NULL, ",result=\"failed\"", WEIR__COUNT_HANDSHAKES_FAILED},
};

static void
write_totals(struct weir__sink *sink, const struct weir__serving_report *servers, size_t count)
{
        for (size_t i = 0; i < sizeof totals / sizeof *totals; i++) {
                if (totals[i].help)
                        weir__expose_name(sink, totals[i].name, totals[i].type, totals[i].help);
                for (const struct weir__serving_report *each = servers; each < servers + count; each++)
                        sample(sink, each->name, totals[i].name, totals[i].detail, each->counts[totals[i].kind]);
        }
}

static void
write_requests(struct weir__sink *sink, const struct weir__serving_report *servers, size_t count)
{
        static const char name[] = "weir_http_requests_total";
        char detail[32];

        weir__expose_name(sink, name, "counter", "Requests by the status of their replies; 499: none.");
        for (const struct weir__serving_report *each = servers; each < servers + count; each++)
                for (unsigned i = 0; i < WEIR__STATUSES; i++)
                        if (each->counts[WEIR__COUNT_STATUS + i]) {
                                snprintf(detail, sizeof detail, ",code=\"%u\"", WEIR__STATUS_LEAST + i);
                                sample(sink, each->name, name, detail, each->counts[WEIR__COUNT_STATUS + i]);
                        }
}

/* The same of servers of streams. */
static const struct {
        const char *name, *type, *help, *detail;
        enum weir__stream_count kind;
} stream_totals[] = {
        {"weir_stream_connections", "gauge", "Connections that are open.", "", WEIR__STREAM_OPEN},
        {"weir_stream_accepted_connections_total", "counter", "Connections that came.", "", WEIR__STREAM_ACCEPTED},
        {"weir_stream_refused_connections_total", "counter", "Of these, those that were closed at once, by the reason.",
         ",reason=\"address\"", WEIR__STREAM_REFUSED_ADDRESS},
        {"weir_stream_refused_connections_total", NULL, NULL, ",reason=\"shortage\"", WEIR__STREAM_REFUSED_SHORTAGE},
        {"weir_stream_late_connections_total", "counter", "Connections that a time limit has ended, by the limit.",
         ",limit=\"handshake\"", WEIR__STREAM_LATE_HANDSHAKE},
        {"weir_stream_late_connections_total", NULL, NULL, ",limit=\"write\"", WEIR__STREAM_LATE_WRITE},
        {"weir_stream_late_connections_total", NULL, NULL, ",limit=\"idle\"", WEIR__STREAM_LATE_IDLE},
        {"weir_stream_received_bytes_total", "counter", "Bytes that came on connections that are closed, within TLS.", "",
         WEIR__STREAM_RECEIVED},
        {"weir_stream_sent_bytes_total", "counter", "Bytes that went on connections that are closed, within TLS.", "",
         WEIR__STREAM_SENT},
        {"weir_stream_tls_handshakes_total", "counter", "Handshakes of TLS by their result.", ",result=\"done\"",
         WEIR__STREAM_HANDSHAKES},
        {"weir_stream_tls_handshakes_total", NULL, NULL, ",result=\"failed\"", WEIR__STREAM_HANDSHAKES_FAILED},
};

static void
write_stream_totals(struct weir__sink *sink, const struct weir__stream_report *servers, size_t count)
{
        for (size_t i = 0; i < sizeof stream_totals / sizeof *stream_totals; i++) {
                if (stream_totals[i].help)
                        weir__expose_name(sink, stream_totals[i].name, stream_totals[i].type, stream_totals[i].help);
                for (const struct weir__stream_report *each = servers; each < servers + count; each++)
                        sample(sink, each->name, stream_totals[i].name, stream_totals[i].detail,
                               each->counts[stream_totals[i].kind]);
        }
}

static weir__metrics_held_fn *count_held;

void
weir__metrics_on_held(weir__metrics_held_fn *count)
{
        count_held = count;
}

static void
write_held(struct weir__sink *sink)
{
        static const char age[] = "weir_http_oldest_held_exchange_seconds";
        weir_nsec oldest = 0;
        size_t count = count_held ? count_held(&oldest) : 0;

        weir__expose_single(sink, "weir_http_held_exchanges", "gauge", "Exchanges to which the program has references.",
                            (int64_t)count);
        weir__expose_name(sink, age, "gauge", "Age of the oldest of these.");
        weir__sink_text(sink, age);
        seconds(sink, (uint64_t)oldest);
}

/* -- upstreams: nothing without one -- */

static uint64_t
in_flight_of(const struct weir_member_info *member)
{
        return member->in_flight;
}

static uint64_t
requests_of(const struct weir_member_info *member)
{
        return member->requests;
}

static uint64_t
failures_of(const struct weir_member_info *member)
{
        return member->failures;
}

static uint64_t
ejections_of(const struct weir_member_info *member)
{
        return member->ejections;
}

static uint64_t
state_of(const struct weir_member_info *member)
{
        return member->state;
}

static const struct {
        const char *name, *type, *help;
        uint64_t (*value)(const struct weir_member_info *member);
} of_members[] = {
        {"weir_upstream_in_flight", "gauge", "Requests of a member of an upstream that have not ended.", in_flight_of},
        {"weir_upstream_requests_total", "counter", "Requests that a member was given.", requests_of},
        {"weir_upstream_failures_total", "counter", "Of these, those that have failed.", failures_of},
        {"weir_upstream_ejections_total", "counter", "How often a member was ejected because it has failed.", ejections_of},
        {"weir_upstream_state", "gauge", "0: it is used; 1: it is ejected; 2: it is probed; 3: it is disabled.", state_of},
};

static void
write_members(struct weir__sink *sink, struct weir_upstream *upstream, size_t metric)
{
        struct weir_member_info member = {.size = sizeof member};

        for (size_t i = 0; weir_upstream_member(upstream, i, &member) == 0; i++) {
                weir__sink_printf(sink, "%s{", of_members[metric].name);
                weir__expose_label(sink, "upstream", weir__upstream_name(upstream));
                weir__sink_text(sink, ",");
                weir__expose_label(sink, "member", member.address);
                weir__sink_printf(sink, "} %llu\n", (unsigned long long)of_members[metric].value(&member));
        }
}

static void
write_upstreams(struct weir__sink *sink)
{
        struct weir_upstream *first = weir__upstream_next(NULL);

        for (size_t i = 0; i < sizeof of_members / sizeof *of_members && first; i++) {
                weir__expose_name(sink, of_members[i].name, of_members[i].type, of_members[i].help);
                for (struct weir_upstream *each = NULL; (each = weir__upstream_next(each));)
                        write_members(sink, each, i);
        }
        weir_upstream_unref(first);
}

/* -- names -- */

static void
write_resolver(struct weir__sink *sink)
{
        struct weir_resolver_stats stats;

        weir_resolver_stats(&stats);
        weir__expose_single(sink, "weir_resolver_hits_total", "counter", "Answers for names that were kept.",
                            (int64_t)stats.hits);
        weir__expose_single(sink, "weir_resolver_lookups_total", "counter", "Look-ups of names.", (int64_t)stats.misses);
        weir__expose_single(sink, "weir_resolver_joined_total", "counter", "Waits for a look-up that was under way.",
                            (int64_t)stats.joined);
        weir__expose_single(sink, "weir_resolver_failures_total", "counter", "Look-ups that have found no address.",
                            (int64_t)stats.failures);
        weir__expose_single(sink, "weir_resolver_entries", "gauge", "Answers that are kept.", (int64_t)stats.entries);
        weir__expose_single(sink, "weir_resolver_running", "gauge", "Look-ups that are under way.", (int64_t)stats.running);
}

/* -- all of it -- */

static void
write_all(struct weir__sink *sink, const struct weir__serving_report *servers, size_t count,
          const struct weir__stream_report *streams, size_t stream_count)
{
        weir__expose_name(sink, "weir_info", "gauge", "The version of the library.");
        weir__sink_printf(sink, "weir_info{version=\"%s\"} 1\n", weir_version());
        write_threads(sink);
        write_ready(sink);
        write_functions(sink);
        write_pending(sink);
        write_lateness(sink);
        weir__expose_single(sink, "weir_live_series", "gauge", "Series that have begun and not ended.",
                            (int64_t)weir__live_count());
        write_resolver(sink);
        write_held(sink);
        write_totals(sink, servers, count);
        write_requests(sink, servers, count);
        write_stream_totals(sink, streams, stream_count);
        write_upstreams(sink);
        weir__expose_parts(sink);
        weir__metrics_write_added(sink);
}

int
weir__metrics_write(struct weir__sink *sink)
{
        size_t count, stream_count;
        struct weir__serving_report *servers = weir__serving_reports(&count);
        struct weir__stream_report *streams = weir__stream_reports(&stream_count);
        bool is_short = !servers || !streams;

        if (!is_short)
                write_all(sink, servers, count, streams, stream_count);
        free(servers);
        free(streams);
        return is_short ? -ENOMEM : 0;
}

int
weir_metrics_write(int fd)
{
        struct weir__fd_sink sink;

        if (weir__phase_is_forked())
                return -ECHILD;
        weir__fd_sink_init(&sink, fd);
        int failed = weir__metrics_write(&sink.sink), broken = weir__sink_flush(&sink.sink);
        return failed ? failed : broken;
}
