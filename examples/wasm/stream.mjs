// An exported network in WebAssembly: node stream.mjs model.wasm 0.5 -1 0.25   (numbers of one step after another, one each)
// clang --target=wasm32 -O3 -msimd128 -mbulk-memory -ffreestanding -nostdlib -Wl,--no-entry \
//     -Wl,--export=model_reset -Wl,--export=model_step -Wl,--export=__heap_base model.c -o model.wasm
import { readFileSync } from "node:fs";

const [file, ...numbers] = process.argv.slice(2);
const { instance } = await WebAssembly.instantiate(readFileSync(file));
const { memory, __heap_base, model_reset, model_step } = instance.exports;
const OUTPUTS = 1;                                    // MODEL_Y_SIZE
const x = __heap_base.value, y = x + 4, state = y + 4 * OUTPUTS;
memory.grow(1);                                       // room for inputs, outputs and the state

model_reset(state);
for (const number of numbers) {
    new Float32Array(memory.buffer, x, 1)[0] = Number(number);
    model_step(state, x, y);
    console.log([...new Float32Array(memory.buffer, y, OUTPUTS)].join(" "));
}
