/* database/sqlite/database.c: databases: what waits for their connections, and the functions on the executor that serve it.
 *
 * One function at a time serves the writes, and as many as there are connections serve the reads.  Each runs some of what
 * waits, and starts itself anew if there is more, so that other work of the executor has its turn.  It has a reference to the
 * database.
 *
 * Threads: any.
 * Locks:   the database's. */
#include <stdlib.h>
#include <string.h>

#include <weir/go.h>
#include <weir/runtime.h>

#include "database/sqlite/sqlite.h"

/* -- lists; under the lock, or of one thread -- */

void
weir__sqlite_list_append(struct weir__sqlite_list *list, struct weir__sqlite_request *request)
{
        request->next = NULL;
        request->previous = list->last;
        if (list->last)
                list->last->next = request;
        else
                list->first = request;
        list->last = request;
        atomic_fetch_add_explicit(&list->count, 1, memory_order_relaxed);
}

static void
remove_request(struct weir__sqlite_list *list, struct weir__sqlite_request *request)
{
        if (request->previous)
                request->previous->next = request->next;
        else
                list->first = request->next;
        if (request->next)
                request->next->previous = request->previous;
        else
                list->last = request->previous;
        atomic_fetch_sub_explicit(&list->count, 1, memory_order_relaxed);
}

struct weir__sqlite_request *
weir__sqlite_list_take(struct weir__sqlite_list *list)
{
        struct weir__sqlite_request *first = list->first;

        if (first)
                remove_request(list, first);
        return first;
}

static struct weir__sqlite_list *
list_of(const struct weir__sqlite_request *request)
{
        weir_sqlite *db = request->db;

        if (request->kind == WEIR__SQLITE_CLOSE)
                return &db->closes;
        bool is_read = request->kind == WEIR__SQLITE_QUERY || request->kind == WEIR__SQLITE_READ;
        return is_read && !db->is_memory ? &db->reads : &db->writes;
}

/* -- a child of fork -- */

static _Atomic bool is_forked;

static void
on_fork(void)
{
        atomic_store(&is_forked, true);
        weir__figures_forked(&weir__sqlite_figures);
}

static void
watch_forks(void)
{
        pthread_atfork(NULL, NULL, on_fork);
}

bool
weir__sqlite_is_forked(void)
{
        return atomic_load_explicit(&is_forked, memory_order_relaxed);
}

/* -- functions on the executor -- */

/* Starts one.  `over` is called with the database behind it, also if it was not called.  0, or why there is none. */
static int
start(weir_sqlite *db, weir_go_fn *function, weir_task_fn *over)
{
        int failed = weir_task_start(weir_go_new(NULL, function, over, weir_sqlite_ref(db)));

        if (failed)
                weir_sqlite_unref(db);
        return failed;
}

void
weir__sqlite_end_waiting(weir_sqlite *db, struct weir__sqlite_list *list, weir_nsec before, int status)
{
        struct weir__sqlite_list over = {0};
        struct weir__sqlite_request *request;

        pthread_mutex_lock(&db->lock);
        while ((request = list->first) && request->since <= before) {
                remove_request(list, request);
                request->state = WEIR__SQLITE_TAKEN;
                weir__sqlite_list_append(&over, request);
        }
        pthread_mutex_unlock(&db->lock);
        while ((request = weir__sqlite_list_take(&over)))
                weir__sqlite_end(request, status);
}

/* Whether the connections are to be closed now.  Under the lock. */
static bool
should_close(weir_sqlite *db)
{
        bool is_idle = !db->writes.first && !db->reads.first && !db->is_writing && db->reading == 0 && !db->has_closer;

        return db->is_closing && is_idle && (!db->is_closed || db->closes.first);
}

static void
disconnect_all(weir_sqlite *db)
{
        pthread_mutex_lock(&db->lock);
        weir_sqlite_connection *writer = db->writer, *readers = db->free_readers;
        db->writer = db->free_readers = NULL;
        pthread_mutex_unlock(&db->lock);
        while (readers) {
                weir_sqlite_connection *next = readers->next;

                weir__sqlite_disconnect(readers);
                readers = next;
        }
        weir__sqlite_disconnect(writer); /* the last one moves what is in the WAL into the file */
}

static void
close_all(void *context)
{
        weir_sqlite *db = context;

        weir_blocking_begin();
        disconnect_all(db);
        weir_blocking_end();
}

static void start_closer(weir_sqlite *db);

static void
close_over(weir_task *task, void *context)
{
        weir_sqlite *db = context;
        int status = weir_task_status(task);

        pthread_mutex_lock(&db->lock);
        db->has_closer = false;
        db->is_closed = status == 0;
        pthread_mutex_unlock(&db->lock);
        weir__sqlite_end_waiting(db, &db->closes, INT64_MAX, status);
        weir_sqlite_unref(db);
}

/* Starts the close of the database if nothing goes on any more. */
static void
start_closer(weir_sqlite *db)
{
        pthread_mutex_lock(&db->lock);
        bool should = should_close(db);
        if (should)
                db->has_closer = true;
        pthread_mutex_unlock(&db->lock);
        int failed = should ? start(db, close_all, close_over) : 0;
        if (!failed)
                return;
        pthread_mutex_lock(&db->lock);
        db->has_closer = false;
        pthread_mutex_unlock(&db->lock);
        weir__sqlite_end_waiting(db, &db->closes, INT64_MAX, failed);
}

/* There is no function that could serve the writes. */
static void
abandon_writes(weir_sqlite *db, int status)
{
        pthread_mutex_lock(&db->lock);
        db->is_writing = false;
        pthread_mutex_unlock(&db->lock);
        weir__sqlite_end_waiting(db, &db->writes, INT64_MAX, status);
        start_closer(db);
}

static void
abandon_reads(weir_sqlite *db, int status)
{
        pthread_mutex_lock(&db->lock);
        bool is_last = --db->reading == 0;
        pthread_mutex_unlock(&db->lock);
        if (is_last)
                weir__sqlite_end_waiting(db, &db->reads, INT64_MAX, status);
        start_closer(db);
}

/* It was not called if it has failed. */
static void
writes_over(weir_task *task, void *context)
{
        weir_sqlite *db = context;

        if (weir_task_status(task))
                abandon_writes(db, weir_task_status(task));
        weir_sqlite_unref(db);
}

static void
reads_over(weir_task *task, void *context)
{
        weir_sqlite *db = context;

        if (weir_task_status(task))
                abandon_reads(db, weir_task_status(task));
        weir_sqlite_unref(db);
}

static void
serve_writes(void *context)
{
        weir_sqlite *db = context;
        int failed = 0;

        weir__sqlite_write_some(db);
        pthread_mutex_lock(&db->lock);
        bool goes_on = db->is_writing = db->writes.first != NULL;
        pthread_mutex_unlock(&db->lock);
        if (goes_on)
                failed = start(db, serve_writes, writes_over);
        if (failed)
                abandon_writes(db, failed);
        else if (!goes_on)
                start_closer(db);
}

static void
serve_reads(void *context)
{
        weir_sqlite *db = context;
        int failed = 0;

        weir__sqlite_read_some(db);
        pthread_mutex_lock(&db->lock);
        bool goes_on = db->reads.first != NULL;
        if (!goes_on)
                db->reading--;
        pthread_mutex_unlock(&db->lock);
        if (goes_on)
                failed = start(db, serve_reads, reads_over);
        if (failed)
                abandon_reads(db, failed);
        else if (!goes_on)
                start_closer(db);
}

/* -- requests -- */

int
weir__sqlite_refusal(const weir_sqlite *db, enum weir__sqlite_kind kind)
{
        bool writes = kind == WEIR__SQLITE_EXEC || kind == WEIR__SQLITE_ALONE || kind == WEIR__SQLITE_WRITE;

        return writes && db->config.read_only ? -EROFS : 0;
}

int
weir__sqlite_submit(struct weir__sqlite_request *request)
{
        weir_sqlite *db = request->db;
        struct weir__sqlite_list *list = list_of(request);
        bool writes = false, reads = false, closes = list == &db->closes;
        int failed = 0;

        pthread_mutex_lock(&db->lock);
        if (closes)
                db->is_closing = true;
        else if (db->is_closing)
                failed = -EPIPE;
        else if (db->writes.count + db->reads.count >= db->config.waiting)
                failed = -ENOBUFS;
        if (!failed) {
                request->state = WEIR__SQLITE_WAITING;
                weir__sqlite_list_append(list, request);
                writes = list == &db->writes && !db->is_writing;
                reads = list == &db->reads && db->reading < db->config.readers;
                db->is_writing |= writes;
                db->reading += reads;
        }
        pthread_mutex_unlock(&db->lock);
        if (writes && (failed = start(db, serve_writes, writes_over)))
                abandon_writes(db, failed);
        else if (reads && (failed = start(db, serve_reads, reads_over)))
                abandon_reads(db, failed);
        else if (closes)
                start_closer(db);
        else
                return failed;
        return 0; /* it has ended, if that has failed */
}

bool
weir__sqlite_withdraw(struct weir__sqlite_request *request, int status)
{
        weir_sqlite *db = request->db;

        pthread_mutex_lock(&db->lock);
        bool waited = request->state == WEIR__SQLITE_WAITING;
        if (waited) {
                remove_request(list_of(request), request);
                request->state = WEIR__SQLITE_OVER;
        } else {
                atomic_store_explicit(&request->unwanted, status, memory_order_release);
        }
        pthread_mutex_unlock(&db->lock);
        if (waited)
                start_closer(db);
        return waited;
}

struct weir__sqlite_request *
weir__sqlite_take(weir_sqlite *db, struct weir__sqlite_list *list)
{
        struct weir__sqlite_request *request;

        do {
                pthread_mutex_lock(&db->lock);
                request = weir__sqlite_list_take(list);
                if (request)
                        request->state = WEIR__SQLITE_TAKEN;
                pthread_mutex_unlock(&db->lock);
                if (request && !request->result && !(request->result = weir__sqlite_result_new()))
                        weir__sqlite_end(request, -ENOMEM);
                else
                        break;
        } while (request);
        return request;
}

void
weir__sqlite_put_back(weir_sqlite *db, struct weir__sqlite_request *request)
{
        struct weir__sqlite_list *list = list_of(request);

        pthread_mutex_lock(&db->lock);
        if (atomic_load(&request->unwanted) == 0) {
                request->state = WEIR__SQLITE_WAITING;
                request->previous = NULL;
                request->next = list->first;
                if (list->first)
                        list->first->previous = request;
                else
                        list->last = request;
                list->first = request;
                atomic_fetch_add(&list->count, 1);
                request = NULL;
        }
        pthread_mutex_unlock(&db->lock);
        if (request)
                weir__sqlite_end(request, atomic_load(&request->unwanted));
}

weir_sqlite_connection *
weir__sqlite_writer(weir_sqlite *db, struct weir__sqlite_request *request, int *status)
{
        pthread_mutex_lock(&db->lock);
        weir_sqlite_connection *writer = db->writer;
        pthread_mutex_unlock(&db->lock);
        if (writer)
                return writer;
        weir_blocking_begin();
        pthread_mutex_lock(&db->opening);
        if (!db->writer) {
                writer = weir__sqlite_connect(db, true, request, status);
                pthread_mutex_lock(&db->lock);
                db->writer = writer;
                pthread_mutex_unlock(&db->lock);
        }
        writer = db->writer;
        pthread_mutex_unlock(&db->opening);
        weir_blocking_end();
        return writer;
}

/* -- objects -- */

static void
free_memory(weir_sqlite *db)
{
        pthread_mutex_destroy(&db->lock);
        pthread_mutex_destroy(&db->opening);
        free((char *)db->config.name);
        free(db->path);
        free(db);
}

static void
destroy(void *context)
{
        weir_sqlite *db = context;

        weir_blocking_begin();
        disconnect_all(db);
        weir_blocking_end();
        free_memory(db);
}

/* A shutdown was faster: it is done here. */
static void
destroy_over(weir_task *task, void *db)
{
        if (weir_task_status(task))
                destroy(db);
}

weir_sqlite *
weir_sqlite_ref(weir_sqlite *db)
{
        if (db)
                atomic_fetch_add_explicit(&db->references, 1, memory_order_relaxed);
        return db;
}

void
weir_sqlite_unref(weir_sqlite *db)
{
        if (!db || atomic_fetch_sub_explicit(&db->references, 1, memory_order_acq_rel) > 1)
                return;
        if (weir__sqlite_is_forked())
                return; /* the connections are the parent's */
        weir__figures_remove(&weir__sqlite_figures, &db->figured);
        bool is_idle = !db->writer && !db->free_readers;
        if (is_idle || weir_task_start(weir_go_new(NULL, destroy, destroy_over, db)))
                destroy(db);
}

/* 0 or an error. */
static int
take_config(weir_sqlite *db, const char *path, const struct weir_sqlite_config *config)
{
        const char *slash = strrchr(path, '/');
        struct weir_sqlite_config *own = &db->config;

        if (config && (config->size != sizeof *config || (unsigned)config->synchronous > WEIR_SQLITE_SYNC_OFF ||
                       config->group_limit < 0 || config->busy_limit < 0 || config->limit < 0))
                return -EINVAL;
        if (config)
                *own = *config;
        own->name = strdup(own->name ? own->name : slash && slash[1] ? slash + 1 : path);
        db->path = strdup(path);
        if (!own->name || !db->path)
                return -ENOMEM;
        own->readers = own->readers ? own->readers : 4;
        own->group = own->group ? own->group : 1000;
        own->group_limit = own->group_limit ? own->group_limit : WEIR_MSEC(20);
        own->waiting = own->waiting ? own->waiting : 1000000;
        own->statements = own->statements ? own->statements : 64;
        own->busy_limit = own->busy_limit ? own->busy_limit : WEIR_SEC(5);
        own->limit = own->limit ? own->limit : WEIR_FOREVER;
        own->max_rows = own->max_rows ? own->max_rows : 1000000;
        own->max_bytes = own->max_bytes ? own->max_bytes : (size_t)16 << 20;
        db->is_memory = strcmp(path, ":memory:") == 0;
        return 0;
}

weir_sqlite *
weir_sqlite_new(const char *path, const struct weir_sqlite_config *config)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        weir_sqlite *db = path && *path ? calloc(1, sizeof *db) : NULL;

        pthread_once(&once, watch_forks);
        int failed = !path || !*path            ? -EINVAL
                     : weir__sqlite_is_forked() ? -ECHILD
                     : !sqlite3_threadsafe()    ? -ENOTSUP
                     : !db                      ? -ENOMEM
                                                : 0;
        if (!failed) {
                pthread_mutex_init(&db->lock, NULL);
                pthread_mutex_init(&db->opening, NULL);
                db->references = 1;
                failed = take_config(db, path, config);
                if (failed)
                        free_memory(db);
        } else {
                free(db);
        }
        if (failed) {
                errno = -failed;
                return NULL;
        }
        weir__figures_add(&weir__sqlite_figures, &db->figured, db->config.name);
        return db;
}
