/* Ends a test program that finds something else than it must. */
#include <stdio.h>
#include <stdlib.h>

#define MUST(condition)                                                                    \
	do {                                                                               \
		if (!(condition)) {                                                        \
			fprintf(stderr, "%s:%d: not %s\n", __FILE__, __LINE__, #condition); \
			exit(1);                                                           \
		}                                                                          \
	} while (0)
