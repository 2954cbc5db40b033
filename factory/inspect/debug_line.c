/* factory/inspect/debug_line.c: a record that is made under some lock, and shown without.
 *
 * Threads: any; a line belongs to one thread. */
#include "factory/inspect/debug_walk.h"

#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernel/data/visible.h"

void
weir__debug_line_begin(struct weir__debug_line *line, enum weir__debug_section section, unsigned depth, const char *kind)
{
        line->record = (struct weir__debug_record){
                .section = section,
                .depth = depth,
                .kind = kind,
                .age = -1,
                .deadline = WEIR_FOREVER,
                .text = line->text,
                .also = line->also,
                .behind = line->behind,
        };
        line->text[0] = line->also[0] = line->behind[0] = '\0';
}

void
weir__debug_line_name(struct weir__debug_line *line, const char *name, size_t size)
{
        size_t shown = weir__utf8_cut(name, size, WEIR__DEBUG_NAME);

        memcpy(line->name, name, shown);
        if (shown < size)
                memcpy(line->name + shown, "...", 3);
        line->record.name = line->name;
        line->record.name_size = shown < size ? shown + 3 : shown;
}

void
weir__debug_line_add(struct weir__debug_line *line, const char *format, ...)
{
        size_t used = strlen(line->text);
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(line->text + used, sizeof line->text - used, format, arguments);
        va_end(arguments);
}

/* Kinds have states of their own behind the common ones.  In these they work. */
static const char *
state_of(uint32_t word)
{
        switch (word & WEIR__STATE) {
        case WEIR__NEW: return "about to start";
        case WEIR__PENDING: return "pending";
        case WEIR__READY: return "ready";
        default: return "running";
        }
}

bool
weir__debug_line_task(struct weir__debug_line *line, const struct weir_task *task)
{
        const struct weir__task_ops *ops = weir__task_ops(task);
        uint32_t word = atomic_load_explicit(&task->word, memory_order_acquire);
        bool is_new = (word & WEIR__STATE) == WEIR__NEW; /* its starter may still write to it */
        size_t used = strlen(line->text);
        int size = 0;
        const char *name = ops->name ? ops->name(task, &size) : NULL;

        line->record.kind = weir__kind_without_article(ops->work.kind ? ops->work.kind : "task");
        line->record.state = state_of(word);
        if (name)
                weir__debug_line_name(line, name, (size_t)size);
        if (ops->describe && !is_new)
                ops->describe(task, line->text + used, sizeof line->text - used);
        return !is_new;
}

void
weir__debug_show(struct weir__debug_walk *walk, struct weir__debug_line *line)
{
        if (!walk->is_stopped)
                walk->is_stopped = walk->show(&line->record, walk->context);
}

/* -- functions of the program -- */

struct search {
        uintptr_t address;
        struct weir__debug_line *line;
};

static int
look_in_module(struct dl_phdr_info *module, size_t size, void *context)
{
        const struct search *search = context;
        const char *name = strrchr(module->dlpi_name, '/');

        (void)size;
        for (unsigned i = 0; i < module->dlpi_phnum; i++) {
                const ElfW(Phdr) *part = &module->dlpi_phdr[i];
                uintptr_t begin = module->dlpi_addr + part->p_vaddr;

                if (part->p_type != PT_LOAD || search->address < begin || search->address - begin >= part->p_memsz)
                        continue;
                name = name ? name + 1 : module->dlpi_name[0] ? module->dlpi_name : program_invocation_short_name;
                weir__debug_line_add(search->line, "%s+0x%" PRIxPTR, name, search->address - (uintptr_t)module->dlpi_addr);
                return 1;
        }
        return 0;
}

/* Not by dladdr: that takes a lock of the loader which the constructors of a library have that is being loaded, and these may be
 * what blocks. */
void
weir__debug_line_add_function(struct weir__debug_line *line, void (*function)(void))
{
        struct search search = {(uintptr_t)function, line};

        if (!function)
                weir__debug_line_add(line, "a function that is not known");
        else if (!dl_iterate_phdr(look_in_module, &search))
                weir__debug_line_add(line, "0x%" PRIxPTR, search.address);
}
