/* kernel/runtime/status.c: the text of each status, and the library's version. */
#include <string.h>

#include <weir/runtime.h>

static const char *
describe_own(int status)
{
        switch (status) {
        case WEIR_ETLS_CERTIFICATE: return "No usable certificate";
        case WEIR_ETLS_KEY: return "No usable private key";
        case WEIR_ETLS_MISMATCH: return "The private key does not belong to the certificate";
        case WEIR_ETLS_OCSP: return "No usable OCSP response";
        case WEIR_ETLS: return "TLS failed";
        default: return "Unknown status";
        }
}

const char *
weir_strerror(int status)
{
        if (status == 0)
                return "Success";
        const char *description = status < 0 && status > -4096 ? strerrordesc_np(-status) : NULL;
        return description ? description : describe_own(status);
}

const char *
weir_version(void)
{
        return WEIR_VERSION;
}
