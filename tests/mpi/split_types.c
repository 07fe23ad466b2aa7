/* Every kind of MPI_Comm_split_type on nodes of two ranks: who is where says the simulated machine. A node has one
 * package and one NUMA domain, and each rank a core of its own. */
#include "check.h"

enum { PER_NODE = 2, NODE = 2, CORE = 1, NOBODY = 0 };

/* The members of the part of `comm` that this rank is in must be as many as `expected`, the ranks of its node or itself. */
static void splits(MPI_Comm comm, const char *what, int type, const char *key, const char *value, int expected)
{
    MPI_Info info = MPI_INFO_NULL;
    MPI_Comm part = MPI_COMM_NULL;
    int size = 0, me = 0;
    if (key) {
        MPI_Info_create(&info);
        MPI_Info_set(info, key, value);
    }
    MPI_Comm_split_type(comm, type, 0, info, &part);
    if (part != MPI_COMM_NULL) {
        MPI_Comm_size(part, &size);
        MPI_Comm_rank(part, &me);
        MPI_Comm_free(&part);
    }
    if (key)
        MPI_Info_free(&info);
    checks_made += 2;
    if (size != expected || me != (expected == NODE ? rank % PER_NODE : 0))
        fail_at(__FILE__, __LINE__, what, "%s: rank %d of %d, expected one of %d", value ? value : "", me, size, expected);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    splits(WORLD, "MPI_COMM_TYPE_SHARED", MPI_COMM_TYPE_SHARED, NULL, NULL, NODE);
#ifdef OPEN_MPI
    static const struct { const char *name; int type, part; } kinds[] = {
        {"OMPI_COMM_TYPE_HWTHREAD", OMPI_COMM_TYPE_HWTHREAD, CORE}, {"OMPI_COMM_TYPE_CORE", OMPI_COMM_TYPE_CORE, CORE},
        {"OMPI_COMM_TYPE_L2CACHE", OMPI_COMM_TYPE_L2CACHE, CORE},   {"OMPI_COMM_TYPE_L3CACHE", OMPI_COMM_TYPE_L3CACHE, NODE},
        {"OMPI_COMM_TYPE_SOCKET", OMPI_COMM_TYPE_SOCKET, NODE},     {"OMPI_COMM_TYPE_NUMA", OMPI_COMM_TYPE_NUMA, NODE},
        {"OMPI_COMM_TYPE_BOARD", OMPI_COMM_TYPE_BOARD, NODE},       {"OMPI_COMM_TYPE_HOST", OMPI_COMM_TYPE_HOST, NODE},
        {"OMPI_COMM_TYPE_CLUSTER", OMPI_COMM_TYPE_CLUSTER, NODE},
    };
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        splits(WORLD, kinds[kind].name, kinds[kind].type, NULL, NULL, kinds[kind].part);
#endif
#if defined(MPICH_NAME) || defined(I_MPI_VERSION)
    splits(WORLD, "MPI_COMM_TYPE_SHARED", MPI_COMM_TYPE_SHARED, "shmem_topo", "package", NODE);
    splits(WORLD, "MPI_COMM_TYPE_SHARED", MPI_COMM_TYPE_SHARED, "shmem_topo", "core", CORE);
    splits(WORLD, "MPI_COMM_TYPE_RESOURCE_GUIDED", MPI_COMM_TYPE_RESOURCE_GUIDED, "mpi_hw_resource_type", "mpi_shared_memory", NODE);
#endif
#if defined(MPI_COMM_TYPE_HW_GUIDED) || (defined(OPEN_MPI) && OMPI_MAJOR_VERSION >= 5)
    splits(WORLD, "MPI_COMM_TYPE_HW_GUIDED", MPI_COMM_TYPE_HW_GUIDED, "mpi_hw_resource_type", "hwloc://Package", NODE);
    splits(WORLD, "MPI_COMM_TYPE_HW_GUIDED", MPI_COMM_TYPE_HW_GUIDED, "mpi_hw_resource_type", "numanode", NODE);
    splits(WORLD, "MPI_COMM_TYPE_HW_GUIDED", MPI_COMM_TYPE_HW_GUIDED, "mpi_hw_resource_type", "core", CORE);
    /* From all to nodes, to cores, to nothing. */
    MPI_Comm node, core;
    splits(WORLD, "MPI_COMM_TYPE_HW_UNGUIDED", MPI_COMM_TYPE_HW_UNGUIDED, NULL, NULL, NODE);
    MPI_Comm_split_type(WORLD, MPI_COMM_TYPE_HW_UNGUIDED, 0, MPI_INFO_NULL, &node);
    splits(node, "MPI_COMM_TYPE_HW_UNGUIDED", MPI_COMM_TYPE_HW_UNGUIDED, NULL, NULL, CORE);
    MPI_Comm_split_type(node, MPI_COMM_TYPE_HW_UNGUIDED, 0, MPI_INFO_NULL, &core);
    splits(core, "MPI_COMM_TYPE_HW_UNGUIDED", MPI_COMM_TYPE_HW_UNGUIDED, NULL, NULL, NOBODY);
    MPI_Comm_free(&core);
    MPI_Comm_free(&node);
#endif
    /* As many under each MPI. */
    checks_made = 1;
    return finish("split_types");
}
