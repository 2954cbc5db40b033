/* kernel/runtime/status.c: the text and the short name of each status, and the library's version.
 *
 * Threads: any.  The names of the system's codes are put together once. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <weir/runtime.h>

/* What a code means here.  The others come from the system alone, and have its texts (test/status_test.c). */
static const struct {
        int status;
        const char *text;
} texts[] = {
        {0, "Success"},
        {-ECANCELED, "cancelled"},
        {-ETIMEDOUT, "the time limit is over"},
        {-ESHUTDOWN, "the library was shut down"},
        {-EDOM, "the task or object is of another kind, or has no such value"},
        {-EDEADLK, "not allowed on a worker, or it would wait for itself"},
        {-ECHILD, "not allowed in a forked child"},
        {-ESTALE, "it has ended before"},
        {-EALREADY, "it was done before, or is being done"},
        {-EBUSY, "it is in use already"},
        {-EPIPE, "the other side has closed or gone"},
        {-EAGAIN, "not now: nothing is there, or something is used up"},
        {-ENOMEM, "out of memory"},
        {-ELOOP, "a circle: a graph that leads back, or symbolic links"},
        {-ENAMETOOLONG, "the name is too long"},
        {-EMSGSIZE, "larger than allowed"},
        {-E2BIG, "more than allowed"},
        {-EPROTO, "the other side breaks the rules of the protocol"},
        {-EBADMSG, "malformed: it breaks the rules of its format"},
        {-ENODATA, "it ended before the length that was said, or is not known"},
        {-ENOENT, "there is no such file, name, entry or inherited socket"},
        {-ENOEXEC, "the file is no program"},
        {-EXDEV, "the two are in different places: file systems, or slots of a cluster"},
        {-EROFS, "it may only be read: the file, server, connection or transaction"},
        {-EUCLEAN, "the file is damaged, or is no database"},
        {-ENOTRECOVERABLE, "the server has rolled the transaction back"},
        {-EPROTONOSUPPORT, "this library was built without that engine or protocol"},
        {-EEXIST, "it exists already, or with other values"},
        {-EPERM, "not permitted, not held by this series, or no file to wait for"},
        {-EINTR, "woken before it was ready"},
        {-EDESTADDRREQ, "no destination was given"},
        {-EAFNOSUPPORT, "an address of another family"},
        {-ENOBUFS, "the queue of a network interface is full"},
        {-ECONNABORTED, "the connection was broken on this side, or cut"},
        {-ENOTCONN, "it is not connected, or has no addresses"},
        {-EHOSTUNREACH, "there is no way to that host"},
        {-ENETUNREACH, "there is no way to that network"},
        {-EPROTOTYPE, "the peer speaks another protocol"},
        {-EDQUOT, "the quota of disk space is used up"},
        {-ENXIO, "nobody has the other end, or there is no such device"},
        {-EINPROGRESS, "it goes on: this is a tick, not the end"},
        {-EOVERFLOW, "a number that is out of range"},
        {-ERANGE, "the function of a fiber has returned more than 0"},
        {-ENOLINK, "a redirect that leads nowhere"},
        {-EREMOTEIO, "the server answers with an error"},
        {-ENOSYS, "the system has not what it needs"},
        {-EFBIG, "larger than it was said, or than a file can be"},
        {-EINVAL, "an invalid value, or not allowed here"},
        {-ENOTSUP, "not supported by this clock, method or format"},
        {WEIR_ETLS_CERTIFICATE, "no usable certificate"},
        {WEIR_ETLS_KEY, "no usable private key"},
        {WEIR_ETLS_MISMATCH, "the private key does not belong to the certificate"},
        {WEIR_ETLS_OCSP, "no usable OCSP response"},
        {WEIR_ETLS, "TLS failed"},
        {WEIR_ETLS_NAME, "the peer's certificate is for another name"},
        {WEIR_ETLS_EXPIRED, "the peer's certificate has expired, or is not valid yet"},
        {WEIR_ETLS_SELF_SIGNED, "the peer's certificate is signed by itself and not trusted"},
        {WEIR_ETLS_UNTRUSTED, "the peer's certificate is not trusted"},
        {WEIR_ETLS_PLAIN, "the peer does not speak TLS"},
        {WEIR_ETLS_PIN, "the key of the peer's certificate is not pinned"},
        {WEIR_ETLS_REFUSED, "the peer refuses the own certificate, or wants one"},
        {WEIR_EPROCESS_EXIT, "the program has exited with another code than 0"},
        {WEIR_EPROCESS_SIGNAL, "a signal has ended the program"},
        {WEIR_EPROCESS_LOST, "the program has ended, and it is not known how"},
};

const char *
weir_strerror(int status)
{
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
                if (texts[i].status == status)
                        return texts[i].text;
        const char *description = status < 0 && status > -4096 ? strerrordesc_np(-status) : NULL;
        return description ? description : "unknown status";
}

/* -- names -- */

#define ERRNOS    160 /* the system's codes are below */
#define NAME_ROOM 24  /* bytes, with the NUL */
#define NUMBERS   4   /* names of unknown codes that are valid at a time, on a thread */

static char names[ERRNOS][NAME_ROOM]; /* constant once made */

static void
make_names(void)
{
        for (int code = 1; code < ERRNOS; code++)
                if (strerrorname_np(code))
                        snprintf(names[code], NAME_ROOM, "-%s", strerrorname_np(code));
}

static const char *
own_name(int status)
{
        switch (status) {
        case 0: return "0";
        case WEIR_ETLS_CERTIFICATE: return "WEIR_ETLS_CERTIFICATE";
        case WEIR_ETLS_KEY: return "WEIR_ETLS_KEY";
        case WEIR_ETLS_MISMATCH: return "WEIR_ETLS_MISMATCH";
        case WEIR_ETLS_OCSP: return "WEIR_ETLS_OCSP";
        case WEIR_ETLS: return "WEIR_ETLS";
        case WEIR_ETLS_NAME: return "WEIR_ETLS_NAME";
        case WEIR_ETLS_EXPIRED: return "WEIR_ETLS_EXPIRED";
        case WEIR_ETLS_SELF_SIGNED: return "WEIR_ETLS_SELF_SIGNED";
        case WEIR_ETLS_UNTRUSTED: return "WEIR_ETLS_UNTRUSTED";
        case WEIR_ETLS_PLAIN: return "WEIR_ETLS_PLAIN";
        case WEIR_ETLS_PIN: return "WEIR_ETLS_PIN";
        case WEIR_ETLS_REFUSED: return "WEIR_ETLS_REFUSED";
        case WEIR_EPROCESS_EXIT: return "WEIR_EPROCESS_EXIT";
        case WEIR_EPROCESS_SIGNAL: return "WEIR_EPROCESS_SIGNAL";
        case WEIR_EPROCESS_LOST: return "WEIR_EPROCESS_LOST";
        default: return NULL;
        }
}

const char *
weir_strstatus(int status)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        static _Thread_local char numbers[NUMBERS][NAME_ROOM];
        static _Thread_local unsigned next;
        const char *own = own_name(status);

        if (own)
                return own;
        pthread_once(&once, make_names);
        if (status < 0 && status > -ERRNOS && *names[-status])
                return names[-status];
        char *number = numbers[next++ % NUMBERS];
        snprintf(number, NAME_ROOM, "%d", status);
        return number;
}

const char *
weir_version(void)
{
        return WEIR_VERSION;
}
