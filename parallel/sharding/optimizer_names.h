// The list of optimizers: name, the function that updates, what help says of it, and the states it has beside the
// master, by the names that checkpoints give them. A new optimizer is a file with its function and a line here.
#pragma once

// clang-format off
#define TRIREME_OPTIMIZERS(OPTIMIZER)                                                                           \
  OPTIMIZER("adamw", UpdateAdamW, "Adam with decoupled weight decay", "exp_avg", "exp_avg_sq")                  \
  OPTIMIZER("muon", UpdateAdamW, "orthogonalised momentum for matrices; AdamW for the embedding, the head and vectors", \
            "exp_avg", "exp_avg_sq")                                                                            \
  OPTIMIZER("adafactor", UpdateAdafactor, "squared gradients as means over rows and columns of matrices; no first moment") \
  OPTIMIZER("sgd", UpdateSgd, "plain gradient descent; no states")                                              \
  OPTIMIZER("sgd_momentum", UpdateSgdMomentum, "gradient descent with optimizer.sgd_momentum", "momentum_buffer")
// clang-format on
