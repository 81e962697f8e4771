// Errors of one elementary function against the C library in a wider type.
//
// Compiled with -include function.h, which defines F64 (0 or 1), `number function(number)`, `number` and
// `word`, REFERENCE(x) in the wide type, RANGE_LOW and RANGE_HIGH, and SPLIT: arguments beyond it are counted
// apart too. For f32 all arguments are run; for f64 POINTS random ones, half of them random bits, half
// uniform in the range. One JSON object is printed.
#include <stdio.h>
#include <time.h>

#define BLOCK 4096
#if F64
typedef long double wide;
#define FRACTION 52
#define LEAST_EXPONENT (-1022)
#define BEYOND 0x1p1024L
#define floor_log2(r) ilogbl(r)
#define power_of_two(e) ldexpl(1, e)
#else
typedef double wide;
#define FRACTION 23
#define LEAST_EXPONENT (-126)
#define BEYOND 0x1p128
static inline int floor_log2(double r) {
    uint64_t u;
    memcpy(&u, &r, 8);
    return (int)(u >> 52 & 0x7ff) - 1023;
}
static inline double power_of_two(int e) {
    uint64_t u = (uint64_t)(1023 + e) << 52;
    double power;
    memcpy(&power, &u, 8);
    return power;
}
#endif

typedef struct { double ulp, at; } worst;
static struct {
    worst all, subnormal, far;
    double sum;
    uint64_t ordinary, wrong, sign, nan;
} report;

static number from_word(word u) { number x; memcpy(&x, &u, sizeof x); return x; }

static void block(const number *x, number *y) {
    for (int k = 0; k < BLOCK; k++) y[k] = function(x[k]);
}

static void note(worst *w, double ulp, double at) {
    if (ulp > w->ulp) { w->ulp = ulp; w->at = at; }
}

static void judge(number x, number y) {
    wide r = REFERENCE((wide)x);
    if (r != r || y != y) {
        report.nan += (r != r) != (y != y);
        return;
    }
    report.sign += !signbit(r) != !signbit(y);
    number nearest = (number)r;
    if (r > BEYOND || r < -BEYOND) r = r > 0 ? BEYOND : -BEYOND;
    wide value = y == INFINITY ? BEYOND : y == -INFINITY ? -BEYOND : (wide)y;
    int exponent = r == 0 ? LEAST_EXPONENT : floor_log2(r);
    if (exponent < LEAST_EXPONENT) exponent = LEAST_EXPONENT;
    if (exponent > -LEAST_EXPONENT + 1) exponent = -LEAST_EXPONENT + 1;
    double ulp = (double)((value > r ? value - r : r - value) * power_of_two(FRACTION - exponent));
    note(&report.all, ulp, x);
    if (r != 0 && r < ldexp(1, LEAST_EXPONENT) && r > -ldexp(1, LEAST_EXPONENT)) note(&report.subnormal, ulp, x);
    if (x > SPLIT || x < -SPLIT) note(&report.far, ulp, x);
    if (nearest == 0 || nearest == 1 || nearest == -1 || nearest == x || nearest - nearest != 0) return;
    report.ordinary++;
    report.sum += ulp;
    report.wrong += nearest != y;
}

static uint64_t state = 1;
static uint64_t random_word(void) {     // splitmix64
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static void fill(number *x, uint64_t first) {
    for (int k = 0; k < BLOCK; k++) {
        if (!F64) x[k] = from_word((word)(first + k));
        else if (k & 1) x[k] = from_word((word)random_word());
        else x[k] = (number)(RANGE_LOW + (RANGE_HIGH - RANGE_LOW) * ((random_word() >> 11) * 0x1p-53));
    }
}

// Run time in the tenth part of the range, where no result is subnormal.
static double seconds_a_block(number *x, number *y) {
    double least = 1;
    for (int k = 0; k < BLOCK; k++)
        x[k] = (number)(0.1 * (RANGE_LOW + (RANGE_HIGH - RANGE_LOW) * ((random_word() >> 11) * 0x1p-53)));
    for (int run = 0; run < 200; run++) {
        struct timespec a, b;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
        for (int k = 0; k < 20; k++) {
            block(x, y);
            __asm__ volatile("" : : "r"(y) : "memory");
        }
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
        double time = (b.tv_sec - a.tv_sec + 1e-9 * (b.tv_nsec - a.tv_nsec)) / 20;
        if (time < least) least = time;
    }
    return least;
}

int main(void) {
    static number x[BLOCK], y[BLOCK];
    uint64_t count = F64 ? POINTS / BLOCK * BLOCK : (uint64_t)1 << 32;
    for (uint64_t first = 0; first < count; first += BLOCK) {
        fill(x, first);
        block(x, y);
        for (int k = 0; k < BLOCK; k++) judge(x[k], y[k]);
    }
    printf("{\"arguments\": %llu, \"max_ulp\": %.6f, \"max_at\": \"%a\", ", (unsigned long long)count, report.all.ulp,
           report.all.at);
    printf("\"max_ulp_subnormal\": %.6f, \"subnormal_at\": \"%a\", \"max_ulp_far\": %.6f, \"far_at\": \"%a\", ",
           report.subnormal.ulp, report.subnormal.at, report.far.ulp, report.far.at);
    printf("\"ordinary\": %llu, \"mean_ulp\": %.4f, \"wrong\": %llu, \"sign_differs\": %llu, \"nan_differs\": %llu, ",
           (unsigned long long)report.ordinary, report.sum / report.ordinary, (unsigned long long)report.wrong,
           (unsigned long long)report.sign, (unsigned long long)report.nan);
    printf("\"ns_per_element\": %.3f}\n", seconds_a_block(x, y) * 1e9 / BLOCK);
    return 0;
}
