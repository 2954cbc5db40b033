/* Durable timers in a file of SQLite. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char directory[] = "/tmp/weir-durable-XXXXXX";

static void
remove_files(void)
{
        char command[100];

        snprintf(command, sizeof command, "rm -rf %s", directory);
        if (system(command) != 0)
                perror(command);
}

/* A directory for all files of this process. */
static const char *
path_of(int number)
{
        static char path[sizeof directory + 20];

        if (number == 0) {
                if (!mkdtemp(directory))
                        abort();
                atexit(remove_files);
        }
        snprintf(path, sizeof path, "%s/%d.db", directory, number);
        return path;
}

#define ENGINE_URL(number) snprintf(url, sizeof url, "sqlite:%s", path_of(number))

#include "test/addon/durable_cases.h"
