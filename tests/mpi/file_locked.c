/* File access under locks of the library's own (fcntl), which other ranks wait for inside the kernel: shared pointers, atomic mode, and
 * writing parts with gaps between them. A rank that has such a lock must not wait for another one. */
#include "check.h"

enum { PARTS = 8 };

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_File file;
    MPI_Status status;
    int seen[64] = {0}, value;
    CHECK_EQ(MPI_File_open(WORLD, "locked", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_SUCCESS);

    /* Each rank appends its number, at the pointer that all share: all of them are there, in any order. */
    MPI_File_set_size(file, 0);
    MPI_Barrier(WORLD);
    for (int i = 0; i < PARTS; i++)
        MPI_File_write_shared(file, &rank, 1, MPI_INT, &status);
    MPI_File_sync(file);
    MPI_Barrier(WORLD);
    for (int i = 0; i < PARTS * ranks; i++) {
        MPI_File_read_at(file, (MPI_Offset)i * (MPI_Offset)sizeof(int), &value, 1, MPI_INT, &status);
        CHECK(value >= 0 && value < ranks);
        seen[value]++;
    }
    for (int i = 0; i < ranks; i++)
        CHECK_EQ(seen[i], PARTS);

    /* Every rank-th integer, in atomic mode: parts of other ranks stay what they are. */
    MPI_Datatype type;
    MPI_Type_vector(PARTS, 1, ranks, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Barrier(WORLD);
    MPI_File_set_atomicity(file, 1);
    MPI_File_set_view(file, (MPI_Offset)rank * (MPI_Offset)sizeof(int), MPI_INT, type, "native", MPI_INFO_NULL);
    int mine[PARTS];
    for (int i = 0; i < PARTS; i++)
        mine[i] = rank * 1000 + i;
    MPI_File_write(file, mine, PARTS, MPI_INT, &status);
    MPI_File_sync(file);
    MPI_Barrier(WORLD);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    for (int i = 0; i < PARTS * ranks; i++) {
        MPI_File_read_at(file, i, &value, 1, MPI_INT, &status);
        CHECK_EQ(value, i % ranks * 1000 + i / ranks);
    }
    MPI_Type_free(&type);
    MPI_File_close(&file);
    if (rank == 0)
        MPI_File_delete("locked", MPI_INFO_NULL);
    return finish("file_locked");
}
