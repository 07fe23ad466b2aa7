/* Stands in for libportals.so: keeps its own clock and writes down what the preload library calls.
 * One file per process: $NARROWS_CHANNEL/PID. Every rank has a host of its own pair: node 0 has ranks 0 and 1, and so
 * on. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static __thread int inside;
static int active, file = -1;
static uint64_t now_ps;
static int calibrating;
static pid_t own;

static void note(const char *format, ...) {
    char line[200];
    va_list list;
    va_start(list, format);
    int n = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (file < 0) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%d", getenv("NARROWS_CHANNEL"), (int)getpid());
        own = getpid();
        file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }
    if (write(file, line, n) != n)
        _exit(90);
}

static unsigned rank(void) {
    const char *text = getenv("OMPI_COMM_WORLD_RANK");
    if (!text)
        text = getenv("PMI_RANK");
    return text ? (unsigned)atoi(text) : 0;
}

/* As the real library may: every register that a function may change. */
static void clobber(void) {
    __asm__ volatile("pcmpeqd %%xmm0, %%xmm0\n\tpcmpeqd %%xmm1, %%xmm1\n\tpcmpeqd %%xmm2, %%xmm2\n\tpcmpeqd %%xmm3, %%xmm3\n\t"
                     "pcmpeqd %%xmm4, %%xmm4\n\tpcmpeqd %%xmm5, %%xmm5\n\tpcmpeqd %%xmm6, %%xmm6\n\tpcmpeqd %%xmm7, %%xmm7\n\t"
                     "mov $-1, %%rdi\n\tmov $-1, %%rsi\n\tmov $-1, %%rdx\n\tmov $-1, %%rcx\n\tmov $-1, %%r8\n\tmov $-1, %%r9\n\t"
                     "mov $-1, %%r10\n\tmov $-1, %%r11\n\tmov $-1, %%rax" ::
                         : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "rdi", "rsi", "rdx", "rcx", "r8", "r9",
                           "r10", "r11", "rax", "memory");
}

/* The clock that this library reads is the real one: it never comes back here. */
static void read_real_clock(void) {
    struct timespec t;
    static __thread int depth;
    if (depth++)
        note("recursion\n");
    clock_gettime(CLOCK_MONOTONIC, &t);
    time(NULL);
    depth--;
}

int narrows_mpi_enter(unsigned id, long peer, long tag, uint64_t place, uint64_t site) {
    read_real_clock();
    if (inside)
        note("nested\n");
    inside = 1;
    note("enter %u %ld %ld\n", id, peer, tag);
    if (id == FINALIZE)
        active = 0;
    clobber();
    return id == FINALIZE;
}

/* Twice the library has something to look at. */
int narrows_mpi_door(void) {
    static int looks;
    if (!inside)
        note("no call at the door\n");
    return looks++ < 2;
}

int narrows_mpi_leave(unsigned id, int failed) {
    (void)failed;
    if (!inside)
        note("unbalanced\n");
    inside = 0;
    note("leave %u\n", id);
    if (id == INIT || id == INIT_THREAD)
        active = 1;
    clobber();
    return 0;
}

uint64_t narrows_clock(int yields, uint64_t place) {
    (void)yields, (void)place;
    if (calibrating)
        return now_ps;
    read_real_clock();
    return __atomic_add_fetch(&now_ps, 20000, __ATOMIC_RELAXED); /* 20 ns for each read */
}

void narrows_calibrate(int begin) { calibrating = begin; }

uint64_t narrows_thread_makes(int yes) { (void)yes; return 0; }
void narrows_thread_exists(void) {}
void narrows_thread_begins(uint64_t ps, int idle, unsigned number) { (void)ps, (void)idle, (void)number; }
void narrows_librarys_thread_begins(void) {}
uint64_t narrows_thread_ends(void) { return 0; }
uint64_t narrows_thread_clock(void) { return 0; }
void narrows_thread_meets(void) {}
int narrows_thread_takes_locks(void) { return 0; }
void narrows_thread_waits(void) {}
void narrows_thread_waits_for_release(void) {}
void narrows_thread_releases(size_t place) { (void)place; }
void narrows_thread_goes_on(uint64_t ps) { (void)ps; }
void narrows_threads_are_seen(void) {}
int narrows_one_at_a_time(void) { return 0; }
int narrows_takes_turns(void) { return 0; }
int narrows_thread_blocks(size_t place, uint64_t until, unsigned seen) { (void)place; (void)until; (void)seen; return 0; }
size_t narrows_thread_wakes(size_t place, size_t most) { (void)place; (void)most; return 0; }
unsigned narrows_thread_wakes_so_far(void) { return 0; }
void narrows_thread_stands_behind(size_t place) { (void)place; }
uint64_t narrows_threads_latest(void) { return 0; }
int narrows_doze(uint64_t ps, size_t place, int with_lock) { (void)ps; (void)place; (void)with_lock; return 0; }
int narrows_dozed(void) { return 1; }
void narrows_doze_ends(uint64_t ps) { (void)ps; }

int narrows_active(void) { return active; }

int narrows_sleep(uint64_t ps) {
    note("sleep %llu\n", (unsigned long long)ps);
    __atomic_add_fetch(&now_ps, ps, __ATOMIC_RELAXED);
    return 1;
}

int narrows_accesses_file(uint64_t bytes) { return (void)bytes, 0; }
void narrows_born(void) {}
void narrows_joins(void) {}
void narrows_program_ends(int status) { (void)status; }
void narrows_closes(unsigned first, unsigned last) { (void)first, (void)last; }
void narrows_refuses(const char *why, size_t length) {
    note("refuses %.*s\n", (int)length, why);
    _exit(1);
}
void narrows_threads_refused(void) { note("threads refused\n"); }
int narrows_lock_is_taken(size_t place, int waits) { return (void)place, (void)waits, 0; }
void narrows_lock_is_given(size_t place) { (void)place; }
/* As the real library: the children of a rank are not the rank. */
void narrows_exits(int status) {
    if (own == 0 || own == getpid())
        note("exits %d\n", status);
}
void narrows_barrier(void) { note("barrier\n"); }
int narrows_look_again(void) { return 0; }
unsigned narrows_thread_made(void) { return 0; }
void narrows_threads_given(void) {}
uint64_t narrows_inject_limit(void) { return 0; }
void narrows_without_locks(void) {}
void narrows_gives_lock(void) {}
int narrows_waits_for_lock(void) { return 0; }
int narrows_expects_signal(size_t place) { (void)place; return 0; }
void narrows_waits_for_signal(int keeps) { (void)keeps; }
void narrows_signals(size_t place) { (void)place; }
void narrows_fact(const uint64_t *words, size_t count) { (void)words; (void)count; }
void narrows_receives(unsigned context, uint64_t bytes) { (void)context; (void)bytes; }
void narrows_set_context(unsigned number, uint64_t rules, int64_t extent, const int64_t *blocks, size_t count) {
    (void)number; (void)rules; (void)extent; (void)blocks; (void)count;
}
void narrows_writes(uint64_t key) { (void)key; }
int narrows_wait_at_files(const void *files, size_t count, uint64_t ps) { (void)files; (void)count; (void)ps; return -1; }
int narrows_reduce_begins(uint64_t source, uint64_t target, uint64_t bytes, unsigned operation, unsigned datatype) {
    (void)source; (void)target; (void)bytes; (void)operation; (void)datatype;
    return 0;
}
int narrows_reduce_goes_on(void) { return 0; }
void narrows_puts_card(const void *line, size_t length) { (void)line; (void)length; }
size_t narrows_gets_card(const void *line, size_t length, void *answer, size_t room) {
    (void)line; (void)length; (void)answer; (void)room;
    return 0;
}
void narrows_group(unsigned long processes) { note("group of %lu\n", processes); }
void narrows_ends_job(int status) { note("ends job %d\n", status); }

int narrows_host(char *name, size_t n) {
    snprintf(name, n, "simulated%u", rank() / 2);
    return 0;
}

int narrows_host_of(unsigned number, char *name, size_t n, unsigned *node) {
    *node = number / 2;
    snprintf(name, n, "simulated%u", *node);
    return 0;
}
long narrows_socket_call(const uint64_t *words) { (void)words; return -1; }

unsigned narrows_cores(void) { return 96; }
uint64_t narrows_longest_nap(void) { return 100000; }

uint32_t narrows_rank(void) { return rank(); }

unsigned narrows_node_color(void) { return rank() / 2; }

void narrows_shares_memory(int shares) { (void)shares; }
