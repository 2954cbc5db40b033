/* gzip-files.c: compresses files with gzip, four at a time, into FILE.gz beside them.
 *
 *     gzip-files FILE...          Ctrl-C ends all that run, and removes what is half done
 *
 * Each file is a fiber, which awaits `gzip -c` with a limit of time.  What gzip writes goes straight into the new file; what it
 * says is collected, for the message.  A file that could not be compressed leaves nothing behind.
 *
 * Try it:  head -c 50M /dev/urandom > noise; gzip-files noise *.c */
#include <errno.h>
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

static void complain(const char *path, const weir_task *gzip, int status)
{
        const char *said = weir_process_errors(gzip, NULL);

        fprintf(stderr, "gzip-files: %s: %s", path, weir_strerror(status));
        if (status == WEIR_EPROCESS_EXIT)
                fprintf(stderr, " (%d)", weir_process_exit_code(gzip));
        if (status == WEIR_EPROCESS_SIGNAL)
                fprintf(stderr, " (%s)", strsignal(weir_process_signal(gzip)));
        fprintf(stderr, "%s%s\n", said && *said ? ": " : "", said ? said : "");
}

/* What gzip writes goes to `fd`. */
static int run_gzip(const char *path, int fd)
{
        weir_task *gzip = weir_command_new(NULL, NULL, "gzip", "-c", "--", path, NULL);

        weir_process_set_fd(gzip, STDOUT_FILENO, fd);
        weir_process_collect(gzip, STDERR_FILENO, 4096);
        weir_process_set_grace(gzip, WEIR_SEC(1));
        int err = weir_await_within(gzip, LIMIT);
        if (err)
                complain(path, gzip, err);
        return err;
}

static int compress(void *context)
{
        const char *path = context;
        char to[4096];
        struct stat status;
        bool fits = snprintf(to, sizeof to, "%s.gz", path) < (int)sizeof to;
        int fd = fits ? open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644) : -1;

        if (fd < 0) {
                errno = fits ? errno : ENAMETOOLONG;
                perror(path);
                failed++;
                return -EIO;
        }
        int err = run_gzip(path, fd);
        if (!err && fstat(fd, &status) == 0) {
                printf("%s: %lld bytes\n", to, (long long)status.st_size);
                packed++;
        } else {
                unlink(to);
                failed++;
        }
        close(fd);
        return err;
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

        for (int i = 1; i < argc; i++)
                weir_parallel_add(files, weir_limited_new(places, 1, weir_fiber_new(compress, NULL, argv[i]), NULL, NULL));
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
