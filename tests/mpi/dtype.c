/* Derived datatypes: what one layout sends another one receives; extents, bounds and counts. */
#include "check.h"
#include <stddef.h>

static int next, previous;

/* Sends with one type and receives with another, both ways of waiting. */
static void shift(const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type)
{
    MPI_Request request;
    MPI_Irecv(in, in_count, in_type, previous, 1, WORLD, &request);
    MPI_Send(out, out_count, out_type, next, 1, WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void vectors(void)
{
    enum { ROWS = 60, COLUMNS = 50 };
    static int matrix[ROWS][COLUMNS], column[ROWS], copy[ROWS][COLUMNS];
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++)
            matrix[r][c] = rank * 100000 + r * 100 + c;
    MPI_Datatype type, resized;
    MPI_Type_vector(ROWS, 1, COLUMNS, MPI_INT, &type);
    MPI_Type_commit(&type);
    for (int c = 0; c < COLUMNS; c += 7) {
        shift(&matrix[0][c], 1, type, column, ROWS, MPI_INT);
        for (int r = 0; r < ROWS; r++)
            CHECK_EQ(column[r], previous * 100000 + r * 100 + c);
    }
    /* A transpose: columns one after the other, received as rows of a column type. */
    MPI_Type_create_resized(type, 0, sizeof(int), &resized);
    MPI_Type_commit(&resized);
    memset(copy, 0, sizeof copy);
    shift(matrix, ROWS * COLUMNS, MPI_INT, copy, COLUMNS, resized);
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) {
            int position = c * ROWS + r; /* element r of column c was the position-th integer sent */
            CHECK_EQ(copy[r][c], previous * 100000 + position / COLUMNS * 100 + position % COLUMNS);
        }
    MPI_Type_free(&resized);
    MPI_Type_free(&type);

    /* Stride in bytes. */
    MPI_Type_create_hvector(10, 2, 6 * sizeof(int), MPI_INT, &type);
    MPI_Type_commit(&type);
    int size;
    MPI_Aint low, extent;
    MPI_Type_size(type, &size);
    MPI_Type_get_extent(type, &low, &extent);
    CHECK_EQ(size, 20 * sizeof(int));
    CHECK_EQ(low, 0);
    CHECK_EQ(extent, (9 * 6 + 2) * sizeof(int));
    int got[20];
    shift(&matrix[0][0], 1, type, got, 20, MPI_INT);
    for (int i = 0; i < 20; i++) {
        int position = i / 2 * 6 + i % 2;
        CHECK_EQ(got[i], previous * 100000 + position / COLUMNS * 100 + position % COLUMNS);
    }
    MPI_Type_free(&type);
}

static void indexed(void)
{
    enum { N = 3000 };
    static double out[N], in[N];
    int lengths[40], places[40], total = 0;
    for (int i = 0; i < 40; i++) {
        lengths[i] = i % 5;
        places[i] = (39 - i) * 70 + i % 3; /* descending */
        total += lengths[i];
    }
    for (int i = 0; i < N; i++)
        out[i] = rank * 10000.0 + i;
    MPI_Datatype type;
    MPI_Type_indexed(40, lengths, places, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    shift(out, 1, type, in, total, MPI_DOUBLE);
    int k = 0;
    for (int i = 0; i < 40; i++)
        for (int j = 0; j < lengths[i]; j++)
            CHECK(in[k++] == previous * 10000.0 + places[i] + j);
    for (int i = 0; i < N; i++)
        in[i] = -1;
    for (int i = 0; i < total; i++)
        out[i] = rank * 10000.0 + i;
    shift(out, total, MPI_DOUBLE, in, 1, type);
    k = 0;
    for (int i = 0; i < 40; i++)
        for (int j = 0; j < lengths[i]; j++)
            CHECK(in[places[i] + j] == previous * 10000.0 + k++);
    int untouched = 0;
    for (int i = 0; i < N; i++)
        untouched += in[i] == -1;
    CHECK_EQ(untouched, N - total);
    MPI_Type_free(&type);

    MPI_Aint bytes[3] = {800, 0, 160};
    int two[3] = {1, 2, 3}, starts[4] = {9, 3, 0, 6};
    MPI_Type_create_hindexed(3, two, bytes, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    for (int i = 0; i < N; i++)
        out[i] = rank * 10000.0 + i;
    shift(out, 1, type, in, 6, MPI_DOUBLE);
    static const int expected[6] = {100, 0, 1, 20, 21, 22};
    for (int i = 0; i < 6; i++)
        CHECK(in[i] == previous * 10000.0 + expected[i]);
    MPI_Type_free(&type);

    MPI_Type_create_indexed_block(4, 2, starts, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    shift(out, 1, type, in, 8, MPI_DOUBLE);
    for (int i = 0; i < 8; i++)
        CHECK(in[i] == previous * 10000.0 + starts[i / 2] + i % 2);
    MPI_Type_free(&type);
}

struct particle { char kind; double position[3]; int id; short flags[2]; };

static void structures(void)
{
    enum { N = 700 };
    static struct particle out[N], in[N];
    int lengths[4] = {1, 3, 1, 2};
    MPI_Aint places[4] = {offsetof(struct particle, kind), offsetof(struct particle, position), offsetof(struct particle, id),
                          offsetof(struct particle, flags)};
    MPI_Datatype types[4] = {MPI_CHAR, MPI_DOUBLE, MPI_INT, MPI_SHORT}, packed, type;
    MPI_Type_create_struct(4, lengths, places, types, &packed);
    MPI_Type_create_resized(packed, 0, sizeof(struct particle), &type);
    MPI_Type_commit(&type);
    for (int count = 1; count <= N; count = count * 3 + 1) {
        memset(in, 0, sizeof in);
        for (int i = 0; i < count; i++)
            out[i] = (struct particle){(char)(i % 100), {rank + i * 0.5, i, -i}, rank * 1000 + i, {(short)i, (short)-i}};
        shift(out, count, type, in, count, type);
        for (int i = 0; i < count; i++) {
            CHECK_EQ(in[i].kind, i % 100);
            CHECK(in[i].position[0] == previous + i * 0.5 && in[i].position[1] == i && in[i].position[2] == -i);
            CHECK_EQ(in[i].id, previous * 1000 + i);
            CHECK(in[i].flags[0] == i && in[i].flags[1] == -i);
        }
    }
    MPI_Status status;
    MPI_Request request;
    int elements, count;
    MPI_Irecv(in, 5, type, previous, 2, WORLD, &request);
    MPI_Send(out, 2, type, next, 2, WORLD);
    MPI_Wait(&request, &status);
    MPI_Get_count(&status, type, &count);
    MPI_Get_elements(&status, type, &elements);
    CHECK_EQ(count, 2);
    CHECK_EQ(elements, 14);
    MPI_Type_free(&packed);
    MPI_Type_free(&type);
}

static void subarrays(void)
{
    enum { X = 12, Y = 14, Z = 16 };
    static int block[X][Y][Z];
    int whole[3] = {X, Y, Z};
    int inner[3] = {1, Y - 2, Z - 2}, sent_from[3] = {X - 2, 1, 1}, received_at[3] = {0, 1, 1};
    MPI_Datatype send, receive;
    MPI_Type_create_subarray(3, whole, inner, sent_from, MPI_ORDER_C, MPI_INT, &send);
    MPI_Type_create_subarray(3, whole, inner, received_at, MPI_ORDER_C, MPI_INT, &receive);
    MPI_Type_commit(&send);
    MPI_Type_commit(&receive);
    for (int x = 0; x < X; x++)
        for (int y = 0; y < Y; y++)
            for (int z = 0; z < Z; z++)
                block[x][y][z] = rank * 10000 + x * 400 + y * 20 + z;
    shift(block, 1, send, block, 1, receive);
    for (int y = 0; y < Y; y++)
        for (int z = 0; z < Z; z++) {
            int inside = y > 0 && y < Y - 1 && z > 0 && z < Z - 1;
            CHECK_EQ(block[0][y][z], inside ? previous * 10000 + (X - 2) * 400 + y * 20 + z : rank * 10000 + y * 20 + z);
        }
    MPI_Type_free(&send);
    MPI_Type_free(&receive);

    /* Fortran order of the reversed sizes is the same memory. */
    int fortran_whole[3] = {Z, Y, X}, fortran_inner[3] = {4, 3, 2}, fortran_start[3] = {1, 2, 3};
    int c_inner[3] = {2, 3, 4}, c_start[3] = {3, 2, 1}, got[24];
    MPI_Type_create_subarray(3, fortran_whole, fortran_inner, fortran_start, MPI_ORDER_FORTRAN, MPI_INT, &send);
    MPI_Type_create_subarray(3, whole, c_inner, c_start, MPI_ORDER_C, MPI_INT, &receive);
    MPI_Type_commit(&send);
    MPI_Type_commit(&receive);
    static int other[X][Y][Z];
    shift(block, 1, send, got, 24, MPI_INT);
    shift(block, 1, send, other, 1, receive);
    for (int i = 0; i < 24; i++) {
        int x = 3 + i / 12, y = 2 + i / 4 % 3, z = 1 + i % 4;
        CHECK_EQ(got[i], previous * 10000 + x * 400 + y * 20 + z);
        CHECK_EQ(other[x][y][z], got[i]);
    }
    MPI_Type_free(&send);
    MPI_Type_free(&receive);
}

static void others(void)
{
    MPI_Datatype type, copy;
    int combiner, integers, addresses, datatypes;
    MPI_Type_contiguous(3, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    MPI_Type_dup(type, &copy);
    double out[6] = {rank, 1, 2, 3, 4, 5}, in[6] = {0};
    shift(out, 2, copy, in, 6, MPI_DOUBLE);
    for (int i = 0; i < 6; i++)
        CHECK(in[i] == (i ? i : previous));
    MPI_Type_get_envelope(type, &integers, &addresses, &datatypes, &combiner);
    CHECK_EQ(combiner, MPI_COMBINER_CONTIGUOUS);
    int value[1];
    MPI_Datatype inside[1];
    MPI_Type_get_contents(type, 1, 0, 1, value, NULL, inside);
    CHECK_EQ(value[0], 3);
    CHECK(inside[0] == MPI_DOUBLE);
    MPI_Type_set_name(type, "three doubles");
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Type_get_name(type, name, &length);
    CHECK(!strcmp(name, "three doubles"));
    MPI_Type_free(&type);
    MPI_Type_free(&copy);

    /* Sent from absolute addresses. */
    int a = rank + 1, b = rank + 2, c[2] = {0, 0}, lengths[2] = {1, 1};
    MPI_Aint places[2];
    MPI_Get_address(&a, &places[0]);
    MPI_Get_address(&b, &places[1]);
    MPI_Type_create_hindexed(2, lengths, places, MPI_INT, &type);
    MPI_Type_commit(&type);
    shift(MPI_BOTTOM, 1, type, c, 2, MPI_INT);
    CHECK_EQ(c[0], previous + 1);
    CHECK_EQ(c[1], previous + 2);
    MPI_Type_free(&type);

    /* A block-cyclic distributed array: the parts of all ranks together cover it once. */
    enum { N = 96 };
    int global[1] = {N}, kinds[1] = {MPI_DISTRIBUTE_CYCLIC}, block[1] = {2}, processes[1] = {4}, sum = 0, size;
    for (int part = 0; part < 4; part++) {
        MPI_Type_create_darray(4, part, 1, global, kinds, block, processes, MPI_ORDER_C, MPI_INT, &type);
        MPI_Type_commit(&type);
        MPI_Type_size(type, &size);
        sum += size;
        int all[N], mine[N / 4];
        for (int i = 0; i < N; i++)
            all[i] = rank * 1000 + i;
        shift(all, 1, type, mine, N / 4, MPI_INT);
        for (int i = 0; i < N / 4; i++)
            CHECK_EQ(mine[i], previous * 1000 + i / 2 * 8 + part * 2 + i % 2);
        MPI_Type_free(&type);
    }
    CHECK_EQ(sum, N * (int)sizeof(int));

    /* A strided column of 600 KiB: packed in many pieces, received in place. */
    enum { ROWS = 75000 };
    double *wide = allocate(ROWS * 3 * sizeof *wide), *tall = allocate(ROWS * sizeof *tall);
    for (int i = 0; i < 3 * ROWS; i++)
        wide[i] = rank + i * 0.25;
    MPI_Type_vector(ROWS, 1, 3, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    if (rank < 8) {
        MPI_Request request;
        int to = rank ^ 1;
        if (to < ranks) {
            MPI_Irecv(tall, ROWS, MPI_DOUBLE, to, 3, WORLD, &request);
            MPI_Send(wide, 1, type, to, 3, WORLD);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            int wrong = 0;
            for (int i = 0; i < ROWS; i++)
                wrong += tall[i] != to + i * 3 * 0.25;
            CHECK_EQ(wrong, 0);
        }
    }
    MPI_Type_free(&type);
    free(wide);
    free(tall);
}

static void packing(void)
{
    char packed[4000];
    int position = 0, room, a[10], size;
    double b[5];
    char text[20];
    for (int i = 0; i < 10; i++)
        a[i] = rank + i;
    for (int i = 0; i < 5; i++)
        b[i] = rank * 0.5 + i;
    snprintf(text, sizeof text, "rank %d", rank);
    MPI_Pack_size(10, MPI_INT, WORLD, &room);
    CHECK(room >= 40);
    MPI_Pack(a, 10, MPI_INT, packed, sizeof packed, &position, WORLD);
    MPI_Pack(b, 5, MPI_DOUBLE, packed, sizeof packed, &position, WORLD);
    MPI_Pack(text, 20, MPI_CHAR, packed, sizeof packed, &position, WORLD);
    MPI_Request request;
    MPI_Status status;
    char arrived[4000];
    MPI_Irecv(arrived, sizeof arrived, MPI_PACKED, previous, 4, WORLD, &request);
    MPI_Send(packed, position, MPI_PACKED, next, 4, WORLD);
    MPI_Wait(&request, &status);
    MPI_Get_count(&status, MPI_PACKED, &size);
    CHECK_EQ(size, position);
    position = 0;
    int a2[10];
    double b2[5];
    char text2[20], expected[20];
    MPI_Unpack(arrived, size, &position, a2, 10, MPI_INT, WORLD);
    MPI_Unpack(arrived, size, &position, b2, 5, MPI_DOUBLE, WORLD);
    MPI_Unpack(arrived, size, &position, text2, 20, MPI_CHAR, WORLD);
    CHECK_EQ(position, size);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(a2[i], previous + i);
    for (int i = 0; i < 5; i++)
        CHECK(b2[i] == previous * 0.5 + i);
    snprintf(expected, sizeof expected, "rank %d", previous);
    CHECK(!strcmp(text2, expected));

    /* The portable format. */
    MPI_Aint place = 0, length;
    MPI_Pack_external_size("external32", 10, MPI_INT, &length);
    CHECK_EQ(length, 40);
    MPI_Pack_external("external32", a, 10, MPI_INT, packed, sizeof packed, &place);
    CHECK_EQ(place, 40);
    CHECK_EQ((unsigned char)packed[3], (unsigned char)rank); /* most significant byte first */
    place = 0;
    MPI_Unpack_external("external32", packed, 40, &place, a2, 10, MPI_INT);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(a2[i], a[i]);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    next = (rank + 1) % ranks;
    previous = (rank + ranks - 1) % ranks;
    vectors();
    indexed();
    structures();
    subarrays();
    others();
    packing();
    return finish("dtype");
}
