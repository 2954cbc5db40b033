/* hash-pipeline.c: the SHA-256 of files, on all CPUs, as sha256sum(1) prints it.
 *
 *     hash-pipeline FILE...
 *
 *     name ---[ names ]---> hash, several at once ---[ sums ]---> print
 *
 * Both channels are short.  When printing is slow, for example into a pipe that nobody reads, hashing waits, and then naming
 * does: the memory does not depend on the number of files.  Lines come in the order in which files are done. */
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/weir.h>

struct file {
        const char *name;
        char sum[2 * EVP_MAX_MD_SIZE + 1];
        int error;
};

static weir_channel *names, *sums;
static char **next_name; /* of `name` alone */
static int printed;      /* of `print` alone */

/* -- name -- */

static int name(void *context)
{
        (void)context;
        for (; *next_name; next_name++) {
                struct file *file = calloc(1, sizeof *file);

                if (!file)
                        break;
                file->name = *next_name;
                if (weir_fiber_send(names, file)) {
                        free(file);
                        break;
                }
        }
        return weir_channel_close(names);
}

/* -- hash -- */

/* Returns 0 or an error, as weir_task_status does. */
static int hash_stream(FILE *stream, EVP_MD_CTX *digest, struct file *file)
{
        unsigned char bytes[16384], sum[EVP_MAX_MD_SIZE];
        unsigned size = 0;
        size_t got;

        if (!digest || !EVP_DigestInit_ex(digest, EVP_sha256(), NULL))
                return -ENOMEM;
        while ((got = fread(bytes, 1, sizeof bytes, stream)) > 0)
                if (weir_go_cancelled() || !EVP_DigestUpdate(digest, bytes, got))
                        return -EIO; /* after a cancel the task has the status of that */
        if (ferror(stream))
                return -errno;
        if (!EVP_DigestFinal_ex(digest, sum, &size))
                return -EIO;
        for (unsigned i = 0; i < size; i++)
                snprintf(file->sum + 2 * i, 3, "%02x", sum[i]);
        return 0;
}

/* On the executor.  Reading may block, but not for longer than computing takes, as a rule. */
static void hash(void *context)
{
        struct file *file = context;
        FILE *stream = fopen(file->name, "re");

        if (!stream) {
                weir_go_fail(-errno);
                return;
        }
        EVP_MD_CTX *digest = EVP_MD_CTX_new();
        weir_go_fail(hash_stream(stream, digest, file));
        EVP_MD_CTX_free(digest);
        fclose(stream);
}

/* The file goes on also if it was not hashed, because the function has failed. */
static int pass_on(struct file *file)
{
        file->error = weir_fiber_go(hash, file);
        int err = weir_fiber_send(sums, file);
        if (err)
                free(file);
        return err;
}

static int hash_some(void *context)
{
        void *file;
        int err;

        (void)context;
        while (!(err = weir_fiber_receive(names, &file)) && !(err = pass_on(file)))
                ;
        return err == -EPIPE ? 0 : err; /* there are no more names */
}

static int hash_all(void *context)
{
        weir_group *hashers = weir_group_open();

        (void)context;
        for (long i = 0; i < sysconf(_SC_NPROCESSORS_ONLN); i++) /* as many as the executor has threads */
                weir_group_start(hashers, weir_fiber_new(hash_some, NULL, NULL));
        int err = weir_group_close(hashers);
        weir_channel_close(names); /* nobody would take more of them */
        weir_channel_close(sums);
        return err;
}

/* -- print -- */

static int print(void *context)
{
        void *message;

        (void)context;
        while (weir_fiber_receive(sums, &message) == 0) {
                struct file *file = message;

                if (file->error)
                        fprintf(stderr, "hash-pipeline: %s: %s\n", file->name, weir_strerror(file->error));
                else if (printf("%s  %s\n", file->sum, file->name) > 0)
                        printed++;
                free(file);
        }
        return 0;
}

int main(int argc, char *argv[])
{
        if (argc < 2) {
                fprintf(stderr, "wanted: hash-pipeline FILE...\n");
                return 1;
        }
        next_name = argv + 1;
        names = weir_channel_new(2, free);
        sums = weir_channel_new(2, free);

        weir_task *stages = weir_parallel_new(NULL, NULL);
        weir_parallel_add(stages, weir_fiber_new(name, NULL, NULL));
        weir_parallel_add(stages, weir_fiber_new(hash_all, NULL, NULL));
        weir_parallel_add(stages, weir_fiber_new(print, NULL, NULL));
        int status = weir_task_run(stages);
        if (status < 0)
                fprintf(stderr, "hash-pipeline: %s\n", weir_strerror(status));
        weir_channel_unref(names);
        weir_channel_unref(sums);
        weir_shutdown();
        if (printed < argc - 1)
                fprintf(stderr, "hash-pipeline: %d of %d files are left out\n", argc - 1 - printed, argc - 1);
        return printed < argc - 1 || fflush(stdout) != 0;
}
