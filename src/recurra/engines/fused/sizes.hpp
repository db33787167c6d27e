// How many numbers of memory a kernel asks for, by the way in which `place` divides them.
#pragma once

extern "C" long kept_memory(const Forward* given) {
    Forward a = *given;
    return place_kept(a);
}
extern "C" long forward_scratch(const Forward* given) {
    Forward a = *given;
    return place(a);
}
extern "C" long backward_scratch(const Backward* given) {
    Backward a = *given;
    return place(a);
}
