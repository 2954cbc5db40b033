/* bench/executor.h: the parts of bench/executor.  Each measures its cases once, a peer after the other; main repeats them. */
#ifndef WEIR_BENCH_EXECUTOR_H
#define WEIR_BENCH_EXECUTOR_H

#include "cases.h"
#include "peers.h"

void bench_functions(const struct bench_size *size); /* functions.c: on the executor */
void bench_functions_ratios(void);                   /* when all rounds are over */
void bench_tasks(const struct bench_size *size);     /* tasks.c: series, parallels, timers of 0 */
void bench_tasks_ratios(void);

#endif
