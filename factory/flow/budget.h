/* factory/flow/budget.h: what retries share, so that there are not too many of them. */
#ifndef WEIR_FACTORY_BUDGET_H
#define WEIR_FACTORY_BUDGET_H

#include <stdbool.h>

#include <weir/retry.h>

/* Each ref is the caller's to free.  NULL is a budget without a limit.  Any thread. */
weir_retry_budget *weir__budget_ref(weir_retry_budget *budget);

/* There is a first attempt. */
void weir__budget_deposit(weir_retry_budget *budget);

/* There is to be a retry.  Returns whether there may be. */
bool weir__budget_withdraw(weir_retry_budget *budget);

/* The retry was not made. */
void weir__budget_give_back(weir_retry_budget *budget);

#endif
