// What a training step computes natively: plain C, for ctypes. See api.h for kAbiVersion.
//
// What fails, for want of memory alone, returns -1, and dragoman_is_out_of_memory() says so.
#pragma once

#include "training/parallel.h"
#include "training/projection.h"
#include "training/residual.h"
#include "training/sentence_attention.h"
#include "training/smoothed_loss.h"

#define DRAGOMAN_TRAINING_API extern "C" __attribute__((visibility("default")))

DRAGOMAN_TRAINING_API void dragoman_lend_threads(dragoman::RunOnThreads run);
DRAGOMAN_TRAINING_API int32_t dragoman_smoothed_loss(const dragoman::LossRows* rows, double* sums);
DRAGOMAN_TRAINING_API int32_t dragoman_smoothed_loss_gradient(const dragoman::LossRows* rows, float scale,
                                                              void* gradient);
DRAGOMAN_TRAINING_API int32_t dragoman_add_dropped(const dragoman::DroppedSum* sum);
DRAGOMAN_TRAINING_API int32_t dragoman_norm_rows(const dragoman::NormedRows* norm);
DRAGOMAN_TRAINING_API int32_t dragoman_norm_rows_gradient(const dragoman::NormedRows* norm,
                                                          const dragoman::NormGradients* gradients);
DRAGOMAN_TRAINING_API int32_t dragoman_attend_sentences(const dragoman::SentenceAttention* attention, void* joined);
DRAGOMAN_TRAINING_API int32_t dragoman_attend_sentences_gradient(const dragoman::SentenceAttention* attention,
                                                                 const dragoman::AttentionGradients* gradients);
DRAGOMAN_TRAINING_API int32_t dragoman_has_bfloat16_products();
DRAGOMAN_TRAINING_API int32_t dragoman_project(const dragoman::Projection* projection, const uint16_t* from,
                                               uint16_t* to);
DRAGOMAN_TRAINING_API int32_t dragoman_project_gradient(const dragoman::Projection* projection, const uint16_t* slope,
                                                        uint16_t* of_inputs);
DRAGOMAN_TRAINING_API int32_t dragoman_project_weight_gradient(const dragoman::Projection* projection,
                                                               const uint16_t* slope, const uint16_t* from,
                                                               float* of_weight, float* of_bias);
