/* database/pq/exchange.c: what goes to the server, and what comes back.
 *
 * A link without a pipeline has one query at a time.  A statement that is to be prepared goes in steps then: PREPARE, and behind
 * its answer the execution.  In a pipeline both go at once, and each query ends with a synchronisation, so that each is a
 * transaction of its own.
 *
 * Threads: those that hold the link's lock. */
#include "database/pq/pq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* -- sending -- */

static void
append(struct weir__pq_link *link, struct weir__pq_query *query)
{
        query->behind = NULL;
        *(link->first ? &link->last->behind : &link->first) = query;
        link->last = query;
}

static bool
has_pipeline(const struct weir__pq_link *link)
{
        return PQpipelineStatus(link->connection) != PQ_PIPELINE_OFF;
}

/* Statements go in a pipeline if the pool has any, all else does not.  The link has no other query if that is to change. */
static int
choose_mode(struct weir__pq_link *link, const struct weir__pq_query *query)
{
        bool wants = query->kind == WEIR__PQ_STATEMENT && link->pool->config.pipeline > 1;

        if (wants == has_pipeline(link))
                return 1;
        return wants ? PQenterPipelineMode(link->connection) : PQexitPipelineMode(link->connection);
}

static const char *
name_of(const struct weir__pq_query *query, char name[5 + WEIR__PQ_DIGITS])
{
        memcpy(name, "weir_", 5);
        weir__pq_write_number(name + 5, query->statement);
        return name;
}

static int
execute(struct weir__pq_link *link, struct weir__pq_query *query)
{
        char name[5 + WEIR__PQ_DIGITS];

        query->stage = WEIR__PQ_EXECUTE;
        query->due++;
        return PQsendQueryPrepared(link->connection, name_of(query, name), query->count, (const char *const *)query->values,
                                   query->sizes, query->formats, query->is_binary);
}

static int
deallocate(struct weir__pq_link *link, struct weir__pq_query *query)
{
        weir__pq_statement_remove_all(link);
        query->stage = WEIR__PQ_DEALLOCATE;
        query->due++;
        return PQsendQueryParams(link->connection, "DEALLOCATE ALL", 0, NULL, NULL, NULL, NULL, 0);
}

/* The next step of a statement that is to be prepared; in a pipeline all of them. */
static int
send_prepared(struct weir__pq_link *link, struct weir__pq_query *query)
{
        char name[5 + WEIR__PQ_DIGITS];

        query->statement = weir__pq_statement_find(link, query);
        if (query->statement)
                return execute(link, query);
        if (link->statement_count >= link->pool->config.statements) {
                int sent = deallocate(link, query);

                if (!sent || !has_pipeline(link))
                        return sent;
        }
        query->statement = weir__pq_statement_add(link, query);
        if (!query->statement)
                return 0;
        query->stage = WEIR__PQ_PREPARE;
        query->due++;
        int sent = PQsendPrepare(link->connection, name_of(query, name), query->base.sql, query->count, query->types);
        return sent && has_pipeline(link) ? execute(link, query) : sent;
}

/* One that is repeated goes without a statement of the server's: in a pipeline nobody knows yet whether that will be there. */
static int
send_statement(struct weir__pq_link *link, struct weir__pq_query *query)
{
        bool uses_statement = query->is_prepared && !query->was_repeated;

        query->due = !uses_statement;
        int sent = uses_statement ? send_prepared(link, query)
                                  : PQsendQueryParams(link->connection, query->base.sql, query->count, query->types,
                                                      (const char *const *)query->values, query->sizes, query->formats,
                                                      query->is_binary);

        return sent && has_pipeline(link) ? PQpipelineSync(link->connection) : sent;
}

/* Returns whether libpq has taken it. */
static bool
submit(struct weir__pq_link *link, struct weir__pq_query *query)
{
        if (!choose_mode(link, query))
                return false;
        int sent = query->kind == WEIR__PQ_SCRIPT ? PQsendQuery(link->connection, query->base.sql) : send_statement(link, query);
        if (!sent || query->stage != WEIR__PQ_EXECUTE || !(query->rows || weir__pq_is_bounded(link->pool)))
                return sent;
        link->has_single_rows = link->pool->config.pipeline > 1;
        return PQsetSingleRowMode(link->connection);
}

/* Whether the server has closed it while nobody looked.  An event on its way would say so, but the query may be faster. */
static bool
is_stale(struct weir__pq_link *link)
{
        char byte;

        if (link->first || !link->should_check)
                return false;
        link->should_check = false;
        ssize_t size = recv(link->watched, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        return size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR);
}

static void
send_one(struct weir__pq_link *link, struct weir__pq_query *query, struct weir__pq_after *after)
{
        if (link->state == WEIR__PQ_READY && is_stale(link))
                weir__pq_link_fail(link, -ECONNRESET, "the server has closed the connection", after);
        if (link->state != WEIR__PQ_READY) {
                weir__pq_requeue(query, after);
                return;
        }
        if (query->kind == WEIR__PQ_LEASE) {
                weir__pq_finish(query, weir__pq_grant(query, link) ? 0 : -ECANCELED, NULL, after);
                return;
        }
        if (query->base.is_commit ? !weir__pq_hold(query) : !weir__pq_is_wanted(query)) {
                weir__pq_finish(query, -ECANCELED, NULL, after);
                return;
        }
        if (submit(link, query)) {
                append(link, query);
                return;
        }
        bool is_lost = PQstatus(link->connection) == CONNECTION_BAD;
        if (!is_lost)
                append(link, query); /* it has the failure */
        weir__pq_link_fail(link, is_lost ? -ECONNRESET : -ENOMEM, PQerrorMessage(link->connection), after);
        if (is_lost)
                weir__pq_requeue(query, after);
}

void
weir__pq_link_send(struct weir__pq_link *link, struct weir__pq_query *query, struct weir__pq_after *after)
{
        send_one(link, query, after);
        weir__pq_link_rest(link, after);
        weir__pq_link_wait(link, after);
}

/* -- between queries -- */

/* Ends a transaction that a query or its flow has left open.  Or it sends nothing: the first statement of a pipeline would be in
 * libpq's mode of single rows, if the one before the pipeline was. */
static void
clean(struct weir__pq_link *link, struct weir__pq_after *after)
{
        const char *sql = link->has_single_rows ? "" : "ROLLBACK";

        weir__pq_link_set_limit(link, link->pool->config.clean_limit);
        link->is_cleaning = true;
        link->has_single_rows = false;
        if ((has_pipeline(link) && !PQexitPipelineMode(link->connection)) || !PQsendQuery(link->connection, sql))
                weir__pq_link_fail(link, -ECONNRESET, PQerrorMessage(link->connection), after);
}

static bool
is_clean(const struct weir__pq_link *link)
{
        return PQtransactionStatus(link->connection) == PQTRANS_IDLE;
}

/* Whether the transaction that has the link wants it as it is.  The holder changes under both locks. */
static bool
is_held(const struct weir__pq_link *link)
{
        return link->holder;
}

/* The link takes what it can have.  Without a query it becomes idle. */
void
weir__pq_link_rest(struct weir__pq_link *link, struct weir__pq_after *after)
{
        while (link->state == WEIR__PQ_READY && !link->is_cancelling && !link->is_cleaning) {
                struct weir__pq_query *query = NULL;
                bool should_close = false;

                if (PQstatus(link->connection) == CONNECTION_BAD) {
                        weir__pq_link_fail(link, -ECONNRESET, PQerrorMessage(link->connection), after);
                        return;
                }
                if (!link->first && (link->has_single_rows || (!is_held(link) && !is_clean(link)))) {
                        clean(link, after);
                        return;
                }
                if (!link->first)
                        weir__pq_link_set_limit(link, WEIR_FOREVER);
                else if (link->pool->config.pipeline == 1)
                        return;
                if (!link->first || !link->has_limit)
                        query = weir__pq_next(link, &should_close);
                if (should_close)
                        weir__pq_link_fail(link, 0, NULL, after);
                if (!query)
                        return;
                send_one(link, query, after);
        }
}

/* -- results -- */

static char *
copy_line(const char *text)
{
        size_t size = strlen(text);

        while (size > 0 && text[size - 1] == '\n')
                size--;
        return strndup(text, size);
}

static void
note_failure(struct weir__pq_link *link, struct weir__pq_query *query, PGresult *result)
{
        struct weir__pq_outcome *outcome = &query->outcome;
        const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);

        if (outcome->status) { /* the first one counts */
                PQclear(result);
                return;
        }
        bool is_lost = !sqlstate && PQstatus(link->connection) == CONNECTION_BAD;
        outcome->problem = copy_line(PQresultErrorMessage(result));
        outcome->status = is_lost    ? -ECONNRESET
                          : sqlstate ? weir__pq_status(sqlstate)
                                     : weir__pq_own_status(PQresultErrorMessage(result));
        PQclear(outcome->result);
        PQclear(outcome->rows);
        outcome->result = result;
        outcome->rows = NULL;
}

static void
note_success(struct weir__pq_query *query, PGresult *result)
{
        struct weir__pq_outcome *outcome = &query->outcome;

        if (outcome->status || query->stage == WEIR__PQ_DEALLOCATE) {
                PQclear(result);
                return;
        }
        if (outcome->result) { /* else the rows are its own */
                PQclear(outcome->rows);
                outcome->rows = NULL;
        }
        PQclear(outcome->result);
        outcome->result = result;
}

static void
forget_outcome(struct weir__pq_query *query)
{
        PQclear(query->outcome.result);
        PQclear(query->outcome.rows);
        free(query->outcome.problem);
        query->outcome = (struct weir__pq_outcome){0};
}

/* Whether the server has forgotten the statement, or its plan is outdated: then it was not executed. */
static bool
is_outdated(const struct weir__pq_query *query)
{
        const char *code = query->outcome.status ? PQresultErrorField(query->outcome.result, PG_DIAG_SQLSTATE) : NULL;

        return query->is_prepared && code && query->stage == WEIR__PQ_EXECUTE &&
               (strcmp(code, "26000") == 0 || strcmp(code, "0A000") == 0);
}

static void
resend(struct weir__pq_link *link, struct weir__pq_query *query, struct weir__pq_after *after)
{
        append(link, query);
        if (!submit(link, query))
                weir__pq_link_fail(link, -ECONNRESET, PQerrorMessage(link->connection), after);
}

/* The oldest query has all its results. */
static void
complete(struct weir__pq_link *link, struct weir__pq_after *after)
{
        struct weir__pq_query *query = link->first;
        int status = query->outcome.status;

        if (!status && !query->outcome.result && query->stage != WEIR__PQ_DEALLOCATE) {
                weir__pq_link_fail(link, -EPROTO, "the server has sent no result", after);
                return;
        }
        link->first = query->behind;
        link->copy = WEIR__PQ_NO_COPY;
        bool is_gone = is_outdated(query);
        if (is_gone || (status && query->stage == WEIR__PQ_PREPARE))
                weir__pq_statement_remove(link, query);
        bool is_step = !status && query->stage != WEIR__PQ_EXECUTE;
        bool should_repeat = is_gone && !query->was_repeated && (is_clean(link) || (has_pipeline(link) && link->first));
        if ((is_step || should_repeat) && weir__pq_is_wanted(query)) {
                query->was_repeated |= should_repeat;
                forget_outcome(query);
                resend(link, query, after);
                return;
        }
        weir__pq_finish(query, status, NULL, after);
        if (status == -ECONNRESET) /* the server has said that it ends */
                weir__pq_link_fail(link, status, "the server has ended the connection", after);
        weir__pq_link_cancel_needless(link, after);
        weir__pq_link_rest(link, after);
}

static void
is_cleaned(struct weir__pq_link *link, struct weir__pq_after *after)
{
        link->is_cleaning = false;
        if (is_clean(link) || is_held(link))
                weir__pq_link_rest(link, after);
        else
                weir__pq_link_fail(link, -EPROTO, "a transaction cannot be rolled back", after);
}

#define LOST "libpq has lost an answer: it had no memory"

/* In a pipeline that has not broken: whether a result is not the oldest query's, or that has not had all of its own.  libpq
 * without memory for the end of a query leaves it out.  Then all that comes belongs to the next one. */
static bool
is_out_of_step(struct weir__pq_query *query, ExecStatusType what)
{
        switch (what) {
        case PGRES_PIPELINE_SYNC: return query->due != 0;
        case PGRES_SINGLE_TUPLE:
        case PGRES_COPY_IN:
        case PGRES_COPY_OUT:
        case PGRES_COPY_BOTH: return false;
        default: return query->due-- == 0;
        }
}

static void
take_result(struct weir__pq_link *link, PGresult *result, struct weir__pq_after *after)
{
        ExecStatusType what = PQresultStatus(result);
        struct weir__pq_query *query = link->first;

        if (has_pipeline(link) && PQstatus(link->connection) != CONNECTION_BAD && is_out_of_step(query, what)) {
                PQclear(result);
                weir__pq_link_fail(link, -ENOMEM, LOST, after);
                return;
        }
        switch (what) {
        case PGRES_PIPELINE_SYNC:
                PQclear(result);
                complete(link, after);
                break;
        case PGRES_COMMAND_OK:
        case PGRES_TUPLES_OK:
        case PGRES_EMPTY_QUERY: note_success(query, result); break;
        case PGRES_SINGLE_TUPLE: (query->rows ? weir__pq_stream_row : weir__pq_keep_row)(link, result, after); break;
        case PGRES_COPY_IN:
        case PGRES_COPY_OUT:
        case PGRES_COPY_BOTH:
                PQclear(result);
                weir__pq_stream_begin(link, what, after);
                break;
        default: note_failure(link, query, result);
        }
}

static bool
takes_results(const struct weir__pq_link *link)
{
        return link->state == WEIR__PQ_READY && (link->first || link->is_cleaning) && !link->pause && !link->copy;
}

/* Takes the results that can be had without waiting.  In a pipeline libpq returns one NULL between two results.  Two in a row
 * mean that the connection broke, or that memory was missing.  A longer error text without a result means that one was lost. */
static void
receive_some(struct weir__pq_link *link, struct weir__pq_after *after)
{
        unsigned nulls = 0;
        size_t said = strlen(PQerrorMessage(link->connection));

        while (takes_results(link) && nulls < 2 && !PQisBusy(link->connection)) {
                PGresult *result = PQgetResult(link->connection);

                nulls = result ? 0 : nulls + 1;
                if (!link->is_cleaning && result)
                        take_result(link, result, after);
                else if (result)
                        PQclear(result);
                else if (link->is_cleaning)
                        is_cleaned(link, after);
                else if (!has_pipeline(link))
                        complete(link, after);
                if (link->state == WEIR__PQ_READY)
                        said = strlen(PQerrorMessage(link->connection));
        }
        if (takes_results(link) && has_pipeline(link) && PQstatus(link->connection) != CONNECTION_BAD &&
            (nulls == 2 || strlen(PQerrorMessage(link->connection)) > said))
                weir__pq_link_fail(link, -ENOMEM, LOST, after);
}

/* libpq without memory for the begin of a COPY says nothing, and goes on when it looks at its buffer again, as it does for
 * notifications. */
static void
receive(struct weir__pq_link *link, struct weir__pq_after *after)
{
        do {
                receive_some(link, after);
                weir__pq_hear(link);
        } while (takes_results(link) && PQstatus(link->connection) != CONNECTION_BAD && !PQisBusy(link->connection));
}

/* Reads up to three times with TLS: what libpq's buffer has no room for stays in OpenSSL's, and epoll does not report that. */
static bool
consume(PGconn *connection)
{
        bool is_there = PQconsumeInput(connection);

        for (unsigned i = 0; i < 2 && is_there && PQsslInUse(connection); i++)
                is_there = PQconsumeInput(connection);
        return is_there;
}

/* Goes on after a pause.  libpq may already have input in its memory, which epoll does not report. */
void
weir__pq_link_go_on(struct weir__pq_link *link, struct weir__pq_after *after)
{
        weir__pq_stream_go_on(link, after);
        receive(link, after);
        weir__pq_link_wait(link, after);
}

/* libpq adds to its text: that of the last statement that has failed stands before the reason why the connection broke. */
struct former {
        char begin[64];
        size_t size;
};

static struct former
former_of(PGconn *connection)
{
        const char *text = PQerrorMessage(connection);
        struct former former = {.size = strlen(text)};

        memcpy(former.begin, text, former.size < sizeof former.begin ? former.size : sizeof former.begin);
        return former;
}

static const char *
problem_behind(PGconn *connection, const struct former *former)
{
        const char *text = PQerrorMessage(connection);
        size_t compared = former->size < sizeof former->begin ? former->size : sizeof former->begin;

        return strlen(text) > former->size && strncmp(text, former->begin, compared) == 0 ? text + former->size : text;
}

void
weir__pq_link_work(struct weir__pq_link *link, struct weir__pq_after *after)
{
        if (link->pause && link->copy != WEIR__PQ_COPY_IN)
                return;
        const struct former former = former_of(link->connection);
        if (link->copy == WEIR__PQ_COPY_IN)
                weir__pq_stream_look(link, after);
        if (link->state != WEIR__PQ_READY)
                return;
        bool is_there = consume(link->connection);
        weir__pq_stream_go_on(link, after);
        receive(link, after);
        if (link->state == WEIR__PQ_READY && !link->pause && (!is_there || PQstatus(link->connection) == CONNECTION_BAD))
                weir__pq_link_fail(link, -ECONNRESET, problem_behind(link->connection, &former), after);
        weir__pq_link_wait(link, after);
}
