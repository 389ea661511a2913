#include "training_api.h"

using namespace dragoman;

void dragoman_lend_threads(RunOnThreads run) { lend_threads(run); }

void dragoman_smoothed_loss(const LossRows* rows, double* sums) { smoothed_loss(*rows, sums); }

void dragoman_smoothed_loss_gradient(const LossRows* rows, float scale, void* gradient) {
  smoothed_loss_gradient(*rows, scale, gradient);
}

void dragoman_add_dropped(const DroppedSum* sum) { add_dropped(*sum); }

void dragoman_norm_rows(const NormedRows* norm) { norm_rows(*norm); }

void dragoman_norm_rows_gradient(const NormedRows* norm, const NormGradients* gradients) {
  norm_rows_gradient(*norm, *gradients);
}

void dragoman_attend_sentences(const SentenceAttention* attention, void* joined) {
  attend_sentences(*attention, joined);
}

void dragoman_attend_sentences_gradient(const SentenceAttention* attention, const AttentionGradients* gradients) {
  attend_sentences_gradient(*attention, *gradients);
}

int32_t dragoman_has_bfloat16_products() { return has_bfloat16_products(); }

void dragoman_project(const Projection* projection, const uint16_t* from, uint16_t* to) {
  project(*projection, from, to);
}

void dragoman_project_gradient(const Projection* projection, const uint16_t* slope, uint16_t* of_inputs) {
  project_gradient(*projection, slope, of_inputs);
}

void dragoman_project_weight_gradient(const Projection* projection, const uint16_t* slope, const uint16_t* from,
                                      float* of_weight, float* of_bias) {
  project_weight_gradient(*projection, slope, from, of_weight, of_bias);
}
