/* kernel/stack/arena.c: arenas of 64 MiB, cut into slots of one size.
 *
 *      a slot:   fresh --taken--> out <--> idle: free, and its pages are in memory
 *                                 out <--- blank <--its pages go back-- idle
 *      an arena: new --> has free slots <--> has none;  its last slot comes back --> kept, or unmapped
 *
 * What is known about the slots lies before them: a stack that sleeps touches nothing but its own page.
 *
 * Threads: one lock, a leaf, guards all.  Under it are no system calls, and at most some hundred steps.
 *
 * Invariants:
 *   - an arena is in the list if and only if it has free slots of the present size;
 *   - at most one arena in the list has no slot out: the kept one.
 * A slot whose pages are being given back counts as out.
 *
 * Giving back follows the rule of the small blocks (docs/decisions/703).  An arena is unmapped when its last slot comes back; one
 * is kept.  An arena is wasteful when it has more idle slots than slots that are out, and more than FEW_IDLE.  It loses the pages
 * of its idle slots, but not at once: WAITING_MOST wasteful arenas wait, and the one that came first makes room for the next.
 *
 * A stack that was used deeply keeps many pages, and would keep them for its next user, who may need one.  So some of the stacks
 * that come back are looked at, and where one of these is deep so are the others of its chain.  Deep ones lose all pages but the
 * first.  DEEP_MOST of them may stay as they are: where each fiber recurses deeply, the next one needs these pages again, and
 * touching a page costs more than all else here.
 *
 * Fork: stack.c holds the lock meanwhile, so the child finds all this whole. */
#include "kernel/stack/arena.h"

#include <errno.h>

#include "kernel/base/lock.h"

#define FEW_IDLE     16 /* slots: an arena may have as many whatever else it has */
#define WAITING_MOST 2  /* wasteful arenas */
#define DEEP_MOST    64 /* free stacks that may stay deep */
#define SAMPLE       16 /* of so many stacks that come back one is looked at */

static struct {
        struct weir__lock lock;

        /* Guarded by lock. */
        struct weir__list arenas; /* with free slots */
        struct weir__arena *kept; /* the one of them with no slot out; NULL: none */
        struct weir__list waiting;
        unsigned waiting_count;
        unsigned deep;    /* free stacks */
        size_t out, made; /* slots */
        size_t size;      /* usable bytes of a stack in a new arena; 0: not known yet */
} all = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF)};

/* What is given back after the lock was released. */
struct garbage {
        bool should_keep;
        struct weir__list arenas;     /* to be unmapped */
        struct weir__arena *wasteful; /* loses the pages of `idle`, which count as out meanwhile; NULL: none */
        struct weir__stack *idle;
};

/* -- arenas, with the lock held -- */

static bool
has_free(const struct weir__arena *arena)
{
        return arena->idle || arena->blank || arena->bare || arena->fresh < arena->count;
}

static bool
is_present(const struct weir__arena *arena)
{
        return arena->slot == arena->guard + all.size;
}

static struct weir__stack *
pop(struct weir__stack **list)
{
        struct weir__stack *first = *list;

        *list = first->next;
        return first;
}

static void
push(struct weir__stack **list, struct weir__stack *stack)
{
        stack->next = *list;
        *list = stack;
}

/* A free slot of an arena that has one. */
static struct weir__stack *
take_slot(struct weir__arena *arena)
{
        struct weir__stack *stack;

        if (arena->idle) {
                stack = pop(&arena->idle);
                arena->idle_count--;
        } else if (arena->blank) {
                stack = pop(&arena->blank);
        } else if (arena->bare) {
                stack = pop(&arena->bare);
        } else {
                stack = &arena->stacks[arena->fresh++];
                all.made++;
        }
        all.deep -= stack->is_deep;
        stack->is_deep = false;
        arena->out++;
        all.out++;
        return stack;
}

static void
note_taken(struct weir__arena *arena)
{
        if (!has_free(arena))
                weir__link_remove(&arena->link);
        if (arena == all.kept)
                all.kept = NULL;
}

/* So many slots of one arena, or fewer, in order.  NULL: there are none. */
static struct weir__stack *
take_slots(unsigned most)
{
        struct weir__link *link = weir__list_first(&all.arenas);
        struct weir__stack *chain = NULL, **end = &chain;

        if (!link)
                return NULL;
        struct weir__arena *arena = weir__container_of(link, struct weir__arena, link);
        for (; most && has_free(arena); most--) {
                *end = take_slot(arena);
                end = &(*end)->next;
        }
        *end = NULL;
        note_taken(arena);
        return chain;
}

/* A slot with a guard, wherever it is. */
static struct weir__stack *
take_guarded(void)
{
        for (struct weir__link *link = weir__list_first(&all.arenas); link; link = weir__list_next(&all.arenas, link)) {
                struct weir__arena *arena = weir__container_of(link, struct weir__arena, link);

                if (!arena->idle && !arena->blank)
                        continue;
                struct weir__stack *stack = take_slot(arena);
                stack->next = NULL;
                note_taken(arena);
                return stack;
        }
        return NULL;
}

static void
end_wait(struct weir__arena *arena)
{
        if (!weir__link_is_used(&arena->waiting))
                return;
        weir__link_remove(&arena->waiting);
        all.waiting_count--;
}

/* No slot of the arena is out any more. */
static void
drop_arena(struct weir__arena *arena, struct garbage *garbage)
{
        end_wait(arena);
        if (garbage->should_keep && is_present(arena) && !all.kept) {
                all.kept = arena;
                return;
        }
        for (struct weir__stack *stack = arena->idle; stack; stack = stack->next)
                all.deep -= stack->is_deep;
        all.made -= arena->fresh;
        if (weir__link_is_used(&arena->link))
                weir__link_remove(&arena->link);
        weir__list_append(&garbage->arenas, &arena->link);
}

static bool
is_wasteful(const struct weir__arena *arena)
{
        return arena->idle_count > FEW_IDLE + arena->out;
}

/* The idle slots count as out from now on. */
static void
take_idle(struct weir__arena *arena, struct garbage *garbage)
{
        for (struct weir__stack *stack = arena->idle; stack; stack = stack->next) {
                all.deep -= stack->is_deep;
                stack->is_deep = false;
        }
        garbage->wasteful = arena;
        garbage->idle = arena->idle;
        arena->out += arena->idle_count;
        all.out += arena->idle_count;
        arena->idle = NULL;
        arena->idle_count = 0;
        if (!has_free(arena) && weir__link_is_used(&arena->link))
                weir__link_remove(&arena->link);
}

/* Lets a wasteful arena wait, and takes the pages of the one that has waited longest. */
static void
let_wait(struct weir__arena *arena, struct garbage *garbage)
{
        if (garbage->wasteful || weir__link_is_used(&arena->waiting))
                return;
        weir__list_append(&all.waiting, &arena->waiting);
        if (++all.waiting_count <= WAITING_MOST)
                return;
        arena = weir__container_of(weir__list_first(&all.waiting), struct weir__arena, waiting);
        end_wait(arena);
        if (is_wasteful(arena))
                take_idle(arena, garbage);
}

static void
note_free(struct weir__arena *arena, unsigned count)
{
        arena->out -= count;
        all.out -= count;
        if (!weir__link_is_used(&arena->link) && is_present(arena))
                weir__list_prepend(&all.arenas, &arena->link);
}

static void
put_slot(struct weir__stack *stack, struct garbage *garbage)
{
        struct weir__arena *arena = stack->arena;

        if (stack->is_guarded) {
                push(&arena->idle, stack);
                arena->idle_count++;
        } else {
                push(&arena->bare, stack);
        }
        all.deep += stack->is_deep;
        note_free(arena, 1);
        if (!arena->out)
                drop_arena(arena, garbage);
        else if (is_wasteful(arena))
                let_wait(arena, garbage);
}

/* -- pages, without the lock -- */

/* A few deep stacks stay so: `deep` of them are free by now. */
static void
look_at_depth(struct weir__stack *stack, unsigned *deep)
{
        if (!stack->is_guarded || !weir__slots_is_deep(stack))
                return;
        if (++*deep <= DEEP_MOST)
                stack->is_deep = true;
        else
                weir__slots_make_shallow(stack);
}

/* Looks at one stack in SAMPLE, and at all of a chain where that one is deep. */
static void
trim_chain(struct weir__stack *chain)
{
        unsigned i = 0, deep;

        weir__lock(&all.lock);
        deep = all.deep;
        weir__unlock(&all.lock);
        for (struct weir__stack *stack = chain; stack; stack = stack->next, i++) {
                if (i % SAMPLE || !stack->is_guarded || !weir__slots_is_deep(stack))
                        continue;
                for (stack = chain; stack; stack = stack->next)
                        look_at_depth(stack, &deep);
                return;
        }
}

static void
end_waste(struct garbage *garbage)
{
        struct weir__arena *arena = garbage->wasteful;
        unsigned count = 0;

        weir__slots_drop(arena, garbage->idle);
        weir__lock(&all.lock);
        for (struct weir__stack *next; garbage->idle; garbage->idle = next, count++) {
                next = garbage->idle->next;
                push(&arena->blank, garbage->idle);
        }
        note_free(arena, count);
        if (!arena->out)
                drop_arena(arena, garbage);
        weir__unlock(&all.lock);
}

static void
give_back(struct garbage *garbage)
{
        if (garbage->wasteful)
                end_waste(garbage);
        for (struct weir__link *link; (link = weir__list_pop(&garbage->arenas));)
                weir__slots_unmap(weir__container_of(link, struct weir__arena, link));
}

/* -- the interface -- */

size_t
weir__arenas_stack_size(void)
{
        size_t size;

        weir__lock(&all.lock);
        size = all.size;
        weir__unlock(&all.lock);
        return size ? size : weir__slots_size(0);
}

/* Two threads may come here at once for want of one slot: then there is one arena too many. */
static struct weir__stack *
take_of_new_arena(unsigned most)
{
        size_t size = weir__arenas_stack_size();
        struct weir__arena *arena = weir__slots_map(size);
        struct weir__stack *chain;

        if (!arena)
                return NULL;
        weir__lock(&all.lock);
        if (!all.size)
                all.size = size;
        weir__list_prepend(&all.arenas, &arena->link);
        chain = take_slots(most);
        weir__unlock(&all.lock);
        return chain;
}

struct weir__stack *
weir__arenas_take(unsigned most, bool should_be_guarded, int *failed)
{
        struct weir__stack *chain;

        weir__lock(&all.lock);
        chain = should_be_guarded ? take_guarded() : take_slots(most);
        weir__unlock(&all.lock);
        if (!chain && !should_be_guarded)
                chain = take_of_new_arena(most);
        *failed = chain ? 0 : should_be_guarded ? -EAGAIN : -ENOMEM;
        return chain;
}

void
weir__arenas_give(struct weir__stack *chain, bool should_keep)
{
        trim_chain(chain);
        while (chain) { /* one arena at most loses pages in a turn */
                struct garbage garbage = {.should_keep = should_keep};

                weir__lock(&all.lock);
                for (struct weir__stack *next; chain && !garbage.wasteful; chain = next) {
                        next = chain->next;
                        put_slot(chain, &garbage);
                }
                weir__unlock(&all.lock);
                give_back(&garbage);
        }
}

void
weir__arenas_trim(void)
{
        struct garbage garbage = {.should_keep = false};

        weir__lock(&all.lock);
        if (all.kept)
                drop_arena(all.kept, &garbage);
        all.kept = NULL;
        weir__unlock(&all.lock);
        give_back(&garbage);
}

/* Arenas of another size take no part any more, and go when their last stack comes back. */
void
weir__arenas_configure(size_t size)
{
        size = weir__slots_size(size);
        weir__lock(&all.lock);
        bool is_same = all.size == size;
        weir__unlock(&all.lock);
        if (is_same)
                return;
        weir__arenas_trim();
        weir__lock(&all.lock);
        all.size = size;
        for (struct weir__link *link; (link = weir__list_first(&all.arenas));)
                weir__link_remove(link);
        weir__unlock(&all.lock);
}

void
weir__arenas_count(size_t *made, size_t *out)
{
        weir__lock(&all.lock);
        *made = all.made;
        *out = all.out;
        weir__unlock(&all.lock);
}

void
weir__arenas_hold(void)
{
        weir__lock_hold(&all.lock);
}

void
weir__arenas_release(void)
{
        weir__unlock(&all.lock);
}
