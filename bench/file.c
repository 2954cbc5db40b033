/* bench/file.c: reads of 4 KiB at random offsets of a file in the page cache: weir, libuv's uv_fs_read, fio and a
 * loop of pread, by turns.
 *
 *     file [quick] [CASE]
 *
 * CPU time is that of all threads, those of the kernel that work for the process included.  fio says its own, of the time that it
 * measures. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/weir.h>

#include "bench.h"

#if BENCH_HAS_UV
#include <uv.h>
#endif

#define BLOCK     4096
#define BLOCKS    (32 * 1024) /* of the file: 128 MiB */
#define DEPTH_MAX 256
#define PATIENCE  120 /* seconds for a case */

static char path[] = "/tmp/bench-file-XXXXXX";

struct load {
        unsigned depth, reads;
        bool lends;            /* weir: the reads lend their memory */
        enum weir_files files; /* weir */
        bool is_batched;       /* fio: it submits and reaps half of its depth at once */
};

static uint64_t state = 1;
static _Atomic unsigned left;
static char memory[DEPTH_MAX][BLOCK];

static int64_t
next_offset(void)
{
        return (int64_t)bench_random_below(&state, BLOCKS) * BLOCK;
}

/* -- weir -- */

static weir_file *file;
static bool lends;

static void on_read(weir_task *task, void *context);

static weir_task *
next_read(void *slot)
{
        return lends ? weir_file_read_new(file, next_offset(), BLOCK, on_read, slot)
                     : weir_file_read_into_new(file, next_offset(), slot, BLOCK, on_read, slot);
}

static void
on_read(weir_task *task, void *context)
{
        if (weir_task_status(task) || weir_file_count(task) != BLOCK)
                abort();
        if (left > 0) {
                left--;
                weir_series_push(weir_series_of(task), next_read(context));
        }
}

static bool
measure_weir(const void *argument, double values[BENCH_VALUES])
{
        const struct load *load = argument;
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        weir_waitgroup *group = weir_waitgroup_new();

        config.pollers = 1;
        config.files = load->files;
        if (weir_init(&config) || !(file = weir_file_of(open(path, O_RDONLY))))
                return false;
        lends = load->lends;
        left = load->reads;
        int64_t cpu = bench_cpu(), from = bench_now();
        for (unsigned i = 0; i < load->depth; i++) {
                weir_series *series = weir_series_new(NULL, NULL);

                weir_series_push(series, next_read(memory[i]));
                weir_series_start_waited(series, group);
        }
        weir_waitgroup_wait(group, WEIR_FOREVER);
        unsigned done = load->reads + load->depth;
        values[0] = (double)(bench_cpu() - cpu) / done;
        values[1] = (double)(bench_now() - from) / done;
        weir_file_unref(file);
        weir_waitgroup_free(group);
        return weir_shutdown() == 0;
}

/* -- libuv -- */

#if BENCH_HAS_UV
static uv_file descriptor;

static void
on_uv_read(uv_fs_t *request)
{
        char *slot = request->data;
        uv_buf_t buffer = uv_buf_init(slot, BLOCK);

        if (request->result != BLOCK)
                abort();
        uv_fs_req_cleanup(request);
        if (left > 0) {
                left--;
                uv_fs_read(request->loop, request, descriptor, &buffer, 1, next_offset(), on_uv_read);
        }
}

static bool
measure_uv(const void *argument, double values[BENCH_VALUES])
{
        const struct load *load = argument;
        static uv_fs_t requests[DEPTH_MAX];
        uv_loop_t loop;

        uv_loop_init(&loop);
        descriptor = open(path, O_RDONLY);
        left = load->reads;
        int64_t cpu = bench_cpu(), from = bench_now();
        for (unsigned i = 0; i < load->depth; i++) {
                uv_buf_t buffer = uv_buf_init(memory[i], BLOCK);

                requests[i].data = memory[i];
                uv_fs_read(&loop, &requests[i], descriptor, &buffer, 1, next_offset(), on_uv_read);
        }
        uv_run(&loop, UV_RUN_DEFAULT);
        values[0] = (double)(bench_cpu() - cpu) / (load->reads + load->depth);
        values[1] = (double)(bench_now() - from) / (load->reads + load->depth);
        return true;
}
#endif

/* -- the least that a read costs -- */

static bool
measure_floor(const void *argument, double values[BENCH_VALUES])
{
        const struct load *load = argument;
        int fd = open(path, O_RDONLY);
        int64_t cpu = bench_cpu(), from = bench_now();

        for (unsigned i = 0; i < load->reads; i++)
                if (pread(fd, memory[i % load->depth], BLOCK, (off_t)next_offset()) != BLOCK)
                        return false;
        values[0] = (double)(bench_cpu() - cpu) / load->reads;
        values[1] = (double)(bench_now() - from) / load->reads;
        return true;
}

/* -- fio -- */

/* The number behind the first "name" : in what fio says. */
static double
number_of(const char *text, const char *name)
{
        char key[64];

        snprintf(key, sizeof key, "\"%s\" :", name);
        const char *at = strstr(text, key);
        return at ? strtod(at + strlen(key), NULL) : 0;
}

static bool
measure_fio(const void *argument, double values[BENCH_VALUES])
{
        const struct load *load = argument;
        char command[1024], text[64 * 1024], batch[128] = "";

        if (load->is_batched)
                snprintf(batch, sizeof batch, "--iodepth_batch_submit=%u --iodepth_batch_complete_min=%u", (load->depth + 1) / 2,
                         (load->depth + 1) / 2);
        snprintf(command, sizeof command,
                 "fio --name=read --ioengine=io_uring --rw=randread --bs=%d --iodepth=%u --filename=%s --filesize=%d --direct=0 "
                 "--invalidate=0 --norandommap --gtod_reduce=1 --thread --io_size=%zu %s "
                 "--output-format=json 2>/dev/null",
                 BLOCK, load->depth, path, BLOCKS * BLOCK, (size_t)load->reads * BLOCK, batch);
        FILE *pipe = popen(command, "r");
        if (!pipe)
                return false;
        size_t size = fread(text, 1, sizeof text - 1, pipe);
        text[size] = '\0';
        if (pclose(pipe))
                return false;
        const char *job = strstr(text, "\"jobs\"");
        double reads = job ? number_of(job, "total_ios") : 0, elapsed = job ? number_of(job, "job_runtime") * 1e6 : 0;
        if (reads <= 0)
                return false;
        values[0] = (number_of(job, "usr_cpu") + number_of(job, "sys_cpu")) / 100 * elapsed / reads;
        values[1] = elapsed / reads;
        return true;
}

/* -- by turns -- */

static bool
make_file(void)
{
        static char block[BLOCK * 256];
        int fd = mkstemp(path);

        memset(block, 'x', sizeof block);
        for (unsigned i = 0; fd >= 0 && i < BLOCKS / 256; i++)
                if (write(fd, block, sizeof block) != sizeof block)
                        return false;
        for (unsigned i = 0; fd >= 0 && i < BLOCKS / 256; i++)
                if (read(fd, block, 1) < 0 || pread(fd, block, sizeof block, (off_t)i * (off_t)sizeof block) < 0)
                        return false;
        return fd >= 0 && close(fd) == 0;
}

static void
measure(const char *peer, const char *name, bench_fn *fn, const struct load *load)
{
        double values[BENCH_VALUES];

        if (!bench_isolated(peer, fn, load, values, PATIENCE))
                return;
        bench_sample(peer, name, "CPU ns per read", values[0]);
        bench_sample(peer, name, "ns per read", values[1]);
}

static void
run_case(unsigned depth, unsigned reads, unsigned rounds)
{
        char name[64];

        snprintf(name, sizeof name, "depth %u", depth);
        for (unsigned i = 0; i < rounds && !bench_interrupted(); i++) {
                measure("weir", name, measure_weir, &(struct load){depth, reads, .lends = false});
                measure("weir, lent", name, measure_weir, &(struct load){depth, reads, .lends = true});
                measure("weir, queue", name, measure_weir, &(struct load){depth, reads / 4, .files = WEIR_FILES_QUEUE});
                if (bench_is_alone())
                        continue;
                measure("floor", name, measure_floor, &(struct load){depth, reads, .lends = false});
#if BENCH_HAS_UV
                measure("libuv", name, measure_uv, &(struct load){depth, reads / 4, .lends = false});
#endif
                measure("fio", name, measure_fio, &(struct load){depth, reads, .lends = false});
                measure("batched", name, measure_fio, &(struct load){depth, reads, .is_batched = true});
        }
        bench_ratio("fio", "weir", name, "CPU ns per read");
        bench_ratio("batched", "weir", name, "CPU ns per read");
        bench_ratio("batched", "weir, lent", name, "CPU ns per read");
        bench_ratio("libuv", "weir", name, "CPU ns per read");
        bench_ratio("libuv", "weir, lent", name, "CPU ns per read");
        bench_ratio("weir", "fio", name, "CPU ns per read");
        bench_ratio("weir", "libuv", name, "CPU ns per read");
        bench_goal("weir", name, "ratio to fio, CPU ns per read", 1 / 0.7); /* 0.7 of its reads for a CPU second */
        bench_goal("weir", name, "ratio to libuv, CPU ns per read", 1 / 5.0);
        bench_print("file");
}

int
main(int count, char *arguments[])
{
        bool is_quick = count > 1 && strcmp(arguments[1], "quick") == 0;
        static const unsigned depths[] = {1, 8, 64, 256};

        bench_begin();
        if (!make_file()) {
                fprintf(stderr, "file: %s: %s\n", path, strerror(errno));
                return 1;
        }
        for (size_t i = 0; i < sizeof depths / sizeof *depths; i++)
                run_case(depths[i], is_quick ? 200000 : 1000000, bench_is_alone() ? 1 : is_quick ? 3 : 5);
        unlink(path);
        return 0;
}
