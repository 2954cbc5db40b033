/* group-commit.c: a log that is only appended to.  Many writers wait for the disk together: one sync serves all that came
 * meanwhile.
 *
 *     group-commit FILE [writers [records]]        default: 100 writers, 100 records each
 *
 * A writer gives its record to a channel and waits until it is on the disk.  One series takes what has gathered in the channel,
 * appends all of it by one write, syncs the file, and ends the promises of the records.  While a sync is under way, the records
 * for the next one gather.  So the slower the disk is, the more records share a sync.
 *
 * A record is a line.  After a crash the last line may lack its end: it was never confirmed, so a reader drops it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

#define RECORD_SIZE 64
#define GROUP_MOST  1000 /* records of a commit: a write takes 1024 parts */

struct record {
        char text[RECORD_SIZE];
        weir_task *promise; /* a reference; ends when the record is on the disk, or cannot get there */
};

static struct {
        weir_file *file;
        weir_channel *records;            /* that wait for the next commit */
        struct record *group[GROUP_MOST]; /* of the commit that is under way */
        size_t group_size;
        uint64_t commits, committed;
} log_;

/* -- the series that commits -- */

static void on_first(weir_task *task, void *context);

static void end_record(struct record *record, int status)
{
        weir_promise_end(record->promise, status);
        weir_promise_unref(record->promise);
        free(record);
}

static void drop_record(void *record)
{
        end_record(record, -EPIPE);
}

static void end_group(int status)
{
        for (size_t i = 0; i < log_.group_size; i++)
                end_record(log_.group[i], status);
        log_.commits++;
        log_.committed += status ? 0 : log_.group_size;
        log_.group_size = 0;
}

static void on_synced(weir_task *task, void *context)
{
        (void)context;
        end_group(weir_task_status(task));
        weir_series_push(weir_series_of(task), weir_channel_receive_new(log_.records, on_first, NULL));
}

/* A write that fails may have written a part.  What is behind it must not join that, so this log goes no further. */
static void on_written(weir_task *task, void *context)
{
        (void)context;
        int status = weir_task_status(task);
        if (status) {
                weir_channel_close(log_.records);
                end_group(status);
                weir_series_push(weir_series_of(task), weir_channel_receive_new(log_.records, on_first, NULL));
                return;
        }
        weir_series_push(weir_series_of(task), weir_file_sync_data_new(log_.file, on_synced, NULL));
}

/* The first record of a group; the others are there already. */
static void on_first(weir_task *task, void *context)
{
        (void)context;
        struct iovec parts[GROUP_MOST];
        void *record = weir_channel_take_message(task);

        if (!record)
                return; /* the channel is closed: the series ends */
        do {
                log_.group[log_.group_size++] = record;
        } while (log_.group_size < GROUP_MOST && weir_channel_poll(log_.records, &record) == 0);
        for (size_t i = 0; i < log_.group_size; i++)
                parts[i] = (struct iovec){log_.group[i]->text, strlen(log_.group[i]->text)};
        weir_series_push(weir_series_of(task), weir_file_appendv_new(log_.file, parts, log_.group_size, on_written, NULL));
}

/* -- for writers -- */

/* A task that ends when the record is on the disk. */
static weir_task *append_new(const char *text, weir_task_fn *done, void *context)
{
        struct record *record = malloc(sizeof *record);
        weir_task *promise = weir_promise_new(NULL, done, context);

        if (!record || !promise) {
                weir_task_dismiss(promise);
                free(record);
                return NULL;
        }
        snprintf(record->text, sizeof record->text, "%s\n", text);
        record->promise = weir_promise_ref(promise);
        int failed = weir_channel_post(log_.records, record);
        if (failed)
                end_record(record, failed);
        return promise;
}

struct writer {
        unsigned number, left;
};

static _Atomic int first_failure;

static void on_appended(weir_task *task, void *context)
{
        struct writer *writer = context;
        char text[RECORD_SIZE - 1];
        int status = weir_task_status(task), none = 0;

        if (status)
                atomic_compare_exchange_strong(&first_failure, &none, status);
        if (status || writer->left == 0)
                return;
        snprintf(text, sizeof text, "writer %u, %u to go", writer->number, --writer->left);
        weir_series_push(weir_series_of(task), append_new(text, on_appended, writer));
}

static int start_writers(struct writer *writers, unsigned count, unsigned records, weir_waitgroup *group)
{
        int failed = 0;

        for (unsigned i = 0; i < count && !failed; i++) {
                weir_series *series = weir_series_new(NULL, NULL);

                writers[i] = (struct writer){i, records};
                weir_series_push(series, weir_empty_new(on_appended, &writers[i]));
                failed = weir_series_start_waited(series, group);
        }
        return failed;
}

/* -- the program -- */

static void take_file(weir_task *open, void *context)
{
        *(weir_file **)context = weir_file_open_take(open);
}

/* Returns 0, or the first error. */
static int run(const char *path, unsigned count, unsigned records)
{
        weir_waitgroup *writing = weir_waitgroup_new(), *committing = weir_waitgroup_new();
        struct writer *writers = calloc(count, sizeof *writers);
        weir_series *commits = weir_series_new(NULL, NULL);
        int failed = weir_task_run(weir_file_open_new(path, O_WRONLY | O_CREAT, 0644, take_file, &log_.file));

        log_.commits = log_.committed = 0;
        log_.records = weir_channel_new(WEIR_UNBOUNDED, drop_record);
        weir_series_push(commits, weir_channel_receive_new(log_.records, on_first, NULL));
        if (failed)
                weir_series_dismiss(commits);
        else
                failed = weir_series_start_waited(commits, committing);
        if (!failed)
                failed = writers ? start_writers(writers, count, records, writing) : -ENOMEM;
        weir_waitgroup_wait(writing, WEIR_FOREVER);
        weir_channel_close(log_.records);
        weir_waitgroup_wait(committing, WEIR_FOREVER);
        weir_channel_unref(log_.records);
        weir_file_unref(log_.file);
        log_.file = NULL;
        weir_waitgroup_free(writing);
        weir_waitgroup_free(committing);
        free(writers);
        return failed ? failed : atomic_exchange(&first_failure, 0);
}

int main(int count, char *arguments[])
{
        unsigned writers = count > 2 ? (unsigned)atoi(arguments[2]) : 100;
        unsigned records = count > 3 ? (unsigned)atoi(arguments[3]) : 100;

        if (count < 2) {
                fprintf(stderr, "usage: %s FILE [writers [records]]\n", arguments[0]);
                return 2;
        }
        int failed = run(arguments[1], writers, records);
        printf("%" PRIu64 " records in %" PRIu64 " commits\n", log_.committed, log_.commits);
        if (failed)
                fprintf(stderr, "%s: %s\n", arguments[1], weir_strerror(failed));
        weir_shutdown();
        return failed != 0;
}
