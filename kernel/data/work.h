/* kernel/data/work.h: what a worker runs, and lists of it. */
#ifndef WEIR_KERNEL_WORK_H
#define WEIR_KERNEL_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct weir__work;

typedef void weir__function(void); /* any, as an address */

/* The table of a kind of work.  Larger tables begin with it. */
struct weir__work_ops {
        void (*run)(struct weir__work *work); /* on the worker's stack, with no lock held */
        const char *kind; /* in messages: "a timer"; NULL: it has no callback of the program */
        bool is_migratable; /* may be run by the owner of any poller */

        /* Which function of the program it will call.  NULL: none, or it is not known. */
        weir__function *(*function)(const struct weir__work *work);

        /* Its name for messages, without a NUL perhaps, and the size of that.  The name neither changes nor goes while a function
         * of the program runs for the work, so another thread may look then.  Returns NULL, as NULL does: it has none. */
        const char *(*name)(const struct weir__work *work, int *size);
};

/* "timer" for "a timer". */
static inline const char *
weir__kind_without_article(const char *kind)
{
        return strncmp(kind, "a ", 2) == 0 ? kind + 2 : strncmp(kind, "an ", 3) == 0 ? kind + 3 : kind;
}

/* Embedded in whatever has to be run.  In one list at most; `next` may be used freely while in none. */
struct weir__work {
        struct weir__work *next;
        const struct weir__work_ops *ops;
};

/* First in, first out.  All zero is empty. */
struct weir__work_list {
        struct weir__work *first, *last;
};

static inline void weir__work_append(struct weir__work_list *list, struct weir__work *work)
{
        work->next = NULL;
        if (list->last)
                list->last->next = work;
        else
                list->first = work;
        list->last = work;
}

static inline void weir__work_prepend(struct weir__work_list *list, struct weir__work *work)
{
        work->next = list->first;
        list->first = work;
        if (!list->last)
                list->last = work;
}

/* The work keeps its `next`: the one behind it, while that is the first of the list. */
static inline struct weir__work *weir__work_pop(struct weir__work_list *list)
{
        struct weir__work *work = list->first;

        if (work) {
                list->first = work->next;
                if (!list->first)
                        list->last = NULL;
        }
        return work;
}

/* Moves all of `from` behind `to`. */
static inline void weir__work_concat(struct weir__work_list *to, struct weir__work_list *from)
{
        if (!from->first)
                return;
        if (to->last)
                to->last->next = from->first;
        else
                to->first = from->first;
        to->last = from->last;
        from->first = from->last = NULL;
}

#endif
