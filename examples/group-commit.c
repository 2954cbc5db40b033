/* group-commit.c: a log that is only appended to.  Many writers wait for the disk together: one sync serves all that came
 * meanwhile.
 *
 *     group-commit FILE [writers [records]]        default: 100 writers, 100 records each
 *
 * A writer gives its record to a channel and waits until it is on the disk.  One fiber takes what has gathered in the channel,
 * appends all of it by one write, syncs the file, and ends the promises of the records.  While a sync is under way, the records
 * for the next one gather.  So the slower the disk is, the more records share a sync.
 *
 * A record is a line.  After a crash the last line may lack its end: it was never confirmed, so a reader drops it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
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

/* -- the fiber that commits -- */

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

/* The first record of a group; the others are there already. */
static void gather(void *record)
{
        do {
                log_.group[log_.group_size++] = record;
        } while (log_.group_size < GROUP_MOST && weir_channel_poll(log_.records, &record) == 0);
}

static int write_group(void)
{
        struct iovec parts[GROUP_MOST];

        for (size_t i = 0; i < log_.group_size; i++)
                parts[i] = (struct iovec){log_.group[i]->text, strlen(log_.group[i]->text)};
        int err = weir_await(weir_file_appendv_new(log_.file, parts, log_.group_size, NULL, NULL));
        return err ? err : weir_await(weir_file_sync_data_new(log_.file, NULL, NULL));
}

/* A write that fails may have written a part.  What is behind it must not join that, so this log goes no further. */
static int commit(void *context)
{
        int failed = 0, err;
        void *record;

        (void)context;
        while (!(err = weir_fiber_receive(log_.records, &record))) {
                gather(record);
                if (!failed)
                        failed = write_group();
                if (failed)
                        weir_channel_close(log_.records);
                end_group(failed);
        }
        return err == -EPIPE ? failed : err;
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

static unsigned records_each;

static int write_records(void *number)
{
        char text[RECORD_SIZE - 1];
        int err = 0;

        for (unsigned left = records_each; left > 0 && !err;) {
                snprintf(text, sizeof text, "writer %u, %u to go", (unsigned)(uintptr_t)number, --left);
                err = weir_await(append_new(text, NULL, NULL));
        }
        return err;
}

/* -- the program -- */

/* Returns 0, or the first error of a writer. */
static int write_all(unsigned count)
{
        weir_group *committing = weir_group_open(), *writing = weir_group_open();
        int failed = weir_group_start(committing, weir_fiber_new(commit, NULL, NULL));

        for (unsigned i = 0; i < count && !failed; i++)
                failed = weir_group_start(writing, weir_fiber_new(write_records, NULL, (void *)(uintptr_t)i));
        int status = weir_group_close(writing);
        weir_channel_close(log_.records);
        weir_group_close(committing);
        return failed ? failed : status;
}

struct run {
        const char *path;
        unsigned writers;
};

static int run_log(void *context)
{
        const struct run *run = context;
        weir_task *open = weir_file_open_new(run->path, O_WRONLY | O_CREAT, 0644, NULL, NULL);
        int failed = weir_await(open);

        if (failed)
                return failed;
        log_.file = weir_file_open_take(open);
        log_.records = weir_channel_new(WEIR_UNBOUNDED, drop_record);
        failed = write_all(run->writers);
        weir_channel_unref(log_.records);
        weir_file_unref(log_.file);
        return failed;
}

static int run(const char *path, unsigned count, unsigned records)
{
        struct run how = {path, count};

        log_.commits = log_.committed = 0;
        records_each = records;
        return weir_task_run(weir_fiber_new(run_log, NULL, &how));
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
