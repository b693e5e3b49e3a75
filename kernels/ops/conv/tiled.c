/* Tiles of images into frames of a transform, and out of them. Tiles of an image stand row by row, images one after
 * another; of each tile there is a frame for every channel. */
#include <stdint.h>
#include <string.h>

/* Images of height × width; `down` × `across` tiles of each, which make step_down × step_across outputs. Of a frame of
 * size × size a tile fills `rows` × `columns`, the rest is zero. top, left: of what is read, zeros before the image; of
 * what is made, where its outputs begin in a frame. */
typedef struct {
    int64_t channels, height, width, down, across, step_down, step_across, rows, columns, top, left, size;
} tiles;

static inline int64_t within(int64_t x, int64_t most) { return x < 0 ? 0 : x > most ? most : x; }

/* Where a frame's plane is, and the row and the column of the first output of its tile. */
static inline int64_t place(const tiles *t, int64_t frame, int64_t *row, int64_t *column)
{
    int64_t tile = frame / t->channels, image = tile / (t->down * t->across);
    *row = tile / t->across % t->down * t->step_down;
    *column = tile % t->across * t->step_across;
    return (image * t->channels + frame % t->channels) * t->height * t->width;
}

/* `count` frames from the `first` of all on. */
void tiled_in(const float *images, float *frames, const tiles *t, int64_t first, int64_t count)
{
    for (int64_t f = first; f < first + count; f++) {
        int64_t y, x, at = place(t, f, &y, &x);
        y -= t->top, x -= t->left;
        const float *plane = images + at;
        int64_t begin = within(-x, t->columns), end = within(t->width - x, t->columns);
        for (int64_t i = 0; i < t->size; i++, frames += t->size) {
            if (i >= t->rows || y + i < 0 || y + i >= t->height || begin >= end) {
                memset(frames, 0, 4 * t->size);
                continue;
            }
            const float *row = plane + (y + i) * t->width + x;
            memset(frames, 0, 4 * begin);
            for (int64_t j = begin; j < end; j++) frames[j] = row[j];
            memset(frames + end, 0, 4 * (t->size - end));
        }
    }
}

/* The reverse: of each frame its tile's outputs, times scale; none behind the image's edge. */
void tiled_out(const float *frames, float *images, const tiles *t, int64_t first, int64_t count, float scale)
{
    for (int64_t f = first; f < first + count; f++, frames += t->size * t->size) {
        int64_t y, x, at = place(t, f, &y, &x);
        int64_t rows = within(t->height - y, t->step_down), columns = within(t->width - x, t->step_across);
        for (int64_t i = 0; i < rows; i++) {
            const float *from = frames + (t->top + i) * t->size + t->left;
            float *to = images + at + (y + i) * t->width + x;
            for (int64_t j = 0; j < columns; j++) to[j] = scale * from[j];
        }
    }
}
