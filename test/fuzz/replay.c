/* test/fuzz/replay.c: runs a fuzz target over files, and over those in directories, where there is no fuzzer. */
#include <dirent.h>
#include <sys/stat.h>

#include "test/fuzz/fuzz.h"

static size_t replayed;

static void
replay(const char *path)
{
        FILE *file = fopen(path, "rb");
        static uint8_t data[1 << 20];
        uint8_t *exact;
        size_t size;

        FUZZ_CHECK(file);
        size = fread(data, 1, sizeof data, file);
        FUZZ_CHECK(feof(file));
        fclose(file);
        exact = (uint8_t *)fuzz_copy((const char *)data, size);
        fprintf(stderr, "%s\n", path); /* what is wrong with it is said behind it */
        FUZZ_CHECK(LLVMFuzzerTestOneInput(exact, size) == 0);
        free(exact);
        replayed++;
}

static void
replay_directory(const char *path)
{
        DIR *directory = opendir(path);
        struct dirent *entry;
        char file[4096];

        FUZZ_CHECK(directory);
        while ((entry = readdir(directory))) {
                if (entry->d_name[0] != '.') {
                        FUZZ_CHECK(snprintf(file, sizeof file, "%s/%s", path, entry->d_name) < (int)sizeof file);
                        replay(file);
                }
        }
        closedir(directory);
}

int
main(int count, char **paths)
{
        for (int i = 1; i < count; i++) {
                struct stat status;

                FUZZ_CHECK(stat(paths[i], &status) == 0);
                (S_ISDIR(status.st_mode) ? replay_directory : replay)(paths[i]);
        }
        printf("%zu inputs\n", replayed);
        return replayed > 0 ? 0 : 1;
}
