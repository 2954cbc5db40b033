/* bench/peers/wheel.h: the floor under timers: a bare wheel with one mutex, one clock read a call, and the caller's memory.
 *
 * It only adds and cancels; that it could also expire is left out, as none of the cases that use it comes to that. */
#ifndef WEIR_BENCH_WHEEL_H
#define WEIR_BENCH_WHEEL_H

#include <stdint.h>

/* 72 bytes, as a callback, its context and a deadline would need. */
struct wheel_timer {
        struct wheel_timer *previous, *next;
        int64_t deadline;
        void (*done)(void *context);
        void *context;
        uint64_t padding[4];
};

void wheel_init(void);
void wheel_add(struct wheel_timer *timer, int64_t after);
void wheel_cancel(struct wheel_timer *timer); /* calls done */

#endif
