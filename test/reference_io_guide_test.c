/* test/reference_io_guide_test.c: the examples of the reference for headers of tasks that wait for the system.
 *
 * They run on the virtual clock. */
#include "test/fixture.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

/* -- weir/fd.h -- */

static void
note_status(weir_task *task, void *status)
{
        *(_Atomic int *)status = weir_task_status(task);
}

static void
a_socket_is_waited_for(void)
{
        _Atomic int seen = 1, room = 1, urgent = 1, late = 1;
        int ends[2];

        CU_ASSERT_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
        weir_fd *fd = weir_fd_new(ends[0]);
        weir_task_start(weir_fd_readable_new(fd, note_status, &seen));
        weir_task_start(weir_fd_writable_new(fd, note_status, &room));
        weir_task_start(weir_fd_urgent_new(fd, note_status, &urgent));
        weir_clock_advance(0);
        CU_ASSERT(room == 0 && seen == 1); /* it has room, and nothing has come */
        CU_ASSERT(write(ends[1], "x", 1) == 1);
        weir_clock_advance(0);
        CU_ASSERT(seen == 0);
        weir_fd_wake(fd);
        weir_clock_advance(0);
        CU_ASSERT(urgent == -EINTR);
        weir_task_start(weir_fd_urgent_new(fd, note_status, &late));
        weir_fd_forget(fd); /* before close */
        close(ends[0]);
        weir_clock_advance(0);
        CU_ASSERT(late == -EBADF);
        close(ends[1]);
}

/* -- weir/loop.h -- */

static void
count(void *calls)
{
        ++*(int *)calls;
}

static void
a_loop_runs_what_flows_ask_for(void)
{
        int calls = 0;
        weir_loop *loop = weir_loop_new();
        struct pollfd watched = {.fd = weir_loop_fd(loop), .events = POLLIN};

        weir_task_start(weir_loop_call_new(loop, count, NULL, &calls));
        while (poll(&watched, 1, 0) == 1) { /* stands for the loop of the program */
                weir_loop_run(loop, WEIR_ALL);
        }
        CU_ASSERT(calls == 1);
        weir_loop *same = weir_loop_ref(loop);
        weir_loop_unref(same);
        weir_loop_unref(loop); /* behind the last poll: it closes the descriptor */
}

/* -- weir/process.h -- */

static char *
words_of(const weir_task *process)
{
        size_t size;
        const char *output = weir_process_output(process, &size);

        return strndup(output, size);
}

static void
note_words(weir_task *process, void *words)
{
        if (weir_task_status(process) == 0)
                *(char **)words = words_of(process);
}

static void
a_program_sorts_words(void)
{
        char *words = NULL;

        weir_task *sort = weir_command_new(note_words, &words, "sort", "-u", NULL);
        weir_process_set_environment(sort, "LC_ALL", "C");
        weir_process_set_input(sort, "pear\napple\npear\n", 16);
        weir_task_run(sort);
        CU_ASSERT(words && strcmp(words, "apple\npear\n") == 0);
        free(words);
}

#define EXAMPLE(name)                      \
        static void run_##name(void)       \
        {                                  \
                weir_test_begin_virtual(); \
                name();                    \
                weir_test_end();           \
        }

EXAMPLE(a_socket_is_waited_for)
EXAMPLE(a_loop_runs_what_flows_ask_for)
EXAMPLE(a_program_sorts_words)

static const struct weir_test tests[] = {
        WEIR_TEST(run_a_socket_is_waited_for),
        WEIR_TEST(run_a_loop_runs_what_flows_ask_for),
        WEIR_TEST(run_a_program_sorts_words),
};

int
main(void)
{
        return weir_test_main("reference_io_guide", tests, sizeof tests / sizeof *tests);
}
