/* What the calling process waited for a processor: the run delay of all its tasks, and whether the calling thread
 * gave its core up by itself. Both are asked for outside of what is timed. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#ifndef RUSAGE_THREAD
#define RUSAGE_THREAD RUSAGE_SELF /* as much as such a system tells */
#endif

enum { TASKS = 256, LINE = 128, PATH = 4096 };

/* Reading one task's file costs 0.6 us: before a visit it is done once in so many seconds a task at most, so that
 * rounds of short visits stay as long as they are. */
static const double OFTEN = 100e-6;

/* delay: nanoseconds queued, as last read. */
typedef struct {
    long id;
    int file;
    int64_t delay;
} task;

static char folder[PATH];
static task tasks[TASKS];
static int count;
static double read_at;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Nanoseconds that a task ran and queued; whether its file tells them. */
static int read_task(int file, int64_t *ran, int64_t *delay)
{
    char line[LINE];
    long long first, second;
    ssize_t length = pread(file, line, sizeof line - 1, 0);
    if (length <= 0) return 0;
    line[length] = 0;
    if (sscanf(line, "%lld %lld", &first, &second) != 2) return 0;
    *ran = first;
    *delay = second;
    return 1;
}

static int known(long id)
{
    for (int i = 0; i < count; i++)
        if (tasks[i].id == id) return 1;
    return 0;
}

/* Open the files of tasks that are new. What one was queued counts from here on, or, where it was `born` since the
 * last reading, from its birth. Whether some task is said to have run: a system that does not account for queueing has
 * no such files, or zeros in them. */
static int list(int born)
{
    char path[PATH + LINE];
    int64_t ran, delay;
    int told = 0;
    DIR *listing = opendir(folder);
    if (!listing) return 0;
    for (struct dirent *entry; (entry = readdir(listing)) && count < TASKS;) {
        long id = strtol(entry->d_name, 0, 10);
        if (id <= 0 || known(id)) continue;
        snprintf(path, sizeof path, "%s/%ld/schedstat", folder, id);
        int file = open(path, O_RDONLY | O_CLOEXEC);
        if (file < 0) continue;
        if (read_task(file, &ran, &delay)) {
            told |= ran > 0;
            tasks[count++] = (task){id, file, born ? 0 : delay};
        } else {
            close(file);
        }
    }
    closedir(listing);
    return told;
}

void queue_close(void)
{
    while (count) close(tasks[--count].file);
}

/* The tasks in a folder of the form of /proc/self/task; whether the system tells what they queued. */
int queue_open(const char *tasks_folder)
{
    queue_close();
    snprintf(folder, sizeof folder, "%s", tasks_folder);
    if (!list(0)) queue_close();
    read_at = now();
    return count > 0;
}

/* Seconds that all tasks queued since the last reading. One that ended takes what it queued last with it. */
static double queue_read(void)
{
    int64_t sum = 0, ran, delay;
    for (int i = 0; i < count; i++) {
        if (!read_task(tasks[i].file, &ran, &delay)) {
            close(tasks[i].file);
            tasks[i--] = tasks[--count];
            continue;
        }
        sum += delay - tasks[i].delay;
        tasks[i].delay = delay;
    }
    read_at = now();
    return 1e-9 * (double)sum;
}

static int64_t gave_up(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) ? 0 : usage.ru_nvcsw;
}

/* Before a visit: how often the calling thread has given its core up. */
int64_t queue_begin(void)
{
    if (count && now() - read_at > OFTEN * count) queue_read();
    return gave_up();
}

/* After it, seconds that it can have lost to the run queue, interrupts and the hypervisor. A thread that never gave its core up
 * lost whatever it did not run: infinitely many. Neither is more known where the system does not tell. */
double queue_end(int64_t before)
{
    if (!count || gave_up() == before) return INFINITY;
    list(1);
    return queue_read();
}
