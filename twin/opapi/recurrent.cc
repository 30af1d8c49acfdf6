// LSTM and GRU layers over whole sequences and their backward, as the torch_npu wheel requests them by name:
// one layer, one direction (the wheel stacks them and reverses the input), all sequences of one length.
#include "twin/opapi/named.h"

namespace {

using at::Tensor;
using twin::Attribute;
using twin::Named;
using twin::NamedCall;
using twin::View;

// Rows [batch, size] in float.
Tensor Rows(const twin::NamedTensor& tensor) {
  const Tensor view = View(tensor);
  return view.reshape({-1, view.size(-1)}).to(at::kFloat);
}
Tensor Wide(const twin::NamedTensor& tensor) { return View(tensor).to(at::kFloat); }

void WantsForward(const NamedCall& call) {
  const auto direction = Attribute<std::string>(call, "direction");
  TORCH_CHECK(direction == "UNIDIRECTIONAL", "direction ", direction, " is not supported by the CANN twin");
}
void WantsNoLengths(const twin::NamedTensor& lengths) {
  TORCH_CHECK(lengths.type == ACL_DT_UNDEFINED || lengths.dims.empty(),
              "packed sequences are not supported by the CANN twin; pad them to one length");
}

Tensor Slope(const Tensor& sigmoid) { return sigmoid * (1 - sigmoid); }

// x [t, b, in], w [in + h, 4h] and b [4h], gates in the order i, f, j, o; outputs y, h, c, i, j, f, o,
// tanh(c).
void Lstm(const NamedCall& call) {
  WantsForward(call);
  WantsNoLengths(call.inputs.at(3));
  const Tensor x = Wide(call.inputs.at(0)), weight = Wide(call.inputs.at(1)), bias = Wide(call.inputs.at(2));
  Tensor h = Rows(call.inputs.at(4)), c = Rows(call.inputs.at(5));
  for (int64_t t = 0; t < x.size(0); ++t) {
    const auto gates = (at::cat({x[t], h}, 1).matmul(weight) + bias).chunk(4, 1);
    const Tensor i = gates[0].sigmoid(), f = gates[1].sigmoid(), j = gates[2].tanh(), o = gates[3].sigmoid();
    c = f * c + i * j;
    const Tensor squashed = c.tanh();
    h = o * squashed;
    const Tensor results[] = {h, h, c, i, j, f, o, squashed};
    for (size_t k = 0; k < 8; ++k) View(call.outputs.at(k))[t].copy_(results[k]);
  }
}
const Named lstm("DynamicRNN", &twin::RunNamed<Lstm>);

void LstmGrad(const NamedCall& call) {
  WantsForward(call);
  const auto in = [&](size_t k) { return Wide(call.inputs.at(k)); };
  WantsNoLengths(call.inputs.at(16));
  const Tensor x = in(0), weight = in(1), first_h = Rows(call.inputs.at(4)), first_c = Rows(call.inputs.at(5));
  const Tensor h = in(6), c = in(7), dy = in(8), i = in(11), j = in(12), f = in(13), o = in(14), squashed = in(15);
  Tensor dh = Rows(call.inputs.at(9)), dc = Rows(call.inputs.at(10));
  Tensor dw = at::zeros_like(weight), db = at::zeros({weight.size(1)}, weight.options());
  const Tensor dx = at::empty_like(x);
  for (int64_t t = x.size(0) - 1; t >= 0; --t) {
    const Tensor h_before = t == 0 ? first_h : h[t - 1], c_before = t == 0 ? first_c : c[t - 1];
    dh = dh + dy[t];
    dc = dc + dh * o[t] * (1 - squashed[t].square());
    const Tensor dgates = at::cat({dc * j[t] * Slope(i[t]), dc * c_before * Slope(f[t]),
                                   dc * i[t] * (1 - j[t].square()), dh * squashed[t] * Slope(o[t])},
                                  1);
    dw += at::cat({x[t], h_before}, 1).t().matmul(dgates);
    db += dgates.sum(0);
    const Tensor back = dgates.matmul(weight.t());
    dx[t].copy_(back.slice(1, 0, x.size(2)));
    dh = back.slice(1, x.size(2));
    dc = dc * f[t];
  }
  const Tensor results[] = {dw, db, dx, dh, dc};
  for (size_t k = 0; k < 5; ++k) {
    const Tensor out = View(call.outputs.at(k));
    out.copy_(results[k].view_as(out));
  }
}
const Named lstm_grad("DynamicRNNGrad", &twin::RunNamed<LstmGrad>);

// x [t, b, in], weights [in, 3h] and [h, 3h] and their biases [3h], gates in the order r, z, n; outputs y, h,
// z, r, n and the hidden state's contribution to n before r.
void Gru(const NamedCall& call) {
  WantsForward(call);
  WantsNoLengths(call.inputs.at(5));
  const Tensor x = Wide(call.inputs.at(0)), wi = Wide(call.inputs.at(1)), wh = Wide(call.inputs.at(2)),
               bi = Wide(call.inputs.at(3)), bh = Wide(call.inputs.at(4));
  Tensor h = Rows(call.inputs.at(6));
  for (int64_t t = 0; t < x.size(0); ++t) {
    const auto of_x = (x[t].matmul(wi) + bi).chunk(3, 1), of_h = (h.matmul(wh) + bh).chunk(3, 1);
    const Tensor r = (of_x[0] + of_h[0]).sigmoid(), z = (of_x[1] + of_h[1]).sigmoid();
    const Tensor n = (of_x[2] + r * of_h[2]).tanh();
    h = (1 - z) * n + z * h;
    const Tensor results[] = {h, h, z, r, n, of_h[2]};
    for (size_t k = 0; k < 6; ++k) View(call.outputs.at(k))[t].copy_(results[k]);
  }
}
const Named gru("DynamicGRUV2", &twin::RunNamed<Gru>);

void GruGrad(const NamedCall& call) {
  WantsForward(call);
  const auto in = [&](size_t k) { return Wide(call.inputs.at(k)); };
  WantsNoLengths(call.inputs.at(12));
  const Tensor x = in(0), wi = in(1), wh = in(2), first_h = Rows(call.inputs.at(4)), h = in(5), dy = in(6), z = in(8),
               r = in(9), n = in(10), of_h = in(11);
  Tensor dh = Rows(call.inputs.at(7));
  Tensor dwi = at::zeros_like(wi), dwh = at::zeros_like(wh), dbi = at::zeros({wi.size(1)}, wi.options()),
         dbh = at::zeros_like(dbi);
  const Tensor dx = at::empty_like(x);
  for (int64_t t = x.size(0) - 1; t >= 0; --t) {
    const Tensor before = t == 0 ? first_h : h[t - 1];
    dh = dh + dy[t];
    const Tensor dn = dh * (1 - z[t]) * (1 - n[t].square()), dz = dh * (before - n[t]) * Slope(z[t]),
                 dr = dn * of_h[t] * Slope(r[t]);
    const Tensor of_x = at::cat({dr, dz, dn}, 1), of_hidden = at::cat({dr, dz, dn * r[t]}, 1);
    dwi += x[t].t().matmul(of_x);
    dwh += before.t().matmul(of_hidden);
    dbi += of_x.sum(0);
    dbh += of_hidden.sum(0);
    dx[t].copy_(of_x.matmul(wi.t()));
    dh = dh * z[t] + of_hidden.matmul(wh.t());
  }
  const Tensor results[] = {dwi, dwh, dbi, dbh, dx, dh};
  for (size_t k = 0; k < 6; ++k) {
    const Tensor out = View(call.outputs.at(k));
    out.copy_(results[k].view_as(out));
  }
}
const Named gru_grad("DynamicGRUV2Grad", &twin::RunNamed<GruGrad>);

}  // namespace
