/* bench/proxy.c: what a request through a reverse proxy costs the proxy, beside nginx and haproxy.
 *
 *     load --loopback--> proxy --loopback--> backend
 *
 *     proxy [quick] [part of a case's name]
 *
 * The proxy is a process on the first CPU, with one thread that works.  Load and backend are processes on the last one, bare
 * loops of epoll, whose responses are ready in memory.  All connections are kept.  The proxies take turns within each round, in
 * an order that changes.  For large bodies nginx does not buffer; it reads as many bytes at once as its proxy_buffer_size has,
 * 4 KiB by default, and larger ones take part, too.
 *
 * Threads: one; weir's proxy has its own. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weir/http_proxy.h>
#include <weir/http_server.h>
#include <weir/weir.h>

#include "bench.h"
#include "relay.h"

#define MOST  512
#define LARGE ((size_t)1 << 20)

#define CPU_PER_REQUEST "proxy CPU us per request"
#define CPU_PER_GB      "proxy CPU seconds per GB"

static const char fields[] =
        "HTTP/1.1 200 OK\r\nServer: backend\r\nDate: Thu, 26 Nov 2026 12:00:00 GMT\r\nContent-Type: text/html\r\n"
        "ETag: \"5f3a-61e0\"\r\nCache-Control: no-cache\r\nContent-Length: %zu\r\n\r\n";
static const char request[] = "GET /index.html?a=b HTTP/1.1\r\nHost: bench.example\r\nUser-Agent: bench\r\nAccept: */*\r\n"
                              "Accept-Encoding: gzip\r\nCookie: session=0123456789abcdef\r\n\r\n";

struct proxy_case {
        const char *name;
        unsigned connections;
        size_t size; /* of the body */
};

static const struct proxy_case cases[] = {
        {"100 bytes, c=64", 64, 100},
        {"100 bytes, c=512", 512, 100},
        {"1 MiB, c=16", 16, LARGE},
};

struct proxy {
        const char *name, *program; /* that it needs; NULL: none */
        void (*serve)(const struct proxy *proxy, int report, int backend, const char *directory);
        unsigned buffer; /* KiB of nginx without buffering; 0: its default */
        bool is_for_large;
};

static struct {
        bool quick;
        const char *only;
        int proxy_cpu, load_cpu;
} options;

static char *response;
static size_t response_size;

/* -- the backend -- */

struct served {
        int fd;
        size_t left; /* of the response */
};

/* The requests are small, and come one at a time.  Returns false at the end. */
static bool
serve_one(struct served *served)
{
        char room[4096];

        for (;;) {
                if (!served->left) {
                        ssize_t got = recv(served->fd, room, sizeof room, MSG_DONTWAIT);

                        if (got <= 0)
                                return got < 0 && errno == EAGAIN;
                        if (got < 4 || memcmp(room + got - 4, "\r\n\r\n", 4) != 0)
                                _exit(2);
                        served->left = response_size;
                }
                ssize_t sent = send(served->fd, response + response_size - served->left, served->left,
                                    MSG_NOSIGNAL | MSG_DONTWAIT);
                if (sent < 0)
                        return errno == EAGAIN;
                served->left -= (size_t)sent;
        }
}

static void
serve_backend(int listener)
{
        static struct served none;
        int epoll = epoll_create1(EPOLL_CLOEXEC);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &none}, events[256];

        epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
        for (;;) {
                int count = epoll_wait(epoll, events, 256, -1);

                for (int i = 0; i < count; i++) {
                        struct served *served = events[i].data.ptr;

                        if (served == &none) {
                                served = calloc(1, sizeof *served);
                                served->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
                                event = (struct epoll_event){.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = served};
                                epoll_ctl(epoll, EPOLL_CTL_ADD, served->fd, &event);
                        } else if (!serve_one(served)) {
                                close(served->fd);
                                free(served);
                        }
                }
        }
}

/* -- the proxies -- */

static char weir_backend[64];

static void
forward(weir_task *exchange, void *context)
{
        weir_http_proxy_to(exchange, context, weir_backend);
}

static void
serve_weir(const struct proxy *proxy, int report, int backend, const char *directory)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        struct weir_config runtime = WEIR_CONFIG_DEFAULT;

        (void)proxy, (void)directory;
        runtime.pollers = 1;
        config.user_agent = "";
        config.connections = MOST;
        snprintf(weir_backend, sizeof weir_backend, "http://127.0.0.1:%d", backend);
        weir_init(&runtime);
        weir_http_server *server = weir_http_server_new(NULL, forward, weir_client_new(&config));
        relay_tell(report, weir_http_server_start(server, "127.0.0.1:0") == 0 ? weir_http_server_port(server) : -1);
        pause();
}

static void
run_nginx(const struct proxy *proxy, int report, int backend, const char *directory)
{
        char path[128], prefix[128], buffer[80] = "";
        FILE *file = relay_configuration(path, directory);
        int port = relay_choose_port();

        if (proxy->buffer)
                snprintf(buffer, sizeof buffer, "proxy_buffer_size %uk; proxy_buffers 8 %uk;", proxy->buffer, proxy->buffer);
        fprintf(file,
                "daemon off; master_process off; pid %s/pid; error_log %s/error.log crit;\n"
                "events { worker_connections 4096; }\n"
                "http { access_log off; keepalive_requests 1000000000; client_body_temp_path %s; proxy_temp_path %s;\n"
                "  fastcgi_temp_path %s; uwsgi_temp_path %s; scgi_temp_path %s;\n"
                "  upstream backend { server 127.0.0.1:%d; keepalive %d; keepalive_requests 1000000000; }\n"
                "  server { listen 127.0.0.1:%d; location / { proxy_pass http://backend; proxy_http_version 1.1;\n"
                "    proxy_set_header Connection \"\"; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n"
                "    proxy_set_header X-Forwarded-Proto $scheme; proxy_set_header X-Forwarded-Host $host; %s %s } } }\n",
                directory, directory, directory, directory, directory, directory, directory, backend, MOST, port,
                response_size > LARGE ? "proxy_buffering off;" : "", buffer);
        fclose(file);
        snprintf(prefix, sizeof prefix, "%s/", directory);
        relay_tell(report, port);
        execl(RELAY_NGINX, RELAY_NGINX, "-p", prefix, "-c", path, "-e", "/dev/null", (char *)NULL);
}

static void
run_haproxy(const struct proxy *proxy, int report, int backend, const char *directory)
{
        char path[128];
        FILE *file = relay_configuration(path, directory);
        int port = relay_choose_port();

        (void)proxy;
        fprintf(file,
                "global\n  nbthread 1\n  maxconn 4096\ndefaults\n  mode http\n  option http-keep-alive\n  http-reuse always\n"
                "  option forwardfor\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n"
                "frontend front\n  bind 127.0.0.1:%d\n  http-request set-header X-Forwarded-Proto http\n"
                "  http-request set-header X-Forwarded-Host %%[req.hdr(host)]\n  default_backend back\n"
                "backend back\n  server one 127.0.0.1:%d pool-max-conn %d\n",
                port, backend, MOST);
        fclose(file);
        relay_tell(report, port);
        execl(RELAY_HAPROXY, RELAY_HAPROXY, "-db", "-q", "-f", path, (char *)NULL);
}

static const struct proxy proxies[] = {
        {.name = "weir", .serve = serve_weir},
        {.name = "nginx", .program = RELAY_NGINX, .serve = run_nginx},
        {.name = "nginx, 16 KiB", .program = RELAY_NGINX, .serve = run_nginx, .buffer = 16, .is_for_large = true},
        {.name = "nginx, 64 KiB", .program = RELAY_NGINX, .serve = run_nginx, .buffer = 64, .is_for_large = true},
        {.name = "haproxy", .program = RELAY_HAPROXY, .serve = run_haproxy},
        {.name = NULL},
};

/* -- the load -- */

static int fds[MOST];
static size_t left[MOST]; /* of the response; 0: its head is to come */

static void
ask(unsigned i)
{
        left[i] = 0;
        (void)!send(fds[i], request, sizeof request - 1, MSG_NOSIGNAL);
}

/* The size of the rest behind what has come.  The head comes in one piece. */
static size_t
rest_of(const char *data, size_t size, size_t body)
{
        const char *end = memmem(data, size, "\r\n\r\n", 4);

        if (!end || memcmp(data, "HTTP/1.1 200", 12) != 0) {
                fprintf(stderr, "proxy: not a response: %.*s\n", (int)(size < 200 ? size : 200), data);
                exit(1);
        }
        return body - (size - (size_t)(end + 4 - data));
}

/* Returns how many responses were complete. */
static unsigned
receive(unsigned i, size_t body)
{
        static char room[256 * 1024];
        ssize_t got;

        while ((got = recv(fds[i], room, sizeof room, MSG_DONTWAIT)) > 0) {
                left[i] = left[i] ? left[i] - (size_t)got : rest_of(room, (size_t)got, body);
                if (left[i])
                        continue;
                ask(i);
                return 1;
        }
        if (got == 0) {
                fprintf(stderr, "proxy: the proxy has closed a connection\n");
                exit(1);
        }
        return 0;
}

static uint64_t
exchange(int epoll, size_t body, int64_t until)
{
        struct epoll_event events[256];
        uint64_t complete = 0;

        while (bench_now() < until && !bench_interrupted()) {
                int ready = epoll_wait(epoll, events, 256, 100);

                for (int i = 0; i < ready; i++)
                        complete += receive(events[i].data.u32, body);
        }
        return complete;
}

/* -- what is measured -- */

struct setup {
        struct relay relay;
        const struct proxy *proxy;
        int backend; /* its port */
};

static void
run_proxy(int report, const char *directory, void *context)
{
        const struct setup *setup = context;

        setup->proxy->serve(setup->proxy, report, setup->backend, directory);
}

static void
run_backend(int listener, void *unused)
{
        (void)unused;
        serve_backend(listener);
}

static bool
start(struct setup *setup, unsigned connections)
{
        if (!relay_begin(&setup->relay))
                return false;
        int listener = relay_listen(&setup->backend, 0);
        relay_start_backend(&setup->relay, options.load_cpu, listener, run_backend, NULL);
        return relay_start(&setup->relay, options.proxy_cpu, run_proxy, setup) &&
               relay_connect_all(&setup->relay, fds, connections);
}

static void
measure_load(const struct proxy_case *what, const struct proxy *proxy, const struct setup *setup)
{
        int epoll = epoll_create1(EPOLL_CLOEXEC);
        int64_t window = (options.quick ? 500 : 2000) * INT64_C(1000000);

        for (unsigned i = 0; i < what->connections; i++) {
                struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};

                epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &event);
                ask(i);
        }
        exchange(epoll, what->size, bench_now() + window / 4);
        int64_t cpu = relay_cpu_time(&setup->relay), wall = bench_now();
        uint64_t complete = exchange(epoll, what->size, wall + window);
        cpu = relay_cpu_time(&setup->relay) - cpu;
        wall = bench_now() - wall;
        close(epoll);
        if (!complete)
                return;
        if (what->size >= LARGE)
                bench_sample(proxy->name, what->name, CPU_PER_GB, (double)cpu / ((double)complete * (double)what->size));
        else
                bench_sample(proxy->name, what->name, CPU_PER_REQUEST, (double)cpu / 1000 / (double)complete);
        bench_sample(proxy->name, what->name, "requests per second", (double)complete * 1e9 / (double)wall);
}

static void
measure(const struct proxy_case *what, const struct proxy *proxy)
{
        struct setup setup = {.proxy = proxy};

        relay_place(options.load_cpu);
        if (start(&setup, what->connections)) {
                measure_load(what, proxy, &setup);
                for (unsigned i = 0; i < what->connections; i++)
                        close(fds[i]);
        } else if (!bench_interrupted()) {
                fprintf(stderr, "proxy: %s did not start to serve\n", proxy->name);
        }
        relay_end(&setup.relay);
}

static void
make_response(size_t size)
{
        response = realloc(response, sizeof fields + 32 + size);
        int head = snprintf(response, sizeof fields + 32, fields, size);

        memset(response + head, 'x', size);
        response_size = (size_t)head + size;
}

static bool
takes_part(const struct proxy_case *what, const struct proxy *proxy)
{
        if (bench_is_alone())
                return proxy == proxies;
        return (!proxy->program || access(proxy->program, X_OK) == 0) && (!proxy->is_for_large || what->size >= LARGE);
}

static void
run(const struct proxy_case *what)
{
        const char *metric = what->size >= LARGE ? CPU_PER_GB : CPU_PER_REQUEST;
        unsigned rounds = bench_is_alone() ? 1 : options.quick ? 3 : 5, count = 0;
        char ratio[128];

        while (proxies[count].name)
                count++;
        make_response(what->size);
        for (unsigned round = 0; round < rounds; round++)
                for (unsigned i = 0; i < count && !bench_interrupted(); i++) {
                        const struct proxy *proxy = &proxies[(round + (round % 2 ? count - i : i)) % count];

                        if (takes_part(what, proxy))
                                measure(what, proxy);
                }
        for (const struct proxy *proxy = proxies + 1; proxy->name; proxy++) {
                if (!takes_part(what, proxy))
                        continue;
                bench_ratio("weir", proxy->name, what->name, metric);
                snprintf(ratio, sizeof ratio, "ratio to %s, %s", proxy->name, metric);
                if (proxy->serve == run_nginx || what->size < LARGE)
                        bench_goal("weir", what->name, ratio, proxy->serve == run_nginx ? 1 : 1.2);
        }
        bench_print("proxy");
}

int
main(int argc, char **argv)
{
        for (int i = 1; i < argc; i++)
                if (strcmp(argv[i], "quick") == 0)
                        options.quick = true;
                else
                        options.only = argv[i];
        bench_begin();
        relay_cpus(&options.proxy_cpu, &options.load_cpu);
        for (size_t i = 0; i < sizeof cases / sizeof *cases && !bench_interrupted(); i++)
                if (!options.only || strstr(cases[i].name, options.only))
                        run(&cases[i]);
        return 0;
}
