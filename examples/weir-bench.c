/* weir-bench.c: asks a server again and again on many connections, and prints how fast and how late its responses are.
 *
 *     weir-bench [-c connections] [-d seconds | -n requests] [-t limit] [-m method] [-H "name: value"] [-b body] [-k] URL
 *
 * Default: 10 connections, for 10 seconds, GET.  -t: seconds for a request; -k: any certificate is good.  Ctrl-C ends it early,
 * and it prints what it has.
 *
 * Each connection is a series in which the callback of a request pushes the next one.  All of them race with the time and with
 * Ctrl-C.  The winner of the race ends the others: so no code of this file cancels anything. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/weir.h>

#define FIELDS   32
#define FAILURES 16
#define PAUSE    WEIR_MSEC(10) /* after a request that has failed: a server that is gone is not asked without end */

/* -- a histogram of latencies: powers of two, each in 32 equal parts.  A figure is at most 3 % too large. -- */

#define PARTS   UINT64_C(32)
#define BUCKETS (59 * PARTS)

struct histogram {
        _Atomic uint64_t counts[BUCKETS]; /* of requests, by nanoseconds */
        _Atomic uint64_t largest;
};

static size_t bucket_of(uint64_t value)
{
        unsigned shift = value < 2 * PARTS ? 0 : 58U - (unsigned)__builtin_clzll(value);

        return (size_t)(shift * PARTS + (value >> shift));
}

static uint64_t largest_of(size_t bucket)
{
        size_t shift = bucket < 2 * PARTS ? 0 : bucket / PARTS - 1;

        return ((bucket - shift * PARTS + 1) << shift) - 1;
}

static void histogram_add(struct histogram *histogram, uint64_t value)
{
        uint64_t largest = atomic_load_explicit(&histogram->largest, memory_order_relaxed);

        atomic_fetch_add_explicit(&histogram->counts[bucket_of(value)], 1, memory_order_relaxed);
        while (value > largest && !atomic_compare_exchange_weak(&histogram->largest, &largest, value)) {
        }
}

/* The value that this part of all values does not exceed. */
static uint64_t quantile(const struct histogram *histogram, uint64_t count, double part)
{
        uint64_t rank = (uint64_t)(part * (double)count), seen = 0;

        for (size_t i = 0; i < BUCKETS; i++) {
                seen += histogram->counts[i];
                if (seen > rank)
                        return largest_of(i) < histogram->largest ? largest_of(i) : histogram->largest;
        }
        return histogram->largest;
}

/* -- what is asked for -- */

struct bench {
        const char *url, *method, *body;
        const char *names[FIELDS], *values[FIELDS];
        unsigned field_count, connections;
        double seconds;  /* 0: no end but the number of requests */
        weir_nsec limit; /* of a request; 0: the client's own */
        bool accepts_any_certificate;

        weir_client *client;
        struct lane *lanes;     /* one for each connection */
        _Atomic int64_t left;   /* requests that may still begin */
        weir_nsec began, ended; /* instants */
        struct histogram latencies;
        struct {
                _Atomic int status; /* 0: free */
                _Atomic uint64_t count;
        } failures[FAILURES];
};

/* The requests of one connection, which follow each other. */
struct lane {
        _Alignas(64) struct bench *bench; /* it is written on one CPU, and its neighbour on another one */
        weir_nsec began;                  /* the request */
        uint64_t responses[6];            /* by the first digit of the status code */
        uint64_t bytes;                   /* of bodies */
};

static void note_failure(struct bench *bench, int status)
{
        for (size_t i = 0; i < FAILURES; i++) {
                int found = 0;

                if (atomic_compare_exchange_strong(&bench->failures[i].status, &found, status) || found == status) {
                        bench->failures[i].count++;
                        return;
                }
        }
}

/* -- requests -- */

static void ask(struct lane *lane, weir_series *series);

static void asked(weir_task *request, void *context)
{
        struct lane *lane = context;
        int status = weir_task_status(request);
        weir_series *series = weir_series_of(request);
        size_t size;

        if (status == -ECANCELED) /* the end has come before the response */
                return;
        if (status) {
                note_failure(lane->bench, status);
                weir_series_push(series, weir_timer_new(PAUSE, NULL, NULL));
        } else {
                histogram_add(&lane->bench->latencies, (uint64_t)(weir_now() - lane->began));
                lane->responses[weir_http_response_status(request) / 100 % 6]++;
                weir_http_response_body(request, &size);
                lane->bytes += size;
        }
        ask(lane, series);
}

static weir_task *request_new(const struct bench *bench, weir_task_fn *done, void *context)
{
        weir_task *request = weir_client_request_new(bench->client, bench->method, bench->url, done, context);

        for (unsigned i = 0; i < bench->field_count; i++)
                weir_http_request_add_header(request, bench->names[i], bench->values[i]);
        if (bench->body)
                weir_http_request_lend_body(request, bench->body, strlen(bench->body), NULL);
        if (bench->limit)
                weir_http_request_set_limit(request, WEIR_HTTP_LIMIT_WHOLE, bench->limit);
        return request;
}

static void ask(struct lane *lane, weir_series *series)
{
        if (atomic_fetch_sub_explicit(&lane->bench->left, 1, memory_order_relaxed) <= 0) {
                weir_series_push(series, weir_empty_new(NULL, NULL)); /* ends well: the last request may have failed */
                return;
        }
        lane->began = weir_now();
        weir_series_push(series, request_new(lane->bench, asked, lane));
}

static void begin_lane(weir_task *task, void *lane)
{
        if (weir_task_status(task) == 0)
                ask(lane, weir_series_of(task));
}

static void run(struct bench *bench)
{
        weir_task *race = weir_race_new(NULL, NULL), *all = weir_parallel_new(NULL, NULL);

        for (unsigned i = 0; i < bench->connections; i++) {
                weir_series *series = weir_series_new(NULL, NULL);

                bench->lanes[i].bench = bench;
                weir_series_push(series, weir_empty_new(begin_lane, &bench->lanes[i]));
                weir_parallel_add_series(all, series);
        }
        weir_race_add(race, all);
        weir_race_add(race, weir_signal_new(SIGINT, NULL, NULL));
        if (bench->seconds > 0)
                weir_race_add(race, weir_timer_new((weir_nsec)(bench->seconds * 1e9), NULL, NULL));
        bench->began = weir_now();
        weir_task_run(race);
        bench->ended = weir_now();
}

/* -- what is printed -- */

static void print_bytes(double bytes, const char *after)
{
        static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
        size_t unit = 0;

        for (; bytes >= 1000 && unit + 1 < sizeof units / sizeof *units; unit++)
                bytes /= 1000;
        printf("%.*f %s%s", unit ? 2 : 0, bytes, units[unit], after);
}

static void print_latencies(const struct histogram *latencies, uint64_t count)
{
        static const struct {
                const char *name;
                double part;
        } parts[] = {{"p50", 0.5}, {"p75", 0.75}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}};

        printf("latency ms ");
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
                printf("  %s %.3f", parts[i].name, (double)quantile(latencies, count, parts[i].part) / 1e6);
        printf("  max %.3f\n", (double)latencies->largest / 1e6);
}

/* Returns whether all requests have succeeded. */
static bool print(const struct bench *bench)
{
        double seconds = (double)(bench->ended - bench->began) / 1e9;
        uint64_t responses[6] = {0}, count = 0, bytes = 0;
        bool is_good = true;

        for (unsigned i = 0; i < bench->connections; i++) {
                bytes += bench->lanes[i].bytes;
                for (unsigned digit = 0; digit < 6; digit++)
                        responses[digit] += bench->lanes[i].responses[digit];
        }
        for (unsigned digit = 0; digit < 6; digit++)
                count += responses[digit];
        if (seconds <= 0)
                seconds = 1e-9;
        printf("%s %s, %u connections, %.2f s\n", bench->method, bench->url, bench->connections, seconds);
        printf("responses    %" PRIu64 ", %.0f a second\n", count, (double)count / seconds);
        for (unsigned digit = 0; digit < 6; digit++)
                if (responses[digit] && digit != 2)
                        printf("status %uxx   %" PRIu64 "\n", digit, responses[digit]);
        printf("bodies       ");
        print_bytes((double)bytes, ", ");
        print_bytes((double)bytes / seconds, " a second\n");
        if (count)
                print_latencies(&bench->latencies, count);
        for (size_t i = 0; i < FAILURES && bench->failures[i].status; i++) {
                printf("failed       %" PRIu64 ": %s\n", bench->failures[i].count, weir_strerror(bench->failures[i].status));
                is_good = false;
        }
        return is_good && count;
}

/* -- the command line -- */

/* "Name: value". */
static bool add_field(struct bench *bench, char *text)
{
        char *colon = strchr(text, ':');

        if (!colon || bench->field_count == FIELDS)
                return false;
        *colon = '\0';
        bench->names[bench->field_count] = text;
        bench->values[bench->field_count++] = colon + 1 + strspn(colon + 1, " ");
        return true;
}

static bool read_number(const char *text, double most, double *number)
{
        char *end;

        *number = strtod(text, &end);
        return end > text && !*end && *number > 0 && *number <= most;
}

static bool read_option(struct bench *bench, int option, char *value)
{
        double number = 0;

        switch (option) {
        case 'c':
                if (!read_number(value, 100000, &number) || number < 1)
                        return false;
                bench->connections = (unsigned)number;
                return true;
        case 'd': return read_number(value, 1e9, &bench->seconds);
        case 'n':
                if (!read_number(value, 1e15, &number) || number < 1)
                        return false;
                bench->left = (int64_t)number;
                return true;
        case 't':
                if (!read_number(value, 1e9, &number))
                        return false;
                bench->limit = (weir_nsec)(number * 1e9);
                return true;
        case 'm': bench->method = value; return true;
        case 'b': bench->body = value; return true;
        case 'H': return add_field(bench, value);
        case 'k': bench->accepts_any_certificate = true; return true;
        default: return false;
        }
}

static bool read_options(struct bench *bench, int argc, char *argv[])
{
        optind = 1;
        opterr = 0;
        for (int option; (option = getopt(argc, argv, "c:d:n:t:m:b:H:k")) >= 0;)
                if (!read_option(bench, option, optarg)) {
                        fprintf(stderr, "weir-bench: -%c: %s\n", option == '?' ? optopt : option,
                                option == '?' ? "no such option, or its value is missing" : "a bad value");
                        return false;
                }
        if (optind != argc - 1)
                return false;
        bench->url = argv[optind];
        bench->seconds = bench->seconds > 0 || bench->left ? bench->seconds : 10;
        bench->left = bench->left ? bench->left : INT64_MAX;
        bench->method = bench->method ? bench->method : bench->body ? "POST" : "GET";
        return true;
}

static bool make_client(struct bench *bench)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        struct weir_tls_config tls = WEIR_TLS_CONFIG_DEFAULT;

        tls.insecure = true;
        config.tls = bench->accepts_any_certificate ? weir_tls_client_new(&tls) : NULL;
        config.connections = bench->connections;
        config.max_body = SIZE_MAX;
        config.keep_coding = true;
        config.user_agent = "weir-bench";
        bench->client = weir_client_new(&config);
        weir_tls_unref(config.tls);
        bench->lanes = aligned_alloc(_Alignof(struct lane), bench->connections * sizeof *bench->lanes);
        if (bench->lanes)
                memset(bench->lanes, 0, bench->connections * sizeof *bench->lanes);
        return bench->client && bench->lanes;
}

/* One request that is never sent: what is wrong with it is in the log. */
static bool can_ask(const struct bench *bench)
{
        weir_series *series = weir_series_new(NULL, NULL);
        int failed = weir_series_push(series, request_new(bench, NULL, NULL));

        weir_series_dismiss(series);
        return !failed;
}

int main(int argc, char *argv[])
{
        struct bench *bench = calloc(1, sizeof *bench);
        int result = 2;

        if (!bench)
                return 2;
        bench->connections = 10;
        if (!read_options(bench, argc, argv)) {
                fprintf(stderr, "usage: weir-bench [-c connections] [-d seconds | -n requests] [-t limit] [-m method]\n"
                                "                  [-H \"name: value\"] [-b body] [-k] URL\n");
        } else if (make_client(bench) && can_ask(bench)) {
                run(bench);
                result = print(bench) ? 0 : 1;
        }
        weir_client_unref(bench->client);
        free(bench->lanes);
        free(bench);
        weir_shutdown();
        return result;
}
