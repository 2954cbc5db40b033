/* factory/guard.h: what a series holds. */
#ifndef WEIR_FACTORY_GUARD_H
#define WEIR_FACTORY_GUARD_H

#include <weir/guard.h>

/* The series has ended: it gives back what it holds.  On a worker, no lock held. */
void weir__guard_end(struct weir_series *series);

#endif
