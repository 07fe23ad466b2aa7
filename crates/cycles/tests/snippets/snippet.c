/* What the decoders are tested with: tests/it/decode.rs says how the texts beside this file are made. */
#include <math.h>
#include <stdint.h>
#include <string.h>

double dot(const double *x, const double *y, int n) { double s = 0; for (int i = 0; i < n; i++) s += x[i] * y[i]; return s; }
void axpy(float *x, const float *y, float a, int n) { for (int i = 0; i < n; i++) x[i] = a * y[i] + x[i]; }
void divide(double *x, const double *y, int n) { for (int i = 0; i < n; i++) x[i] = sqrt(x[i] / y[i]); }
double scalar(double a, double b, int k) { return k > 3 ? a / b : __builtin_sqrt(a) * b - fabs(a) + (double)k + (a < b ? a : b); }
double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
int64_t integers(int64_t a, int64_t b, uint32_t c) { return a * b + a / (b | 1) + (int64_t)(c % 7u) + (a << 3) + (b >> 2) - (a & b) + (a ^ ~b); }
int count(const unsigned char *p, int n) { int k = 0; for (int i = 0; i < n; i++) k += p[i] > 64 ? 3 : p[i] == 7; return k; }
struct node { struct node *next; long value; };
long list(const struct node *p) { long s = 0; while (p) { s += p->value; p = p->next; } return s; }
int add(int *p) { return __atomic_fetch_add(p, 3, __ATOMIC_SEQ_CST); }
int swap(int *p, int *expected) { return __atomic_compare_exchange_n(p, expected, 5, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); }
void barrier(void) { __sync_synchronize(); }
int acquire(int *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
void release(int *p, int v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
long call(long (*f)(long), long x) { return f(x) + f(x + 1); }
void copy(char *to, const char *from) { memcpy(to, from, 64); }
float narrow(double x) { return (float)x + 1.5f; }
long truncate(double x) { return (long)x; }
double wide(long x) { return (double)x; }
int bytes(const signed char *p, short *q, uint16_t *r) { *q = (short)(p[0] + p[1]); *r = (uint16_t)p[2]; return *q; }
void sum8(unsigned char *x, const unsigned char *y, int n) { for (int i = 0; i < n; i++) x[i] = (unsigned char)(x[i] + y[i]); }
unsigned choose(unsigned x) { switch (x) { case 0: return 7; case 1: return 90; case 2: return x * 5; case 3: return 1234567; case 4: return 11; case 5: return x - 9; default: return 3; } }
