/* kernel/listen.h: listening sockets. */
#ifndef WEIR_KERNEL_LISTEN_H
#define WEIR_KERNEL_LISTEN_H

/* Opens `count` sockets that listen at one address together (SO_REUSEPORT: the system spreads connections over
 * them).  "host:port", "[v6]:port"; an empty host is every IPv4 address; port 0 takes a free one.
 *
 * Owner:  the caller closes fds[0 .. count).
 * Result:  the port; -EINVAL for an address that is none; -EADDRINUSE also when another process listens there with SO_REUSEPORT;
 *         what socket, bind and listen report.  Nothing is open after a failure.
 * Threads: may block while a name is resolved. */
int weir__listen(const char *address, int fds[], unsigned count);

#endif
