/* Receives of datatypes, which handlers on the NIC unpack, and of one communicator, which a handler sees. What must arrive
 * is what MPI_Unpack makes of the same bytes, gaps included.
 *
 *   types   each rank receives each type from the one before it on a communicator of the name "halo": receives that are
 *           posted before the message comes, and "late" ones behind it
 *   scaled  the same numbers on MPI_COMM_WORLD, where they stay as they are, and on "halo", where the NIC doubles them
 *           (scale.c) */
#include "check.h"
#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 17, TYPES = 11 };

static char got[ROOM], wanted[ROOM], packed[ROOM], text[ROOM];

/* All of them have their bytes between the middle of the room and its end. */
static MPI_Datatype type_of(int which)
{
    static const int lengths[] = {1, 3, 2, 5}, places[] = {0, 4, 20, 9}, down[] = {30, 18, 10, 0};
    static const int sizes[] = {8, 10, 12}, part[] = {3, 4, 5}, starts[] = {2, 5, 6};
    MPI_Datatype type, inner, types[3] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
    MPI_Aint at[3] = {0, 8, 24};
    switch (which) {
    case 0: MPI_Type_vector(40, 1, 3, MPI_DOUBLE, &type); break;
    case 1: MPI_Type_vector(7, 5, 9, MPI_INT, &type); break;
    case 2: MPI_Type_vector(6, 2, -5, MPI_INT, &type); break;
    case 3: MPI_Type_indexed(4, lengths, places, MPI_INT, &type); break;
    case 4: MPI_Type_indexed(4, lengths, down, MPI_SHORT, &type); break;
    case 5: MPI_Type_create_indexed_block(4, 2, down, MPI_DOUBLE, &type); break;
    case 6: MPI_Type_create_subarray(2, sizes, part, starts, MPI_ORDER_C, MPI_INT, &type); break;
    case 7: MPI_Type_create_subarray(3, sizes, part, starts, MPI_ORDER_FORTRAN, MPI_FLOAT, &type); break;
    case 8: MPI_Type_create_struct(3, (int[]){3, 1, 2}, at, types, &type); break;
    case 9:
        MPI_Type_vector(3, 2, 4, MPI_SHORT, &inner);
        MPI_Type_create_hvector(5, 1, 64, inner, &type);
        MPI_Type_free(&inner);
        break;
    default:
        MPI_Type_contiguous(3, MPI_CHAR, &inner);
        MPI_Type_create_resized(inner, -4, 16, &type);
        MPI_Type_free(&inner);
    }
    MPI_Type_commit(&type);
    return type;
}

static void compare(int which, int count)
{
    if (memcmp(got, wanted, ROOM) == 0)
        return;
    int at = 0;
    while (got[at] == wanted[at])
        at++;
    fprintf(stderr, "handlers_types: type %d, %d elements: %d at %d, not %d\n", which, count, got[at], at - ROOM / 2, wanted[at]);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static int receive_types(MPI_Comm comm, int late)
{
    int rank, size, checks = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int which = 0; which < TYPES; which++)
        for (int count = 1; count <= 9; count += 4) {
            MPI_Datatype type = type_of(which);
            int bytes, end = 0;
            MPI_Request request = MPI_REQUEST_NULL, sent;
            MPI_Status status;
            MPI_Type_size(type, &bytes);
            bytes *= count;
            for (int at = 0; at < bytes; at++)
                text[at] = (char)(at * 7 + which + count);
            memcpy(packed, text, sizeof packed);
            memset(got, 0x55, sizeof got);
            memset(wanted, 0x55, sizeof wanted);
            MPI_Unpack(packed, bytes, &end, wanted + ROOM / 2, count, type, comm);
            if (!late)
                MPI_Irecv(got + ROOM / 2, count, type, (rank + size - 1) % size, which, comm, &request);
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Isend(text, bytes, MPI_BYTE, (rank + 1) % size, which, comm, &sent);
            if (late) {
                MPI_Barrier(MPI_COMM_WORLD);
                MPI_Recv(got + ROOM / 2, count, type, (rank + size - 1) % size, which, comm, &status);
            } else {
                MPI_Wait(&request, &status);
            }
            MPI_Wait(&sent, MPI_STATUS_IGNORE);
            MPI_Get_count(&status, type, &end);
            if (end != count)
                MPI_Abort(MPI_COMM_WORLD, 2);
            compare(which, count);
            MPI_Type_free(&type);
            checks++;
        }
    return checks;
}

static int receive_scaled(MPI_Comm comm, int factor)
{
    int rank, size, numbers[1000], same[1000];
    MPI_Request request;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int at = 0; at < 1000; at++)
        numbers[at] = at + rank;
    MPI_Irecv(same, 1000, MPI_INT, (rank + size - 1) % size, 5, comm, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(numbers, 1000, MPI_INT, (rank + 1) % size, 5, comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int at = 0; at < 1000; at++)
        if (same[at] != factor * (at + (rank + size - 1) % size))
            MPI_Abort(MPI_COMM_WORLD, 3);
    return 1;
}

int main(int argc, char **argv)
{
    int rank, size;
    long checks = 0, all = 0;
    MPI_Comm halo;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &halo);
    MPI_Comm_set_name(halo, "halo");
    if (argc > 1 && strcmp(argv[1], "scaled") == 0)
        checks = receive_scaled(MPI_COMM_WORLD, 1) + receive_scaled(halo, 2);
    else
        checks = receive_types(halo, argc > 1 && strcmp(argv[1], "late") == 0);
    MPI_Reduce(&checks, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("handlers_types: ranks=%d checks=%ld ok\n", size, all);
    MPI_Comm_free(&halo);
    MPI_Finalize();
    return 0;
}
