/* The simulated machine: hosts of two ranks, 96 cores, threads. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#define CHECK(x) do { if (!(x)) { fprintf(stderr, "line %d: %s\n", __LINE__, #x); MPI_Abort(MPI_COMM_WORLD, 1); } } while (0)

static pthread_barrier_t both;

/* Bound as its attributes say, or as its maker is. */
static void *bound(void *wanted)
{
    cpu_set_t set;
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0 && CPU_EQUAL(&set, (cpu_set_t *)wanted));
    pthread_barrier_wait(&both);
    pthread_barrier_wait(&both);
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) == 1 && CPU_ISSET(95, &set));
    return NULL;
}

/* The calling thread is bound to core 90, of a node with 96: more than the host may have. */
static void affinity_of_threads(void)
{
    pthread_barrier_init(&both, NULL, 2);
    for (int said = 0; said < 2; said++) {
        pthread_attr_t attributes;
        pthread_t thread;
        cpu_set_t set, found;
        CPU_ZERO(&set);
        CPU_SET(said ? 70 : 90, &set);
        if (said)
            CPU_SET(71, &set);
        CHECK(pthread_attr_init(&attributes) == 0);
        if (said) {
            CHECK(pthread_attr_setaffinity_np(&attributes, sizeof set, &set) == 0);
            CHECK(pthread_attr_getaffinity_np(&attributes, sizeof found, &found) == 0 && CPU_EQUAL(&set, &found));
        }
        CHECK(pthread_create(&thread, &attributes, bound, &set) == 0);
        CHECK(pthread_attr_destroy(&attributes) == 0);
        pthread_barrier_wait(&both);
        CHECK(pthread_getaffinity_np(thread, sizeof found, &found) == 0 && CPU_EQUAL(&set, &found));
        CPU_ZERO(&found);
        CPU_SET(95, &found);
        CHECK(pthread_setaffinity_np(thread, sizeof found, &found) == 0);
        pthread_barrier_wait(&both);
        CHECK(pthread_join(thread, NULL) == 0);
        /* The maker's is its own. */
        CHECK(sched_getaffinity(0, sizeof found, &found) == 0 && CPU_COUNT(&found) == 1 && CPU_ISSET(90, &found));
    }
    pthread_barrier_destroy(&both);
}

int main(int argc, char **argv) {
    int provided = -1, rank, size;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    CHECK(provided >= MPI_THREAD_SINGLE && provided <= MPI_THREAD_MULTIPLE);
    int asked = -1;
    MPI_Query_thread(&asked);
    CHECK(asked == provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    char wanted[64], name[MPI_MAX_PROCESSOR_NAME];
    snprintf(wanted, sizeof wanted, "simulated%d", rank / 2);
    memset(name, 'x', sizeof name);
    CHECK(gethostname(name, sizeof name) == 0 && strcmp(name, wanted) == 0);
    memset(name, 'x', sizeof name);
    CHECK(gethostname(name, 4) == -1 && memcmp(name, "simux", 5) == 0);
    struct addrinfo *addresses = NULL;
    CHECK(getaddrinfo(wanted, NULL, NULL, &addresses) == 0 && addresses != NULL);
    freeaddrinfo(addresses);
    CHECK(gethostbyname(wanted) != NULL && gethostbyname("simulated999.invalid") == NULL);
    struct utsname uts;
    CHECK(uname(&uts) == 0 && strcmp(uts.nodename, wanted) == 0 && strcmp(uts.sysname, "Linux") == 0);
    int length = -1;
    CHECK(MPI_Get_processor_name(name, &length) == MPI_SUCCESS && strcmp(name, wanted) == 0 && length == (int)strlen(wanted));

    CHECK(sysconf(_SC_NPROCESSORS_ONLN) == 96 && sysconf(_SC_NPROCESSORS_CONF) == 96 && get_nprocs() == 96 && get_nprocs_conf() == 96);
    CHECK(sysconf(_SC_PAGESIZE) == 4096);
    cpu_set_t set;
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) == 96 && CPU_ISSET(95, &set));
    CHECK(sched_getaffinity(0, 8, &set) == -1); /* 64 bits are too few */
    CPU_ZERO(&set);
    CPU_SET(90, &set);
    CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
    CHECK(pthread_getaffinity_np(pthread_self(), sizeof set, &set) == 0 && CPU_COUNT(&set) == 1 && CPU_ISSET(90, &set));
    CPU_ZERO(&set);
    CPU_SET(100, &set);
    CHECK(sched_setaffinity(0, sizeof set, &set) == -1);
    affinity_of_threads();

    MPI_Comm node;
    int node_size, node_rank;
    CHECK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, -rank, MPI_INFO_NULL, &node) == MPI_SUCCESS);
    MPI_Comm_size(node, &node_size);
    MPI_Comm_rank(node, &node_rank);
    CHECK(node_size == (rank / 2 * 2 + 1 < size ? 2 : 1));
    CHECK(node_rank == (node_size == 2 ? 1 - rank % 2 : 0)); /* ordered by key */
    MPI_Comm_free(&node);
    CHECK(MPI_Comm_split_type(MPI_COMM_WORLD, rank ? MPI_COMM_TYPE_SHARED : MPI_UNDEFINED, 0, MPI_INFO_NULL, &node) == MPI_SUCCESS);
    CHECK((node == MPI_COMM_NULL) == (rank == 0));
    if (node != MPI_COMM_NULL)
        MPI_Comm_free(&node);

    /* Probing for functions finds what the MPI library has, and no more. */
    CHECK(dlsym(RTLD_DEFAULT, "MPI_Send") != NULL && dlsym(RTLD_DEFAULT, "MPI_No_such_function") == NULL);
    CHECK((dlsym(RTLD_DEFAULT, "MPI_Abi_get_version") != NULL) == (MPI_VERSION >= 5));
    CHECK(dlsym(RTLD_DEFAULT, "mpi_send_f08ts_") == NULL);
    int (*comm_rank)(MPI_Comm, int *) = (int (*)(MPI_Comm, int *))dlsym(RTLD_DEFAULT, "MPI_Comm_rank");
    int again = -1;
    CHECK(comm_rank(MPI_COMM_WORLD, &again) == MPI_SUCCESS && again == rank);
    MPI_Finalize();
    if (rank == 0)
        printf("machine: %d ranks\n", size);
    return 0;
}
