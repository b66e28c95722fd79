/* SPDX-License-Identifier: MIT */
/* The loops of pixels.h for one kind of vector (each_isa.h). A vector holds neighbouring pixels, so that each number of a
 * support vector is loaded once for all of them. A tile is 4 support vectors by 2 vectors of pixels. */

enum { NAME(ACROSS) = 2, NAME(DOWN) = 4, NAME(WIDTH) = 2 * LANES };

/* Computes the squared distances of `down` support vectors from the pixels of a tile. */
GCONV_INLINE TARGET void NAME(svm_distances)(const float *points, size_t columns, const float *in, size_t pitch, int down,
                                             float *out) {
  VECTOR sum[NAME(DOWN)][NAME(ACROSS)];
  UNROLL for (int s = 0; s < NAME(DOWN); s++) UNROLL for (int a = 0; a < NAME(ACROSS); a++) sum[s][a] = ZERO;
  for (size_t c = 0; c < columns; c++) {
    VECTOR x[NAME(ACROSS)];
    UNROLL for (int a = 0; a < NAME(ACROSS); a++) x[a] = LOAD(in + c * pitch + (size_t)a * LANES);
    UNROLL for (int s = 0; s < NAME(DOWN); s++) {
      if (s >= down)
        break;
      VECTOR v = SPREAD(points + (size_t)s * columns + c);
      UNROLL for (int a = 0; a < NAME(ACROSS); a++) {
        VECTOR d = x[a] - v;
        sum[s][a] = FMA(d, d, sum[s][a]);
      }
    }
  }
  UNROLL for (int s = 0; s < NAME(DOWN); s++) UNROLL for (int a = 0; a < NAME(ACROSS); a++)
      STORE(out + (s * NAME(ACROSS) + a) * LANES, sum[s][a]);
}

/* Adds the values of support vectors begin .. end - 1, at most GCONV_SVM_PART of them, to the sums of a tile. */
GCONV_INLINE TARGET void NAME(svm_part)(const gconv_svm_pixels *m, size_t begin, size_t end, const float *in, size_t pitch,
                                        double *sums) {
  float values[NAME(DOWN) * NAME(WIDTH)], parts[GCONV_SVM_PIXEL_WIDE][NAME(WIDTH)];
  for (size_t w = 0; w < m->wide; w++)
    for (int i = 0; i < NAME(WIDTH); i++)
      parts[w][i] = 0;
  for (size_t at = begin; at < end; at += NAME(DOWN)) {
    const int down = end - at < NAME(DOWN) ? (int)(end - at) : NAME(DOWN);
    if (down == NAME(DOWN))
      NAME(svm_distances)(m->points + at * m->columns, m->columns, in, pitch, NAME(DOWN), values);
    else
      NAME(svm_distances)(m->points + at * m->columns, m->columns, in, pitch, down, values);
    for (int i = 0; i < down * NAME(WIDTH); i++)
      values[i] = gconv_svm_pixel_value(m->gamma, values[i]);
    for (size_t w = 0; w < m->wide; w++)
      for (int s = 0; s < down; s++) {
        VECTOR coefficient = SPREAD(m->coefficients + (at + (size_t)s) * m->wide + w);
        UNROLL for (int a = 0; a < NAME(ACROSS); a++) {
          float *part = parts[w] + a * LANES;
          STORE(part, FMA(coefficient, LOAD(values + (s * NAME(ACROSS) + a) * LANES), LOAD(part)));
        }
      }
  }
  for (size_t w = 0; w < m->wide; w++)
    for (int i = 0; i < NAME(WIDTH); i++)
      sums[w * pitch + (size_t)i] += (double)parts[w][i];
}

static TARGET void NAME(svm_pixel_sums)(const gconv_svm_pixels *m, const float *in, size_t count, size_t pitch,
                                        double *sums) {
  for (size_t k = 0; k < m->classes * m->wide; k++)
    for (size_t i = 0; i < count; i++)
      sums[k * pitch + i] = 0;
  for (size_t k = 0; k < m->classes; k++)
    for (size_t at = m->begins[k]; at < m->begins[k + 1]; at += GCONV_SVM_PART) {
      const size_t left = m->begins[k + 1] - at, end = at + (left < GCONV_SVM_PART ? left : GCONV_SVM_PART);
      for (size_t i = 0; i < count; i += NAME(WIDTH))
        NAME(svm_part)(m, at, end, in + i, pitch, sums + k * m->wide * pitch + i);
    }
}
