// Matrix decompositions and systems of equations: QR, SVD, triangular solves.
#include <ATen/ATen.h>

#include "twin/opapi/named.h"
#include "twin/opapi/operator.h"

TWIN_OPERATOR_WORDS

OP(aclnnLinalgQr, [](Tensor self, int64_t mode, Tensor q, Tensor r) {
  constexpr const char* kModes[] = {"reduced", "complete", "r"};
  const auto [orthogonal, upper] = at::linalg_qr(self, kModes[mode]);
  if (q.numel() > 0) q.copy_(orthogonal);
  r.copy_(upper);
})
OP(aclnnTriangularSolve,
   [](Tensor self, Tensor matrix, bool upper, bool transpose, bool unitriangular, Tensor out, Tensor kept) {
     const auto [solution, ignored] = at::triangular_solve(self, matrix, upper, transpose, unitriangular);
     out.copy_(solution);
     kept.copy_(matrix);
   })
// Called by the wheels of later releases than 2.7.1, which asks for it by its older name, below. V, not its transpose.
OP(aclnnSvd, [](Tensor input, bool full_matrices, bool compute_uv, Tensor sigma, Tensor u, Tensor v) {
  if (!compute_uv) {
    sigma.copy_(at::linalg_svdvals(input));
    return;
  }
  const auto [left, values, right] = at::linalg_svd(input, full_matrices);
  sigma.copy_(values);
  u.copy_(left);
  v.copy_(right.mH());
})

namespace {

using twin::Attribute;
using twin::Named;
using twin::NamedCall;
using twin::View;

// Singular values, then U and V (not its transpose).
void Svd(const NamedCall& call) {
  const Tensor matrix = View(call.inputs.at(0));
  if (!Attribute<bool>(call, "compute_uv")) {
    View(call.outputs.at(0)).copy_(at::linalg_svdvals(matrix));
    return;
  }
  const auto [u, values, vh] = at::linalg_svd(matrix, Attribute<bool>(call, "full_matrices"));
  View(call.outputs.at(0)).copy_(values);
  View(call.outputs.at(1)).copy_(u);
  View(call.outputs.at(2)).copy_(vh.mH());
}
const Named svd("Svd", &twin::RunNamed<Svd>);

}  // namespace
