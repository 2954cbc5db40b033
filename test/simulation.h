/* test/simulation.h: random flows from one seed, on the virtual clock, against a plain model.
 *
 * A step is one operation, or one callback.  After each the contract is checked.  At the first difference the process says the
 * seed, the step, the expected and the real result and the steps before, and exits with status 1. */
#ifndef WEIR_TEST_SIMULATION_H
#define WEIR_TEST_SIMULATION_H

#include <stdbool.h>
#include <stdint.h>

struct simulation_setup {
        uint64_t seed, steps;
        unsigned objects;     /* alive at a time, about; 0: another number for each life of the runtime */
        unsigned trace;       /* how many of the last events are printed at a difference */
        uint32_t without;     /* bits: kinds of operations that are left out (simulation_kind) */
        uint64_t *differs_at; /* where the step of a difference is left, for a parent process; NULL: nowhere */
        uint64_t lie_at;      /* from this step on the model is wrong about tickers that skip; 0: never */
};

struct simulation_result {
        uint64_t steps, callbacks, ticks, lives;
        uint64_t hash; /* of all that happened */
};

/* Threads: one at a time, not a worker.  The runtime is down at the beginning and at the end. */
void simulation_run(const struct simulation_setup *setup, struct simulation_result *result);

/* Returns the name of the operation of that number; NULL: there are no more. */
const char *simulation_kind(unsigned number);

#endif
