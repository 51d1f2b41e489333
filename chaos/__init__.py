"""`make chaos`: a harness that injects faults into the real program and checks it from outside."""
