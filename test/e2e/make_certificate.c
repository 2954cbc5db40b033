/* test/e2e/make_certificate.c: a certificate that signs itself, and its key.
 *
 *     make_certificate DIRECTORY NAME HOST          writes DIRECTORY/NAME.pem and DIRECTORY/NAME.key */
#include <stdio.h>

#include "test/tls_peer.h"

int
main(int argc, char *argv[])
{
        char names[256];

        if (argc != 4) {
                return 2;
        }
        snprintf(names, sizeof names, "DNS:%s", argv[3]);
        tls_files_use(argv[1]);
        tls_make_certificate(argv[2], &(struct tls_wish){.common_name = argv[3], .alternative_names = names});
        return 0;
}
