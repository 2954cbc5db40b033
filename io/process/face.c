/* io/process/face.c: weir/process.h.
 *
 * Threads: the owner of a task makes and changes it; its callback asks how it went; any thread sends signals.
 * Locks:   none; running.c has one. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include <weir/process.h>

#include "io/process/process.h"
#include "kernel/base/panic.h"
#include "kernel/base/phase.h"
#include "kernel/observe/log.h"

/* -- making -- */

static weir_task *
finish_making(struct weir__process *self, int failed, const char *call)
{
        if (failed == -EINVAL)
                weir__log_refusal("%s: there is no program: expected its name or path first", call);
        if (failed)
                weir__task_poison(&self->task, failed);
        return &self->task;
}

weir_task *
weir_process_new(const char *const argv[], weir_task_fn *done, void *context)
{
        struct weir__process *self = weir__process_make(done, context);

        return self ? finish_making(self, weir__settings_copy_arguments(&self->settings, argv), "weir_process_new") : NULL;
}

weir_task *
weir_command_new(weir_task_fn *done, void *context, const char *program, ...)
{
        struct weir__process *self = weir__process_make(done, context);
        va_list arguments;

        if (!self)
                return NULL;
        va_start(arguments, program);
        int failed = weir__settings_copy_list(&self->settings, program, arguments);
        va_end(arguments);
        return finish_making(self, failed, "weir_command_new");
}

/* -- before the start -- */

/* The process, if it may still be changed; NULL: the task is NULL. */
static struct weir__process *
open_one(weir_task *task, const char *call)
{
        char title[WEIR__TASK_TITLE];

        if (!task)
                return NULL;
        weir__memory_expect(task);
        if (weir__task_ops(task) == &weir__process_ops && !(task->flags & WEIR__TASK_CONSUMED))
                return (struct weir__process *)task;
        weir__task_write_title_of_live(task, title);
        if (weir__task_ops(task) != &weir__process_ops)
                weir__panic("%s: expected a process, and was given %s", call, title);
        weir__panic("%s: %s was already consumed: expected the call before its start, push or add", call, title);
}

static void
note(struct weir__process *self, int failed)
{
        if (failed)
                weir__task_poison(&self->task, failed);
}

void
weir_process_set_directory(weir_task *process, const char *path)
{
        struct weir__process *self = open_one(process, "weir_process_set_directory");

        if (!self)
                return;
        if (!path || !*path)
                note(self, weir__log_refusal("weir_process_set_directory: the path is NULL or empty: expected a directory"));
        else
                note(self, weir__settings_set_directory(&self->settings, path));
}

void
weir_process_set_environment(weir_task *process, const char *name, const char *value)
{
        struct weir__process *self = open_one(process, "weir_process_set_environment");

        if (!self)
                return;
        if (!name || !*name || strchr(name, '='))
                note(self, weir__log_refusal("weir_process_set_environment: the name \"%s\": expected one without '='",
                                             name ? name : "(NULL)"));
        else
                note(self, weir__settings_set_variable(&self->settings, name, value));
}

void
weir_process_clear_environment(weir_task *process)
{
        struct weir__process *self = open_one(process, "weir_process_clear_environment");

        if (self)
                weir__settings_clear_variables(&self->settings);
}

void
weir_process_set_rlimit(weir_task *process, int resource, uint64_t soft, uint64_t hard)
{
        struct weir__process *self = open_one(process, "weir_process_set_rlimit");

        if (!self)
                return;
        if (resource < 0 || resource >= (int)RLIM_NLIMITS || soft > hard)
                note(self, weir__log_refusal("weir_process_set_rlimit: resource %d: expected RLIMIT_CPU or the like, and no soft "
                                             "limit above the hard one",
                                             resource));
        else
                note(self, weir__settings_set_rlimit(&self->settings, resource, soft, hard));
}

void
weir_process_set_group(weir_task *process, enum weir_process_group group)
{
        struct weir__process *self = open_one(process, "weir_process_set_group");

        if (!self)
                return;
        if ((int)group < WEIR_PROCESS_GROUP_OWN || (int)group > WEIR_PROCESS_GROUP_SHARED) {
                note(self,
                     weir__log_refusal("weir_process_set_group: %d: expected WEIR_PROCESS_GROUP_OWN or the like", (int)group));
                return;
        }
        self->settings.group = group;
        self->running.has_group = group != WEIR_PROCESS_GROUP_SHARED;
}

void
weir_process_set_grace(weir_task *process, weir_nsec grace)
{
        struct weir__process *self = open_one(process, "weir_process_set_grace");

        if (!self)
                return;
        self->settings.grace = grace < 0 ? 0 : grace;
        self->running.is_abrupt = self->settings.grace == 0;
}

/* Whether `which` is one of those from `first` on; else it is the task's fault. */
static bool
is_standard(struct weir__process *self, int which, int first, const char *call)
{
        if (which >= first && which < WEIR__STANDARD_FDS)
                return true;
        note(self, weir__log_refusal("%s: descriptor %d of the program: expected %d to %d", call, which, first,
                                     WEIR__STANDARD_FDS - 1));
        return false;
}

struct weir__process *
weir__process_to_set(weir_task *task, int which, const char *call)
{
        struct weir__process *self = open_one(task, call);

        return self && is_standard(self, which, 0, call) ? self : NULL;
}

void
weir_process_set_fd(weir_task *process, int which, int fd)
{
        struct weir__process *self = weir__process_to_set(process, which, "weir_process_set_fd");
        struct weir__standard standard = {.kind = WEIR__STANDARD_NOTHING};

        if (!self)
                return;
        if (fd != WEIR_PROCESS_NOTHING) {
                standard.kind = WEIR__STANDARD_FD;
                standard.fd = fcntl(fd, F_DUPFD_CLOEXEC, WEIR__STANDARD_FDS);
                if (standard.fd < 0) {
                        note(self, -errno);
                        return;
                }
        }
        weir__settings_set_standard(&self->settings, which, standard);
}

void
weir_process_set_input(weir_task *process, const void *data, size_t size)
{
        struct weir__process *self = open_one(process, "weir_process_set_input");

        if (!self)
                return;
        if (!data && size)
                note(self, weir__log_refusal("weir_process_set_input: the bytes are NULL: expected %zu", size));
        else
                note(self, weir__settings_set_text(&self->settings, data, size));
}

void
weir_process_collect(weir_task *process, int which, size_t limit)
{
        struct weir__process *self = open_one(process, "weir_process_collect");

        if (self && is_standard(self, which, 1, "weir_process_collect"))
                weir__settings_set_standard(&self->settings, which,
                                            (struct weir__standard){.kind = WEIR__STANDARD_COLLECT, .limit = limit});
}

void
weir_process_merge_errors(weir_task *process)
{
        struct weir__process *self = open_one(process, "weir_process_merge_errors");

        if (self)
                weir__settings_set_standard(&self->settings, 2, (struct weir__standard){.kind = WEIR__STANDARD_MERGED});
}

/* -- how it went -- */

/* NULL: it is no process, and *fault says which errno that is. */
static struct weir__process *
known_one(const weir_task *task, int *fault)
{
        weir__memory_expect(task);
        *fault = !task ? -EINVAL : weir__task_ops(task) != &weir__process_ops ? -EDOM : 0;
        return *fault ? NULL : (struct weir__process *)task; /* const guards the caller only */
}

int
weir_process_exit_code(const weir_task *process)
{
        int fault;
        const struct weir__process *self = known_one(process, &fault);

        if (!self)
                return fault;
        return self->ending.code < 0 ? -ENODATA : self->ending.code;
}

int
weir_process_signal(const weir_task *process)
{
        int fault;
        const struct weir__process *self = known_one(process, &fault);

        if (!self)
                return fault;
        return self->ending.signal < 0 ? -ENODATA : self->ending.signal;
}

static const char *
collected(const weir_task *process, int which, size_t *size)
{
        int fault;
        const struct weir__process *self = known_one(process, &fault);
        bool is_collected = self && self->settings.standard[which].kind == WEIR__STANDARD_COLLECT;

        if (size)
                *size = is_collected ? self->collected[which].size : 0;
        if (!is_collected)
                return NULL;
        return self->collected[which].text ? self->collected[which].text : "";
}

const char *
weir_process_output(const weir_task *process, size_t *size)
{
        return collected(process, 1, size);
}

const char *
weir_process_errors(const weir_task *process, size_t *size)
{
        return collected(process, 2, size);
}

/* -- while it runs -- */

pid_t
weir_process_pid(const weir_task *process)
{
        int fault;
        struct weir__process *self = known_one(process, &fault);

        if (!self)
                return fault;
        return weir__phase_is_forked() ? -ECHILD : weir__running_pid(&self->running);
}

int
weir_process_kill(weir_task *process, int signal)
{
        int fault;
        struct weir__process *self = known_one(process, &fault);

        if (!self)
                return fault;
        if (weir__phase_is_forked())
                return -ECHILD;
        if (signal < 0 || signal >= NSIG)
                return weir__log_refusal("weir_process_kill: signal %d: expected 0 to %d", signal, NSIG - 1);
        return weir__running_kill(&self->running, signal);
}
