/* Standard streams. Argument: print LINES | stdin | args WORD... | stderr | environment NAME.
 *
 * print: every rank prints LINES lines. stdin: rank 0 reads numbers up to a word or the end and prints their sum. args:
 * rank 0 prints its arguments one per line. stderr: rank 0 writes to stderr. environment NAME: rank 0 prints a
 * variable. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    const char *mode = argc > 1 ? argv[1] : "";
    if (!strcmp(mode, "print")) {
        int lines = atoi(argv[2]);
        for (int i = 0; i < lines; i++)
            printf("rank %d line %d: the quick brown fox jumps over the lazy dog %016llx\n", rank, i,
                   (unsigned long long)mix((uint64_t)rank, (uint64_t)i, 0));
        fflush(stdout);
        checks_made++;
    } else if (!strcmp(mode, "stdin")) {
        long long sum = 0, value, count = 0;
        if (rank == 0) {
            while (scanf("%lld", &value) == 1) {
                sum += value;
                count++;
            }
            printf("%lld numbers, sum %lld\n", count, sum);
        }
        MPI_Bcast(&sum, 1, MPI_LONG_LONG, 0, WORLD);
        checks_made++;
    } else if (!strcmp(mode, "args") && rank == 0) {
        for (int i = 2; i < argc; i++)
            printf("[%s]\n", argv[i]);
    } else if (!strcmp(mode, "stderr") && rank == 0) {
        fprintf(stderr, "this goes to stderr\n");
        printf("this goes to stdout\n");
    } else if (!strcmp(mode, "environment") && rank == 0) {
        const char *value = getenv(argv[2]);
        printf("%s=%s\n", argv[2], value ? value : "(unset)");
    }
    fflush(stdout);
    return finish("stream");
}
