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

#include <weir/weir.h>

#define HASHERS 4

struct file {
        const char *name;
        char sum[2 * EVP_MAX_MD_SIZE + 1];
        int error;
};

static weir_channel *names, *sums;
static char **next_name; /* of `name` alone */
static unsigned failed;  /* of `print` alone */

/* -- name -- */

static void name_next(weir_task *task, void *context)
{
        struct file *file = *next_name && weir_task_status(task) == 0 ? calloc(1, sizeof *file) : NULL;

        (void)context;
        if (!file) {
                weir_channel_close(names);
                return;
        }
        file->name = *next_name++;
        weir_series_push(weir_series_of(task), weir_channel_send_new(names, file, name_next, NULL));
}

/* -- hash -- */

static void hash_next(weir_task *task, void *context);

/* On the executor.  Reading may block, but not for longer than computing takes, as a rule. */
static void hash(void *context)
{
        struct file *file = context;
        EVP_MD_CTX *digest = EVP_MD_CTX_new();
        FILE *stream = fopen(file->name, "re");
        unsigned char bytes[16384], sum[EVP_MAX_MD_SIZE];
        unsigned size = 0;

        EVP_DigestInit_ex(digest, EVP_sha256(), NULL);
        for (size_t got; stream && !weir_go_cancelled() && (got = fread(bytes, 1, sizeof bytes, stream)) > 0;)
                EVP_DigestUpdate(digest, bytes, got);
        EVP_DigestFinal_ex(digest, sum, &size);
        EVP_MD_CTX_free(digest);
        for (unsigned i = 0; i < size; i++)
                snprintf(file->sum + 2 * i, 3, "%02x", sum[i]);
        file->error = !stream || ferror(stream) ? errno : weir_go_cancelled();
        if (stream)
                fclose(stream);
}

static void hashed(weir_task *task, void *file)
{
        weir_series_push(weir_series_of(task), weir_channel_send_new(sums, file, hash_next, NULL));
}

static void named(weir_task *receive, void *context)
{
        struct file *file = weir_channel_take_message(receive);

        (void)context;
        if (file) /* otherwise the channel is closed and empty */
                weir_series_push(weir_series_of(receive), weir_go_new(NULL, hash, hashed, file));
}

static void hash_next(weir_task *task, void *context)
{
        (void)context;
        weir_series_push(weir_series_of(task), weir_channel_receive_new(names, named, NULL));
}

static void all_hashed(weir_task *hashers, void *context)
{
        (void)hashers;
        (void)context;
        weir_channel_close(sums);
}

/* -- print -- */

static void print(weir_task *receive, void *context)
{
        struct file *file = weir_channel_message(receive); /* the channel frees it */

        (void)context;
        if (!file)
                return;
        failed += file->error != 0;
        if (file->error)
                fprintf(stderr, "hash-pipeline: %s: %s\n", file->name, strerror(abs(file->error)));
        else
                printf("%s  %s\n", file->sum, file->name);
        weir_series_push(weir_series_of(receive), weir_channel_receive_new(sums, print, NULL));
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

        weir_task *hashers = weir_parallel_new(all_hashed, NULL), *stages = weir_parallel_new(NULL, NULL);
        for (int i = 0; i < HASHERS; i++)
                weir_parallel_add(hashers, weir_empty_new(hash_next, NULL));
        weir_parallel_add(stages, weir_empty_new(name_next, NULL));
        weir_parallel_add(stages, hashers);
        weir_parallel_add(stages, weir_channel_receive_new(sums, print, NULL));
        int status = weir_task_run(stages);
        if (status < 0)
                fprintf(stderr, "hash-pipeline: %s\n", weir_strerror(status));
        weir_channel_unref(names);
        weir_channel_unref(sums);
        return weir_shutdown() != 0 || failed > 0;
}
