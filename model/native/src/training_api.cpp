#include "training_api.h"

using namespace dragoman;

void dragoman_lend_threads(RunOnThreads run) { lend_threads(run); }

void dragoman_smoothed_loss(const LossRows* rows, double* sums) { smoothed_loss(*rows, sums); }

void dragoman_smoothed_loss_gradient(const LossRows* rows, float scale, void* gradient) {
  smoothed_loss_gradient(*rows, scale, gradient);
}
