/* kernel/base/list.h: lists whose links lie inside their elements, and the way from a member to its struct.
 *
 *      struct job {
 *              struct weir__link link;
 *      };
 *      static struct weir__list jobs;
 *
 *      weir__list_append(&jobs, &job->link);
 *      for (struct weir__link *link = weir__list_first(&jobs); link; link = weir__list_next(&jobs, link))
 *              run(weir__container_of(link, struct job, link));
 *
 * A list is a ring through its head, so an element leaves it in constant time without knowing the list.  All zero is an empty
 * list, and a link of zeros is in no list.  A head with elements must not be copied or moved. */
#ifndef WEIR_KERNEL_LIST_H
#define WEIR_KERNEL_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* The struct of that type whose member this points to.  The compiler checks the member's type, unless the pointer is a `void
 * *`. */
#define weir__container_of(pointer, type, member) \
        ((type *)(void *)((char *)(1 ? (pointer) : (typeof(((type *)0)->member) *)0) - offsetof(type, member)))

struct weir__link {
        struct weir__link *previous, *next; /* NULL: in no list */
};

struct weir__list {
        struct weir__link head; /* NULL, or linked to itself: empty */
};

static inline bool
weir__list_is_empty(const struct weir__list *list)
{
        return !list->head.next || list->head.next == &list->head;
}

static inline bool
weir__link_is_used(const struct weir__link *link)
{
        return link->next;
}

/* The first element; NULL: there is none. */
static inline struct weir__link *
weir__list_first(const struct weir__list *list)
{
        return weir__list_is_empty(list) ? NULL : list->head.next;
}

/* The element behind that one; NULL: it is the last. */
static inline struct weir__link *
weir__list_next(const struct weir__list *list, const struct weir__link *link)
{
        return link->next == &list->head ? NULL : link->next;
}

/* Puts a link that is in no list between two neighbours. */
static inline void
weir__link_insert(struct weir__link *link, struct weir__link *previous, struct weir__link *next)
{
        link->previous = previous;
        link->next = next;
        previous->next = next->previous = link;
}

static inline void
weir__list_prepare(struct weir__list *list)
{
        if (!list->head.next)
                list->head.previous = list->head.next = &list->head;
}

static inline void
weir__list_append(struct weir__list *list, struct weir__link *link)
{
        weir__list_prepare(list);
        weir__link_insert(link, list->head.previous, &list->head);
}

static inline void
weir__list_prepend(struct weir__list *list, struct weir__link *link)
{
        weir__list_prepare(list);
        weir__link_insert(link, &list->head, list->head.next);
}

/* Takes the link out of its list. */
static inline void
weir__link_remove(struct weir__link *link)
{
        link->previous->next = link->next;
        link->next->previous = link->previous;
        link->previous = link->next = NULL;
}

/* Takes out the first element and returns it; NULL: there was none. */
static inline struct weir__link *
weir__list_pop(struct weir__list *list)
{
        struct weir__link *first = weir__list_first(list);

        if (first)
                weir__link_remove(first);
        return first;
}

/* Moves all elements of `from` to the end of `to`. */
static inline void
weir__list_concat(struct weir__list *to, struct weir__list *from)
{
        if (weir__list_is_empty(from))
                return;
        weir__list_prepare(to);
        to->head.previous->next = from->head.next;
        from->head.next->previous = to->head.previous;
        to->head.previous = from->head.previous;
        to->head.previous->next = &to->head;
        *from = (struct weir__list){0};
}

/* A list whose head is one word: its first element, whose previous one is the last.  An element leaves it in constant time, too,
 * if the list is known. */
struct weir__ring {
        struct weir__link *first; /* NULL: it is empty */
};

static inline bool
weir__ring_is_empty(const struct weir__ring *ring)
{
        return !ring->first;
}

static inline struct weir__link *
weir__ring_first(const struct weir__ring *ring)
{
        return ring->first;
}

static inline void
weir__ring_append(struct weir__ring *ring, struct weir__link *link)
{
        if (ring->first) {
                weir__link_insert(link, ring->first->previous, ring->first);
        } else {
                link->previous = link->next = link;
                ring->first = link;
        }
}

/* Takes the link out of that ring. */
static inline void
weir__ring_remove(struct weir__ring *ring, struct weir__link *link)
{
        if (ring->first == link)
                ring->first = link->next == link ? NULL : link->next;
        weir__link_remove(link);
}

#endif
