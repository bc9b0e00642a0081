/* Loaded before the C library (LD_PRELOAD): the wall clock is off by the nanoseconds in PLACE, which may change at any time.
   The monotonic clock stays. libfaketime can't be used for that: with it, sleeping until a monotonic time fails. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define PLACE "/etc/rankdeck-clock"

static volatile int64_t *off;

__attribute__((constructor)) static void look(void) {
    int file = open(PLACE, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    void *found = mmap(0, sizeof *off, PROT_READ, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) off = found;
    close(file);
}

int clock_gettime(clockid_t which, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, which, now);
    if (!failed && off && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) {
        int64_t all = now->tv_sec * INT64_C(1000000000) + now->tv_nsec + *off;
        now->tv_sec = all / 1000000000;
        now->tv_nsec = all % 1000000000;
    }
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *place) {
    struct timespec exact;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
    if (place) *place = exact.tv_sec;
    return exact.tv_sec;
}
