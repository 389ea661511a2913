#include "training_api.h"

#include "failure.h"

using namespace dragoman;

namespace {

template <typename Body>
int32_t done_by(const Body& body) {
  return guarded(-1, [&] {
    body();
    return 0;
  });
}

}  // namespace

void dragoman_lend_threads(RunOnThreads run) { lend_threads(run); }

int32_t dragoman_smoothed_loss(const LossRows* rows, double* sums) {
  return done_by([=] { smoothed_loss(*rows, sums); });
}

int32_t dragoman_smoothed_loss_gradient(const LossRows* rows, float scale, void* gradient) {
  return done_by([=] { smoothed_loss_gradient(*rows, scale, gradient); });
}

int32_t dragoman_add_dropped(const DroppedSum* sum) {
  return done_by([=] { add_dropped(*sum); });
}

int32_t dragoman_norm_rows(const NormedRows* norm) {
  return done_by([=] { norm_rows(*norm); });
}

int32_t dragoman_norm_rows_gradient(const NormedRows* norm, const NormGradients* gradients) {
  return done_by([=] { norm_rows_gradient(*norm, *gradients); });
}

int32_t dragoman_attend_sentences(const SentenceAttention* attention, void* joined) {
  return done_by([=] { attend_sentences(*attention, joined); });
}

int32_t dragoman_attend_sentences_gradient(const SentenceAttention* attention, const AttentionGradients* gradients) {
  return done_by([=] { attend_sentences_gradient(*attention, *gradients); });
}

int32_t dragoman_has_bfloat16_products() { return has_bfloat16_products(); }

int32_t dragoman_project(const Projection* projection, const uint16_t* from, uint16_t* to) {
  return done_by([=] { project(*projection, from, to); });
}

int32_t dragoman_project_gradient(const Projection* projection, const uint16_t* slope, uint16_t* of_inputs) {
  return done_by([=] { project_gradient(*projection, slope, of_inputs); });
}

int32_t dragoman_project_weight_gradient(const Projection* projection, const uint16_t* slope, const uint16_t* from,
                                         float* of_weight, float* of_bias) {
  return done_by([=] { project_weight_gradient(*projection, slope, from, of_weight, of_bias); });
}
