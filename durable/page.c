/* durable/page.c: the page of a store: its figures, counts, the timers that are due next, and the dead ones.
 *
 * Threads: callbacks of the exchange's series.
 *
 * The page is written in pieces, in the order in which it is read: one when the request comes, and one in the callback of each
 * operation, which then pushes the next one into the series of the exchange.  So nothing is kept between them but the exchange.
 * Each operation has a limit of its own.  One that fails leaves its piece out, and the reply is a 503. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <time.h>

#include <weir/flow.h>
#include <weir/http.h>
#include <weir/http_fields.h>
#include <weir/runtime.h>

#include "durable/store.h"
#include "durable/text.h"

#define OPERATION_LIMIT WEIR_SEC(3)
#define PAGE_ROWS       100 /* unless the query says another number */
#define ROWS_MOST       1000

/* -- texts: a name may have been chosen by a stranger -- */

static const char *
entity(char byte)
{
        switch (byte) {
        case '&': return "&amp;";
        case '<': return "&lt;";
        case '>': return "&gt;";
        case '"': return "&quot;";
        case '\'': return "&#39;";
        default: return NULL;
        }
}

/* Appends any bytes up to a NUL.  Those that cannot be seen become \x1b and the like. */
static void
put_text(weir_task *exchange, const char *text)
{
        char out[1024];
        size_t used = 0;

        while (*text) {
                uint32_t code;
                unsigned size = weir__durable_read_character(text, &code);
                const char *replaced = entity(*text);

                if (used > sizeof out - 32) { /* a character takes 16 bytes at most */
                        weir_http_reply_append(exchange, out, used);
                        used = 0;
                }
                if (replaced)
                        used = (size_t)(stpcpy(out + used, replaced) - out);
                for (unsigned i = 0; !replaced && i < (size ? size : 1); i++)
                        if (size && weir__durable_is_visible(code))
                                out[used++] = text[i];
                        else
                                used += (size_t)snprintf(out + used, sizeof out - used, "\\x%02x", (unsigned char)text[i]);
                text += size ? size : 1;
        }
        weir_http_reply_append(exchange, out, used);
}

#define TIME_SIZE 64

/* "2026-11-26T04:30:00Z".  Returns `out`. */
static const char *
date_of(char out[TIME_SIZE], weir_nsec wall)
{
        time_t second = (time_t)(wall / WEIR_SEC(1));
        struct tm date;

        if (wall == WEIR_FOREVER || !gmtime_r(&second, &date) || !strftime(out, TIME_SIZE, "%Y-%m-%dT%H:%M:%SZ", &date))
                snprintf(out, TIME_SIZE, "never");
        return out;
}

/* "in 3.5 s", "2 h ago".  Returns `out`. */
static const char *
distance_of(char out[TIME_SIZE], weir_nsec wall, weir_nsec now)
{
        static const struct {
                const char *name;
                double seconds;
        } units[] = {{"d", 86400}, {"h", 3600}, {"min", 60}, {"s", 1}, {"ms", 0.001}};
        double seconds = (double)weir__durable_add(wall, -now) / 1e9, size = seconds < 0 ? -seconds : seconds;
        unsigned unit = 0;

        while (unit < 4 && size < 2 * units[unit].seconds)
                unit++;
        snprintf(out, TIME_SIZE, seconds < 0 ? "%.3g %s ago" : "in %.3g %s", size / units[unit].seconds, units[unit].name);
        return wall == WEIR_FOREVER ? "never" : out;
}

static const char *
state_of(const struct weir_durable_info *timer)
{
        static const char *const words[] = {"pending", "leased", "dead"};

        return timer->state == WEIR_DURABLE_PENDING && timer->attempt ? "failed" : words[timer->state];
}

/* -- what the request wants -- */

static bool
is_json(const weir_task *exchange)
{
        const char *format = weir_http_query_value(exchange, "format");

        return format && strcmp(format, "json") == 0;
}

static size_t
rows_of(const weir_task *exchange)
{
        const char *text = weir_http_query_value(exchange, "limit");
        long rows = text ? strtol(text, NULL, 10) : 0;

        return rows < 1 ? PAGE_ROWS : rows < ROWS_MOST ? (size_t)rows : ROWS_MOST;
}

/* -- pieces -- */

static const char style[] =
        ":root{color-scheme:light dark}body{font:14px/1.45 system-ui,sans-serif;margin:0 auto;max-width:1280px;"
        "padding:1.2em}h1{font-size:1.35em;margin:0 0 .2em}h2{font-size:1.05em;margin:1.8em 0 .4em}"
        "table{border-collapse:collapse;width:100%}th{text-align:left;opacity:.7}"
        "td,th{padding:.2em .8em .2em 0;vertical-align:top;overflow-wrap:anywhere;border-bottom:1px solid #8884}"
        ".name{font:13px/1.45 ui-monospace,monospace;font-weight:600}.cut{color:#c62828;font-weight:600}";

struct figure {
        const char *name, *label;
        uint64_t value;
};

#define FIGURES 12

static void
read_figures(weir_durable *store, struct figure figures[FIGURES])
{
        struct weir_durable_stats stats = WEIR_DURABLE_STATS_DEFAULT;

        weir_durable_stats(store, &stats);
        const struct figure all[FIGURES] = {
                {"running", "running now", stats.running},
                {"operations", "operations", stats.operations},
                {"failed", "of them failed", stats.failed},
                {"claimed", "claimed", stats.claimed},
                {"acknowledged", "acknowledged", stats.acknowledged},
                {"retried", "retried", stats.retried},
                {"died", "died", stats.dead},
                {"put_back", "put back", stats.put_back},
                {"lost", "leases lost", stats.lost},
                {"skipped", "skipped", stats.skipped},
                {"looks", "looks", stats.looks},
                {"rings", "rings", stats.rings},
        };
        memcpy(figures, all, sizeof all);
}

static void
put_head(weir_task *exchange, weir_durable *store, uint64_t nonce)
{
        struct figure figures[FIGURES];
        const char *between = "";

        read_figures(store, figures);
        if (is_json(exchange)) {
                weir_http_reply_printf(exchange, "{\"node\":\"%s\",\"figures\":{", weir_http_escape_json(exchange, store->node));
                for (unsigned i = 0; i < FIGURES; i++, between = ",")
                        weir_http_reply_printf(exchange, "%s\"%s\":%" PRIu64, between, figures[i].name, figures[i].value);
                weir_http_reply_printf(exchange, "}");
                return;
        }
        weir_http_reply_printf(exchange,
                               "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8><title>Durable timers</title>\n"
                               "<meta name=viewport content=\"width=device-width\">\n<style nonce=\"%016" PRIx64
                               "\">%s</style></head><body>\n<h1>Durable timers</h1>\n<p>Node <bdi class=name>",
                               nonce, style);
        put_text(exchange, store->node);
        weir_http_reply_printf(exchange, "</bdi>: ");
        for (unsigned i = 0; i < FIGURES; i++, between = " · ")
                weir_http_reply_printf(exchange, "%s%s %" PRIu64, between, figures[i].label, figures[i].value);
        weir_http_reply_printf(exchange, "</p>\n");
}

static void
put_end(weir_task *exchange)
{
        weir_http_reply_printf(exchange, is_json(exchange) ? "}\n" : "</body></html>\n");
}

/* An operation has failed: its piece is missing. */
static void
put_problem(weir_task *exchange, const char *what, const weir_task *task)
{
        const char *problem = weir_durable_problem(task);

        weir_http_reply_status(exchange, 503);
        if (is_json(exchange)) {
                weir_http_reply_printf(exchange, ",\"%s_problem\":\"%s\"", what, weir_http_escape_json(exchange, problem));
                return;
        }
        weir_http_reply_printf(exchange, "<p class=cut>No answer (%s): <bdi>", what);
        put_text(exchange, problem);
        weir_http_reply_printf(exchange, "</bdi></p>\n");
}

static void
put_json(weir_task *exchange, const struct weir_durable_info *timer, const char *between)
{
        char due[TIME_SIZE], ready[TIME_SIZE];

        weir_http_reply_printf(
                exchange, "%s\n{\"name\":\"%s\",\"topic\":\"%s\",\"state\":\"%s\",\"attempt\":%u,\"due\":\"%s\",\"ready\":\"%s\"",
                between, weir_http_escape_json(exchange, timer->name), weir_http_escape_json(exchange, timer->topic),
                state_of(timer), timer->attempt, date_of(due, timer->due), date_of(ready, timer->ready));
        weir_http_reply_printf(exchange, ",\"node\":\"%s\",\"problem\":\"%s\",\"schedule\":\"%s\"}",
                               weir_http_escape_json(exchange, timer->node), weir_http_escape_json(exchange, timer->problem),
                               weir_http_escape_json(exchange, timer->cron));
}

static void
put_cell(weir_task *exchange, const char *class, const char *text)
{
        weir_http_reply_printf(exchange, "<td><bdi class=%s>", class);
        put_text(exchange, text);
        weir_http_reply_printf(exchange, "</bdi>");
}

static void
put_row(weir_task *exchange, const struct weir_durable_info *timer, weir_nsec now)
{
        char date[TIME_SIZE], distance[TIME_SIZE];

        weir_http_reply_printf(exchange, "<tr>");
        put_cell(exchange, "name", timer->name);
        put_cell(exchange, "topic", timer->topic);
        weir_http_reply_printf(exchange, "<td>%s<td>%u<td>%s<td>%s", state_of(timer), timer->attempt, date_of(date, timer->due),
                               timer->state == WEIR_DURABLE_DEAD ? "" : distance_of(distance, timer->ready, now));
        put_cell(exchange, "node", timer->node);
        put_cell(exchange, "problem", timer->problem);
        put_cell(exchange, "schedule", timer->cron);
        weir_http_reply_printf(exchange, "\n");
}

static void
put_list(weir_task *exchange, const char *what, const char *title, const weir_task *list)
{
        const struct weir_durable_info *timer;
        weir_nsec now = weir__durable_op_of(list)->now;
        bool json = is_json(exchange);
        size_t count = 0;

        if (json)
                weir_http_reply_printf(exchange, ",\"%s\":[", what);
        for (; (timer = weir_durable_info(list, count)) != NULL; count++) {
                if (!json && count == 0)
                        weir_http_reply_printf(
                                exchange,
                                "<h2>%s</h2>\n<table><thead><tr><th>Name<th>Topic<th>State<th>Attempt<th>Due<th>Ready"
                                "<th>Node<th>Last failure<th>Schedule</thead>\n",
                                title);
                if (json)
                        put_json(exchange, timer, count ? "," : "");
                else
                        put_row(exchange, timer, now);
        }
        if (json)
                weir_http_reply_printf(exchange, "]");
        else if (count)
                weir_http_reply_printf(exchange, "</table>\n");
        if (!json && count == rows_of(exchange) && count < ROWS_MOST)
                weir_http_reply_printf(exchange, "<p>There may be more: <a href=\"?limit=%d\">limit=%d</a></p>\n", ROWS_MOST,
                                       ROWS_MOST);
}

/* A thousand long names take some milliseconds: another worker does all other work meanwhile. */
static void
put_rows(weir_task *exchange, const char *what, const char *title, const weir_task *list)
{
        (void)weir_blocking_begin(); /* without an idle worker the list is written all the same */
        put_list(exchange, what, title, list);
        weir_blocking_end();
}

/* -- the operations, one after the other -- */

/* The next one.  It has the limit for itself. */
static void
push(weir_task *exchange, weir_task *operation)
{
        weir_series_push(weir_series_of(exchange), weir_timeout_new(operation, OPERATION_LIMIT));
}

/* Whether more can be asked: an engine that refuses is asked once, one that takes too long for one thing may have another. */
static bool
goes_on(const weir_task *operation)
{
        return weir_task_status(operation) == 0 || weir_task_status(operation) == -ETIMEDOUT;
}

static void
on_dead(weir_task *list, void *exchange)
{
        if (weir_task_status(list))
                put_problem(exchange, "dead", list);
        else
                put_rows(exchange, "dead", "Dead", list);
        put_end(exchange);
}

static void
on_next(weir_task *list, void *exchange)
{
        const struct weir__durable_op *op = weir__durable_op_of(list);

        if (weir_task_status(list))
                put_problem(exchange, "next", list);
        else
                put_rows(exchange, "next", op->by_ready ? "Next" : "By name", list);
        if (goes_on(list))
                push(exchange, weir__durable_summary_new(op->store, rows_of(exchange), true, on_dead, exchange));
        else
                put_end(exchange);
}

static void
on_count(weir_task *count, void *exchange)
{
        const struct weir__durable_op *op = weir__durable_op_of(count);

        if (weir_task_status(count))
                put_problem(exchange, "counts", count);
        else
                weir_http_reply_printf(
                        exchange,
                        is_json(exchange) ? ",\"counts\":{\"pending\":%" PRIu64 ",\"leased\":%" PRIu64 ",\"dead\":%" PRIu64 "}"
                                          : "<p>Pending %" PRIu64 " · leased %" PRIu64 " · dead %" PRIu64 "</p>\n",
                        op->counts[WEIR_DURABLE_PENDING], op->counts[WEIR_DURABLE_LEASED], op->counts[WEIR_DURABLE_DEAD]);
        if (goes_on(count))
                push(exchange, weir__durable_summary_new(op->store, rows_of(exchange), false, on_next, exchange));
        else
                put_end(exchange);
}

/* Only the page's own style is used, and nothing is fetched, even if a name got into the page as markup. */
static void
begin(weir_task *exchange, weir_durable *store)
{
        uint64_t nonce = 0;
        char policy[160];

        if (getrandom(&nonce, sizeof nonce, 0) != sizeof nonce)
                nonce = 0; /* then it is without its style */
        snprintf(policy, sizeof policy,
                 "default-src 'none'; style-src '%s%016" PRIx64 "'; base-uri 'none'; frame-ancestors 'none'",
                 nonce ? "nonce-" : "", nonce);
        weir_http_reply_set_header(exchange, "Content-Security-Policy", policy);
        weir_http_reply_set_header(exchange, "Content-Type", is_json(exchange) ? "application/json" : "text/html; charset=utf-8");
        weir_http_reply_set_header(exchange, "Cache-Control", "no-store");
        weir_http_reply_set_header(exchange, "X-Content-Type-Options", "nosniff");
        put_head(exchange, store, nonce);
        push(exchange, weir_durable_count_new(store, "", on_count, exchange));
}

/* -- the right to read -- */

/* An address without a port. */
static bool
is_loopback(const char *address)
{
        struct in_addr v4;
        struct in6_addr v6;

        if (strcmp(address, "unix:") == 0)
                return true;
        if (inet_pton(AF_INET, address, &v4) == 1)
                return ntohl(v4.s_addr) >> 24 == 127;
        return inet_pton(AF_INET6, address, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

/* Empty, "localhost", a name below it, or a loopback address; a port may follow. */
static bool
is_local_host(const char *host)
{
        static const char localhost[] = "localhost";
        bool has_brackets = *host == '[';
        size_t size = strcspn(host + has_brackets, has_brackets ? "]" : ":"), length = sizeof localhost - 1;
        char name[64];

        if (size == 0)
                return true;
        if (size >= length && strncasecmp(host + size - length, localhost, length) == 0 && !has_brackets)
                return size == length || host[size - length - 1] == '.';
        snprintf(name, sizeof name, "%.*s", size < sizeof name ? (int)size : 0, host + has_brackets);
        return strcmp(name, "unix:") != 0 && is_loopback(name);
}

static bool
is_from_here(const weir_task *exchange)
{
        static const char *const fields[] = {"Forwarded", "X-Forwarded-For", "X-Real-IP", "Via"};
        const char *peer = weir_http_peer_address(exchange), *client = weir_http_client_address(exchange);
        const char *host = weir_http_host(exchange);
        bool is_unix = peer && strcmp(peer, "unix:") == 0;

        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
                if (weir_http_request_header(exchange, fields[i]))
                        return false;
        return peer && client && (is_unix || is_local_host(peer)) && is_loopback(client) && is_local_host(host ? host : "");
}

void
weir_durable_page_trusted(weir_task *exchange, void *store)
{
        const char *method = weir_http_method(exchange);

        if (!method)
                return;
        if (!store) {
                weir_http_reply_text(exchange, 503, "There is no store.\n");
        } else if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
                weir_http_reply_set_header(exchange, "Allow", "GET, HEAD");
                weir_http_reply_text(exchange, 405, "Method not allowed\n");
        } else {
                begin(exchange, store);
        }
}

void
weir_durable_page(weir_task *exchange, void *store)
{
        if (weir_http_method(exchange) && !is_from_here(exchange))
                weir_http_reply_text(exchange, 403, "Forbidden\n");
        else
                weir_durable_page_trusted(exchange, store);
}
