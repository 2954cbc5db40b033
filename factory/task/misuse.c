/* factory/task/misuse.c: what a task is called, and the aborts for one that the program has not treated as it should.
 *
 * Threads: any.
 *
 * The memory may be that of a task which has ended, or of something else that took its place.  So nothing in it is followed but
 * what leads to constants of the library. */
#include "factory/task/task.h"

#include <link.h>
#include <stdio.h>
#include <string.h>

#include "factory/task/series_extra.h"
#include "kernel/base/panic.h"
#include "kernel/base/phase.h"
#include "kernel/data/visible.h"

#define NAME_SHOWN 96 /* bytes of a name */

/* -- the constants of the library -- */

static const char text[] = "a task";
static const char *const table[] = {text}; /* lies with the other constants that have addresses in them */

static int
look_in_module(struct dl_phdr_info *module, size_t size, void *context)
{
        struct weir__constants *found = context;

        (void)size;
        for (unsigned i = 0; i < module->dlpi_phnum; i++) {
                const ElfW(Phdr) *part = &module->dlpi_phdr[i];
                uintptr_t begin = module->dlpi_addr + part->p_vaddr, end = begin + part->p_memsz;

                if (part->p_type == PT_LOAD && (uintptr_t)table >= begin && (uintptr_t)table < end)
                        found->tables.begin = begin, found->tables.end = end;
                if (part->p_type == PT_LOAD && (uintptr_t)text >= begin && (uintptr_t)text < end)
                        found->texts.begin = begin, found->texts.end = end;
        }
        return found->tables.end != 0;
}

struct weir__constants
weir__task_constants(void)
{
        struct weir__constants found = {{0, 0}, {0, 0}};

        dl_iterate_phdr(look_in_module, &found);
        return found;
}

/* The operations of a work that may be anything; NULL: it is no work of a kind.  They are read once.  Another thread may be
 * writing there, so the caller must not read them again. */
static const struct weir__work_ops *
ops_of(const struct weir__constants *constants, const struct weir__work *work)
{
        const struct weir__work_ops *ops = __atomic_load_n(&work->ops, __ATOMIC_RELAXED);
        uintptr_t at = (uintptr_t)ops;

        if (at % _Alignof(struct weir__task_ops) || at < constants->tables.begin ||
            at >= constants->tables.end - sizeof(struct weir__task_ops))
                return NULL;
        at = (uintptr_t)ops->kind;
        return at >= constants->texts.begin && at < constants->texts.end ? ops : NULL;
}

/* The size tells most other things apart. */
const struct weir__work_ops *
weir__task_unstarted(const struct weir__constants *constants, const void *block, size_t size)
{
        const struct weir_task *task = block;
        bool is_one = size >= sizeof *task && task->size_class == (size + 7) / 8 && weir__task_is_new(task);

        return is_one ? ops_of(constants, &task->work) : NULL;
}

/* -- titles -- */

struct text {
        const char *text; /* NULL: there is none */
        size_t size;
};

/* The name in the memory of a task with those operations.  Its size is read once, too. */
static struct text
name_of(const struct weir__work_ops *ops, const struct weir_task *task)
{
        size_t at = ops ? ((const struct weir__task_ops *)ops)->name_at : 0, size = 8 * (size_t)task->size_class;
        const struct weir__name *name = (const struct weir__name *)((const char *)task + at);

        if (at == 0 || at >= size || size - at < WEIR__NAME_SIZE(0, 0))
                return (struct text){NULL, 0};
        size_t length = __atomic_load_n(&name->size, __ATOMIC_RELAXED);
        bool fits = length > 0 && length <= size - at - WEIR__NAME_SIZE(0, 0);
        return (struct text){fits ? name->text : NULL, length};
}

/* The same for a label. */
static struct text
label_of(const struct weir__work_ops *ops, const struct weir_task *task)
{
        size_t at = ops ? ((const struct weir__task_ops *)ops)->label_at : 0, size = 8 * (size_t)task->size_class;
        const char *label = (const char *)task + at;

        if (at == 0 || at >= size)
                return (struct text){NULL, 0};
        size_t length = (unsigned char)__atomic_load_n(label, __ATOMIC_RELAXED);
        bool fits = length > 0 && length < size - at;
        return (struct text){fits ? label + 1 : NULL, length};
}

static void
write_title(const char *kind, struct text name, char out[WEIR__TASK_TITLE])
{
        if (name.text)
                snprintf(out, WEIR__TASK_TITLE, "%s \"%.*s%s\"", kind, (int)weir__utf8_cut(name.text, name.size, NAME_SHOWN),
                         name.text, name.size > NAME_SHOWN ? "..." : "");
        else
                snprintf(out, WEIR__TASK_TITLE, "%s", kind);
}

bool
weir__task_write_title(const struct weir__constants *constants, const struct weir_task *task, char out[WEIR__TASK_TITLE])
{
        const struct weir__work_ops *ops = ops_of(constants, &task->work);
        struct text name = name_of(ops, task);

        if (!name.text)
                name = label_of(ops, task);
        write_title(weir__kind_without_article(ops ? ops->kind : text), name, out);
        return name.text;
}

bool
weir__task_write_title_of_live(const struct weir_task *task, char out[WEIR__TASK_TITLE])
{
        int size = 0;
        const char *name = weir__task_ops(task)->name ? weir__task_ops(task)->name(task, &size) : NULL;

        write_title(weir__kind_without_article(task->work.ops->kind), (struct text){name, (size_t)size}, out);
        return name;
}

/* -- what is consumed twice -- */

static const struct {
        const char *name; /* of the function */
        const char *did;  /* what it does with the task */
} acts[WEIR__ACTS] = {
        [WEIR__ACT_UNKNOWN >> 2] = {"the library", "taken"},
        [WEIR__ACT_START >> 2] = {"weir_task_start", "started"},
        [WEIR__ACT_RUN >> 2] = {"weir_task_run", "started"},
        [WEIR__ACT_DISMISS >> 2] = {"weir_task_dismiss", "dismissed"},
        [WEIR__ACT_PUSH >> 2] = {"weir_series_push", "pushed"},
        [WEIR__ACT_PUSH_FRONT >> 2] = {"weir_series_push_front", "pushed"},
        [WEIR__ACT_SERIES_START >> 2] = {"weir_series_start", "started"},
        [WEIR__ACT_SERIES_RUN >> 2] = {"weir_series_run", "started"},
        [WEIR__ACT_SERIES_DISMISS >> 2] = {"weir_series_dismiss", "dismissed"},
        [WEIR__ACT_PARALLEL_ADD >> 2] = {"weir_parallel_add", "added"},
        [WEIR__ACT_PARALLEL_ADD_SERIES >> 2] = {"weir_parallel_add_series", "added"},
        [WEIR__ACT_RACE_ADD >> 2] = {"weir_race_add", "added"},
        [WEIR__ACT_RACE_ADD_SERIES >> 2] = {"weir_race_add_series", "added"},
        [WEIR__ACT_GRAPH_ADD >> 2] = {"weir_graph_add", "added"},
        [WEIR__ACT_GRAPH_ADD_SERIES >> 2] = {"weir_graph_add_series", "added"},
        [WEIR__ACT_MODULE >> 2] = {"weir_module_new", "added"},
        [WEIR__ACT_TIMEOUT >> 2] = {"weir_timeout_new", "added"},
        [WEIR__ACT_LIMITED >> 2] = {"weir_limited_new", "added"},
        [WEIR__ACT_CONDITIONAL >> 2] = {"weir_conditional_new", "added"},
        [WEIR__ACT_CONDITIONAL_NAMED >> 2] = {"weir_conditional_new_named", "added"},
        [WEIR__ACT_SELECT_RECEIVE >> 2] = {"weir_select_receive", "taken"},
        [WEIR__ACT_SELECT_SEND >> 2] = {"weir_select_send", "taken"},
        [WEIR__ACT_MAKE >> 2] = {"a function that makes tasks", "returned"},
        [WEIR__ACT_RETRY >> 2] = {"a retry", "started"},
        [WEIR__ACT_SELECT_NEVER >> 2] = {"weir_select_never", "taken"},
        [WEIR__ACT_SELECT_DEFAULT >> 2] = {"weir_select_default", "taken"},
        [WEIR__ACT_PARALLEL_STOP_ON_FAILURE >> 2] = {"weir_parallel_stop_on_failure", "changed"},
        [WEIR__ACT_GRAPH_STOP_ON_FAILURE >> 2] = {"weir_graph_stop_on_failure", "changed"},
        [WEIR__ACT_START_WAITED >> 2] = {"weir_task_start_waited", "started"},
        [WEIR__ACT_SERIES_START_WAITED >> 2] = {"weir_series_start_waited", "started"},
        [WEIR__ACT_AWAIT >> 2] = {"weir_await", "awaited"},
        [WEIR__ACT_GROUP_START >> 2] = {"weir_group_start", "started"},
};

_Static_assert(WEIR__ACTS <= 64, "an act has six bits of the flags of a task");

void
weir__task_panic_consumed(const struct weir_task *task, enum weir__act act)
{
        struct weir__constants constants = weir__task_constants();
        unsigned first = task->flags >> 2 < WEIR__ACTS ? task->flags >> 2 : WEIR__ACT_UNKNOWN >> 2;
        char title[WEIR__TASK_TITLE];

        weir__memory_expect(task); /* its flags tell nothing if it was freed */
        weir__task_write_title(&constants, task, title);
        weir__panic("%s: %s was already %s (by %s)", acts[act >> 2].name, title, acts[first].did, acts[first].name);
}

void
weir__task_panic_closed(const struct weir_task *task, const struct weir__task_ops *ops, enum weir__act act)
{
        struct weir__constants constants = weir__task_constants();
        char title[WEIR__TASK_TITLE];

        weir__memory_expect(task);
        if (weir__task_ops(task) == ops)
                weir__task_panic_consumed(task, act);
        weir__task_write_title(&constants, task, title);
        weir__panic("%s: expected %s, and was given %s", acts[act >> 2].name, ops->work.kind, title);
}

/* The owner is the flow that a series was added to, a group that it counts in, or on the stack of a thread that waits. */
static void
write_owner(const struct weir_series *series, char out[WEIR__TASK_TITLE])
{
        struct weir__constants constants = weir__task_constants();

        const struct weir__work_ops *ops = series->owner ? ops_of(&constants, series->owner) : NULL;
        if (!series->owner)
                strcpy(out, "started (by weir_series_start)");
        else if (!ops)
                strcpy(out, "started (by weir_series_run or weir_series_start_waited)");
        else
                snprintf(out, WEIR__TASK_TITLE, "added to %s", ops->kind);
}

/* A series that has ended may be gone.  Nothing is followed then, unless the runtime has ended, too: what is refused after that
 * keeps its memory, with its name. */
void
weir__series_panic_consumed(struct weir_series *series, enum weir__act act)
{
        bool has_ended = series->state == WEIR__SERIES_ENDED;
        char name[NAME_SHOWN + 4] = "", first[WEIR__TASK_TITLE];

        weir__memory_expect(series);
        if (!has_ended || weir__phase_is_ended()) {
                const struct weir__series_extra *extra = weir__series_extra_of(series);
                const struct weir__series_name *own = extra && extra->series == series ? extra->own_name : NULL;

                if (own)
                        snprintf(name, sizeof name, " \"%.*s\"", (int)weir__utf8_cut(own->name.text, own->name.size, NAME_SHOWN),
                                 own->name.text);
        }
        if (has_ended)
                snprintf(first, sizeof first, "%s (by %s), and has ended", acts[series->act % WEIR__ACTS].did,
                         acts[series->act % WEIR__ACTS].name);
        else
                write_owner(series, first);
        weir__panic("%s: %sseries%s was already %s", acts[act >> 2].name, *name ? "" : "the ", name, first);
}
