/* factory/flow/budget.c: a bucket of tokens that retries share: first attempts put some in, each retry takes some out.
 *
 * Threads: any.  The balance is a number of its own, on which nothing else depends: relaxed. */
#include "factory/flow/budget.h"

#include <stdatomic.h>
#include <stdint.h>

#include "kernel/memory/memory.h"

#define TOKENS_OF_RETRY 100

struct weir_retry_budget {
        /* Constant. */
        int64_t deposit; /* for each first attempt */
        int64_t most;

        _Atomic int64_t balance; /* 0 to `most` */
        _Atomic unsigned references;
};

weir_retry_budget *
weir_retry_budget_new(unsigned percent, unsigned burst)
{
        struct weir_retry_budget *budget = weir__alloc(sizeof *budget);

        if (!budget)
                return NULL;
        budget->deposit = percent;
        budget->most = TOKENS_OF_RETRY * (int64_t)(burst ? burst : 1);
        atomic_init(&budget->balance, budget->most);
        atomic_init(&budget->references, 1);
        return budget;
}

weir_retry_budget *
weir__budget_ref(weir_retry_budget *budget)
{
        if (budget)
                atomic_fetch_add_explicit(&budget->references, 1, memory_order_relaxed);
        return budget;
}

void
weir_retry_budget_free(weir_retry_budget *budget)
{
        weir__memory_expect(budget);
        if (budget && atomic_fetch_sub_explicit(&budget->references, 1, memory_order_acq_rel) == 1)
                weir__free(budget, sizeof *budget);
}

/* Adds that much, up to `most`.  Returns false, and changes nothing, when the balance would fall below 0.  NULL: true. */
static bool
change_balance(weir_retry_budget *budget, int64_t change)
{
        if (!budget)
                return true;
        int64_t balance = atomic_load_explicit(&budget->balance, memory_order_relaxed), after;
        do {
                after = balance + change < budget->most ? balance + change : budget->most;
        } while (after >= 0 && !atomic_compare_exchange_weak_explicit(&budget->balance, &balance, after, memory_order_relaxed,
                                                                      memory_order_relaxed));
        return after >= 0;
}

void
weir__budget_deposit(weir_retry_budget *budget)
{
        if (budget)
                change_balance(budget, budget->deposit);
}

bool
weir__budget_withdraw(weir_retry_budget *budget)
{
        return change_balance(budget, -TOKENS_OF_RETRY);
}

void
weir__budget_give_back(weir_retry_budget *budget)
{
        (void)change_balance(budget, TOKENS_OF_RETRY);
}
