/* Functions that some MPI libraries have and others lack: a program that asks gets the library's own answer. (Weak references:
 * crates/launch/src/preload.rs.) */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>

static const char *const names[] = {"MPI_Send",           "MPI_Send_c",       "PMPI_Send_c",    "MPI_Win_create_c",    "MPI_Session_init",    "PMPI_Session_finalize",
                                    "MPI_Comm_idup_with_info", "MPI_Isendrecv", "MPI_Psend_init", "MPI_Bcast_init",    "MPI_Info_get_string", "MPI_Abi_get_version",
                                    "MPI_Comm_get_failed", "MPI_Wtime",        "MPI_T_init_thread", "MPI_No_such_function"};

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    void *library = NULL;
    static const char *const libraries[] = {"libmpi.so.40", "libmpi.so.12"};
    for (int i = 0; i < 2 && !library; i++)
        library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
    CHECK(library != NULL);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        CHECK_EQ(dlsym(RTLD_DEFAULT, names[i]) != NULL, dlsym(library, names[i]) != NULL);
    return finish("optional");
}
