/* Threads of OpenMP that share work out among themselves, and send what they have done: a loop whose iterations go to
 * whoever is free, tasks, a critical section, and a barrier in the middle. Ranks (0, 1), (2, 3) and so on talk to each
 * other. Which thread sends which piece is the run-time system's affair, and so are the times. */
#include "check.h"
#include <omp.h>

enum { PIECES = 32, ROUNDS = 4, LARGEST = 20000 };

static int sum(void) { return PIECES * (PIECES - 1) / 2; }

/* Piece `number` goes to the partner. */
static void send(int number, int round)
{
    static char data[LARGEST];
    MPI_Send(data, 100 + number * 500, MPI_CHAR, rank ^ 1, PIECES * round + number, WORLD);
}

int main(int argc, char **argv)
{
    int given;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &ranks);
    CHECK_EQ(given, MPI_THREAD_MULTIPLE);
    for (int round = 0; round < ROUNDS; round++) {
        int by_loop = 0, by_task = 0, taken = 0, in_line = 0;
        static char data[PIECES][LARGEST];
        MPI_Request requests[PIECES];
        for (int at = 0; at < PIECES; at++)
            MPI_Irecv(data[at], LARGEST, MPI_CHAR, rank ^ 1, PIECES * round + at, WORLD, &requests[at]);
#pragma omp parallel
        {
#pragma omp for schedule(dynamic) reduction(+ : by_loop)
            for (int at = 0; at < PIECES / 2; at++) {
                send(at, round);
                by_loop += at;
            }
#pragma omp single
            for (int at = PIECES / 2; at < PIECES; at++)
#pragma omp task shared(by_task)
            {
                send(at, round);
#pragma omp atomic
                by_task += at;
            }
#pragma omp barrier
            for (int more = 1; more;) {
#pragma omp critical
                {
                    more = taken < PIECES;
                    in_line += more ? taken++ : 0;
                }
            }
        }
        CHECK_EQ(by_loop + by_task, sum());
        CHECK_EQ(in_line, sum());
        MPI_Waitall(PIECES, requests, MPI_STATUSES_IGNORE);
        MPI_Barrier(WORLD);
    }
    return finish("omp_dynamic");
}
