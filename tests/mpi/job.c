/* What Open MPI 4.1 sends to other ranks of the job and the host: names of the same length in every run, on any host. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    const char *job = getenv("PMIX_NAMESPACE"), *host = getenv("PMIX_HOSTNAME");
    CHECK(job && host);
    /* Ten digits, whatever the launcher's process number and the host's name are. */
    if (job)
        CHECK(strtoul(job, NULL, 10) >> 31 == 1);
    if (host)
        CHECK(!strcmp(host, "localhost"));
    return finish("job");
}
