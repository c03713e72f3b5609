"""Training and inference of many groups on one GPU, with bits that do not depend on who shares the launch."""
