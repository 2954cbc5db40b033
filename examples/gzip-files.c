/* gzip-files.c: compresses files with gzip, four at a time, into FILE.gz beside them.
 *
 *     gzip-files FILE...          Ctrl-C ends all that run, and removes what is half done
 *
 * Each file is one task that runs `gzip -c`, with a limit of time.  What gzip writes goes straight into the new file; what it
 * says is collected, for the message.  A file that could not be compressed leaves nothing behind.
 *
 * Try it:  head -c 50M /dev/urandom > noise; gzip-files noise *.c */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir/weir.h>

#define AT_ONCE 4
#define LIMIT   WEIR_SEC(600)

static _Atomic unsigned packed, failed;

struct file {
        const char *path;
        char to[4096];
};

static void complain(const char *path, weir_task *gzip)
{
        int status = weir_task_status(gzip);
        const char *said = weir_process_errors(gzip, NULL);

        fprintf(stderr, "gzip-files: %s: %s", path, weir_strerror(status));
        if (status == WEIR_EPROCESS_EXIT)
                fprintf(stderr, " (%d)", weir_process_exit_code(gzip));
        if (status == WEIR_EPROCESS_SIGNAL)
                fprintf(stderr, " (%s)", strsignal(weir_process_signal(gzip)));
        fprintf(stderr, "%s%s\n", said && *said ? ": " : "", said ? said : "");
}

static void gzip_ended(weir_task *gzip, void *context)
{
        const struct file *file = context;
        struct stat status;

        if (weir_task_status(gzip) == 0 && stat(file->to, &status) == 0) {
                printf("%s: %lld bytes\n", file->to, (long long)status.st_size);
                packed++;
                return;
        }
        complain(file->path, gzip);
        unlink(file->to);
        failed++;
}

/* The task that compresses the file; NULL: it could not be begun, and that was said. */
static weir_task *compress(const char *path)
{
        struct file *file = malloc(sizeof *file);
        int fd = -1;

        if (file && snprintf(file->to, sizeof file->to, "%s.gz", path) < (int)sizeof file->to)
                fd = open(file->to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (fd < 0) {
                perror(path);
                failed++;
                free(file);
                return NULL;
        }
        file->path = path;
        weir_task *gzip = weir_command_new(gzip_ended, NULL, "gzip", "-c", "--", path, NULL);
        weir_process_set_fd(gzip, STDOUT_FILENO, fd);
        weir_process_collect(gzip, STDERR_FILENO, 4096);
        weir_process_set_grace(gzip, WEIR_SEC(1));
        weir_task_set_context(gzip, file, free);
        close(fd); /* the task has its own */
        return weir_timeout_new(gzip, LIMIT);
}

static void stop(weir_task *signal, void *all)
{
        if (weir_task_status(signal) == 0)
                weir_series_cancel(all);
}

int main(int argc, char *argv[])
{
        weir_semaphore *places = weir_semaphore_new(AT_ONCE);
        weir_task *files = weir_parallel_new(NULL, NULL);
        weir_series *all = weir_series_ref(weir_series_new(NULL, NULL));

        for (int i = 1; i < argc; i++) {
                weir_task *task = compress(argv[i]);

                if (task)
                        weir_parallel_add(files, weir_limited_new(places, 1, task, NULL, NULL));
        }
        weir_series_push(all, files);
        weir_task_start(weir_signal_new(SIGINT, stop, all));
        int status = weir_series_run(all);
        if (status)
                fprintf(stderr, "gzip-files: %s\n", weir_strerror(status));
        weir_shutdown();
        weir_series_unref(all);
        weir_semaphore_unref(places);
        printf("%u packed, %u failed\n", packed, failed);
        return status || failed > 0;
}
