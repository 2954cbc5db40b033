/* kernel/base/phase.c: the phase of the runtime.  The header has the states. */
#include "kernel/base/phase.h"

_Atomic int weir__phase;
unsigned weir__phase_generation;
_Atomic weir_nsec weir__phase_exit_wait = WEIR__PHASE_EXIT_WAIT;
