/* Work that ranks take from each other, each polling MPI_Iprobe: who has nothing asks the next one, and looks again and
 * again until something comes. A token goes round to find out that nothing is left. */
#include "check.h"

enum { WORK = 60, ASK = 1, GIVE = 2, TOKEN = 3, END = 4 };

static long left, done, asked;

/* A rank with work gives half of it. */
static void answer(int from)
{
    int nothing;
    long give = left / 2;
    MPI_Recv(&nothing, 0, MPI_INT, from, ASK, WORLD, MPI_STATUS_IGNORE);
    left -= give;
    MPI_Send(&give, 1, MPI_LONG, from, GIVE, WORLD);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    long total = 0, polls = 0, of_all[2], of_rank[2];
    int has_token = rank == 0, waits = 0, over = 0, victim = rank;
    long white = 0; /* ranks in a row that had nothing when the token came */
    if (rank == 0)
        left = WORK;
    while (!over) {
        int flag;
        MPI_Status status;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, WORLD, &flag, &status);
        polls++;
        if (flag) {
            int from = status.MPI_SOURCE;
            long give;
            switch (status.MPI_TAG) {
            case ASK:
                answer(from);
                break;
            case GIVE:
                MPI_Recv(&give, 1, MPI_LONG, from, GIVE, WORLD, MPI_STATUS_IGNORE);
                left += give;
                waits = 0;
                break;
            case TOKEN:
                MPI_Recv(&white, 1, MPI_LONG, from, TOKEN, WORLD, MPI_STATUS_IGNORE);
                has_token = 1;
                break;
            default:
                MPI_Recv(&white, 1, MPI_LONG, from, END, WORLD, MPI_STATUS_IGNORE);
                over = 1;
            }
            continue;
        }
        if (left > 0) {
            left--;
            done++;
        } else if (!waits && asked < 4) {
            victim = (victim + 1) % ranks;
            if (victim != rank) {
                MPI_Send(NULL, 0, MPI_INT, victim, ASK, WORLD);
                waits = 1;
            }
            asked++;
        } else if (has_token && !waits) {
            has_token = 0;
            white = left == 0 ? white + 1 : 0;
            if (white > 2 * ranks) {
                for (int other = 0; other < ranks; other++)
                    if (other != rank)
                        MPI_Send(&white, 1, MPI_LONG, other, END, WORLD);
                over = 1;
            } else {
                MPI_Send(&white, 1, MPI_LONG, (rank + 1) % ranks, TOKEN, WORLD);
            }
        }
    }
    of_rank[0] = done;
    of_rank[1] = polls;
    MPI_Allreduce(of_rank, of_all, 2, MPI_LONG, MPI_SUM, WORLD);
    total = of_all[0];
    CHECK_EQ(total, WORK);
    if (rank == 0 && getenv("STEALING_POLLS"))
        printf("%ld polls\n", of_all[1]);
    return finish("p2p_stealing");
}
