/* test/addon/durable_url.h: URLs of files of SQLite in a directory that goes with the process. */
#ifndef WEIR_TEST_DURABLE_URL_H
#define WEIR_TEST_DURABLE_URL_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char durable_directory[] = "/tmp/weir-durable-XXXXXX";
static pid_t durable_owner;

static inline void
durable_remove_files(void)
{
        char command[100];

        snprintf(command, sizeof command, "rm -rf %s", durable_directory);
        if (getpid() == durable_owner && system(command) != 0)
                perror(command);
}

/* The path of a file that is not there yet. */
static inline const char *
durable_path(void)
{
        static char path[sizeof durable_directory + 20];
        static int number;

        if (number == 0) {
                if (!mkdtemp(durable_directory))
                        abort();
                durable_owner = getpid();
                atexit(durable_remove_files);
        }
        snprintf(path, sizeof path, "%s/%d.db", durable_directory, number++);
        return path;
}

static inline const char *
sqlite_url(void)
{
        static char url[sizeof durable_directory + 30];

        snprintf(url, sizeof url, "sqlite:%s", durable_path());
        return url;
}

#endif
