"""What a change should bring, from kernels measured alone; what it does bring, in turns; whether that agrees."""
