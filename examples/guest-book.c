/* guest-book.c: a guest book in an SQLite database.
 *
 *     guest-book [address [file]]      default 127.0.0.1:8888 guest-book.db
 *
 *     POST /entries   name=Ada&text=hello      signs the book: 201, or 409 if that name has signed
 *     GET  /entries                            the last 20 entries, one a line
 *
 * A handler pushes a statement into the series of its exchange, and the callback of the statement replies.  Many guests who
 * sign at once share a commit.  If a guest leaves before that, the series is cancelled, and nothing is written for nobody. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/sqlite.h>
#include <weir/weir.h>

static weir_sqlite *book;

static int make_table(weir_sqlite_connection *connection, void *context)
{
        (void)context;
        return weir_sqlite_run(connection, "CREATE TABLE IF NOT EXISTS entries(name TEXT UNIQUE, text TEXT)");
}

static void on_signed(weir_task *insert, void *exchange)
{
        if (weir_task_status(insert) == -EEXIST)
                weir_http_reply_text(exchange, 409, "this name has signed\n");
        else if (weir_task_status(insert))
                weir_http_reply_text(exchange, 503, weir_sqlite_problem(insert));
        else
                weir_http_reply_status(exchange, 201); /* it is on the disk */
}

static void on_sign(weir_task *exchange, void *context)
{
        const char *name = weir_http_form_value(exchange, "name"), *text = weir_http_form_value(exchange, "text");

        (void)context;
        if (!name || !text) {
                weir_http_reply_text(exchange, 400, "wanted: name=NAME&text=WORDS\n");
                return;
        }
        weir_task *insert = weir_sqlite_exec_new(book, "INSERT INTO entries VALUES (?, ?)", on_signed, exchange);
        weir_sqlite_bind_text(insert, 1, name, SIZE_MAX);
        weir_sqlite_bind_text(insert, 2, text, SIZE_MAX);
        weir_series_push(weir_series_of(exchange), insert);
}

static void on_entries(weir_task *query, void *exchange)
{
        char *page = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&page, &size);

        if (weir_task_status(query)) {
                weir_http_reply_text(exchange, 503, weir_sqlite_problem(query));
        } else if (!out) {
                weir_http_reply_text(exchange, 503, "out of memory\n");
        } else {
                for (size_t row = 0; row < weir_sqlite_rows(query); row++)
                        fprintf(out, "%s: %s\n", weir_sqlite_text(query, row, 0, NULL), weir_sqlite_text(query, row, 1, NULL));
                fflush(out);
                weir_http_reply_text(exchange, 200, page ? page : "");
        }
        if (out)
                fclose(out);
        free(page);
}

static void on_read(weir_task *exchange, void *context)
{
        static const char sql[] = "SELECT name, text FROM entries ORDER BY rowid DESC LIMIT 20";

        (void)context;
        weir_series_push(weir_series_of(exchange), weir_sqlite_query_new(book, sql, on_entries, exchange));
}

static int add_handlers(weir_http_router *router)
{
        int failed = weir_http_router_add(router, "POST", "/entries", on_sign, NULL);

        return failed ? failed : weir_http_router_add(router, "GET", "/entries", on_read, NULL);
}

int main(int argc, char *argv[])
{
        struct weir_sqlite_config config = WEIR_SQLITE_CONFIG_DEFAULT;
        weir_http_router *router = weir_http_router_new();
        int result;

        config.on_writer = make_table;
        book = weir_sqlite_new(argc > 2 ? argv[2] : "guest-book.db", &config);
        result = add_handlers(router);
        if (!result)
                result = weir_http_serve(argc > 1 ? argv[1] : "127.0.0.1:8888", weir_http_router_handle, router);
        if (result < 0)
                fprintf(stderr, "guest-book: %s\n", weir_strerror(result));
        weir_shutdown();
        weir_sqlite_unref(book); /* closes the file in the call: the runtime has ended */
        weir_http_router_free(router);
        return result != 0;
}
