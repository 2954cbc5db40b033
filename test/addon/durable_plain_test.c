/* Durable timers in memory. */
#include <stdio.h>

#define ENGINE_URL(number) snprintf(url, sizeof url, "memory:%d", (number))

#include "test/addon/durable_cases.h"
