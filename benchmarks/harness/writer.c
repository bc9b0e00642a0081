/* A rank that writes lines of 100 bytes at a steady rate, each with the time at which it was written.
 *
 *     writer LINES_PER_SECOND SECONDS GO
 *
 * It writes one line, waits until the file GO is there, and goes on at its rate. Every 5 ms it writes what is due with
 * one call. Line by line would be more like a program that logs, but the writers of 64 ranks have to leave most of two
 * cores to what is measured; for the same reason this is C: in Python they take half a core. After SECONDS it ends.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 100, MOST = 10000 };
static const double TICK = 0.005, PATIENCE = 0.2;

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void sleep_until(double when)
{
    struct timespec t = {(time_t)when, (long)((when - (time_t)when) * 1e9)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static int write_lines(long count)
{
    static char lines[LINE * MOST];
    char stamp[32];
    int length = snprintf(stamp, sizeof stamp, "%.6f ", now(CLOCK_REALTIME));
    for (long i = 0; i < count; i++) {
        char *line = lines + i * LINE;
        memset(line, 'x', LINE - 1);
        memcpy(line, stamp, length);
        line[LINE - 1] = '\n';
    }
    return write(STDOUT_FILENO, lines, count * LINE) == count * LINE;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: writer LINES_PER_SECOND SECONDS GO\n");
        return 2;
    }
    double rate = atof(argv[1]), seconds = atof(argv[2]), came = now(CLOCK_MONOTONIC);
    if (!write_lines(1))
        return 1;
    while (access(argv[3], F_OK) != 0) {
        if (now(CLOCK_MONOTONIC) - came > seconds)
            return 0;
        sleep_until(now(CLOCK_MONOTONIC) + PATIENCE);
    }
    /* Ranks are not in step: each has its own place within the tick. */
    const char *rank = getenv("RANK");
    double began = now(CLOCK_MONOTONIC), due = began + TICK * (rank ? atoi(rank) % 64 : 0) / 64;
    for (long written = 0; due - began < seconds; due += TICK) {
        sleep_until(due);
        long count = (long)((now(CLOCK_MONOTONIC) - began) * rate) - written;
        if (count > MOST)
            count = MOST;
        if (count > 0) {
            if (!write_lines(count))
                return 1;
            written += count;
        }
    }
    return 0;
}
