/* An MPI library that does nothing, with the names that the recorder asks for: Open MPI's ABI, one rank. */
struct object { char unused[512]; } ompi_mpi_comm_world, ompi_mpi_comm_null, ompi_mpi_double;
static struct object requests[4096];
static unsigned next;

#define BOTH(name, parameters, body) \
    int name parameters { body; return 0; } \
    int P##name parameters { body; return 0; }

BOTH(MPI_Init, (int *argc, char ***argv), (void)argc; (void)argv)
BOTH(MPI_Finalize, (void), )
BOTH(MPI_Comm_rank, (void *comm, int *rank), (void)comm; *rank = 0)
BOTH(MPI_Comm_size, (void *comm, int *size), (void)comm; *size = 2)
BOTH(MPI_Query_thread, (int *provided), *provided = 0)
BOTH(MPI_Type_size, (void *type, int *size), (void)type; *size = 8)
BOTH(MPI_Send, (void *b, int n, void *t, int peer, int tag, void *c), )
BOTH(MPI_Recv, (void *b, int n, void *t, int peer, int tag, void *c, void *status), )
BOTH(MPI_Isend, (void *b, int n, void *t, int peer, int tag, void *c, void **request), *request = &requests[next++ & 4095])
BOTH(MPI_Irecv, (void *b, int n, void *t, int peer, int tag, void *c, void **request), *request = &requests[next++ & 4095])
BOTH(MPI_Waitall, (int n, void **r, void *statuses), for (int i = 0; i < n; i++) r[i] = 0)
BOTH(MPI_Wait, (void **r, void *status), *r = 0)
BOTH(MPI_Allreduce, (void *s, void *r, int n, void *t, void *op, void *c), )
