/* Even ranks send numbers to the next rank, whose NIC runs handlers on messages with some tags. What must arrive, by
 * tag: 71 doubled, negative ones 0 (scale.c); 72 the sum of all words, then zeros (sum.c); 73 as it was sent; 74 as it
 * was sent, though the handler goes wrong (wrong.c). Arguments: "plain" where there are no handlers. */
#include "check.h"
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 20000 };
static int32_t numbers[LONGEST], got[LONGEST];

static int32_t number(int at, int tag)
{
    return at % 3 == 0 ? -at - tag : at + tag;
}

static int32_t wanted(int at, int count, int tag, int plain)
{
    int32_t sent = number(at, tag);
    if (plain || tag == 73 || tag == 74)
        return sent;
    if (tag == 71)
        return sent < 0 ? 0 : 2 * sent;
    uint32_t sum = 0;
    for (int each = 0; each < count && at == 0; each++)
        sum += (uint32_t)number(each, tag);
    return (int32_t)sum;
}

int main(int argc, char **argv)
{
    static const int counts[] = {1, 16, 500, 512, 1500, LONGEST};
    int rank, size, plain = argc > 1 && strcmp(argv[1], "plain") == 0;
    long checks = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int late = 0; late < 2; late++)
        for (int tag = 71; tag <= 74; tag++)
            for (size_t which = 0; which < sizeof counts / sizeof *counts; which++) {
                int count = counts[which], other = rank ^ 1;
                /* Messages that find their receive, and messages that do not. */
                if (!late)
                    MPI_Barrier(MPI_COMM_WORLD);
                if (other < size && rank % 2 == 0) {
                    for (int at = 0; at < count; at++)
                        numbers[at] = number(at, tag);
                    MPI_Send(numbers, count, MPI_INT32_T, other, tag, MPI_COMM_WORLD);
                } else if (rank % 2 == 1) {
                    memset(got, 0x55, sizeof got);
                    MPI_Recv(got, count, MPI_INT32_T, other, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                    for (int at = 0; at < count; at++) {
                        if (got[at] != wanted(at, count, tag, plain)) {
                            fprintf(stderr, "handlers: tag %d, %d numbers: %d at %d, not %d\n", tag, count, got[at], at, wanted(at, count, tag, plain));
                            MPI_Abort(MPI_COMM_WORLD, 1);
                        }
                    }
                    checks++;
                }
            }
    long all = 0;
    MPI_Reduce(&checks, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("handlers: ranks=%d checks=%ld ok\n", size, all);
    MPI_Finalize();
    return 0;
}
