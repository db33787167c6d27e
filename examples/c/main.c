/* An exported network reads numbers from standard input, step by step: cc -O2 main.c model.c -lm && ./a.out < samples.txt */
#include <stdio.h>

#include "model.h"

int main(void)
{
    static model_state state;
    float x[MODEL_X_SIZE], y[MODEL_Y_SIZE];
    int known = 0;
    model_reset(&state);
    while (scanf("%f", &x[known]) == 1) {
        if (++known < MODEL_X_SIZE) continue;
        known = 0;
        model_step(&state, x, y);
        for (int k = 0; k < MODEL_Y_SIZE; ++k) printf("%.6g%c", (double)y[k], k + 1 < MODEL_Y_SIZE ? ' ' : '\n');
    }
    return 0;
}
