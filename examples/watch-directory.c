/* watch-directory.c: tells what happens to the files of directories, by inotify(7).
 *
 *     watch-directory DIRECTORY...     until SIGINT or SIGTERM
 *
 * inotify has a descriptor, for which tasks wait.  One read takes all events that are there.  If the program is too slow the
 * system drops events, and says so once: whoever keeps a picture of a directory then has to look at it as a whole. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <weir/weir.h>

#define EVENTS (IN_CREATE | IN_DELETE | IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO)

static int inotify;
static weir_fd *events;

static const char *what_was_done(uint32_t mask)
{
        return mask & IN_CREATE        ? "made"
               : mask & IN_DELETE      ? "deleted"
               : mask & IN_CLOSE_WRITE ? "written"
               : mask & IN_MOVED_FROM  ? "moved away"
                                       : "moved here";
}

static void tell(const struct inotify_event *event)
{
        if (event->mask & IN_Q_OVERFLOW)
                puts("events were lost: look at everything");
        else if (event->mask & IN_IGNORED)
                puts("a directory is gone");
        else if (event->mask & EVENTS && event->len > 0)
                printf("%s: %s\n", event->name, what_was_done(event->mask));
}

/* An event begins where the one before ends, with its name. */
static ssize_t read_events(void)
{
        _Alignas(struct inotify_event) char buffer[16 * (sizeof(struct inotify_event) + NAME_MAX + 1)];
        ssize_t size = read(inotify, buffer, sizeof buffer);

        for (ssize_t at = 0; at < size;) {
                const struct inotify_event *event = (const struct inotify_event *)(buffer + at);

                tell(event);
                at += (ssize_t)(sizeof *event + event->len);
        }
        fflush(stdout);
        return size;
}

/* The next task ends at once if events are left. */
static void on_events(weir_task *readable, void *context)
{
        if (weir_task_status(readable) != 0)
                return;
        if (read_events() < 0 && errno != EAGAIN && errno != EINTR)
                perror("watch-directory");
        else
                weir_series_push(weir_series_of(readable), weir_fd_readable_new(events, on_events, context));
}

/* Watches from now on.  NULL: errno says why not. */
static weir_series *watch_new(char *directories[])
{
        inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
        for (; inotify >= 0 && *directories; directories++)
                if (inotify_add_watch(inotify, *directories, EVENTS | IN_ONLYDIR) < 0)
                        return NULL;
        events = inotify < 0 ? NULL : weir_fd_new(inotify);
        if (!events)
                return NULL;
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_fd_readable_new(events, on_events, NULL));
        return series;
}

static void watch_end(void)
{
        weir_fd_forget(events); /* before the descriptor is closed */
        if (inotify >= 0)
                close(inotify);
}

int main(int argc, char *argv[])
{
        sigset_t ends;
        int signal;

        sigemptyset(&ends);
        sigaddset(&ends, SIGINT);
        sigaddset(&ends, SIGTERM);
        pthread_sigmask(SIG_BLOCK, &ends, NULL);
        if (argc < 2 || weir_series_start(watch_new(argv + 1)) != 0) {
                fprintf(stderr, "watch-directory: %s\n", argc < 2 ? "expected directories" : strerror(errno));
                return 1;
        }
        sigwait(&ends, &signal);
        weir_shutdown(); /* ends the task that waits */
        watch_end();
        return 0;
}
