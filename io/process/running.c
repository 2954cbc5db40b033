/* io/process/running.c: programs that run.
 *
 * Threads: any.
 * Locks:   `lock`, a leaf, guards them all.  It is held over the calls that send a signal, and over the one that takes how a
 *          program has ended.  So no signal is sent to a number that the system may have given to another process.
 *
 * A process that has ended keeps its number, and that of its group, until it was waited for.  The library waits for each of its
 * own by number.  A program that waits for all of its children, or ignores SIGCHLD, gives the number up early.  Then a pidfd
 * still leads to the right process or to none.
 *
 * At exit(), what the shutdown has not ended gets SIGKILL, for nobody would look after it.  From then on no program is started.
 * One that a thread is just starting is waited for, because it has no number yet by which it could be ended. */
#include "io/process/running.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel/base/clock.h"
#include "kernel/base/lock.h"
#include "kernel/base/phase.h"

#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#define BY_PIDFD ((idtype_t)3) /* P_PIDFD, which older headers lack */

#define STOPPED_AT_ONCE 64           /* programs that get a signal under one hold of the lock */
#define EXIT_WAIT       WEIR_SEC(5)  /* the most for which exit() waits here */
#define LOOK_PAUSE      WEIR_MSEC(2) /* between looks whether all have ended */
#define START           WEIR_SEC(1)  /* the most for which it waits until those that are being started have their numbers */

static struct weir__lock lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF);
static struct weir__list all; /* those that are alive; those that were told to end are the last ones */
static unsigned announced;    /* threads that start one just now */
static bool is_over;          /* exit() has come */

pid_t
weir__running_pid(struct weir__running *running)
{
        weir__lock(&lock);
        pid_t pid = running->pid;
        weir__unlock(&lock);
        return pid ? pid : -EAGAIN;
}

/* -- signals; under the lock -- */

/* Returns 1 when it has ended, 0 when it has not, or a negative errno. */
static int
look(const struct weir__running *running, int options, siginfo_t *info)
{
        int failed = -1;

        info->si_pid = 0;
        options |= WEXITED | __WALL;
        if (running->pidfd >= 0)
                failed = waitid(BY_PIDFD, (id_t)running->pidfd, info, options);
        if (running->pidfd < 0 || (failed < 0 && errno == EINVAL))
                failed = waitid(P_PID, (id_t)running->pid, info, options);
        return failed < 0 ? -errno : info->si_pid != 0;
}

/* A filter of system calls (seccomp) may refuse signals by pidfd.  Then the number serves, as long as nobody has waited for the
 * process behind our back.  Returns 0, -ESTALE if it has ended and was waited for, or another negative errno. */
static int
send_signal(const struct weir__running *running, int signo)
{
        siginfo_t info;

        if (running->pidfd >= 0 && syscall(SYS_pidfd_send_signal, running->pidfd, signo, NULL, 0) == 0)
                return 0;
        if ((running->pidfd >= 0 && errno == ESRCH) || look(running, WNOHANG | WNOWAIT, &info) == -ECHILD)
                return -ESTALE;
        return kill(running->pid, signo) == 0 ? 0 : errno == ESRCH ? -ESTALE : -errno;
}

/* The number is its own, also where it was waited for behind our back, if that can be told. */
static bool
is_there(const struct weir__running *running)
{
        return running->is_alive && send_signal(running, 0) != -ESTALE;
}

static void
send_to_all_of_it(const struct weir__running *running, int signo)
{
        if (running->has_group)
                kill(-running->pid, signo);
        else
                send_signal(running, signo);
}

static void
destroy(struct weir__running *running)
{
        if (is_there(running))
                send_to_all_of_it(running, SIGKILL);
}

/* A process that was stopped by a signal goes on, so that it can end. */
static void
stop(struct weir__running *running)
{
        siginfo_t info;

        if (!running->is_alive || running->is_stopped)
                return;
        running->is_stopped = true;
        running->was_in_time = look(running, WNOHANG | WNOWAIT, &info) == 0;
        weir__link_remove(&running->link);
        weir__list_append(&all, &running->link);
        if (!running->was_in_time)
                return;
        if (running->is_abrupt) {
                destroy(running);
        } else {
                send_to_all_of_it(running, SIGTERM);
                send_to_all_of_it(running, SIGCONT);
        }
}

/* -- signals -- */

int
weir__running_kill(struct weir__running *running, int signo)
{
        weir__lock(&lock);
        int failed = !running->pid ? -EAGAIN : running->is_alive ? send_signal(running, signo) : -ESTALE;
        weir__unlock(&lock);
        return failed;
}

void
weir__running_stop(struct weir__running *running)
{
        weir__lock(&lock);
        stop(running);
        weir__unlock(&lock);
}

void
weir__running_destroy(struct weir__running *running)
{
        weir__lock(&lock);
        destroy(running);
        weir__unlock(&lock);
}

/* -- the start -- */

int
weir__running_announce(void)
{
        weir__lock(&lock);
        announced += !is_over;
        int failed = is_over ? -ESHUTDOWN : 0;
        weir__unlock(&lock);
        return failed;
}

void
weir__running_renounce(void)
{
        weir__lock(&lock);
        announced--;
        weir__unlock(&lock);
}

void
weir__running_begin(struct weir__running *running, pid_t pid, int pidfd)
{
        weir__lock(&lock);
        announced--;
        running->pid = pid;
        running->pidfd = pidfd;
        running->is_alive = true;
        weir__list_prepend(&all, &running->link);
        if (is_over)
                destroy(running);
        weir__unlock(&lock);
}

/* -- the end -- */

static struct weir__ending
ending_of(const siginfo_t *info)
{
        bool has_exited = info->si_code == CLD_EXITED;

        return (struct weir__ending){.code = has_exited ? info->si_status : -1, .signal = has_exited ? -1 : info->si_status};
}

/* What was told to end takes the rest of its group with it.  Until it was waited for, its number is that of no other group. */
static bool
reap(struct weir__running *running, struct weir__ending *ending)
{
        siginfo_t info;

        if (running->was_in_time && running->has_group && look(running, WNOHANG | WNOWAIT, &info) == 1)
                kill(-running->pid, SIGKILL);
        int found = look(running, WNOHANG, &info);
        if (found == 0)
                return false;
        *ending = found == 1 ? ending_of(&info) : (struct weir__ending){.code = -1, .signal = -1};
        ending->was_stopped = running->was_in_time;
        running->is_alive = false;
        weir__link_remove(&running->link);
        return true;
}

bool
weir__running_reap(struct weir__running *running, struct weir__ending *ending)
{
        weir__lock(&lock);
        bool has_ended = reap(running, ending);
        weir__unlock(&lock);
        return has_ended;
}

void
weir__running_await(struct weir__running *running)
{
        siginfo_t info;

        while (look(running, WNOWAIT, &info) == -EINTR) /* what it reads of `running` is constant until it is closed */
                ;
}

void
weir__running_close(struct weir__running *running)
{
        weir__lock(&lock);
        int pidfd = running->pidfd;
        running->pidfd = -1;
        weir__unlock(&lock);
        if (pidfd >= 0)
                close(pidfd);
}

/* -- shutdown, exit, fork -- */

static struct weir__running *
running_of(struct weir__link *link)
{
        return link ? weir__container_of(link, struct weir__running, link) : NULL;
}

/* One that was not told to end; NULL: there is none.  Under the lock. */
static struct weir__running *
find_unstopped(void)
{
        struct weir__running *first = running_of(weir__list_first(&all));

        return first && !first->is_stopped ? first : NULL;
}

/* Returns whether there are more. */
static bool
stop_some(void)
{
        struct weir__running *next;

        weir__lock(&lock);
        for (unsigned i = 0; i < STOPPED_AT_ONCE && (next = find_unstopped()); i++)
                stop(next);
        bool is_more = find_unstopped() != NULL;
        weir__unlock(&lock);
        return is_more;
}

static void
stop_all(void)
{
        while (stop_some())
                ;
}

static void
refuse_more(void)
{
        weir__lock(&lock);
        is_over = true;
        weir__unlock(&lock);
}

static bool
is_any_announced(void)
{
        weir__lock(&lock);
        bool is_any = announced > 0;
        weir__unlock(&lock);
        return is_any;
}

/* A worker that has called exit() does not come to take how they have ended, so it is only looked whether they have. */
static bool
has_any_to_wait_for(void)
{
        siginfo_t info;
        bool is_any = false;

        weir__lock(&lock);
        for (struct weir__link *link = weir__list_first(&all); link && !is_any; link = weir__list_next(&all, link))
                is_any = look(running_of(link), WNOHANG | WNOWAIT, &info) == 0;
        weir__unlock(&lock);
        return is_any;
}

static void
destroy_all(void)
{
        weir__lock(&lock);
        for (struct weir__link *link = weir__list_first(&all); link; link = weir__list_next(&all, link))
                destroy(running_of(link));
        weir__unlock(&lock);
}

static _Atomic weir_nsec stopped_at; /* when a shutdown has told all to end; 0: none has */

static void
stop_at_shutdown(void)
{
        atomic_store(&stopped_at, weir__clock_monotonic());
        stop_all();
}

/* The shutdown before this has waited for exit_wait, unless only a callback's own poller was left. */
static void
end_at_exit(void)
{
        weir_nsec wait = atomic_load(&weir__phase_exit_wait), since = atomic_load(&stopped_at);

        if (weir__phase_is_forked())
                return;
        refuse_more();
        stop_all();
        weir_nsec now = weir__clock_monotonic(), starts_until = weir__clock_after(now, START);
        weir_nsec until = weir__clock_after(since ? since : now, wait < EXIT_WAIT ? wait : EXIT_WAIT);
        while ((now < until && has_any_to_wait_for()) || (now < starts_until && is_any_announced())) {
                usleep(LOOK_PAUSE / 1000);
                now = weir__clock_monotonic();
        }
        destroy_all();
}

static void
become_child(void)
{
        weir__lock_init(&lock, WEIR__RANK_LEAF);
        all = (struct weir__list){{NULL, NULL}};
        announced = 0;
}

WEIR__STEPS_OF(WEIR__MODULE_PROCESSES, [WEIR__STEP_SHUTDOWN] = stop_at_shutdown, [WEIR__STEP_EXIT] = end_at_exit,
               [WEIR__STEP_IN_CHILD] = become_child);
