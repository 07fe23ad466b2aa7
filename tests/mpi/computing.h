/* Work of a given CPU time, as the kernel counts it. */
#pragma once
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* CPU time of this thread, ns, from the kernel itself: the library's function is simulated. */
static inline long cpu_time(void)
{
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

/* So many ns of it. */
static inline void compute_for(long ns)
{
    volatile double x = 1;
    for (long end = cpu_time() + ns; cpu_time() < end;)
        for (int i = 0; i < 300; i++)
            x = x * 1.0000001 + 1e-9;
}
