/* test/interleave.h: a world in which one thread runs at a time, and a seed decides which.
 *
 * The compiler reads this in front of the library's own sources (-include), which are compiled for the test a second time.
 * All that their threads do to each other then goes through here: atomics, mutexes, conditions, futexes, threads, descriptors,
 * the clock and memory.  Each of these is a step, at which the scheduler of interleave.c may let another thread go on.  The
 * library's sources know nothing of it, and a seed takes the same way every time.
 *
 * Threads are real ones that hand a baton on, unseen by the sanitizers: what ThreadSanitizer knows of the order of things it has
 * from the library's own atomics and locks alone, so it reports a race although no two threads ever run at once. */
#ifndef WEIR_TEST_INTERLEAVE_H
#define WEIR_TEST_INTERLEAVE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

/* -- for the tests -- */

/* Runs the body as the first thread of a world of its own, in the order that the seed makes, until it returns; it has joined all
 * threads then.  Whatever goes wrong inside (no thread can go on, or they go on for ever, freed memory is used, a sanitizer or
 * the library aborts) ends the process and prints name and seed. */
void interleave_run(const char *name, uint64_t seed, void (*body)(void));

/* The same for that many seeds from WEIR_TEST_SEED on; each has to give back all memory that it has taken. */
void interleave_try(const char *name, void (*body)(void), unsigned seeds);

/* Makes a thread that does this once; and lets all that were made go on, until they are done. */
void interleave_act(void (*operation)(void *argument), void *argument);
void interleave_join_actors(void);

/* Whether threads are changed at any step, or only when one has to wait.  A run begins with `false`; joining the actors sets
 * it. */
void interleave_explore(bool on);

/* A number below `limit`, from the seed. */
unsigned interleave_random(unsigned limit);

/* Sleeps until somebody wakes this address. */
void interleave_sleep(const volatile void *address);
void interleave_wake(const volatile void *address, int count);

/* Prints the error, name and seed, and the last steps; and aborts. */
__attribute__((noreturn, format(printf, 1, 2))) void interleave_fail(const char *format, ...);

#define INTERLEAVE_EXPECT(condition) \
        ((condition) ? (void)0 : interleave_fail("%s:%d: %s does not hold", __FILE__, __LINE__, #condition))

/* A number that is the same if the steps of the last run were. */
uint64_t interleave_trace(void);

/* -- between scheduler and system: interleave.c, interleave_system.c -- */

void interleave_system_begin(int64_t now);
void interleave_system_end(void);

#define INTERLEAVE_POISON 0xde /* each byte of freed memory */

/* Blocks below 16 KiB that the library holds (tables of ids, which it keeps, are larger). */
size_t interleave_blocks(void);

/* Time goes on to the next deadline that a descriptor is armed for, if there is one. */
bool interleave_time_is_armed(void);
void interleave_time_passes(void);

/* -- for the macros below -- */

/* Before an access to the object of that size (NULL and 0: none in particular). */
void interleave_step(const volatile void *object, size_t size, const char *what, const char *function, int line);

/* Whether a weak compare-and-swap fails for no reason. */
bool interleave_fails(void);

int interleave_mutex_lock(pthread_mutex_t *mutex, const char *function, int line);
int interleave_mutex_trylock(pthread_mutex_t *mutex, const char *function, int line);
int interleave_mutex_unlock(pthread_mutex_t *mutex, const char *function, int line);
int interleave_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int interleave_cond_broadcast(pthread_cond_t *condition);
int interleave_thread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *), void *argument);
int interleave_thread_join(pthread_t thread, void **result);
long interleave_syscall(long number, ...); /* futex only */

int interleave_epoll_create(int flags);
int interleave_epoll_control(int epoll, int operation, int fd, struct epoll_event *event);
int interleave_epoll_wait(int epoll, struct epoll_event *events, int max, int timeout);
int interleave_eventfd(unsigned value, int flags);
int interleave_eventfd_write(int fd, eventfd_t value);
int interleave_timerfd(clockid_t clock, int flags);
int interleave_timerfd_set(int fd, int flags, const struct itimerspec *value, struct itimerspec *before);
int interleave_close(int fd);
int interleave_clock(clockid_t clock, struct timespec *now);
ssize_t interleave_getrandom(void *buffer, size_t size, unsigned flags);

void *interleave_malloc(size_t size);
void *interleave_aligned_alloc(size_t alignment, size_t size);
void *interleave_calloc(size_t count, size_t size);
void *interleave_realloc(void *block, size_t size);
void interleave_free(void *block);

/* -- atomics -- */

#ifdef __clang__
#define INTERLEAVE_LOAD(object, order)            __c11_atomic_load((object), (order))
#define INTERLEAVE_STORE(object, value, order)    __c11_atomic_store((object), (value), (order))
#define INTERLEAVE_DO(operation)                  __c11_atomic_##operation
#define INTERLEAVE_STRONG(object, expected, value, success, failure) \
        __c11_atomic_compare_exchange_strong((object), (expected), (value), (success), (failure))
#else
#define INTERLEAVE_LOAD(object, order)            __atomic_load_n((object), (order))
#define INTERLEAVE_STORE(object, value, order)    __atomic_store_n((object), (value), (order))
#define INTERLEAVE_DO(operation)                  INTERLEAVE_GNU_##operation
#define INTERLEAVE_GNU_exchange                   __atomic_exchange_n
#define INTERLEAVE_GNU_fetch_add                  __atomic_fetch_add
#define INTERLEAVE_GNU_fetch_sub                  __atomic_fetch_sub
#define INTERLEAVE_GNU_fetch_or                   __atomic_fetch_or
#define INTERLEAVE_GNU_fetch_and                  __atomic_fetch_and
#define INTERLEAVE_STRONG(object, expected, value, success, failure) \
        __atomic_compare_exchange_n((object), (expected), (value), false, (success), (failure))
#endif

#define INTERLEAVE_STEP(object, what) interleave_step((object), sizeof *(object), what, __func__, __LINE__)
#define INTERLEAVE_AFTER              interleave_step(NULL, 0, "after", __func__, __LINE__)

/* A change that others may see has a step behind it as well: the next access may touch memory that they have freed by then. */
#define INTERLEAVE_CHANGE(operation, object, value, order)                                                                   \
        __extension__({                                                                                                      \
                INTERLEAVE_STEP((object), #operation);                                                                       \
                __auto_type interleave_##operation##_ = INTERLEAVE_DO(operation)((object), (value), (order));                \
                INTERLEAVE_AFTER;                                                                              \
                interleave_##operation##_;                                                                                   \
        })

#define INTERLEAVE_SWAP(object, expected, value, success, failure)                                                           \
        __extension__({                                                                                                      \
                INTERLEAVE_STEP((object), "compare");                                                                        \
                bool interleave_swapped_ = INTERLEAVE_STRONG((object), (expected), (value), (success), (failure));           \
                INTERLEAVE_AFTER;                                                                              \
                interleave_swapped_;                                                                                         \
        })

#undef atomic_load
#undef atomic_load_explicit
#undef atomic_store
#undef atomic_store_explicit
#undef atomic_exchange
#undef atomic_exchange_explicit
#undef atomic_fetch_add
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_or
#undef atomic_fetch_or_explicit
#undef atomic_fetch_and
#undef atomic_fetch_and_explicit
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak
#undef atomic_compare_exchange_weak_explicit
#undef atomic_thread_fence

#define atomic_load_explicit(object, order) (INTERLEAVE_STEP((object), "load"), INTERLEAVE_LOAD((object), (order)))
#define atomic_store_explicit(object, value, order) \
        (INTERLEAVE_STEP((object), "store"), INTERLEAVE_STORE((object), (value), (order)), INTERLEAVE_AFTER)
#define atomic_exchange_explicit(object, value, order)  INTERLEAVE_CHANGE(exchange, object, value, order)
#define atomic_fetch_add_explicit(object, value, order) INTERLEAVE_CHANGE(fetch_add, object, value, order)
#define atomic_fetch_sub_explicit(object, value, order) INTERLEAVE_CHANGE(fetch_sub, object, value, order)
#define atomic_fetch_or_explicit(object, value, order)  INTERLEAVE_CHANGE(fetch_or, object, value, order)
#define atomic_fetch_and_explicit(object, value, order) INTERLEAVE_CHANGE(fetch_and, object, value, order)
#define atomic_compare_exchange_strong_explicit(object, expected, value, success, failure) \
        INTERLEAVE_SWAP(object, expected, value, success, failure)
#define atomic_compare_exchange_weak_explicit(object, expected, value, success, failure)             \
        (interleave_fails() ? (*(expected) = INTERLEAVE_LOAD((object), (failure)), false)            \
                            : INTERLEAVE_SWAP(object, expected, value, success, failure))

#define atomic_load(object)             atomic_load_explicit(object, memory_order_seq_cst)
#define atomic_store(object, value)     atomic_store_explicit(object, value, memory_order_seq_cst)
#define atomic_exchange(object, value)  atomic_exchange_explicit(object, value, memory_order_seq_cst)
#define atomic_fetch_add(object, value) atomic_fetch_add_explicit(object, value, memory_order_seq_cst)
#define atomic_fetch_sub(object, value) atomic_fetch_sub_explicit(object, value, memory_order_seq_cst)
#define atomic_fetch_or(object, value)  atomic_fetch_or_explicit(object, value, memory_order_seq_cst)
#define atomic_fetch_and(object, value) atomic_fetch_and_explicit(object, value, memory_order_seq_cst)
#define atomic_compare_exchange_strong(object, expected, value) \
        atomic_compare_exchange_strong_explicit(object, expected, value, memory_order_seq_cst, memory_order_seq_cst)
#define atomic_compare_exchange_weak(object, expected, value) \
        atomic_compare_exchange_weak_explicit(object, expected, value, memory_order_seq_cst, memory_order_seq_cst)
#define atomic_thread_fence(order) (INTERLEAVE_AFTER, __atomic_thread_fence(order))

/* -- the rest; interleave.c itself needs the real ones -- */

#ifndef INTERLEAVE_SCHEDULER
#define WEIR__LOCK_SPINS                            1
#define pthread_mutex_lock(mutex)                   interleave_mutex_lock((mutex), __func__, __LINE__)
#define pthread_mutex_trylock(mutex)                interleave_mutex_trylock((mutex), __func__, __LINE__)
#define pthread_mutex_unlock(mutex)                 interleave_mutex_unlock((mutex), __func__, __LINE__)
#define pthread_cond_wait(condition, mutex)         interleave_cond_wait((condition), (mutex))
#define pthread_cond_timedwait(condition, mutex, t) ((void)(t), interleave_cond_wait((condition), (mutex)))
#define pthread_cond_signal(condition)              interleave_cond_broadcast(condition)
#define pthread_cond_broadcast(condition)           interleave_cond_broadcast(condition)
#define pthread_create                              interleave_thread_create
#define pthread_join                                interleave_thread_join
#define pthread_clockjoin_np(thread, result, clock, t) ((void)(t), interleave_thread_join((thread), (result)))
#define syscall                                     interleave_syscall
#define sched_yield()                               (INTERLEAVE_AFTER, 0)

#define epoll_create1                interleave_epoll_create
#define epoll_ctl                    interleave_epoll_control
#define epoll_wait                   interleave_epoll_wait
#define eventfd(value, flags)        interleave_eventfd((value), (flags))
#define eventfd_write(fd, value)     interleave_eventfd_write((fd), (value))
#define timerfd_create               interleave_timerfd
#define timerfd_settime              interleave_timerfd_set
#define close(fd)                    interleave_close(fd)
#define clock_gettime                interleave_clock
#define getrandom                    interleave_getrandom

#define malloc(size)         interleave_malloc(size)
#define aligned_alloc(alignment, size) interleave_aligned_alloc((alignment), (size))
#define calloc(count, size)  interleave_calloc((count), (size))
#define realloc(block, size) interleave_realloc((block), (size))
#define free(block)          interleave_free(block)
#endif

#endif
